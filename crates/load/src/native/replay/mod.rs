//! `manifold load --replay`: the requests of an access log, at the times at which they came.
//!
//! The log is read line by line before the run. What is kept of it is each different request once, and 16 bytes for each line; both have a
//! bound. Logs have whole seconds: requests of one second are spread over it evenly by chance (`--seed`), in their order. A log is written
//! when answers end, so its lines may be out of order by as long as an answer took; they are sorted by their time.

mod line;

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use flate2::bufread::MultiGzDecoder;
use manifold_stats::Rng;

use super::args::{ExpectLength, Options};
use super::spec::RequestSpec;
use crate::report::Replayed;
use crate::schedule::{Arrival, Pace, Think};
use crate::units::{self, RATE_MAX};
use line::{Fault, Line, Reader};

/// Requests of a log at most; 16 bytes each.
const REQUESTS_MAX: usize = 10_000_000;
/// Different ones among them at most; about 1 KB each.
const DIFFERENT_MAX: usize = 500_000;
/// Longer lines are no lines.
const LINE_BYTES_MAX: usize = 64 * 1024;
/// Malformed lines that are shown.
const SHOWN_MAX: usize = 5;
/// Bytes of such a line that are shown.
const SHOWN_BYTES: usize = 60;

/// `--replay` and the options beside it.
#[derive(Clone, Debug, PartialEq)]
pub struct Replay {
    /// The log.
    pub log: PathBuf,
    /// How fast its time goes by.
    pub speed: Speed,
    /// Methods other than GET and HEAD are sent as well.
    pub other_methods: bool,
    /// The logged Referer is sent.
    pub referer: bool,
    /// The logged User-Agent is sent.
    pub user_agent: bool,
}

/// How fast a log's time goes by.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Speed {
    /// So many times as fast as it did.
    Times(f64),
    /// So that there are so many requests a second on average.
    Rate(f64),
    /// It does not: requests follow one another on each connection.
    Closed,
}

/// What was given so far.
#[derive(Debug, Default)]
pub struct Given {
    log: Option<PathBuf>,
    speed: Option<Speed>,
    flags: [bool; 3],
}

/// The flags among the options.
pub const FLAGS: [&str; 3] = ["replay-unsafe", "replay-referer", "replay-user-agent"];

impl Given {
    /// `None`: the option is another's.
    pub fn set(&mut self, name: &str, value: &str) -> Option<Result<(), String>> {
        let speed = match name {
            "replay" => {
                self.log = Some(PathBuf::from(value));
                return Some(Ok(()));
            }
            "replay-speed" if value == "max" => Some(Speed::Closed),
            "replay-speed" => value.parse().ok().filter(|times| (1e-3..=1e6).contains(times)).map(Speed::Times),
            "replay-rate" => units::rate(value).filter(|rate| (1e-3..=RATE_MAX).contains(rate)).map(Speed::Rate),
            _ => return None,
        };
        Some(match speed {
            None => Err(format!("{value}: a number is needed, as 2 or 0.5; --replay-speed may be `max`")),
            Some(_) if self.speed.is_some() => {
                Err("it has been said how fast; give one of --replay-speed and --replay-rate".to_owned())
            }
            Some(_) => {
                self.speed = speed;
                Ok(())
            }
        })
    }

    /// An option without a value; it may be another's.
    pub fn flag(&mut self, name: &str, on: bool) {
        if let Some(place) = FLAGS.iter().position(|flag| *flag == name) {
            self.flags[place] = on;
        }
    }

    /// Whether a log is to be replayed.
    pub fn is_replay(&self) -> bool {
        self.log.is_some()
    }

    /// The replay.
    ///
    /// # Errors
    /// A sentence, if these options do not go together with the others.
    pub fn finish(self, options: &Options) -> Result<Option<Replay>, String> {
        let Given { log, speed, flags: [other_methods, referer, user_agent] } = self;
        let Some(log) = log else {
            let said = speed.is_some() || other_methods || referer || user_agent;
            return if said { Err("the options of --replay need --replay LOG".to_owned()) } else { Ok(None) };
        };
        if options.requests.len() != 1 {
            return Err("--replay has the requests; give one URL, the server's".to_owned());
        }
        if options.find_max.is_some() || !options.warmup.is_zero() || options.pace != Pace::Closed(Think::Never) {
            return Err("--replay has the times; --rate, --stage, --think, --warmup and --find-max do not go with it"
                .to_owned());
        }
        Ok(Some(Replay { log, speed: speed.unwrap_or(Speed::Times(1.0)), other_methods, referer, user_agent }))
    }
}

