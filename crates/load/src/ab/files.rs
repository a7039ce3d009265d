//! The files ab writes beside its report: percentiles as CSV (`-e`) and every request for gnuplot (`-g`).

use std::fmt::Write as _;
use std::io::{self, BufWriter, Write};
use std::time::{Duration, SystemTime};

use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};

use super::distribution::Sorted;
use super::report::milliseconds;
use super::spool::{Kept, Sample};

/// The percentiles 0 to 100 of the total time, in milliseconds with three decimals.
pub fn csv(total: &Sorted) -> String {
    let mut text = String::from("Percentage served,Time in ms\n");
    for percentage in 0..=100u64 {
        let rank = match percentage {
            0 => 0,
            100 => total.count.saturating_sub(1),
            // Rounded to the nearest rank, as ab does here (and not in its table).
            _ => (total.count * percentage + 50) / 100,
        };
        let _infallible = writeln!(text, "{percentage},{:.3}", total.at(rank) as f64 / 1000.0);
    }
    text
}

/// One line a request, ordered by total time; `began` is the time of the run's clock 0. The zone is the one dates are written in.
///
/// # Errors
/// A file cannot be written, or one that was on the way could not.
pub fn gnuplot(out: &mut impl Write, samples: Kept, began: SystemTime, zone: &TimeZone) -> io::Result<()> {
    let mut samples = samples;
    let missing = samples.error.take();
    let mut out = BufWriter::new(out);
    out.write_all(b"starttime\tseconds\tctime\tdtime\tttime\twait\n")?;
    let mut date = Date { of: None, text: String::new() };
    samples.for_each(|Sample { started, connect, total, waiting }| {
        let at = Timestamp::try_from(began + Duration::from_micros(started)).unwrap_or_default();
        let [connect_ms, processing_ms, total_ms, waiting_ms] =
            [connect, total - connect, total, waiting].map(milliseconds);
        let seconds = at.as_second();
        let date = date.text(at, zone);
        writeln!(out, "{date}\t{seconds}\t{connect_ms}\t{processing_ms}\t{total_ms}\t{waiting_ms}")
    })?;
    out.flush()?;
    missing.map_or(Ok(()), Err)
}

/// The date of the last line, which is often that of the next.
struct Date {
    of: Option<i64>,
    text: String,
}

impl Date {
    fn text(&mut self, at: Timestamp, zone: &TimeZone) -> &str {
        if self.of != Some(at.as_second()) {
            self.of = Some(at.as_second());
            self.text = Zoned::new(at, zone.clone()).strftime("%a %b %d %H:%M:%S %Y").to_string();
        }
        &self.text
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::ab::distribution::Distribution;
    use crate::ab::spool;

    #[test]
    fn csv_has_every_percentage() {
        let mut distribution = Distribution::default();
        (1..=10).for_each(|n| distribution.record(n * 1500));
        let text = csv(&distribution.sorted());
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 102);
        assert_eq!(lines[..3], ["Percentage served,Time in ms", "0,1.500", "1,1.500"]);
        assert_eq!([lines[5], lines[6], lines[51], lines[101]], ["4,1.500", "5,3.000", "50,9.000", "100,15.000"]);
    }

    #[test]
    fn csv_of_one_request_stays_within_it() {
        let mut distribution = Distribution::default();
        distribution.record(700);
        assert!(csv(&distribution.sorted()).lines().skip(1).all(|line| line.ends_with(",0.700")));
    }

    #[test]
    fn gnuplot_lines_are_ordered_by_total_time() {
        let sample = |started, connect, total, waiting| Sample { started, connect, total, waiting };
        let (maker, batches) = spool::channel();
        let mut feeder = maker.feeder();
        [sample(1_500_000, 400, 9600, 7000), sample(0, 600, 1600, 499)]
            .into_iter()
            .for_each(|sample| feeder.push(sample));
        drop((maker, feeder));
        let samples = spool::keep(&batches, Path::new("x"));
        let began = SystemTime::UNIX_EPOCH + Duration::from_secs(1_795_255_122);
        let expected = "starttime\tseconds\tctime\tdtime\tttime\twait\n\
            Sat Nov 21 09:58:42 2026\t1795255122\t1\t1\t2\t0\n\
            Sat Nov 21 09:58:43 2026\t1795255123\t0\t9\t10\t7\n";
        let mut written = Vec::new();
        gnuplot(&mut written, samples, began, &TimeZone::UTC).unwrap();
        assert_eq!(String::from_utf8(written).unwrap(), expected);
    }
}
