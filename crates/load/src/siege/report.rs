//! What siege prints: a line for each answer, the summary in both dialects, JSON, and siege.log.

use jiff::Zoned;

use super::settings::{Dialect, Settings};

const MEGABYTE: f64 = 1_048_576.0;

/// What users counted, added up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Answers of chains of requests that ended well.
    pub hits: u64,
    /// Answers with a status below 400, or one that asks for a login.
    pub good: u64,
    /// Answers with status 200.
    pub okay: u64,
    /// Answers with a status below 200 or above 299.
    pub non2xx: u64,
    /// Bytes of bodies.
    pub bytes: u64,
    /// Nanoseconds of all answers together.
    pub time: u64,
    /// The longest, nanoseconds.
    pub longest: u64,
    /// The shortest; `None`: there was no answer.
    pub shortest: Option<u64>,
}

impl Tally {
    /// An answer took so long.
    pub fn took(&mut self, nanoseconds: u64) {
        self.time += nanoseconds;
        self.longest = self.longest.max(nanoseconds);
        self.shortest = Some(self.shortest.map_or(nanoseconds, |shortest| shortest.min(nanoseconds)));
    }

    /// Adds another one.
    pub fn add(&mut self, other: &Tally) {
        self.hits += other.hits;
        self.good += other.good;
        self.okay += other.okay;
        self.non2xx += other.non2xx;
        self.bytes += other.bytes;
        self.time += other.time;
        self.longest = self.longest.max(other.longest);
        self.shortest = match (self.shortest, other.shortest) {
            (Some(left), Some(right)) => Some(left.min(right)),
            (left, right) => left.or(right),
        };
    }
}

/// A run's figures.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    pub tally: Tally,
    /// Pages and parts of pages that were not got.
    pub failed: u64,
    /// Nanoseconds.
    pub elapsed: u64,
}

impl Figures {
    /// 0 where nothing was got.
    fn availability(&self) -> f64 {
        let hits = self.tally.hits as f64;
        if self.tally.hits == 0 { 0.0 } else { hits / (hits + self.failed as f64) * 100.0 }
    }

    fn elapsed(&self) -> f64 {
        seconds(self.elapsed)
    }

    fn megabytes(&self) -> f64 {
        self.tally.bytes as f64 / MEGABYTE
    }

    /// Seconds an answer took on average.
    fn response_time(&self) -> f64 {
        quotient(seconds(self.tally.time), self.tally.hits as f64)
    }

    /// Hits a second.
    pub fn rate(&self) -> f64 {
        quotient(self.tally.hits as f64, self.elapsed())
    }

    fn throughput(&self) -> f64 {
        quotient(self.megabytes(), self.elapsed())
    }

    fn concurrency(&self) -> f64 {
        quotient(seconds(self.tally.time), self.elapsed())
    }

    fn longest(&self) -> f64 {
        seconds(self.tally.longest)
    }

    fn shortest(&self) -> f64 {
        seconds(self.tally.shortest.unwrap_or(0))
    }
}

fn seconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e9
}

/// 0 where there is nothing to divide by.
fn quotient(of: f64, by: f64) -> f64 {
    if by > 0.0 { of / by } else { 0.0 }
}

/// The summary on standard error.
pub fn summary(figures: &Figures, settings: &Settings) -> String {
    let mut text = format!("\nTransactions:\t\t{:12} hits\n", figures.tally.hits);
    let mut row = |label: &str, value: f64, unit: &str| text.push_str(&format!("{label}{value:12.2}{unit}\n"));
    row("Availability:\t\t", figures.availability(), " %");
    row("Elapsed time:\t\t", figures.elapsed(), " secs");
    row("Data transferred:\t", figures.megabytes(), " MB");
    let milliseconds = settings.dialect == Dialect::Milliseconds;
    let (response, unit) =
        if milliseconds { (figures.response_time() * 1e3, " ms") } else { (figures.response_time(), " secs") };
    row("Response time:\t\t", response, unit);
    row("Transaction rate:\t", figures.rate(), " trans/sec");
    row("Throughput:\t\t", figures.throughput(), " MB/sec");
    row("Concurrency:\t\t", figures.concurrency(), "");
    text.push_str(&format!("Successful transactions:{:12}\n", figures.tally.good));
    if settings.debug {
        text.push_str(&format!("HTTP OK received:\t{:12}\n", figures.tally.okay));
    }
    text.push_str(&format!("Failed transactions:\t{:12}\n", figures.failed));
    for (label, value) in [("Longest", figures.longest()), ("Shortest", figures.shortest())] {
        let (value, unit) = if milliseconds { (value * 1e3, " ms") } else { (value, "") };
        text.push_str(&format!("{label} transaction:\t{value:12.2}{unit}\n"));
    }
    text.push_str(" \n");
    text
}

