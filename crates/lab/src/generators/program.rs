//! The generators that can be measured, as data: how each is found, told the load, and understood.

use std::path::{Path, PathBuf};

use manifold_load::report::Report;
use serde_json::Value;

use super::plan::{Over, Work};
use crate::target::{first_line, which};

/// A generator.
#[derive(Debug)]
pub struct Program {
    /// The name on the command line and in the files.
    pub name: &'static str,
    /// The name a person reads.
    pub label: &'static str,
    /// Its file in PATH and how to get it; `None` for this binary.
    pub file: Option<(&'static str, &'static str)>,
    /// The argument on which it says its version.
    version: &'static str,
    /// What it is measured with.
    pub speaks: &'static [Over],
    /// Its arguments.
    pub arguments: fn(&Job<'_>) -> Vec<String>,
    /// What it says to have done.
    pub tally: fn(&str) -> Option<Tally>,
}

/// What a generator is to do.
#[derive(Clone, Copy, Debug)]
pub struct Job<'a> {
    /// Where to.
    pub url: &'a str,
    /// How.
    pub work: Work,
    /// How long.
    pub seconds: u32,
    /// Threads, of those that ask.
    pub threads: usize,
    /// siege's settings.
    pub siegerc: &'a Path,
}

/// What a generator says to have done.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Tally {
    /// Requests answered.
    pub done: u64,
    /// Requests that failed, in whatever way.
    pub failed: u64,
}

/// A generator that is there.
#[derive(Clone, Debug)]
pub struct Found {
    /// The generator.
    pub program: &'static Program,
    /// Its file.
    pub path: PathBuf,
    /// What it says of itself.
    pub version: String,
}

const PLAIN: &[Over] = &[Over::Plain];
const SECURED: &[Over] = &[Over::Plain, Over::Tls];
const ALL: &[Over] = &[Over::Plain, Over::Tls, Over::Http2];

/// All of them, in the order of the tables.
pub static PROGRAMS: [Program; 9] = [
    Program {
        name: "load",
        label: "manifold load",
        file: None,
        version: "",
        speaks: ALL,
        arguments: load,
        tally: tally_load,
    },
    Program {
        name: "manifold-ab",
        label: "manifold ab",
        file: None,
        version: "",
        speaks: PLAIN,
        arguments: our_ab,
        tally: tally_ab,
    },
    Program {
        name: "manifold-siege",
        label: "manifold siege",
        file: None,
        version: "",
        speaks: PLAIN,
        arguments: our_siege,
        tally: tally_siege,
    },
    Program {
        name: "wrk",
        label: "wrk",
        file: Some(("wrk", "Debian: apt install wrk")),
        version: "-v",
        speaks: SECURED,
        arguments: wrk,
        tally: tally_wrk,
    },
    Program {
        name: "h2load",
        label: "h2load",
        file: Some(("h2load", "Debian: apt install nghttp2-client")),
        version: "--version",
        speaks: ALL,
        arguments: h2load,
        tally: tally_h2load,
    },
    Program {
        name: "oha",
        label: "oha",
        file: Some(("oha", "cargo install oha --locked")),
        version: "--version",
        speaks: SECURED,
        arguments: oha,
        tally: tally_oha,
    },
    Program {
        name: "bombardier",
        label: "bombardier",
        file: Some((
            "bombardier",
            "go install github.com/codesenberg/bombardier@latest; Debian's package of this name is another program",
        )),
        version: "--version",
        speaks: PLAIN,
        arguments: bombardier,
        tally: tally_bombardier,
    },
    Program {
        name: "ab",
        label: "ab",
        file: Some(("ab", "Debian: apt install apache2-utils")),
        version: "-V",
        speaks: SECURED,
        arguments: ab,
        tally: tally_ab,
    },
    Program {
        name: "siege",
        label: "siege",
        file: Some(("siege", "Debian: apt install siege")),
        version: "-V",
        speaks: PLAIN,
        arguments: siege,
        tally: tally_siege,
    },
];

/// More than any of them makes in a second: those that must be told a number are stopped by the time.
const REQUESTS_A_SECOND_MAX: u64 = 1_000_000;
/// Requests a second of h2load, which does not end when it is told a time and connections are closed; without TLS and with it.
const H2LOAD_CLOSING_A_SECOND: [u64; 2] = [15_000, 3_000];

