//! The command line of `manifold load --target-server`.

use std::ffi::OsString;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use super::plan::{Fault, Plan};
use crate::units;
use lexopt::prelude::{Long, Short, ValueExt};

/// The flag that makes `manifold load` a server.
pub const FLAG: &str = "--target-server";

/// What `manifold load --target-server --help` prints.
pub const USAGE: &str = "\
Usage: manifold load --target-server [options]

Answers every request with the same bytes, and does nothing else: no parsing beyond the end of the head, no file, no date,
no log. One thread around epoll, with the fewest system calls that takes: receive and send for a request on a kept
connection; accept, receive, send and close for one on its own. It is what a load generator can ask at most of this machine,
and what a server can cost at least.

      --listen ADDR:PORT    where to answer (default 127.0.0.1:0, a free port)
      --body BYTES          length of the body (default 44, Apache's own page, which a longer body repeats)
      --sendfile            send the body by sendfile(2) from a file in memory, as servers do with large files
      --defer-accept        leave connections to the kernel until their request is there (TCP_DEFER_ACCEPT)
      --max-connections N   connections open at once; more wait to be accepted (default 16384)
      --delay TIME          each answer comes so long after its request, as 5ms (within microseconds)
      --capacity RATE       requests wait for one another: so many a second are answered at most, each in its turn
      --jitter TIME         up to so much is added, each length as likely as the other
      --slow PART:TIME      part of the answers takes this long instead, as 10%:50ms
      --stall TIME/PERIOD   nothing is answered in the last TIME of each PERIOD, as 1s/10s
      --fail KIND:PART      part of the answers is wrong (repeatable); KIND is a status, `reset`, `close` (without an
                            answer), `short` (stops in the body), `silent`, `length`, `content`
      --awake               with a plan: never sleep; requests are seen as soon as they come
      --seed N              decides every choice (default 1)
      --record FILE         when it ends, write what it did, as JSON: delays intended, and how late it was
  -h, --help                show this text

It says on standard output where it answers, and ends on TERM or INT. GET and HEAD are answered (HEAD with the head alone,
then it closes); bodies of requests are not read. With a delay or another plan answers wait for their time, and the thread
stays awake before it, up to 150 us.

Exit status: 0 it was asked to end; 1 it could not serve; 2 wrong usage.
";

/// What was asked for, checked.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// Address and port; port 0 for a free one.
    pub listen: SocketAddr,
    /// Bytes of the body.
    pub body: usize,
    /// The body is sent by sendfile(2).
    pub sendfile: bool,
    /// `TCP_DEFER_ACCEPT`.
    pub defer_accept: bool,
    /// Connections open at once.
    pub max_connections: usize,
    /// When to answer, and how wrongly.
    pub plan: Plan,
    /// The thread never sleeps while there is a plan.
    pub awake: bool,
    /// Where to write what was done.
    pub record: Option<PathBuf>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            body: 44,
            sendfile: false,
            defer_accept: false,
            max_connections: 16_384,
            plan: Plan { seed: 1, ..Plan::default() },
            record: None,
            awake: false,
        }
    }
}

/// The longest body; without sendfile it is held twice.
const BODY_MAX: usize = 256 * 1024 * 1024;

/// Reads the arguments, without the program's name; `None` if help is wanted.
///
/// # Errors
/// A sentence for the user.
pub fn parse(args: impl Iterator<Item = OsString>) -> Result<Option<Options>, String> {
    let mut parser = lexopt::Parser::from_args(args);
    let mut options = Options::default();
    while let Some(arg) = parser.next().map_err(text)? {
        match arg {
            Long("target-server") => {}
            Long("listen") => {
                let given = value(&mut parser)?;
                options.listen = given.parse().map_err(|_| {
                    format!("--listen {given}: an address and a port are needed, as 127.0.0.1:8080 or [::1]:8080")
                })?;
            }
            Long("body") => options.body = number(&mut parser, "--body", 0, BODY_MAX)?,
            Long("sendfile") => options.sendfile = true,
            Long("defer-accept") => options.defer_accept = true,
            Long("max-connections") => {
                options.max_connections = number(&mut parser, "--max-connections", 1, 1_000_000)?;
            }
            Long("delay") => options.plan.delay = time(&value(&mut parser)?, "--delay")?,
            Long("capacity") => options.plan.work = work(&value(&mut parser)?)?,
            Long("jitter") => options.plan.jitter = time(&value(&mut parser)?, "--jitter")?,
            Long("slow") => options.plan.slow = Some(slow(&value(&mut parser)?)?),
            Long("stall") => options.plan.stall = Some(stall(&value(&mut parser)?)?),
            Long("fail") => options.plan.faults.push(fault(&value(&mut parser)?)?),
            Long("seed") => options.plan.seed = number(&mut parser, "--seed", 0, usize::MAX)? as u64,
            Long("awake") => options.awake = true,
            Long("record") => options.record = Some(PathBuf::from(parser.value().map_err(text)?)),
            Short('h') | Long("help") => return Ok(None),
            other => return Err(format!("{}: with {FLAG} there is no load to describe", text(other.unexpected()))),
        }
    }
    if options.sendfile && options.body == 0 {
        return Err("--sendfile needs a body; give --body".to_owned());
    }
    if options.plan.faults.iter().map(|(share, _)| share).sum::<f64>() > 1.0 + 1e-9 {
        return Err("--fail: the parts are more than the whole".to_owned());
    }
    if options.record.is_some() && options.plan.is_plain() {
        return Err(
            "--record needs a plan to record: --delay, --capacity, --jitter, --slow, --stall or --fail".to_owned()
        );
    }
    Ok(Some(options))
}

