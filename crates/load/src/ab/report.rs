//! ab's report as text: figures in, the very bytes out.

use std::fmt::{self, Write};

use super::collect::Counts;
use super::distribution::Sorted;

/// Percentages of the table.
const PERCENTAGES: [u64; 9] = [50, 66, 75, 80, 90, 95, 98, 99, 100];

/// Everything the report shows.
#[derive(Clone, Debug, Default)]
pub struct Figures {
    /// Product name of the server, empty if unknown.
    pub server: String,
    /// Host as asked for.
    pub host: String,
    /// Port.
    pub port: u16,
    /// The lines on TLS, if there is any.
    pub tls: String,
    /// Path as asked for.
    pub path: String,
    /// Body length of the first answer; `None` where lengths may vary.
    pub length: Option<u64>,
    /// Connections at the same time.
    pub concurrency: u64,
    /// Time of the whole run in microseconds.
    pub taken_us: u64,
    /// Counts.
    pub counts: Counts,
    /// Connections were kept (`-k`).
    pub keep_alive: bool,
    /// A body was sent (`-p`, `-u`).
    pub sends_body: bool,
    /// Connecting.
    pub connect: Sorted,
    /// From the connection to the end of the answer.
    pub processing: Sorted,
    /// From the end of the request to the first byte of the answer.
    pub waiting: Sorted,
    /// All of it.
    pub total: Sorted,
}

/// Parts of the report that can be left out.
#[derive(Clone, Copy, Debug)]
pub struct Shown {
    /// The table of percentiles.
    pub percentiles: bool,
    /// Deviation, median and the warnings.
    pub confidence: bool,
}

impl Figures {
    /// Seconds of the whole run.
    pub fn seconds(&self) -> f64 {
        self.taken_us.max(1) as f64 / 1e6
    }

    /// The Document Length line's value.
    pub fn document_length(&self) -> String {
        self.length.map_or_else(|| "Variable".to_owned(), |length| format!("{length} bytes"))
    }
}

/// The report from the two blank lines on.
pub fn render(figures: &Figures, shown: Shown) -> String {
    let mut text = String::new();
    let written = lines(&mut text, figures).and_then(|()| times(&mut text, figures, shown));
    debug_assert!(written.is_ok(), "writing to a String cannot fail");
    text
}

fn lines(out: &mut String, figures: &Figures) -> fmt::Result {
    let counts = &figures.counts;
    writeln!(out, "\n\nServer Software:        {}", figures.server)?;
    writeln!(out, "Server Hostname:        {}", figures.host)?;
    writeln!(out, "Server Port:            {}\n{}", figures.port, figures.tls)?;
    writeln!(out, "Document Path:          {}", figures.path)?;
    writeln!(out, "Document Length:        {}\n", figures.document_length())?;
    writeln!(out, "Concurrency Level:      {}", figures.concurrency)?;
    writeln!(out, "Time taken for tests:   {:.3} seconds", figures.seconds())?;
    writeln!(out, "Complete requests:      {}", counts.done)?;
    writeln!(out, "Failed requests:        {}", counts.failed)?;
    if counts.failed > 0 {
        let Counts { connect, receive, length, exceptions, .. } = counts;
        writeln!(out, "   (Connect: {connect}, Receive: {receive}, Length: {length}, Exceptions: {exceptions})")?;
    }
    if counts.write > 0 {
        writeln!(out, "Write errors:           {}", counts.write)?;
    }
    if counts.non_2xx > 0 {
        writeln!(out, "Non-2xx responses:      {}", counts.non_2xx)?;
    }
    if figures.keep_alive {
        writeln!(out, "Keep-Alive requests:    {}", counts.kept_alive)?;
    }
    writeln!(out, "Total transferred:      {} bytes", counts.received)?;
    if figures.sends_body {
        writeln!(out, "Total body sent:        {}", counts.sent)?;
    }
    writeln!(out, "HTML transferred:       {} bytes", counts.body)?;
    if counts.done > 0 { rates(out, figures) } else { Ok(()) }
}

