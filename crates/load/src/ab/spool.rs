//! Every request's times on their way into ab's file for gnuplot (`-g`): sorted as ab sorts them, in memory that does not grow with their
//! number, and not by the threads that are measuring.
//!
//! The threads hand over batches; a thread of its own sorts them, puts sorted runs into nameless files beside the one that is to be
//! written, and merges runs as they become many.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufReader, BufWriter, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

/// Requests handed over at once.
const BATCH: usize = 4096;
/// Batches waiting to be sorted; a thread whose batch finds no place waits, since nothing may be lost.
const BATCHES_WAITING: usize = 64;
/// Requests sorted in memory, 4 MiB of them.
const RUN: usize = 1 << 17;
/// So many runs of one size become one.
const FAN_IN: usize = 16;
/// A request's bytes in a run.
const SAMPLE_BYTES: usize = 32;

/// One request's times in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// Since the beginning of the run.
    pub started: u64,
    /// Connecting.
    pub connect: u64,
    /// Until the end of the answer, connecting included.
    pub total: u64,
    /// From the end of the request to the first byte of the answer.
    pub waiting: u64,
}

impl Sample {
    /// ab sorts by connecting, processing, waiting and total time, one after the other, so that the last counts first.
    fn rank(&self) -> (u64, u64, u64, u64) {
        (self.total, self.waiting, self.total.saturating_sub(self.connect), self.started)
    }

    fn to_bytes(self) -> [u8; SAMPLE_BYTES] {
        let mut bytes = [0; SAMPLE_BYTES];
        for (place, number) in bytes.chunks_exact_mut(8).zip([self.started, self.connect, self.total, self.waiting]) {
            place.copy_from_slice(&number.to_le_bytes());
        }
        bytes
    }

    fn from_bytes(bytes: &[u8; SAMPLE_BYTES]) -> Sample {
        let number = |at: usize| u64::from_le_bytes(std::array::from_fn(|index| bytes[at * 8 + index]));
        Sample { started: number(0), connect: number(1), total: number(2), waiting: number(3) }
    }
}

/// The end of one measuring thread.
#[derive(Debug)]
pub struct Feeder {
    batch: Vec<Sample>,
    to: SyncSender<Vec<Sample>>,
}

impl Feeder {
    /// Hands over one request's times.
    pub fn push(&mut self, sample: Sample) {
        self.batch.push(sample);
        if self.batch.len() == BATCH {
            self.flush();
        }
    }

    fn flush(&mut self) {
        let batch = std::mem::replace(&mut self.batch, Vec::with_capacity(BATCH));
        // The keeper is gone only if it failed, and then tells why itself.
        let _tells_itself = self.to.send(batch);
    }
}

impl Drop for Feeder {
    fn drop(&mut self) {
        self.flush();
    }
}

/// Both ends: one for the measuring threads (to be cloned), one for [`keep`].
pub fn channel() -> (FeederMaker, Receiver<Vec<Sample>>) {
    let (to, from) = sync_channel(BATCHES_WAITING);
    (FeederMaker(to), from)
}

/// Makes feeders; the keeper ends when it and they are gone.
#[derive(Clone, Debug)]
pub struct FeederMaker(SyncSender<Vec<Sample>>);

impl FeederMaker {
    /// One for a thread.
    pub fn feeder(&self) -> Feeder {
        Feeder { batch: Vec::with_capacity(BATCH), to: self.0.clone() }
    }
}

/// Sorted requests, mostly in files.
#[derive(Debug, Default)]
pub struct Kept {
    runs: Vec<Run>,
    /// Those that made no run.
    rest: Vec<Sample>,
    /// Why some are missing.
    pub error: Option<io::Error>,
}

#[derive(Debug)]
struct Run {
    file: File,
    level: u32,
}

/// Takes in batches until the last feeder is gone. Runs lie beside `output`.
pub fn keep(batches: &Receiver<Vec<Sample>>, output: &Path) -> Kept {
    keep_runs_of(RUN, batches, output)
}

fn keep_runs_of(run: usize, batches: &Receiver<Vec<Sample>>, output: &Path) -> Kept {
    let mut kept = Kept::default();
    while let Ok(batch) = batches.recv() {
        if kept.error.is_some() {
            continue;
        }
        kept.rest.extend(batch);
        if kept.rest.len() >= run {
            let stored = kept.store(output);
            kept.error = stored.err();
        }
    }
    kept.rest.sort_unstable_by_key(Sample::rank);
    kept
}

impl Kept {
    /// Makes a run of what is in memory, and one of many.
    fn store(&mut self, folder_of: &Path) -> io::Result<()> {
        let mut samples = std::mem::take(&mut self.rest);
        samples.sort_unstable_by_key(Sample::rank);
        self.runs.push(Run::write(folder_of, 0, |out| {
            samples.iter().try_for_each(|sample| out.write_all(&sample.to_bytes()))
        })?);
        samples.clear();
        self.rest = samples;
        while let Some(Run { level, .. }) = self.runs.last()
            && self.runs.iter().filter(|run| run.level == *level).count() >= FAN_IN
        {
            let level = *level;
            let many: Vec<Run> = self.runs.extract_if(.., |run| run.level == level).collect();
            self.runs.push(Run::write(folder_of, level + 1, |out| {
                merge(many, Vec::new(), |sample| out.write_all(&sample.to_bytes()))
            })?);
        }
        Ok(())
    }

