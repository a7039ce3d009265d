//! The error log, in Apache's format:
//! `[Sat Nov 21 09:20:00.123456 2026] [mpm_event:notice] [pid 123:tid 456] AH00489: text`.
//!
//! A record's target is the name of Apache's module. Apache's levels stand to those of the `log` crate as follows, because
//! `notice` is what a server says about itself in good health, and `info` is for those who ask for it:
//! `error!` is error, `warn!` is warn, `info!` is notice, `debug!` is info, `trace!` is debug.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::{PoisonError, RwLock};

use jiff::Timestamp;
use jiff::tz::TimeZone;
use log::{Level, LevelFilter, Log, Metadata, Record};
use manifold_modules::log_file;

/// Which records are kept (`LogLevel`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Levels {
    /// For modules that have no level of their own.
    pub server: LevelFilter,
    /// Levels by module, the last one for a module counts.
    pub modules: Vec<(String, LevelFilter)>,
}

impl Default for Levels {
    fn default() -> Levels {
        Levels { server: LevelFilter::Warn, modules: Vec::new() }
    }
}

impl Levels {
    fn of(&self, module: &str) -> LevelFilter {
        let own = self.modules.iter().rev().find(|(name, _)| name == module);
        // Notices cannot be suppressed in a file, as in Apache.
        own.map_or(self.server, |(_, level)| *level).max(LevelFilter::Info)
    }

    fn most(&self) -> LevelFilter {
        self.modules
            .iter()
            .map(|(_, level)| *level)
            .chain([self.server, LevelFilter::Info])
            .max()
            .unwrap_or(LevelFilter::Info)
    }
}

/// The levels' names in Apache: `trace1` to `trace8` are as chatty as it gets here.
pub(crate) fn level(name: &str) -> Option<LevelFilter> {
    Some(match name.to_ascii_lowercase().as_str() {
        "emerg" | "alert" | "crit" | "error" => LevelFilter::Error,
        "warn" => LevelFilter::Warn,
        "notice" => LevelFilter::Info,
        "info" => LevelFilter::Debug,
        "debug" => LevelFilter::Trace,
        trace
            if trace
                .strip_prefix("trace")
                .is_some_and(|n| matches!(n, "1" | "2" | "3" | "4" | "5" | "6" | "7" | "8")) =>
        {
            LevelFilter::Trace
        }
        _ => return None,
    })
}

/// What the complaint about a level says in Apache.
pub(crate) const LEVEL_NAMES: &str =
    "Log level keyword must be one of emerg/alert/crit/error/warn/notice/info/debug/trace1/.../trace8";

/// An open error log.
#[derive(Debug)]
pub(crate) struct ErrorLog {
    file: File,
    levels: Levels,
    zone: TimeZone,
}

impl ErrorLog {
    /// Opens `path` for appending; a standard stream is duplicated.
    ///
    /// # Errors
    /// The error of open(2) or dup(2).
    pub(crate) fn open(path: &Path, levels: Levels) -> io::Result<ErrorLog> {
        Ok(ErrorLog::to(log_file::open(path)?, levels))
    }

    /// Writes to standard error.
    ///
    /// # Errors
    /// When the process has no descriptor left for it.
    pub(crate) fn standard_error(levels: Levels) -> io::Result<ErrorLog> {
        ErrorLog::open(Path::new("/dev/stderr"), levels)
    }

    fn to(file: File, levels: Levels) -> ErrorLog {
        ErrorLog { file, levels, zone: TimeZone::system() }
    }

    /// From now on all records, and panics, go here. A log that was installed before is closed.
    pub(crate) fn install(self) {
        log::set_max_level(self.levels.most());
        *INSTALLED.write().unwrap_or_else(PoisonError::into_inner) = Some(self);
        // A second call finds the same logger installed, which is as good.
        let _kept = log::set_logger(&Installed);
        std::panic::set_hook(Box::new(|panic| {
            let place =
                panic.location().map(|place| format!(" at {}:{}", place.file(), place.line())).unwrap_or_default();
            let text = panic.payload_as_str().unwrap_or("without a message");
            log::error!(target: "core", "a thread panicked{place}: {text}");
        }));
    }

