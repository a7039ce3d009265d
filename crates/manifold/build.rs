//! Has the linker pack the program's relocations where the C library understands that: 18,000 of them take 440 KiB otherwise, which the
//! loader reads at each start and which then count as memory of the process.

use std::env;
use std::process::Command;

/// The first version of the GNU C library that reads packed relocations (DT_RELR).
const SINCE: (u32, u32) = (2, 36);

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    if is_native_gnu() && c_library().is_some_and(|version| version >= SINCE) {
        println!("cargo:rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
}

/// Built for GNU/Linux on the machine itself: only its own C library can be asked.
fn is_native_gnu() -> bool {
    let is = |name, value: &str| env::var(name).is_ok_and(|found| found == value);
    is("CARGO_CFG_TARGET_ENV", "gnu") && is("CARGO_CFG_TARGET_OS", "linux") && env::var("HOST") == env::var("TARGET")
}

/// As getconf(1) says it: "glibc 2.36".
fn c_library() -> Option<(u32, u32)> {
    let said = Command::new("getconf").arg("GNU_LIBC_VERSION").output().ok()?;
    let said = String::from_utf8(said.stdout).ok()?;
    let (major, minor) = said.trim().strip_prefix("glibc ")?.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}
