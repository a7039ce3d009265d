//! What a run leaves in files beside its report: the time series as CSV, the latencies as an HdrHistogram log.

use std::fmt::Write;
use std::io;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use hdrhistogram::serialization::V2DeflateSerializer;
use hdrhistogram::serialization::interval_log::IntervalLogWriterBuilder;

use crate::histogram::Histogram;
use crate::report::{Report, Series};

/// The series: one row an interval, with the seconds since the first began and when it began.
pub fn csv(series: &Series) -> String {
    let mut text = "seconds,completed,failed,max_latency_us,unix_ms\n".to_owned();
    let rows = series.completed.iter().zip(&series.failed).zip(&series.max_latency_us);
    for (index, ((completed, failed), longest)) in rows.enumerate() {
        let since = index as u64 * series.interval_ms;
        let (seconds, unix_ms) = (since as f64 / 1000.0, series.begins_unix_ms + since);
        // Writing to a String cannot fail.
        let _infallible = writeln!(text, "{seconds:.1},{completed},{failed},{longest},{unix_ms}");
    }
    text
}

/// The response times of the window as one interval of a log that HdrHistogram's tools read, in microseconds.
///
/// # Errors
/// The histogram cannot be written.
pub fn hdr(report: &Report) -> io::Result<Vec<u8>> {
    let histogram = match &report.histogram {
        Some(histogram) => histogram.latencies().map_err(io::Error::other)?.histogram.hdr(),
        None => Histogram::default().hdr(),
    };
    let begins = UNIX_EPOCH + Duration::from_micros(report.started_unix_us);
    let mut log = Vec::new();
    let mut serializer = V2DeflateSerializer::new();
    let mut writer = IntervalLogWriterBuilder::new()
        .add_comment("response times of manifold load, microseconds")
        .with_start_time(begins)
        .with_max_value_divisor(1000.0)
        .begin_log_with(&mut log, &mut serializer)?;
    let since = begins.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    writer
        .write_histogram(&histogram, since, Duration::from_secs_f64(report.seconds), None)
        .map_err(|error| io::Error::other(format!("{error:?}")))?;
    Ok(log)
}

#[cfg(test)]
mod tests {
    use hdrhistogram::serialization::Deserializer;
    use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};

    use super::*;

    fn report() -> Report {
        serde_json::from_str(include_str!("../../../lab/tests/load-report.json")).expect("a report")
    }

    #[test]
    fn a_row_for_each_interval() {
        let series = Series {
            interval_ms: 200,
            begins_unix_ms: 17_000,
            completed: vec![5, 7],
            failed: vec![0, 1],
            max_latency_us: vec![30, 4000],
        };
        let expected = "seconds,completed,failed,max_latency_us,unix_ms\n0.0,5,0,30,17000\n0.2,7,1,4000,17200\n";
        assert_eq!(csv(&series), expected);
    }

    #[test]
    fn the_log_is_read_by_the_library_and_holds_every_count() {
        let report = report();
        let log = hdr(&report).expect("a log");
        let entries = IntervalLogIterator::new(&log).map(|entry| entry.expect("an entry"));
        let histogram = entries.filter_map(|entry| match entry {
            LogEntry::Interval(interval) => Some(interval.encoded_histogram().to_owned()),
            _ => None,
        });
        let [encoded] = histogram.collect::<Vec<_>>().try_into().expect("one interval");
        let bytes = base64::Engine::decode(&base64::engine::general_purpose::STANDARD, encoded).expect("base64");
        let read: hdrhistogram::Histogram<u64> = Deserializer::new().deserialize(&mut &bytes[..]).expect("a histogram");
        let expected = report.histogram.expect("a histogram").latencies().expect("ours").histogram;
        assert_eq!((read.len(), read.value_at_quantile(0.99)), (expected.len(), expected.value_at_quantile(0.99)));
    }
}