impl Program {
    /// Looks for it. `manifold` is this binary.
    ///
    /// # Errors
    /// A sentence: it is missing, and how to get it.
    pub fn detect(&'static self, manifold: &Path) -> Result<Found, String> {
        let (path, version) = match self.file {
            None => (manifold.to_owned(), format!("Manifold {}", env!("CARGO_PKG_VERSION"))),
            Some((file, way)) => {
                let path = which(file).ok_or_else(|| format!("{file} is not in PATH ({way})"))?;
                let version = first_line(&path, self.version, "")?;
                let version = version.strip_prefix("This is ").unwrap_or(&version).to_owned();
                // On a machine where our own binary is linked as `ab` or `siege`, that is no other program.
                if version.contains("Manifold") {
                    return Err(format!("{} is Manifold's own", path.display()));
                }
                (path, version)
            }
        };
        Ok(Found { program: self, path, version })
    }
}

fn words(parts: &[&str]) -> Vec<String> {
    parts.iter().map(|part| (*part).to_owned()).collect()
}

/// `words`, with more where connections are kept, or where they are closed.
fn by_mode(job: &Job<'_>, mut words: Vec<String>, kept: &[&str], closed: &[&str]) -> Vec<String> {
    let more = if job.work.keep_alive { kept } else { closed };
    words.extend(more.iter().map(|word| (*word).to_owned()));
    words
}

fn load(job: &Job<'_>) -> Vec<String> {
    let (connections, seconds, threads) =
        (job.work.connections.to_string(), job.seconds.to_string(), job.threads.to_string());
    let mut all = words(&["load", job.url, "-c", &connections, "-t", &seconds, "--threads", &threads, "--json"]);
    match job.work.over {
        Over::Plain => {}
        Over::Tls => all.push("--insecure".to_owned()),
        Over::Http2 => {
            all.extend(words(&["--http2", "--streams", &job.work.streams.to_string()]));
            return all;
        }
    }
    by_mode(job, all, &["-k"], &[])
}

fn our_ab(job: &Job<'_>) -> Vec<String> {
    [words(&["ab"]), ab(job)].concat()
}

/// A number of requests behind the time counts, one before it would not.
fn ab(job: &Job<'_>) -> Vec<String> {
    let number = (u64::from(job.seconds) * REQUESTS_A_SECOND_MAX).to_string();
    let (seconds, connections) = (job.seconds.to_string(), job.work.connections.to_string());
    let all = words(&["-q", "-t", &seconds, "-n", &number, "-c", &connections]);
    [by_mode(job, all, &["-k"], &[]), words(&[job.url])].concat()
}

fn our_siege(job: &Job<'_>) -> Vec<String> {
    [words(&["siege"]), siege(job)].concat()
}

fn siege(job: &Job<'_>) -> Vec<String> {
    let (rc, seconds) = (job.siegerc.display().to_string(), format!("{}S", job.seconds));
    words(&["-R", &rc, "-b", "-c", &job.work.connections.to_string(), "-t", &seconds, "-j", job.url])
}

/// The settings of both sieges.
pub fn siegerc(keep_alive: bool) -> String {
    let connection = if keep_alive { "keep-alive" } else { "close" };
    format!(
        "verbose = false\nquiet = true\nparser = false\nshow-logfile = false\nlogging = false\nbenchmark = true\n\
         json_output = true\nlimit = 20000\nconnection = {connection}\n"
    )
}

fn wrk(job: &Job<'_>) -> Vec<String> {
    let (threads, connections) = (format!("-t{}", job.threads), format!("-c{}", job.work.connections));
    let all = words(&[&threads, &connections, &format!("-d{}s", job.seconds)]);
    [by_mode(job, all, &[], &["-H", "Connection: close"]), words(&[job.url])].concat()
}

fn h2load(job: &Job<'_>) -> Vec<String> {
    let (threads, connections) = (format!("-t{}", job.threads), format!("-c{}", job.work.connections));
    let seconds = job.seconds.to_string();
    if job.work.over == Over::Http2 {
        return words(&[&threads, &connections, &format!("-m{}", job.work.streams), "-D", &seconds, job.url]);
    }
    let a_second = H2LOAD_CLOSING_A_SECOND[usize::from(job.work.over == Over::Tls)];
    let number = (u64::from(job.seconds) * a_second).to_string();
    let all = words(&["--h1", &threads, &connections]);
    let all = by_mode(job, all, &["-D", &seconds], &["-n", &number, "-H", "Connection: close"]);
    [all, words(&[job.url])].concat()
}

