//! Lines on their way to a file. A process collects those of all its threads and writes many with one write(2).
//!
//! A batch consists of whole lines and is written by one call to a file that is open for appending, so that lines of several
//! processes never mix; where that is a pipe, a batch is no longer than `PIPE_BUF`, for the same reason (pipe(7)). One batch a
//! process rather than a thread keeps the lines of a connection in order, whichever thread served its requests.
//!
//! A batch is written when the next line does not fit, or when [`INTERVAL`] has passed since the last write: a quiet server
//! writes each line at once, a busy one little more often than its batches fill. Threads that go to wait come back when a batch
//! is due (`settle`), so that a crash costs the lines of the last second at most.
//!
//! What cannot be written is kept and tried again after [`INTERVAL`]; lines that find no room meanwhile are lost. The error log
//! is told how many, once a minute.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::log_file;

/// Time from one write to the next while lines arrive slower than they would fill a batch. Threads that wait in a system call
/// look after the batch every 200 ms (`mpm/src/blocking.rs`): with this much it is written within a second.
pub const INTERVAL: Duration = Duration::from_millis(800);
/// Bytes of a batch for a file: some 150 lines of the combined format.
const FILE_BYTES: usize = 32 * 1024;
/// Bytes of a batch for anything else: `PIPE_BUF`, the longest write to a pipe that is not mixed with others.
const PIPE_BYTES: usize = 4096;
/// The error log is told of lost lines this often at most.
const COMPLAIN_EVERY: Duration = Duration::from_secs(60);

/// When lines are written (`BufferedLogs`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Buffering {
    /// Many at once, within a second.
    #[default]
    Batches,
    /// Each one at once.
    EachLine,
}

/// A file with the lines that are to be written to it.
#[derive(Debug)]
pub struct BatchedFile {
    file: File,
    path: PathBuf,
    /// Bytes of a batch. A line that is longer is a batch of its own.
    capacity: usize,
    interval: Duration,
    pending: Mutex<Pending>,
    /// Held while a batch is written, so that batches keep their order while others collect the next one. Taken before
    /// `pending`, never after it.
    writer: Mutex<Writer>,
}

/// Lines that wait.
#[derive(Debug, Default)]
struct Pending {
    lines: Vec<u8>,
    /// The last write, or attempt at one.
    written_at: Option<Instant>,
    /// That attempt failed.
    failed: bool,
    /// Lines for which there was no room since the error log was told.
    lost: u64,
}

#[derive(Debug, Default)]
struct Writer {
    /// The batch before, empty: memory for the next but one.
    spare: Vec<u8>,
    /// Why the last attempt that failed did so.
    error: Option<io::Error>,
    complained_at: Option<Instant>,
}

impl BatchedFile {
    /// Opens `path` for appending, creating it where it is missing; a standard stream is duplicated.
    ///
    /// # Errors
    /// The error of open(2) or dup(2).
    pub fn open(path: &Path, buffering: Buffering) -> io::Result<BatchedFile> {
        let file = log_file::open(path)?;
        let capacity = if file.metadata()?.is_file() { FILE_BYTES } else { PIPE_BYTES };
        let interval = match buffering {
            Buffering::Batches => INTERVAL,
            Buffering::EachLine => Duration::ZERO,
        };
        let path = path.to_owned();
        Ok(BatchedFile { file, path, capacity, interval, pending: Mutex::default(), writer: Mutex::default() })
    }

    /// Adds a whole line, its line feed included.
    pub fn append(&self, line: &[u8], now: Instant) {
        let is_full = |pending: &Pending| !pending.lines.is_empty() && pending.lines.len() + line.len() > self.capacity;
        let mut pending = self.pending();
        while is_full(&pending) {
            if pending.failed && now < self.due(&pending, now) {
                pending.lost += 1;
                return;
            }
            drop(pending);
            self.write_if(is_full, now);
            pending = self.pending();
        }
        if pending.lines.capacity() == 0 {
            pending.lines.reserve_exact(self.capacity.max(line.len()));
        }
        pending.lines.extend_from_slice(line);
        if now >= self.due(&pending, now) {
            drop(pending);
            self.write_if(|pending| now >= self.due(pending, now), now);
        }
    }

