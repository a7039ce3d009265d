//! Real clients: how to run each so that it makes a given number of requests, and what its report says.

use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::server::Server;

/// What a client's own report counts.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Requests that were answered.
    pub done: u64,
    /// Whatever it counts as wrong: failures, errors, timeouts, answers other than 2xx.
    pub failed: u64,
    /// Bytes of bodies, where it tells them.
    pub body_bytes: Option<u64>,
}

/// A real client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tool {
    /// ApacheBench.
    Ab,
    /// Siege.
    Siege,
    /// wrk.
    Wrk,
    /// h2load, speaking HTTP/1.1.
    H2load,
}

/// What a client is to do.
#[derive(Debug, Clone, Copy)]
pub struct Load {
    /// Requests in all.
    pub requests: u64,
    /// Connections at once.
    pub connections: u64,
    /// Whether a connection carries more than one request.
    pub keep_alive: bool,
}

/// wrk runs for a time, not for a number; it is run again until the number is reached, at most so often.
const WRK_RUNS_MAX: u32 = 60;

impl Tool {
    /// All of them.
    pub const ALL: [Tool; 4] = [Tool::Ab, Tool::Siege, Tool::Wrk, Tool::H2load];

    /// Makes at least `requests` requests for a path, one connection each or all on kept ones.
    ///
    /// # Errors
    /// When the tool cannot be run, fails, or reports something else than expected.
    pub fn run(self, server: &Server, path: &str, requests: u64, keep_alive: bool) -> Result<Tally> {
        self.run_on(server, path, Load { requests, connections: 20, keep_alive })
    }

    /// As [`run`](Self::run), with the number of connections given.
    ///
    /// # Errors
    /// As `run`.
    pub fn run_on(self, server: &Server, path: &str, load: Load) -> Result<Tally> {
        match self {
            Tool::Siege => siege(server, &server.url(path), load),
            _ => self.run_at(&server.url(path), load),
        }
    }

    /// As `run_on`, against any server.
    ///
    /// # Errors
    /// As `run`; and siege, which needs a folder of its own, cannot be run so.
    pub fn run_at(self, url: &str, load: Load) -> Result<Tally> {
        match self {
            Tool::Ab => ab(url, load),
            Tool::Siege => bail!("siege needs a folder of its own"),
            Tool::Wrk => wrk(url, load),
            Tool::H2load => h2load(url, load),
        }
    }
}

/// Runs a program to its end and returns what it printed on standard output.
///
/// # Errors
/// When it cannot be started or does not succeed; then with all it printed.
pub fn stdout(command: &mut Command) -> Result<String> {
    let output = command.stdin(Stdio::null()).output().with_context(|| {
        format!("cannot start {}; `cargo xtask setup` installs it", command.get_program().to_string_lossy())
    })?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if !output.status.success() {
        bail!("{command:?} failed: {}\n{text}{}", output.status, String::from_utf8_lossy(&output.stderr));
    }
    Ok(text)
}

fn ab(url: &str, load: Load) -> Result<Tally> {
    let mut command = Command::new("ab");
    command.args(["-q", "-n", &load.requests.to_string(), "-c", &load.connections.to_string()]);
    if load.keep_alive {
        command.arg("-k");
    }
    parse_ab(&stdout(command.arg(url))?)
}

fn parse_ab(report: &str) -> Result<Tally> {
    let number = |label| number_after(report, label);
    let complete = number("Complete requests:").context("ab reports no complete requests")?;
    let failed = number("Failed requests:").context("ab reports no failed requests")?;
    let failed = failed + number("Non-2xx responses:").unwrap_or(0) + number("Write errors:").unwrap_or(0);
    Ok(Tally { done: complete, failed, body_bytes: number("HTML transferred:") })
}

fn siege(server: &Server, url: &str, load: Load) -> Result<Tally> {
    let rc = server.dir.path("siegerc");
    let connection = if load.keep_alive { "keep-alive" } else { "close" };
    let settings =
        "verbose = false\nquiet = true\nparser = false\nshow-logfile = false\nlogging = false\nbenchmark = true\n";
    std::fs::write(&rc, format!("{settings}json_output = true\nconnection = {connection}\n"))?;
    let mut command = Command::new("siege");
    // It writes a folder of its own into the home folder.
    command.env("HOME", server.dir.path("")).arg("-R").arg(rc);
    command.args([
        "-b",
        "-c",
        &load.connections.to_string(),
        "-r",
        &load.requests.div_ceil(load.connections).to_string(),
        url,
    ]);
    parse_siege(&stdout(&mut command)?)
}

fn parse_siege(report: &str) -> Result<Tally> {
    // The first run in a new home folder says so before the JSON.
    let json = &report[report.find('{').context("siege printed no JSON")?..];
    let value: serde_json::Value = serde_json::from_str(json).context("siege printed broken JSON")?;
    let number = |key: &str| value[key].as_u64().with_context(|| format!("siege reports no {key}"));
    Ok(Tally { done: number("transactions")?, failed: number("failed_transactions")?, body_bytes: None })
}