fn oha(job: &Job<'_>) -> Vec<String> {
    let (seconds, connections) = (format!("{}s", job.seconds), job.work.connections.to_string());
    let mut all = words(&["--no-tui", "--output-format", "json", "-z", &seconds, "-c", &connections]);
    all.extend((job.work.over == Over::Tls).then(|| "--insecure".to_owned()));
    [by_mode(job, all, &[], &["--disable-keepalive"]), words(&[job.url])].concat()
}

fn bombardier(job: &Job<'_>) -> Vec<String> {
    let (seconds, connections) = (format!("{}s", job.seconds), job.work.connections.to_string());
    let all = words(&["-p", "r", "-o", "json", "-d", &seconds, "-c", &connections]);
    // Its option for this, -a, is one of its other client's: the default one goes on keeping connections.
    [by_mode(job, all, &[], &["-H", "Connection: close"]), words(&[job.url])].concat()
}

fn tally_load(text: &str) -> Option<Tally> {
    let report: Report = serde_json::from_str(text).ok()?;
    Some(Tally { done: report.completed, failed: report.errors.total() + report.wrong_status + report.wrong_length })
}

fn tally_ab(text: &str) -> Option<Tally> {
    let number = |label| number_after(text, label);
    let done = number("Complete requests:")?;
    let failed =
        number("Failed requests:")? + number("Non-2xx responses:").unwrap_or(0) + number("Write errors:").unwrap_or(0);
    Some(Tally { done, failed })
}

/// The first run in a new home folder says so before the JSON.
fn tally_siege(text: &str) -> Option<Tally> {
    let value: Value = serde_json::from_str(text.get(text.find('{')?..)?).ok()?;
    Some(Tally { done: value["transactions"].as_u64()?, failed: value["failed_transactions"].as_u64()? })
}

fn tally_wrk(text: &str) -> Option<Tally> {
    let done = numbers(text.lines().find(|line| line.contains(" requests in "))?).next()?;
    let errors = text.lines().find_map(|line| line.trim().strip_prefix("Socket errors:"));
    let failed =
        errors.map_or(0, |errors| numbers(errors).sum()) + number_after(text, "Non-2xx or 3xx responses:").unwrap_or(0);
    Some(Tally { done, failed })
}

/// `requests: 9 total, 9 started, 9 done, 8 succeeded, 1 failed, 0 errored, 0 timeout`
fn tally_h2load(text: &str) -> Option<Tally> {
    let line = text.lines().find_map(|line| line.strip_prefix("requests:"))?;
    let counts: Vec<u64> = numbers(line).collect();
    let [_, _, _, done, failed, errored, timeout] = counts[..] else { return None };
    Some(Tally { done, failed: failed + errored + timeout })
}

/// What it gives up at the end of its time is no failure.
fn tally_oha(text: &str) -> Option<Tally> {
    let value: Value = serde_json::from_str(text).ok()?;
    let sum = |counts: &Value, wanted: &dyn Fn(&str) -> bool| -> Option<u64> {
        let counts = counts.as_object()?.iter().filter(|(name, _)| wanted(name));
        Some(counts.filter_map(|(_, count)| count.as_u64()).sum())
    };
    let statuses = &value["statusCodeDistribution"];
    let (good, bad) = (sum(statuses, &|s| s.starts_with('2'))?, sum(statuses, &|s| !s.starts_with('2'))?);
    let errors = sum(&value["errorDistribution"], &|error| error != "aborted due to deadline").unwrap_or(0);
    Some(Tally { done: good, failed: bad + errors })
}

fn tally_bombardier(text: &str) -> Option<Tally> {
    let result = &serde_json::from_str::<Value>(text).ok()?["result"];
    let failed = ["req1xx", "req3xx", "req4xx", "req5xx", "others"];
    let failed = failed.iter().filter_map(|class| result[class].as_u64()).sum();
    Some(Tally { done: result["req2xx"].as_u64()?, failed })
}