    /// Writes the batch if it is due. Where there is one afterwards, gives when it will be.
    pub fn settle(&self, now: Instant) -> Option<Instant> {
        let mut pending = self.pending();
        if !pending.lines.is_empty() && now >= self.due(&pending, now) {
            drop(pending);
            self.write_if(|pending| now >= self.due(pending, now), now);
            pending = self.pending();
        }
        (!pending.lines.is_empty()).then(|| self.due(&pending, now))
    }

    /// Writes what there is, once and for all.
    pub fn flush(&self) {
        self.write_if(|_| true, Instant::now());
        let mut pending = self.pending();
        pending.lost += pending.lines.iter().filter(|byte| **byte == b'\n').count() as u64;
        pending.lines.clear();
        let lost = std::mem::take(&mut pending.lost);
        drop(pending);
        if lost > 0 {
            let mut writer = self.writer();
            self.complain(lost, &mut writer);
        }
    }

    /// When lines that wait are to be written; at once where none ever were.
    fn due(&self, pending: &Pending, now: Instant) -> Instant {
        let interval = if pending.failed { INTERVAL } else { self.interval };
        pending.written_at.map_or(now, |at| at + interval)
    }

    /// Writes the batch, unless it needs not be any more now that it is this thread's turn. What the file does not take goes
    /// back to where it was.
    fn write_if(&self, is_needed: impl Fn(&Pending) -> bool, now: Instant) {
        let mut writer = self.writer();
        let mut pending = self.pending();
        if pending.lines.is_empty() || !is_needed(&pending) {
            return;
        }
        let mut batch = std::mem::replace(&mut pending.lines, std::mem::take(&mut writer.spare));
        pending.written_at = Some(now);
        drop(pending);
        let written = write_lines(&self.file, &batch, self.capacity);
        let mut pending = self.pending();
        pending.failed = written.error.is_some();
        if pending.failed {
            writer.error = written.error;
            batch.drain(..written.bytes);
            // Those that came meanwhile follow.
            batch.extend_from_slice(&pending.lines);
            std::mem::swap(&mut pending.lines, &mut batch);
        }
        batch.clear();
        writer.spare = batch;
        if pending.lost > 0 && writer.complained_at.is_none_or(|at| now >= at + COMPLAIN_EVERY) {
            writer.complained_at = Some(now);
            let lost = std::mem::take(&mut pending.lost);
            drop(pending);
            self.complain(lost, &mut writer);
        }
    }

    fn complain(&self, lost: u64, writer: &mut Writer) {
        let (path, error) = (self.path.display(), writer.error.take());
        let why = error.map_or(String::new(), |error| format!(": {error}"));
        log::error!(target: "log_config", "AH00646: Error writing to {path}{why}; {lost} lines are lost");
    }

    // Lines stay whole even when a thread panics between two of its calls, so that a poisoned lock is as good as any.