/// A log that was read, ready to be sent.
#[derive(Clone, Debug)]
pub struct Log {
    /// Each different request once.
    pub specs: Vec<RequestSpec>,
    /// When which of them is due.
    pub arrivals: Arc<[Arrival]>,
    /// What the report says of it.
    pub told: Replayed,
}

/// Reads the log that the options name; what comes back has its pace.
///
/// # Errors
/// A sentence: it cannot be read, has nothing that can be sent, or too much.
pub fn read(options: &Options, replay: &Replay) -> io::Result<Options> {
    let named = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", replay.log.display()));
    let mut gathered = Gathered::new(&options.requests[0], replay);
    gathered.read(&mut open(&replay.log).map_err(named)?).map_err(named)?;
    let log = gathered.finish(options.seed).map_err(named)?;
    let mut options = options.clone();
    let list = log.arrivals.clone();
    if replay.speed == Speed::Closed {
        let all = list.len() as u64;
        options.stop_requests = Some(options.stop_requests.map_or(all, |given| given.min(all)));
        options.connections = options.connections.min(u32::try_from(all).unwrap_or(u32::MAX));
        options.threads = options.threads.min(options.connections);
    } else {
        options.pace = Pace::Listed(list);
    }
    options.log = Some(log);
    Ok(options)
}

/// The log's bytes, unpacked if they begin as gzip's do.
fn open(path: &Path) -> io::Result<Box<dyn BufRead>> {
    let mut file = BufReader::with_capacity(256 * 1024, File::open(path)?);
    if file.fill_buf()?.starts_with(&[0x1f, 0x8b]) {
        return Ok(Box::new(BufReader::with_capacity(256 * 1024, MultiGzDecoder::new(file))));
    }
    Ok(Box::new(file))
}

/// What has been read of a log.
struct Gathered<'r> {
    base: &'r RequestSpec,
    replay: &'r Replay,
    reader: Reader,
    specs: Vec<RequestSpec>,
    /// Places of requests among the specs, by all that makes them different.
    known: HashMap<Vec<u8>, u32>,
    /// Seconds since 1970 and the request, in the log's order.
    requests: Vec<(i64, u32)>,
    latest: i64,
    told: Replayed,
}

