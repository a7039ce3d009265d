//! Helpers of the end-to-end tests: they start the real `manifold`, run real clients against it and look at real
//! processes. Nothing here knows how manifold is built inside.

#![forbid(unsafe_code)]

pub mod binary;
pub mod client;
pub mod pair;
pub mod peer;
pub mod process;
pub mod server;
pub mod site;
pub mod tool;
pub mod trace;

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

/// How long anything may take that should happen at once; generous, because machines are busy.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// Asks again and again until there is an answer, for at most [`PATIENCE`].
///
/// # Errors
/// When no answer came in time; `what` says what was awaited.
pub fn until<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> Result<T> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(answer) = ask() {
            return Ok(answer);
        }
        if Instant::now() > deadline {
            bail!("waited {} s in vain for: {what}", PATIENCE.as_secs());
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Holds back the other tests of this program while one loads the machine or counts what it does.
pub fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A folder that is removed at the end of the test that made it.
#[derive(Debug)]
pub struct Scratch(PathBuf);

impl Scratch {
    /// A new, empty folder that every user may enter, as the server's children do.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn new() -> Result<Scratch> {
        use std::os::unix::fs::PermissionsExt;
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let dir = std::env::temp_dir().join(format!("manifold-e2e-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&dir)?;
        std::fs::set_permissions(&dir, std::fs::Permissions::from_mode(0o755))?;
        Ok(Scratch(dir))
    }

    /// A path in the folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What cannot be removed is left to the system's own cleaning of its temporary folder.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
