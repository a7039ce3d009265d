//! `mod_log_config`: a line for each request (`CustomLog`), in a format of the administrator's choice (`LogFormat`). Lines are
//! collected and written many at a time ([`batch`]). The items of mod_logio are here as well.

mod batch;
mod escape;
mod format;
mod render;

use std::cell::RefCell;
use std::io;
use std::path::Path;
use std::time::Instant;

use jiff::tz::TimeZone;
use manifold_engine::phases::Phases;
use manifold_engine::site::ServerName;
use manifold_engine::transaction::{LogTransaction, Transaction};

use self::batch::BatchedFile;
pub use self::batch::Buffering;
pub use self::format::Format;
use self::render::Surroundings;

/// Apache's `common` format.
pub const COMMON: &str = "%h %l %u %t \"%r\" %>s %b";
/// Apache's `combined` format.
pub const COMBINED: &str = "%h %l %u %t \"%r\" %>s %b \"%{Referer}i\" \"%{User-Agent}i\"";

/// An open access log.
#[derive(Debug)]
pub struct AccessLog {
    file: BatchedFile,
    format: Format,
    around: Surroundings,
}

impl AccessLog {
    /// Opens `path` for appending, creating it where it is missing; a standard stream is duplicated.
    ///
    /// # Errors
    /// The error of open(2) or dup(2).
    pub fn open(path: &Path, format: Format, server: ServerName, buffering: Buffering) -> io::Result<AccessLog> {
        let around = Surroundings { zone: TimeZone::system(), server };
        Ok(AccessLog { file: BatchedFile::open(path, buffering)?, format, around })
    }

    /// Whether its lines show the names of files.
    pub(crate) fn shows_file_names(&self) -> bool {
        self.format.shows_file_names()
    }
}

impl LogTransaction for AccessLog {
    fn log(&self, transaction: &Transaction<'_>) {
        thread_local! {
            static LINE: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
        }
        LINE.with_borrow_mut(|line| {
            line.clear();
            self.format.write(line, transaction, &self.around);
            line.push(b'\n');
            self.file.append(line, transaction.host.turn().now);
        });
    }

    fn needs_head(&self) -> bool {
        self.format.shows_response_fields()
    }

    fn settle(&self, now: Instant) -> Option<Instant> {
        self.file.settle(now)
    }

    fn flush(&self) {
        self.file.flush();
    }
}

/// Adds an access log to a site.
pub fn register(phases: &mut Phases, log: AccessLog) {
    phases.add_log(log);
}