    fn write(&self, record: &Record<'_>) {
        if record.metadata().level() <= self.levels.of(module(record.metadata().target())) {
            let who = Origin { pid: std::process::id(), tid: nix::unistd::gettid().as_raw() };
            let line = line(record, Timestamp::now(), &self.zone, who);
            // One write, so that lines of all processes stay whole. A full disk must not stop the server.
            let _lost = (&self.file).write_all(line.as_bytes());
        }
    }
}

/// The log in use. The parent alone puts another in its place, when the configuration is read anew; a child keeps the one
/// it was born with, as in Apache.
static INSTALLED: RwLock<Option<ErrorLog>> = RwLock::new(None);

/// The file of the log in use, for a program that is started and has something to say.
pub(crate) fn installed_file() -> Option<File> {
    INSTALLED.read().unwrap_or_else(PoisonError::into_inner).as_ref().and_then(|log| log.file.try_clone().ok())
}

/// Hands records to the log in use.
struct Installed;

impl Log for Installed {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &Record<'_>) {
        if let Some(log) = &*INSTALLED.read().unwrap_or_else(PoisonError::into_inner) {
            log.write(record);
        }
    }

    fn flush(&self) {}
}

/// Who writes.
struct Origin {
    pid: u32,
    tid: i32,
}

fn line(record: &Record<'_>, now: Timestamp, zone: &TimeZone, who: Origin) -> String {
    let level = match record.level() {
        Level::Error => "error",
        Level::Warn => "warn",
        Level::Info => "notice",
        Level::Debug => "info",
        Level::Trace => "debug",
    };
    let time = now.to_zoned(zone.clone()).strftime("%a %b %d %H:%M:%S%.6f %Y");
    let (module, Origin { pid, tid }) = (module(record.target()), who);
    let mut text = format!("[{time}] [{module}:{level}] [pid {pid}:tid {tid}] ");
    for character in record.args().to_string().chars() {
        // What came from a client must not look like a line of its own, or steer a terminal.
        if character.is_control() {
            text.extend(character.escape_default());
        } else {
            text.push(character);
        }
    }
    text.push('\n');
    text
}

/// Records that name no module of Apache come from the server itself.
fn module(target: &str) -> &str {
    if target.contains("::") || target.starts_with("manifold") { "core" } else { target }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_as_apache_writes_it() {
        let now = Timestamp::from_microsecond(1_795_252_800_123_456).unwrap();
        let check = |target: &str, level: Level, text: &str, expected: &str| {
            let args = format_args!("{text}").to_string();
            let record = Record::builder().target(target).level(level).args(format_args!("{args}")).build_line(now);
            assert_eq!(record, format!("[Sat Nov 21 09:20:00.123456 2026] {expected}\n"));
        };
        check("mpm_event", Level::Info, "AH00489: text", "[mpm_event:notice] [pid 123:tid 456] AH00489: text");
        check("manifold_engine::serve", Level::Error, "x", "[core:error] [pid 123:tid 456] x");
        check("core", Level::Debug, "a\nb\u{1b}c\u{e9}", "[core:info] [pid 123:tid 456] a\\nb\\u{1b}c\u{e9}");
    }

    /// `format_args!` lives only as long as its statement.
    trait BuildLine {
        fn build_line(&mut self, now: Timestamp) -> String;
    }

    impl BuildLine for log::RecordBuilder<'_> {
        fn build_line(&mut self, now: Timestamp) -> String {
            line(&self.build(), now, &TimeZone::UTC, Origin { pid: 123, tid: 456 })
        }
    }

    #[test]
    fn levels_are_apaches() {
        let check = |name: &str, expected: Option<LevelFilter>| assert_eq!(level(name), expected, "{name}");
        check("emerg", Some(LevelFilter::Error));
        check("Warn", Some(LevelFilter::Warn));
        check("notice", Some(LevelFilter::Info));
        check("info", Some(LevelFilter::Debug));
        check("trace8", Some(LevelFilter::Trace));
        check("trace9", None);
        check("loud", None);
    }

    #[test]
    fn a_module_has_its_own_level_and_notices_always_pass() {
        let levels = Levels { server: LevelFilter::Error, modules: vec![("mpm_event".into(), LevelFilter::Trace)] };
        assert_eq!(levels.of("mpm_event"), LevelFilter::Trace);
        assert_eq!(levels.of("core"), LevelFilter::Info);
        assert_eq!((levels.most(), Levels::default().most()), (LevelFilter::Trace, LevelFilter::Info));
    }
}