/// The same as JSON on standard output; seconds in both dialects.
pub fn json(figures: &Figures, settings: &Settings) -> String {
    let number = |value: f64| format!("{value:12.2}");
    let count = |value: u64| format!("{value:12}");
    let mut rows = vec![
        ("transactions\":\t\t\t", count(figures.tally.hits)),
        ("availability\":\t\t\t", number(figures.availability())),
        ("elapsed_time\":\t\t\t", number(figures.elapsed())),
        ("data_transferred\":\t\t", number(figures.megabytes())),
        ("response_time\":\t\t", number(figures.response_time())),
        ("transaction_rate\":\t\t", number(figures.rate())),
        ("throughput\":\t\t\t", number(figures.throughput())),
        ("concurrency\":\t\t\t", number(figures.concurrency())),
        ("successful_transactions\":\t", count(figures.tally.good)),
    ];
    if settings.debug {
        rows.push(("http_ok_received\":\t\t", count(figures.tally.okay)));
    }
    rows.extend([
        ("failed_transactions\":\t\t", count(figures.failed)),
        ("longest_transaction\":\t\t", number(figures.longest())),
        ("shortest_transaction\":\t\t", number(figures.shortest())),
    ]);
    let rows: Vec<String> = rows.into_iter().map(|(label, value)| format!("\t\"{label}{value}")).collect();
    format!("{{{}\n}}\n", rows.join(",\n"))
}

/// What is added to siege.log: its headings first where it is `empty`, then the mark, then the run.
pub fn log(figures: &Figures, settings: &Settings, aborted: bool, empty: bool, now: &Zoned) -> String {
    let mut text = String::new();
    if empty {
        text.push_str("      Date & Time,  Trans,  Elap Time,  Data Trans,  Resp Time,  Trans Rate,  Throughput,  Concurrent,    OKAY,   Failed\n");
    }
    if let Some(mark) = &settings.mark {
        text.push_str(&format!("**** {mark} ****\n"));
    }
    text.push_str(&format!(
        "{},{:7},{:11.2},{:12},{:11.2},{:12.2},{:12.2},{:12.2},{:8},{:8}\n",
        now.strftime("%Y-%m-%d %H:%M:%S"),
        figures.tally.hits,
        figures.elapsed(),
        figures.megabytes() as u64,
        figures.response_time(),
        figures.rate(),
        figures.throughput(),
        figures.concurrency(),
        figures.tally.good,
        figures.failed
    ));
    if aborted {
        text.push_str("**** siege aborted due to excessive socket failure. ****\n");
    }
    text
}

/// An answer, as its line tells it.
#[derive(Clone, Copy, Debug)]
pub struct Hit<'h> {
    pub user: usize,
    pub version: &'h str,
    pub status: u16,
    pub nanoseconds: u64,
    pub bytes: u64,
    pub method: &'h str,
    pub display: &'h str,
    pub id: usize,
}

/// The line of an answer.
pub fn line(hit: &Hit<'_>, settings: &Settings, now: &dyn Fn() -> Zoned) -> String {
    let Hit { user, version, status, bytes, method, display, id, .. } = hit;
    let time = seconds(hit.nanoseconds);
    let stamp = if settings.timestamp { now().strftime("[%a, %Y-%m-%d %H:%M:%S] ").to_string() } else { String::new() };
    let text = if settings.csv {
        let mark = settings.mark.as_ref().map(|mark| format!("{mark},")).unwrap_or_default();
        let user = if settings.display_id { format!("{user:4},") } else { String::new() };
        let date = now().strftime("%Y-%m-%d %H:%M:%S").to_string();
        format!("{stamp}{mark}{user}{version},{status},{time:6.2},{bytes:7},{display},{id},{date}")
    } else if settings.display_id {
        format!("{user:4}) {version} {status} {time:6.2} secs: {bytes:7} bytes ==> {method:<4} {display}")
    } else {
        format!("{stamp}{version} {status}    {time:5.2} secs: {bytes:7} bytes ==> {method:<4} {display}")
    };
    if settings.color { format!("\u{1b}[0;{}m{text}\u{1b}[0m\n", color(*status)) } else { text + "\n" }
}