impl<'r> Gathered<'r> {
    fn new(base: &'r RequestSpec, replay: &'r Replay) -> Gathered<'r> {
        let told = Replayed { log: replay.log.display().to_string(), ..Replayed::default() };
        Gathered {
            base,
            replay,
            reader: Reader::default(),
            specs: Vec::new(),
            known: HashMap::new(),
            requests: Vec::new(),
            latest: i64::MIN,
            told,
        }
    }

    fn read(&mut self, log: &mut dyn BufRead) -> io::Result<()> {
        let mut line = Vec::new();
        loop {
            line.clear();
            let most = LINE_BYTES_MAX as u64 + 1;
            if (&mut *log).take(most).read_until(b'\n', &mut line)? == 0 {
                return Ok(());
            }
            self.told.lines += 1;
            if line.len() > LINE_BYTES_MAX && !line.ends_with(b"\n") {
                log.skip_until(b'\n')?;
                self.malformed(&line, "it is longer than 64 KB");
                continue;
            }
            let end = line.iter().rposition(|byte| !matches!(byte, b'\n' | b'\r')).map_or(0, |last| last + 1);
            match self.reader.read(&line[..end]) {
                Ok(request) => self.take(request)?,
                Err(Fault::NoPath) => *self.told.skipped.entry("no path".to_owned()).or_default() += 1,
                Err(Fault::Malformed(why)) => self.malformed(&line[..end], why),
            }
        }
    }

    fn malformed(&mut self, line: &[u8], why: &str) {
        self.told.malformed += 1;
        if self.told.malformed_first.len() < SHOWN_MAX {
            let shown = String::from_utf8_lossy(&line[..line.len().min(SHOWN_BYTES)]);
            self.told.malformed_first.push(format!("line {}: {why}: {shown:?}", self.told.lines));
        }
    }

    fn take(&mut self, line: Line) -> io::Result<()> {
        if !matches!(line.method.as_str(), "GET" | "HEAD") && !self.replay.other_methods {
            *self.told.skipped.entry(line.method).or_default() += 1;
            return Ok(());
        }
        if self.requests.len() == REQUESTS_MAX {
            return Err(io::Error::other(format!("more than {REQUESTS_MAX} requests; replay a part of it")));
        }
        self.told.out_of_order += u64::from(line.unix < self.latest);
        self.latest = self.latest.max(line.unix);
        *self.told.statuses.entry(line.status).or_default() += 1;
        let unix = line.unix;
        let place = self.place(line)?;
        self.requests.push((unix, place));
        Ok(())
    }

    /// The place of this request among the different ones.
    fn place(&mut self, line: Line) -> io::Result<u32> {
        let given = |name: &str| {
            let is_it =
                |field: &String| field.split_once(':').is_some_and(|(given, _)| given.eq_ignore_ascii_case(name));
            self.base.headers.iter().any(is_it)
        };
        let logged = [
            ("Host", line.host, true),
            ("Referer", line.referer, self.replay.referer),
            ("User-Agent", line.user_agent, self.replay.user_agent),
        ];
        let wanted = logged.into_iter().filter(|(name, _, wanted)| *wanted && !given(name));
        let fields: Vec<String> =
            wanted.filter_map(|(name, value, _)| value.map(|value| format!("{name}: {value}"))).collect();
        let key = [&[line.method.clone(), line.path.clone()], fields.as_slice()].concat().join("\0").into_bytes();
        if let Some(place) = self.known.get(&key) {
            return Ok(*place);
        }
        if self.specs.len() == DIFFERENT_MAX {
            let without = if self.replay.referer || self.replay.user_agent {
                "; without --replay-referer and --replay-user-agent there are fewer"
            } else {
                "; replay a part of it"
            };
            return Err(io::Error::other(format!("more than {DIFFERENT_MAX} different requests{without}")));
        }
        let place = self.specs.len() as u32;
        let mut spec = self.base.clone();
        spec.target.path = line.path;
        spec.method = line.method;
        spec.headers.extend(fields);
        if spec.expect_length == ExpectLength::First {
            spec.expect_length = ExpectLength::Any;
        }
        self.specs.push(spec);
        self.known.insert(key, place);
        Ok(place)
    }

    fn finish(mut self, seed: u64) -> io::Result<Log> {
        let unusable = || {
            let Replayed { lines, malformed, malformed_first, .. } = &self.told;
            let first = malformed_first.first().map(|first| format!("; {first}")).unwrap_or_default();
            io::Error::other(format!("no request can be sent: {lines} lines, {malformed} of them malformed{first}"))
        };
        if self.requests.is_empty() {
            return Err(unusable());
        }
        self.requests.sort_by_key(|(unix, _)| *unix);
        let first = self.requests[0].0;
        let span = self.requests[self.requests.len() - 1].0 - first + 1;
        self.told.requests = self.requests.len() as u64;
        self.told.different = self.specs.len() as u64;
        self.told.span_s = span as f64;
        let speed = match self.replay.speed {
            Speed::Times(times) => times,
            Speed::Rate(rate) => rate * span as f64 / self.requests.len() as f64,
            Speed::Closed => 1.0,
        };
        self.told.speed = (self.replay.speed != Speed::Closed).then_some(speed);
        let arrivals = spread(&self.requests, first, speed, seed);
        Ok(Log { specs: self.specs, arrivals, told: self.told })
    }
}

/// Whole seconds become moments: those of one second lie in it evenly by chance, in their order.
fn spread(requests: &[(i64, u32)], first: i64, speed: f64, seed: u64) -> Arc<[Arrival]> {
    let mut rng = Rng::new(seed);
    let mut arrivals = Vec::with_capacity(requests.len());
    for second in requests.chunk_by(|one, other| one.0 == other.0) {
        let mut moments: Vec<f64> = second.iter().map(|_| rng.unit()).collect();
        moments.sort_by(f64::total_cmp);
        for ((unix, request), moment) in second.iter().zip(moments) {
            let seconds = ((unix - first) as f64 + moment) / speed;
            let at = Duration::try_from_secs_f64(seconds).map_or(u64::MAX, crate::outcome::nanoseconds);
            arrivals.push(Arrival { at, request: *request });
        }
    }
    arrivals.into()
}

