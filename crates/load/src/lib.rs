//! Crate in the making; see ARCHITECTURE.md.