/// Blue, cyan, magenta, and red for the rest.
fn color(status: u16) -> u8 {
    match status {
        200..=206 | 226 => 34,
        300..=307 => 36,
        400..=417 => 35,
        _ => 31,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures() -> Figures {
        let mut tally = Tally { hits: 4, good: 3, okay: 2, bytes: 3 * 1_048_576 + 5, ..Tally::default() };
        tally.took(10_000_000);
        tally.took(30_000_000);
        Figures { tally, failed: 1, elapsed: 2_000_000_000 }
    }

    #[test]
    fn summaries_in_both_dialects() {
        let mut settings = Settings::of_code();
        let text = summary(&figures(), &settings);
        let expected = "\nTransactions:\t\t           4 hits\nAvailability:\t\t       80.00 %\nElapsed time:\t\t        2.00 secs\nData transferred:\t        3.00 MB\nResponse time:\t\t        0.01 secs\nTransaction rate:\t        2.00 trans/sec\nThroughput:\t\t        1.50 MB/sec\nConcurrency:\t\t        0.02\nSuccessful transactions:           3\nFailed transactions:\t           1\nLongest transaction:\t        0.03\nShortest transaction:\t        0.01\n \n";
        assert_eq!(text, expected);
        settings.dialect = Dialect::Milliseconds;
        let text = summary(&figures(), &settings);
        for row in [
            "Response time:\t\t       10.00 ms",
            "Longest transaction:\t       30.00 ms",
            "Elapsed time:\t\t        2.00 secs",
        ] {
            assert!(text.contains(row), "{text}");
        }
        let nothing = summary(&Figures::default(), &settings);
        assert!(!nothing.contains("NaN") && nothing.contains("Availability:\t\t        0.00 %"), "{nothing}");
    }

    #[test]
    fn json_is_json() {
        let settings = Settings { debug: true, ..Settings::of_code() };
        let text = json(&figures(), &settings);
        assert!(
            text.starts_with("{\t\"transactions\":\t\t\t           4,\n\t\"availability\":\t\t\t       80.00,\n"),
            "{text}"
        );
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!((value["http_ok_received"].as_u64(), value["failed_transactions"].as_u64()), (Some(2), Some(1)));
    }

    #[test]
    fn lines() {
        let hit = Hit {
            user: 7,
            version: "HTTP/1.1",
            status: 200,
            nanoseconds: 12_000_000,
            bytes: 6,
            method: "GET",
            display: "/x",
            id: 3,
        };
        let now = || jiff::civil::date(2026, 11, 21).at(20, 3, 40, 0).to_zoned(jiff::tz::TimeZone::UTC).unwrap();
        let check = |set: &dyn Fn(&mut Settings), expected: &str| {
            let mut settings = Settings { color: false, ..Settings::of_code() };
            set(&mut settings);
            assert_eq!(line(&hit, &settings, &now), format!("{expected}\n"));
        };
        check(&|_| (), "HTTP/1.1 200     0.01 secs:       6 bytes ==> GET  /x");
        check(&|s| s.color = true, "\u{1b}[0;34mHTTP/1.1 200     0.01 secs:       6 bytes ==> GET  /x\u{1b}[0m");
        check(
            &|s| s.timestamp = true,
            "[Sat, 2026-11-21 20:03:40] HTTP/1.1 200     0.01 secs:       6 bytes ==> GET  /x",
        );
        check(&|s| s.display_id = true, "   7) HTTP/1.1 200   0.01 secs:       6 bytes ==> GET  /x");
        check(&|s| s.csv = true, "HTTP/1.1,200,  0.01,      6,/x,3,2026-11-21 20:03:40");
        let all = |s: &mut Settings| {
            (s.csv, s.timestamp, s.display_id, s.mark) = (true, true, true, Some("marked".to_owned()));
        };
        check(&all, "[Sat, 2026-11-21 20:03:40] marked,   7,HTTP/1.1,200,  0.01,      6,/x,3,2026-11-21 20:03:40");
    }

    #[test]
    fn the_log() {
        let now = jiff::civil::date(2026, 11, 21).at(20, 3, 40, 0).to_zoned(jiff::tz::TimeZone::UTC).unwrap();
        let settings = Settings { mark: Some("a mark".to_owned()), ..Settings::of_code() };
        let text = log(&figures(), &settings, false, true, &now);
        let row = "2026-11-21 20:03:40,      4,       2.00,           3,       0.01,        2.00,        1.50,        0.02,       3,       1";
        assert!(
            text.starts_with("      Date & Time,  Trans") && text.ends_with(&format!("\n**** a mark ****\n{row}\n")),
            "{text}"
        );
    }
}