/// The number behind a label at the start of a line.
fn number_after(text: &str, label: &str) -> Option<u64> {
    text.lines().find_map(|line| numbers(line.trim().strip_prefix(label)?).next())
}

/// The whole numbers of a text, in order.
fn numbers(text: &str) -> impl Iterator<Item = u64> {
    text.split(|c: char| !c.is_ascii_digit()).filter_map(|word| word.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::super::plan::{CLOSING, H2_SHARED, H2_SINGLE, KEPT, TLS_CLOSING, TLS_KEPT};
    use super::*;

    fn find(name: &str) -> &'static Program {
        PROGRAMS.iter().find(|program| program.name == name).expect("a program")
    }

    #[test]
    fn command_lines() {
        let check = |name: &str, work: Work, expected: &str| {
            let url = if work.over == Over::Tls { "https://h/" } else { "http://h/" };
            let job = Job { url, work, seconds: 2, threads: 1, siegerc: Path::new("/rc") };
            assert!(find(name).speaks.contains(&work.over), "{name}");
            assert_eq!((find(name).arguments)(&job).join(" "), expected, "{name}");
        };
        check("load", KEPT, "load http://h/ -c 100 -t 2 --threads 1 --json -k");
        check("load", TLS_CLOSING, "load https://h/ -c 100 -t 2 --threads 1 --json --insecure");
        check("load", H2_SHARED, "load http://h/ -c 10 -t 2 --threads 1 --json --http2 --streams 10");
        check("manifold-ab", CLOSING, "ab -q -t 2 -n 2000000 -c 100 http://h/");
        check("ab", TLS_KEPT, "-q -t 2 -n 2000000 -c 100 -k https://h/");
        check("manifold-siege", KEPT, "siege -R /rc -b -c 100 -t 2S -j http://h/");
        check("wrk", CLOSING, "-t1 -c100 -d2s -H Connection: close http://h/");
        check("h2load", KEPT, "--h1 -t1 -c100 -D 2 http://h/");
        check("h2load", CLOSING, "--h1 -t1 -c100 -n 30000 -H Connection: close http://h/");
        check("h2load", TLS_CLOSING, "--h1 -t1 -c100 -n 6000 -H Connection: close https://h/");
        check("h2load", H2_SINGLE, "-t1 -c100 -m1 -D 2 http://h/");
        check("oha", CLOSING, "--no-tui --output-format json -z 2s -c 100 --disable-keepalive http://h/");
        check("oha", TLS_KEPT, "--no-tui --output-format json -z 2s -c 100 --insecure https://h/");
        check("bombardier", CLOSING, "-p r -o json -d 2s -c 100 -H Connection: close http://h/");
    }

    #[test]
    fn reports_are_understood() {
        let check = |name: &str, text: &str, expected: Option<(u64, u64)>| {
            let tally = (find(name).tally)(text);
            assert_eq!(tally, expected.map(|(done, failed)| Tally { done, failed }), "{name}: {text}");
        };
        check("load", include_str!("../../tests/load-report.json"), Some((60_000, 0)));
        check(
            "ab",
            "Complete requests:      100\nFailed requests:        7\nNon-2xx responses:      3\n",
            Some((100, 10)),
        );
        check("ab", "apr_socket_recv: Connection refused (111)\n", None);
        check(
            "siege",
            "New template\n{\t\"transactions\":\t\t\t100,\n\t\"failed_transactions\":\t1\n}\n",
            Some((100, 1)),
        );
        let wrk = "  10412 requests in 1.00s, 2.73MB read\n  Socket errors: connect 1, read 2, write 3, timeout 4\n";
        check("wrk", wrk, Some((10_412, 10)));
        check(
            "h2load",
            "requests: 9 total, 9 started, 9 done, 8 succeeded, 1 failed, 0 errored, 2 timeout\n",
            Some((8, 3)),
        );
        let oha =
            r#"{"statusCodeDistribution":{"200":7,"404":2},"errorDistribution":{"aborted due to deadline":5,"x":1}}"#;
        check("oha", oha, Some((7, 3)));
        check("bombardier", r#"{"result":{"req1xx":0,"req2xx":9,"req4xx":2,"others":1}}"#, Some((9, 3)));
    }
}