fn wrk(url: &str, load: Load) -> Result<Tally> {
    let mut total = Tally::default();
    for _ in 0..WRK_RUNS_MAX {
        let mut command = Command::new("wrk");
        command.args(["-t", "1", "-d", "1s", "-c", &load.connections.to_string()]);
        if !load.keep_alive {
            command.args(["-H", "Connection: close"]);
        }
        let tally = parse_wrk(&stdout(command.arg(url))?)?;
        total.done += tally.done;
        total.failed += tally.failed;
        if total.done >= load.requests {
            return Ok(total);
        }
    }
    bail!("wrk made {} requests in {WRK_RUNS_MAX} seconds", total.done)
}

fn parse_wrk(report: &str) -> Result<Tally> {
    let done = report.lines().find(|line| line.contains(" requests in ")).context("wrk reports no requests")?;
    let errors = report.lines().find_map(|line| line.trim().strip_prefix("Socket errors:"));
    let failed = errors.map_or(0, |errors| numbers(errors).sum())
        + number_after(report, "Non-2xx or 3xx responses:").unwrap_or(0);
    Ok(Tally { done: numbers(done).next().context("wrk reports no number")?, failed, body_bytes: None })
}

fn h2load(url: &str, load: Load) -> Result<Tally> {
    let mut command = Command::new("h2load");
    command.args(["--h1", "-t", "1", "-n", &load.requests.to_string(), "-c", &load.connections.to_string()]);
    if !load.keep_alive {
        command.args(["-H", "Connection: close"]);
    }
    parse_h2load(&stdout(command.arg(url))?)
}

fn parse_h2load(report: &str) -> Result<Tally> {
    let line = |start: &str| report.lines().find_map(|line| line.strip_prefix(start));
    // requests: 9 total, 9 started, 9 done, 9 succeeded, 0 failed, 0 errored, 0 timeout
    let requests: Vec<u64> = numbers(line("requests:").context("h2load reports no requests")?).collect();
    // status codes: 9 2xx, 0 3xx, 0 4xx, 0 5xx
    let codes = line("status codes:").context("h2load reports no status codes")?;
    let [_, _, _, succeeded, failed, errored, timeout] = requests[..] else { bail!("h2load's requests: {requests:?}") };
    let good = numbers(codes).next().context("h2load's status codes")?;
    Ok(Tally { done: succeeded, failed: failed + errored + timeout + succeeded.abs_diff(good), body_bytes: None })
}

/// The number behind a label at the start of a line.
fn number_after(report: &str, label: &str) -> Option<u64> {
    report.lines().find_map(|line| numbers(line.trim().strip_prefix(label)?).next())
}

/// The whole numbers of a text, in order.
fn numbers(text: &str) -> impl Iterator<Item = u64> {
    text.split(|c: char| !c.is_ascii_digit()).filter_map(|word| word.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(parse: fn(&str) -> Result<Tally>, report: &str, done: u64, failed: u64, body_bytes: Option<u64>) {
        assert_eq!(parse(report).unwrap(), Tally { done, failed, body_bytes });
    }

    #[test]
    fn reports_of_ab_are_understood() {
        let report = "Complete requests:      100\nFailed requests:        7\n   (Connect: 0, Receive: 0, Length: 7, Exceptions: 0)\n\
                      Non-2xx responses:      3\nHTML transferred:       4400 bytes\n";
        check(parse_ab, report, 100, 10, Some(4400));
        assert!(parse_ab("apr_socket_recv: Connection refused (111)\n").is_err());
    }

    #[test]
    fn reports_of_siege_are_understood() {
        let report = "New configuration template added\n{\t\"transactions\":\t\t\t100,\n\t\"availability\":\t99.0,\n\t\"failed_transactions\":\t1\n}\n";
        check(parse_siege, report, 100, 1, None);
    }

    #[test]
    fn reports_of_wrk_are_understood() {
        let report = "  1 threads and 20 connections\n  10412 requests in 1.00s, 2.73MB read\n  Socket errors: connect 1, read 2, write 3, timeout 4\n  \
                      Non-2xx or 3xx responses: 5\nRequests/sec: 10399.72\n";
        check(parse_wrk, report, 10_412, 15, None);
        check(parse_wrk, "  7 requests in 1.00s, 2.73MB read\n", 7, 0, None);
    }

    #[test]
    fn reports_of_h2load_are_understood() {
        let report = "requests: 9 total, 9 started, 9 done, 8 succeeded, 1 failed, 0 errored, 0 timeout\nstatus codes: 7 2xx, 0 3xx, 1 4xx, 0 5xx\n";
        check(parse_h2load, report, 8, 2, None);
    }
}