fn rates(out: &mut String, figures: &Figures) -> fmt::Result {
    let seconds = figures.seconds();
    let done = figures.counts.done as f64;
    let kilobytes = |bytes: u64| bytes as f64 / 1024.0 / seconds;
    writeln!(out, "Requests per second:    {:.2} [#/sec] (mean)", done / seconds)?;
    writeln!(out, "Time per request:       {:.3} [ms] (mean)", figures.concurrency as f64 * seconds * 1000.0 / done)?;
    writeln!(
        out,
        "Time per request:       {:.3} [ms] (mean, across all concurrent requests)",
        seconds * 1000.0 / done
    )?;
    writeln!(out, "Transfer rate:          {:.2} [Kbytes/sec] received", kilobytes(figures.counts.received))?;
    if figures.sends_body {
        let Counts { received, sent, .. } = figures.counts;
        writeln!(out, "                        {:.2} kb/s sent", kilobytes(sent))?;
        writeln!(out, "                        {:.2} kb/s total", kilobytes(received + sent))?;
    }
    Ok(())
}

fn times(out: &mut String, figures: &Figures, shown: Shown) -> fmt::Result {
    if figures.counts.done == 0 {
        return Ok(());
    }
    writeln!(out, "\nConnection Times (ms)")?;
    let rows = [
        ("Connect:", "the initial connection time", &figures.connect),
        ("Processing:", "the processing time", &figures.processing),
        ("Waiting:", "the waiting time", &figures.waiting),
        ("Total:", "the total time", &figures.total),
    ];
    if shown.confidence {
        writeln!(out, "              min  mean[+/-sd] median   max")?;
        for (name, _, sorted) in &rows {
            let [min, mean, median, max] =
                [sorted.min(), sorted.mean(), sorted.median(), sorted.max()].map(milliseconds);
            writeln!(out, "{name:<11} {min:>5} {mean:>4} {:>5.1} {median:>6} {max:>7}", sorted.deviation() / 1000.0)?;
        }
        for (_, what, sorted) in &rows {
            doubt(out, what, sorted)?;
        }
    } else {
        writeln!(out, "              min   avg   max")?;
        for (name, _, sorted) in &rows {
            let [min, mean, max] = [sorted.min(), sorted.mean(), sorted.max()].map(milliseconds);
            writeln!(out, "{name:<11} {min:>5} {mean:>5}{max:>5}")?;
        }
    }
    if shown.percentiles && figures.counts.done > 1 { percentiles(out, &figures.total) } else { Ok(()) }
}

/// The warning where mean and median, both in whole milliseconds, are too far apart.
fn doubt(out: &mut String, what: &str, sorted: &Sorted) -> fmt::Result {
    let apart = (milliseconds(sorted.mean()) as f64 - milliseconds(sorted.median()) as f64).abs();
    let deviation = sorted.deviation() / 1000.0;
    if apart > 2.0 * deviation {
        writeln!(out, "ERROR: The median and mean for {what} are more than twice the standard")?;
        writeln!(out, "       deviation apart. These results are NOT reliable.")
    } else if apart > deviation {
        writeln!(out, "WARNING: The median and mean for {what} are not within a normal deviation")?;
        writeln!(out, "        These results are probably not that reliable.")
    } else {
        Ok(())
    }
}

fn percentiles(out: &mut String, total: &Sorted) -> fmt::Result {
    writeln!(out, "\nPercentage of the requests served within a certain time (ms)")?;
    for percentage in PERCENTAGES {
        if percentage == 100 {
            writeln!(out, " 100%  {:>5} (longest request)", milliseconds(total.max()))?;
        } else {
            writeln!(out, "  {percentage}%  {:>5}", milliseconds(total.at(total.count * percentage / 100)))?;
        }
    }
    Ok(())
}

/// The percentiles of the total time that were asked for, in milliseconds to the microsecond.
pub fn percentiles_asked(total: &Sorted, asked: &[(String, f64)]) -> String {
    let mut text = String::from("\nPercentiles of the total time (ms)\n");
    for (written, percentage) in asked {
        // The nearest rank: the shortest time within which so many were served.
        let rank = (percentage / 100.0 * total.count as f64).ceil().max(1.0) as u64 - 1;
        text.push_str(&format!("{written:>8}%  {:>12.3}\n", total.at(rank) as f64 / 1000.0));
    }
    text
}

