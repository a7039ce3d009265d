//! The operating system, made safe: everything that needs `unsafe` lives here, behind interfaces that cannot be misused.
//!
//! Every other crate forbids `unsafe`. Calls that the standard library or nix already offer safely are used from there.

pub mod clock;
pub mod epoll;
pub mod file;
pub mod heap;
pub mod listener;
pub mod page_cache;
pub mod privileges;
pub mod process;
pub mod ring;
pub mod shm;
pub mod signal;
pub mod socket;
