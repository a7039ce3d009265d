//! Threads of a child. The parent must not have any (it forks), so that threads are made only through this door.

use std::io;
use std::thread::{Builder, JoinHandle};

/// Starts a thread called `name`; `stack` is its stack size in bytes, the standard library's default where `None`.
///
/// # Errors
/// The error of pthread_create(3), such as `EAGAIN` at the limit of threads.
pub fn spawn<T: Send + 'static>(
    name: String,
    stack: Option<usize>,
    body: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    let builder = Builder::new().name(name);
    match stack {
        Some(bytes) => builder.stack_size(bytes),
        None => builder,
    }
    .spawn(body)
}