    /// Hands all to `each` in ab's order.
    ///
    /// # Errors
    /// A run cannot be read, or `each` fails.
    pub fn for_each(self, each: impl FnMut(Sample) -> io::Result<()>) -> io::Result<()> {
        merge(self.runs, self.rest, each)
    }
}

impl Run {
    fn write(
        folder_of: &Path,
        level: u32,
        write: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>,
    ) -> io::Result<Run> {
        let mut out = BufWriter::new(nameless_file(folder_of)?);
        write(&mut out)?;
        let mut file = out.into_inner().map_err(io::IntoInnerError::into_error)?;
        file.rewind()?;
        Ok(Run { file, level })
    }
}

/// A file without a name in the folder of another, so that nothing is left whatever happens; where that is no ordinary folder's file, in
/// the system's folder for such things.
fn nameless_file(beside: &Path) -> io::Result<File> {
    use std::sync::atomic::{AtomicU64, Ordering};
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let name = format!(".ab-{}-{number}", std::process::id());
    let ordinary = fs::metadata(beside).map_or(true, |metadata| metadata.is_file());
    let beside = beside.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let open = |folder: &Path| {
        let path: PathBuf = folder.join(&name);
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(&path)?;
        fs::remove_file(&path)?;
        io::Result::Ok(file)
    };
    if ordinary && let Ok(file) = open(beside) {
        return Ok(file);
    }
    open(&std::env::temp_dir())
}

/// A sorted source of requests.
enum Source {
    File(BufReader<File>),
    Memory(std::vec::IntoIter<Sample>),
}

impl Source {
    fn next(&mut self) -> io::Result<Option<Sample>> {
        match self {
            Source::Memory(samples) => Ok(samples.next()),
            Source::File(file) => {
                let mut bytes = [0; SAMPLE_BYTES];
                match file.read_exact(&mut bytes) {
                    Ok(()) => Ok(Some(Sample::from_bytes(&bytes))),
                    Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
                    Err(error) => Err(error),
                }
            }
        }
    }
}

fn merge(runs: Vec<Run>, rest: Vec<Sample>, mut each: impl FnMut(Sample) -> io::Result<()>) -> io::Result<()> {
    let mut sources: Vec<Source> = runs.into_iter().map(|run| Source::File(BufReader::new(run.file))).collect();
    sources.push(Source::Memory(rest.into_iter()));
    let mut heads = Vec::with_capacity(sources.len());
    let mut order = BinaryHeap::with_capacity(sources.len());
    for (index, source) in sources.iter_mut().enumerate() {
        let head = source.next()?;
        order.extend(head.map(|sample| Reverse((sample.rank(), index))));
        heads.push(head.unwrap_or_default());
    }
    while let Some(Reverse((_, index))) = order.pop() {
        each(heads[index])?;
        if let Some(next) = sources[index].next()? {
            heads[index] = next;
            order.push(Reverse((next.rank(), index)));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Through so small runs that they are merged twice, in the order of the sorted list.
    #[test]
    fn all_come_back_in_order_however_many_runs_there_were() {
        let output = std::env::temp_dir().join(format!("manifold-spool-{}", std::process::id()));
        for count in [0u64, 1, 5, 4 * BATCH as u64, 300 * BATCH as u64 + 7] {
            let sample = |n: u64| {
                let total = n.wrapping_mul(2_654_435_761) % 10_007;
                Sample { started: n, connect: total / 3, total, waiting: n % 3 }
            };
            let (maker, batches) = channel();
            let kept = std::thread::scope(|scope| {
                std::thread::Builder::new()
                    .spawn_scoped(scope, move || {
                        let mut feeder = maker.feeder();
                        (0..count).for_each(|n| feeder.push(sample(n)));
                    })
                    .unwrap();
                keep_runs_of(BATCH, &batches, &output)
            });
            assert!(kept.error.is_none() && kept.runs.len() < 3 * FAN_IN, "{kept:?}");
            let mut expected: Vec<Sample> = (0..count).map(sample).collect();
            expected.sort_by_key(Sample::rank);
            let mut got = Vec::new();
            kept.for_each(|sample| {
                got.push(sample);
                Ok(())
            })
            .unwrap();
            assert!(got == expected, "{count}");
        }
    }

    #[test]
    fn a_run_on_a_full_disk_is_an_error() {
        let full = |out: &mut BufWriter<File>| {
            *out = BufWriter::new(File::options().write(true).open("/dev/full")?);
            (0..RUN).try_for_each(|_| out.write_all(&Sample::default().to_bytes()))
        };
        let error = Run::write(Path::new("x"), 0, full).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    }
}