fn time(given: &str, name: &str) -> Result<Duration, String> {
    units::duration(given).ok_or_else(|| format!("{name} {given}: a time is needed, as 5ms, 200us or 1.5"))
}

/// The time that one request takes of a server that answers so many in a second.
fn work(given: &str) -> Result<Duration, String> {
    let rate = units::rate(given).filter(|rate| *rate >= 0.001);
    let rate = rate.ok_or_else(|| format!("--capacity {given}: requests a second are needed, as 1000 or 30/min"))?;
    Ok(Duration::from_secs_f64(1.0 / rate))
}

fn slow(given: &str) -> Result<(f64, Duration), String> {
    let (part, slow) = given.split_once(':').unwrap_or((given, ""));
    let read = units::share(part).zip(units::duration(slow));
    read.ok_or_else(|| format!("--slow {given}: PART:TIME is needed, as 10%:50ms"))
}

fn stall(given: &str) -> Result<(Duration, Duration), String> {
    let (length, period) = given.split_once('/').unwrap_or((given, ""));
    let read = units::duration(length).zip(units::duration(period)).filter(|(length, period)| length < period);
    read.ok_or_else(|| format!("--stall {given}: TIME/PERIOD is needed, the period being the longer, as 1s/10s"))
}

fn fault(given: &str) -> Result<(f64, Fault), String> {
    let (kind, part) = given.split_once(':').unwrap_or((given, ""));
    let read = units::share(part).zip(Fault::parse(kind));
    read.ok_or_else(|| {
        format!("--fail {given}: KIND:PART is needed, as 503:1%; kinds are a status, reset, close, short, silent, length, content")
    })
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

fn value(parser: &mut lexopt::Parser) -> Result<String, String> {
    parser.value().map_err(text)?.string().map_err(text)
}

fn number(parser: &mut lexopt::Parser, name: &str, least: usize, most: usize) -> Result<usize, String> {
    let given = value(parser)?;
    let number = given.parse::<usize>().ok().filter(|number| (least..=most).contains(number));
    number.ok_or_else(|| format!("{name} {given}: a whole number from {least} to {most} is needed"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<Option<Options>, String> {
        parse(line.split_whitespace().map(OsString::from))
    }

    #[test]
    fn lines_are_read() {
        assert_eq!(read("--target-server"), Ok(Some(Options::default())));
        let line = "--target-server --listen [::1]:81 --body 139264 --sendfile --defer-accept --max-connections 5";
        let expected = Options {
            listen: "[::1]:81".parse().expect("an address"),
            body: 139_264,
            sendfile: true,
            defer_accept: true,
            max_connections: 5,
            ..Options::default()
        };
        assert_eq!(read(line), Ok(Some(expected)));
        let line = "--target-server --delay 5ms --jitter 200us --capacity 8000 --slow 10%:50ms --stall 1s/10s --fail 503:1% --fail reset:0.5 --seed 9 --record f";
        let ms = Duration::from_millis;
        let plan = Plan {
            delay: ms(5),
            jitter: Duration::from_micros(200),
            work: Duration::from_micros(125),
            slow: Some((0.1, ms(50))),
            stall: Some((ms(1000), ms(10_000))),
            faults: vec![(0.01, Fault::Status(503)), (0.5, Fault::Reset)],
            seed: 9,
        };
        assert_eq!(read(line), Ok(Some(Options { plan, record: Some("f".into()), ..Options::default() })));
        assert_eq!(read("--target-server --help"), Ok(None));
    }

    #[test]
    fn mistakes_are_named() {
        for (line, part) in [
            ("--target-server --listen 8080", "as 127.0.0.1:8080"),
            ("--target-server --body -1", "from 0 to"),
            ("--target-server --sendfile --body 0", "needs a body"),
            ("--target-server -c 10", "no load to describe"),
            ("--target-server --slow 50ms", "as 10%:50ms"),
            ("--target-server --stall 10s/1s", "the longer"),
            ("--target-server --fail teapot:1%", "kinds are"),
            ("--target-server --fail 500:60% --fail reset:60%", "more than the whole"),
            ("--target-server --record f", "a plan to record"),
            ("http://h/ --target-server", "no load to describe"),
        ] {
            let said = read(line).expect_err(line);
            assert!(said.contains(part), "{line}: {said}");
        }
    }
}