/// Microseconds as whole milliseconds, rounded to the nearest.
pub fn milliseconds(microseconds: u64) -> u64 {
    (microseconds + 500) / 1000
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ab::distribution::Distribution;

    fn sorted(values: &[u64]) -> Sorted {
        let mut distribution = Distribution::default();
        values.iter().for_each(|value| distribution.record(*value));
        distribution.sorted()
    }

    fn figures() -> Figures {
        let total: Vec<u64> = (1..=200).map(|n| n * 100).collect();
        Figures {
            server: "nginx/1.22.1".into(),
            host: "127.0.0.1".into(),
            port: 38417,
            path: "/".into(),
            length: Some(45),
            concurrency: 10,
            taken_us: 7027,
            counts: Counts { done: 200, kept_alive: 200, received: 56200, body: 9000, ..Counts::default() },
            keep_alive: true,
            connect: sorted(&[0; 200]),
            processing: sorted(&total),
            waiting: sorted(&total),
            total: sorted(&total),
            ..Figures::default()
        }
    }

    const ALL: Shown = Shown { percentiles: true, confidence: true };

    #[test]
    fn the_whole_report() {
        let expected = "

Server Software:        nginx/1.22.1
Server Hostname:        127.0.0.1
Server Port:            38417

Document Path:          /
Document Length:        45 bytes

Concurrency Level:      10
Time taken for tests:   0.007 seconds
Complete requests:      200
Failed requests:        0
Keep-Alive requests:    200
Total transferred:      56200 bytes
HTML transferred:       9000 bytes
Requests per second:    28461.65 [#/sec] (mean)
Time per request:       0.351 [ms] (mean)
Time per request:       0.035 [ms] (mean, across all concurrent requests)
Transfer rate:          7810.28 [Kbytes/sec] received

Connection Times (ms)
              min  mean[+/-sd] median   max
Connect:        0    0   0.0      0       0
Processing:     0   10   5.8     10      20
Waiting:        0   10   5.8     10      20
Total:          0   10   5.8     10      20

Percentage of the requests served within a certain time (ms)
  50%     10
  66%     13
  75%     15
  80%     16
  90%     18
  95%     19
  98%     20
  99%     20
 100%     20 (longest request)
";
        assert_eq!(render(&figures(), ALL), expected);
    }

    #[test]
    fn lines_that_come_only_with_their_reason() {
        let mut figures = figures();
        figures.length = None;
        figures.keep_alive = false;
        figures.sends_body = true;
        figures.counts = Counts {
            done: 200,
            failed: 7,
            connect: 1,
            receive: 2,
            length: 3,
            exceptions: 4,
            write: 5,
            non_2xx: 6,
            received: 1_024_000,
            body: 9,
            sent: 512_000,
            ..Counts::default()
        };
        figures.taken_us = 2_000_000;
        let text = render(&figures, Shown { percentiles: false, confidence: false });
        let expected = "\
Document Length:        Variable

Concurrency Level:      10
Time taken for tests:   2.000 seconds
Complete requests:      200
Failed requests:        7
   (Connect: 1, Receive: 2, Length: 3, Exceptions: 4)
Write errors:           5
Non-2xx responses:      6
Total transferred:      1024000 bytes
Total body sent:        512000
HTML transferred:       9 bytes
Requests per second:    100.00 [#/sec] (mean)
Time per request:       100.000 [ms] (mean)
Time per request:       10.000 [ms] (mean, across all concurrent requests)
Transfer rate:          500.00 [Kbytes/sec] received
                        250.00 kb/s sent
                        750.00 kb/s total

Connection Times (ms)
              min   avg   max
Connect:        0     0    0
Processing:     0    10   20
Waiting:        0    10   20
Total:          0    10   20
";
        assert_eq!(text.split_once("/\n").unwrap().1, expected);
    }

    #[test]
    fn doubts_compare_whole_milliseconds() {
        let check = |values: &[u64], expected: &str| {
            let mut text = String::new();
            doubt(&mut text, "x", &sorted(values)).unwrap();
            assert_eq!(text.split(':').next().unwrap(), expected, "{values:?}");
        };
        check(&[499, 499, 502], "ERROR");
        check(&[1000, 1000, 1000, 9000, 9000, 90_000], "");
        check(&[0, 0, 499, 1500, 1500], "WARNING");
    }

    #[test]
    fn percentiles_are_those_of_the_nearest_rank() {
        let total = sorted(&(1..=1000).collect::<Vec<u64>>());
        let asked =
            [("0".to_owned(), 0.0), ("50".to_owned(), 50.0), ("99.95".to_owned(), 99.95), ("100".to_owned(), 100.0)];
        let expected = "\nPercentiles of the total time (ms)\n       0%         0.001\n      50%         0.500\n   99.95%         1.000\n     100%         1.000\n";
        assert_eq!(percentiles_asked(&total, &asked), expected);
    }

    #[test]
    fn without_a_completed_request_there_are_no_rates() {
        let figures = Figures { host: "h".into(), port: 80, path: "/".into(), length: Some(0), ..Figures::default() };
        let text = render(&figures, ALL);
        assert!(text.ends_with("HTML transferred:       0 bytes\n"), "{text}");
    }
}