/// What the report's `skipped` says in words.
pub fn skipped(skipped: &BTreeMap<String, u64>) -> String {
    skipped.iter().map(|(what, count)| format!("{count} {what}")).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use std::io::{Cursor, Write};

    use super::*;

    const LOG: &str = "\
        h - - [10/Oct/2000:13:55:36 -0700] \"GET /a HTTP/1.1\" 200 1 \"-\" \"X\"\n\
        h - - [10/Oct/2000:13:55:38 -0700] \"GET /b HTTP/1.1\" 404 1 \"-\" \"Y\"\n\
        nonsense\n\
        h - - [10/Oct/2000:13:55:37 -0700] \"GET /a HTTP/1.1\" 200 1 \"-\" \"Y\"\n\
        h - - [10/Oct/2000:13:55:38 -0700] \"POST /c HTTP/1.1\" 201 1 \"-\" \"X\"\n\
        h - - [10/Oct/2000:13:55:38 -0700] \"-\" 408 - \"-\" \"-\"\r\n\
        v:81 h - - [10/Oct/2000:13:55:38 -0700] \"HEAD /a HTTP/1.1\" 200 1 \"-\" \"X\"";

    fn log(text: &[u8], change: fn(&mut Replay)) -> io::Result<Log> {
        let mut replay = Replay {
            log: PathBuf::from("a.log"),
            speed: Speed::Times(1.0),
            other_methods: false,
            referer: false,
            user_agent: false,
        };
        change(&mut replay);
        let base = RequestSpec::get("http://h/").expect("a URL");
        let mut gathered = Gathered::new(&base, &replay);
        gathered.read(&mut Cursor::new(text))?;
        gathered.finish(1)
    }

    #[test]
    fn a_log_becomes_requests_and_what_is_left_out_is_told() {
        let log = log(LOG.as_bytes(), |_| ()).expect("a log");
        let sent: Vec<String> = log.specs.iter().map(|spec| format!("{} {}", spec.method, spec.target.path)).collect();
        assert_eq!(sent, ["GET /a", "GET /b", "HEAD /a"]);
        assert_eq!(log.specs[2].headers, ["Host: v:81"]);
        assert_eq!(log.arrivals.iter().map(|arrival| arrival.request).collect::<Vec<_>>(), [0, 0, 1, 2]);
        let told = &log.told;
        assert_eq!((told.lines, told.requests, told.different, told.out_of_order), (7, 4, 3, 1));
        assert_eq!((told.malformed, told.malformed_first.len()), (1, 1));
        assert!(told.malformed_first[0].starts_with("line 3: there is no time in brackets: \"nonsense\""));
        assert_eq!(skipped(&told.skipped), "1 POST, 1 no path");
        assert_eq!(told.statuses, BTreeMap::from([(200, 3), (404, 1)]));
    }

    #[test]
    fn what_is_asked_for_is_sent_as_well() {
        let with = |change: fn(&mut Replay)| log(LOG.as_bytes(), change).expect("a log");
        assert_eq!(with(|replay| replay.other_methods = true).specs.len(), 4);
        let agents = with(|replay| replay.user_agent = true);
        let headers: Vec<&[String]> = agents.specs.iter().map(|spec| spec.headers.as_slice()).collect();
        let agent = |name: &str| vec![format!("User-Agent: {name}")];
        assert_eq!(headers[..3], [&agent("X")[..], &agent("Y")[..], &agent("Y")[..]]);
    }

    #[test]
    fn times_are_kept_scaled_and_spread_within_their_second() {
        let times = |change: fn(&mut Replay)| -> Vec<f64> {
            let log = log(LOG.as_bytes(), change).expect("a log");
            log.arrivals.iter().map(|arrival| arrival.at as f64 / 1e9).collect()
        };
        let kept = times(|_| ());
        let seconds: Vec<f64> = kept.iter().map(|at| at.floor()).collect();
        assert_eq!(seconds, [0.0, 1.0, 2.0, 2.0]);
        assert!(kept.is_sorted() && kept[2] < kept[3]);
        let doubled = times(|replay| replay.speed = Speed::Times(2.0));
        assert!(kept.iter().zip(&doubled).all(|(one, other)| (one / 2.0 - other).abs() < 1e-8));
        // Four requests in three seconds, at 400 a second: a 300th of the time.
        let fast = times(|replay| replay.speed = Speed::Rate(400.0));
        assert!(kept.iter().zip(&fast).all(|(one, other)| (one / 300.0 - other).abs() < 1e-8));
    }

    #[test]
    fn lines_without_end_and_logs_without_requests_are_said() {
        let long = [&[b'x'; 3 * LINE_BYTES_MAX][..], b"\n", LOG.as_bytes()].concat();
        let read = log(&long, |_| ()).expect("a log");
        assert_eq!((read.told.lines, read.told.malformed, read.told.requests), (8, 2, 4));
        let said = log(b"a\nb\n", |_| ()).expect_err("nothing to send").to_string();
        assert!(said.contains("2 lines, 2 of them malformed; line 1"), "{said}");
        assert!(log(b"", |_| ()).is_err());
    }

    #[test]
    fn packed_logs_are_unpacked() {
        let path = std::env::temp_dir().join(format!("manifold-replay-{}.log.gz", std::process::id()));
        let mut packed = Vec::new();
        for part in [&LOG.as_bytes()[..100], &LOG.as_bytes()[100..]] {
            let mut encoder = flate2::write::GzEncoder::new(&mut packed, flate2::Compression::fast());
            encoder.write_all(part).and_then(|()| encoder.finish().map(drop)).expect("memory");
        }
        std::fs::write(&path, &packed).expect("a file");
        let mut text = String::new();
        open(&path).and_then(|mut log| log.read_to_string(&mut text)).expect("a log");
        std::fs::remove_file(&path).expect("it is there");
        assert_eq!(text, LOG);
    }
}
