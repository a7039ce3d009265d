//! The files that the tests serve: their content follows from their name, so that every byte can be checked.

use std::fs;
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use anyhow::Result;

/// The page of the published comparisons: 44 bytes.
pub const PAGE: &[u8] = b"<html><body><h1>It works!</h1></body></html>";

/// A file of the test site.
#[derive(Debug, Clone, Copy)]
pub struct File {
    /// Its path on the server.
    pub path: &'static str,
    /// Its length in bytes.
    pub len: usize,
}

/// The test site: the page, an empty file, one of each side of common buffer sizes, a medium and a large one.
pub const FILES: &[File] = &[
    File { path: "/page.html", len: PAGE.len() },
    File { path: "/empty.txt", len: 0 },
    File { path: "/one.txt", len: 1 },
    File { path: "/8k.bin", len: 8 * 1024 },
    File { path: "/64k.bin", len: 64 * 1024 + 1 },
    File { path: "/medium.bin", len: 136 * 1024 },
    File { path: LARGE.path, len: LARGE.len },
];

/// The file that takes long enough to be caught in flight.
pub const LARGE: File = File { path: "/large.bin", len: 10 * 1024 * 1024 };

impl File {
    /// Its content.
    pub fn bytes(&self) -> Vec<u8> {
        if self.path == "/page.html" {
            return PAGE.to_vec();
        }
        // A linear congruential generator (Knuth's MMIX constants): every position differs from its neighbours, so that
        // a shifted, repeated or missing piece shows.
        let mut state = self.len as u64;
        let mut bytes = Vec::with_capacity(self.len + 8);
        while bytes.len() < self.len {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            bytes.extend_from_slice(&state.to_be_bytes());
        }
        bytes.truncate(self.len);
        bytes
    }
}

/// When the files say they were written: long ago. Apache marks the ETag of a file that changed within the last second as
/// weak, by two more bytes a response, so that fresh files would make the length of answers depend on the moment.
const WRITTEN: Duration = Duration::from_secs(1_000_000_000);

/// Writes the site into a folder, readable by everybody.
///
/// # Errors
/// Those of the file system.
pub fn write(folder: &Path) -> Result<()> {
    fs::create_dir_all(folder)?;
    for file in FILES {
        let path = folder.join(&file.path[1..]);
        fs::write(&path, file.bytes())?;
        fs::File::options().write(true).open(&path)?.set_modified(UNIX_EPOCH + WRITTEN)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_have_the_length_they_say() {
        for file in FILES {
            assert_eq!(file.bytes().len(), file.len, "{}", file.path);
        }
        assert_eq!(PAGE.len(), 44);
    }
}