    fn pending(&self) -> MutexGuard<'_, Pending> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn writer(&self) -> MutexGuard<'_, Writer> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What became of a batch.
struct Written {
    bytes: usize,
    /// Why the rest was not written.
    error: Option<io::Error>,
}

/// Writes lines by calls of at most `most` bytes each; only a longer line is written by a longer call.
fn write_lines(mut file: impl Write, lines: &[u8], most: usize) -> Written {
    let mut bytes = 0;
    while bytes < lines.len() {
        let rest = &lines[bytes..];
        match file.write(&rest[..whole_lines(rest, most)]) {
            Ok(0) => return Written { bytes, error: Some(io::ErrorKind::WriteZero.into()) },
            Ok(n) => bytes += n,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Written { bytes, error: Some(error) },
        }
    }
    Written { bytes, error: None }
}

/// Length of the whole lines that fit into `most` bytes, or of the first where none does.
fn whole_lines(lines: &[u8], most: usize) -> usize {
    if lines.len() <= most {
        return lines.len();
    }
    let is_end = |byte: &u8| *byte == b'\n';
    let last = lines[..most].iter().rposition(is_end);
    last.or_else(|| lines.iter().position(is_end)).map_or(lines.len(), |at| at + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::sync::atomic::{AtomicU32, Ordering};

    /// A batch for a file in a place of its own, and that place.
    fn batched(buffering: Buffering) -> (BatchedFile, PathBuf) {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("manifold-batch-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        (BatchedFile::open(&path, buffering).unwrap(), path)
    }

    #[test]
    fn lines_wait_for_each_other_but_not_for_long() {
        let (log, path) = batched(Buffering::Batches);
        let start = Instant::now();
        let check = |at: u64, expected: &str, due: Option<u64>| {
            let now = start + Duration::from_millis(at);
            assert_eq!(log.settle(now), due.map(|at| start + Duration::from_millis(at)), "at {at} ms");
            assert_eq!(fs::read_to_string(&path).unwrap(), expected, "at {at} ms");
        };
        check(0, "", None);
        log.append(b"a\n", start);
        check(0, "a\n", None);
        log.append(b"b\n", start + Duration::from_millis(1));
        log.append(b"c\n", start + Duration::from_millis(2));
        check(2, "a\n", Some(800));
        check(799, "a\n", Some(800));
        check(800, "a\nb\nc\n", None);
        log.append(b"d\n", start + Duration::from_millis(1599));
        check(1599, "a\nb\nc\n", Some(1600));
        log.append(b"e\n", start + Duration::from_millis(1601));
        check(1601, "a\nb\nc\nd\ne\n", None);
        log.append(b"f\n", start + Duration::from_millis(1602));
        log.flush();
        check(1602, "a\nb\nc\nd\ne\nf\n", None);
        fs::remove_file(path).unwrap();
    }

    #[test]
    fn each_line_is_written_at_once_where_that_is_asked_for() {
        let (log, path) = batched(Buffering::EachLine);
        let now = Instant::now();
        for (line, expected) in [(b"a\n", "a\n"), (b"b\n", "a\nb\n")] {
            log.append(line, now);
            assert_eq!((fs::read_to_string(&path).unwrap().as_str(), log.settle(now)), (expected, None));
        }
        fs::remove_file(path).unwrap();
    }

    #[test]
    fn a_full_batch_is_written_and_the_line_that_did_not_fit_begins_the_next() {
        let (log, path) = batched(Buffering::Batches);
        let now = Instant::now();
        log.append(b"first\n", now);
        let line = [b"x".repeat(999), b"\n".to_vec()].concat();
        let lines = FILE_BYTES / line.len() + 1;
        for _ in 0..lines {
            log.append(&line, now);
        }
        let length = || fs::metadata(&path).unwrap().len() as usize;
        assert_eq!(length(), 6 + (lines - 1) * line.len());
        let long = [b"y".repeat(FILE_BYTES), b"\n".to_vec()].concat();
        log.append(&long, now);
        assert_eq!(length(), 6 + lines * line.len(), "a line that fits nowhere waits alone");
        log.append(b"last\n", now);
        assert_eq!(length(), 6 + lines * line.len() + long.len());
        log.flush();
        assert!(fs::read(&path).unwrap().ends_with(b"y\nlast\n"));
        fs::remove_file(path).unwrap();
    }

    #[test]
    fn threads_lose_nothing_and_keep_the_order_of_their_own_lines() {
        const LINES: usize = 20_000;
        let (log, path) = batched(Buffering::Batches);
        std::thread::scope(|scope| {
            for thread in 0..3 {
                let log = &log;
                scope.spawn(move || {
                    let start = Instant::now();
                    for number in 0..LINES {
                        // Now and then a batch is due before it is full.
                        let now = start + Duration::from_millis(number as u64 / 10);
                        log.append(format!("{thread} {number}\n").as_bytes(), now);
                        log.settle(now);
                    }
                });
            }
        });
        log.flush();
        let text = fs::read_to_string(&path).unwrap();
        for thread in 0..3 {
            let numbers =
                text.lines().filter_map(|line| line.strip_prefix(&format!("{thread} "))?.parse::<usize>().ok());
            assert!(numbers.eq(0..LINES), "thread {thread}");
        }
        fs::remove_file(path).unwrap();
    }

    /// Takes at most so many bytes a call and so many calls, then is full.
    struct Narrow {
        most: usize,
        calls: usize,
        taken: Vec<u8>,
    }

    impl Write for Narrow {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.calls = self.calls.checked_sub(1).ok_or(io::ErrorKind::StorageFull)?;
            self.taken.extend_from_slice(&bytes[..bytes.len().min(self.most)]);
            Ok(bytes.len().min(self.most))
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn calls_end_where_lines_end() {
        let check = |most: usize, expected: &[usize]| {
            let mut rest: &[u8] = b"a\nbcd\nefghi\nj\n";
            let mut lengths = Vec::new();
            while !rest.is_empty() {
                let length = whole_lines(rest, most);
                lengths.push(length);
                rest = &rest[length..];
            }
            assert_eq!(lengths, expected, "at most {most}");
        };
        check(100, &[14]);
        check(14, &[14]);
        check(13, &[12, 2]);
        check(6, &[6, 6, 2]);
        check(5, &[2, 4, 6, 2]);
        check(1, &[2, 4, 6, 2]);
    }

    #[test]
    fn what_a_full_disk_took_is_known_to_the_byte() {
        for calls in 0..5 {
            let mut disk = Narrow { most: 5, calls, taken: Vec::new() };
            let written = write_lines(&mut disk, b"a\nbcd\nefghi\nj\n", 100);
            assert_eq!((written.bytes, written.error.is_some()), ((calls * 5).min(14), calls < 3));
            assert_eq!(disk.taken, b"a\nbcd\nefghi\nj\n"[..written.bytes]);
        }
    }

    #[test]
    fn a_pipe_that_is_full_keeps_lines_waiting_and_loses_only_what_finds_no_room() {
        use std::io::Read;
        let (reader, pipe) = nix::unistd::pipe2(nix::fcntl::OFlag::O_NONBLOCK).unwrap();
        let mut reader = File::from(reader);
        let log = BatchedFile {
            file: pipe.into(),
            path: PathBuf::from("pipe"),
            capacity: PIPE_BYTES,
            interval: INTERVAL,
            pending: Mutex::default(),
            writer: Mutex::default(),
        };
        let mut text = String::new();
        let mut read = || {
            let mut buffer = vec![0; 256 * 1024];
            let n = reader.read(&mut buffer).unwrap();
            text.push_str(std::str::from_utf8(&buffer[..n]).unwrap());
            text.clone()
        };
        let line = |number: usize| format!("{number:0>99}\n");
        let start = Instant::now();
        // A pipe holds 64 KB, and a batch as much as it may.
        let lines = 2000;
        for number in 0..lines {
            log.append(line(number).as_bytes(), start);
        }
        let lost = log.pending().lost as usize;
        assert!(lost > 1000 && log.pending().failed);
        read();
        let due = log.settle(start).unwrap();
        assert_eq!(due, start + INTERVAL);
        assert_eq!(log.settle(due), None, "the pipe takes it now");
        log.append(line(lines).as_bytes(), due);
        log.flush();
        drop(log);
        let text = read();
        let kept = lines - lost;
        let expected: String = (0..kept).chain([lines]).map(line).collect();
        assert!(text == expected, "{} lines instead of {}", text.lines().count(), kept + 1);
    }
}
