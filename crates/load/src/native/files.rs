//! What a run leaves in files beside its report: the time series as CSV, the latencies as an HdrHistogram log.

use std::fmt::Write;
use std::io;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use hdrhistogram::serialization::V2Serializer;
use hdrhistogram::serialization::interval_log::IntervalLogWriterBuilder;

use crate::report::{Report, Series};

/// The series: one row an interval.
pub fn csv(series: &Series) -> String {
    let mut text = "seconds,completed,failed,max_latency_us\n".to_owned();
    let rows = series.completed.iter().zip(&series.failed).zip(&series.max_latency_us);
    for (index, ((completed, failed), longest)) in rows.enumerate() {
        let seconds = index as f64 * series.interval_ms as f64 / 1000.0;
        // Writing to a String cannot fail.
        let _infallible = writeln!(text, "{seconds:.1},{completed},{failed},{longest}");
    }
    text
}

/// The response times of the window as one interval of a log that HdrHistogram's tools read, in microseconds.
///
/// # Errors
/// The histogram cannot be written.
pub fn hdr(report: &Report) -> io::Result<Vec<u8>> {
    let histogram = report.histogram.to_histogram().map_err(io::Error::other)?;
    let begins = UNIX_EPOCH + Duration::from_micros(report.started_unix_us);
    let mut log = Vec::new();
    let mut serializer = V2Serializer::new();
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
        let series =
            Series { interval_ms: 200, completed: vec![5, 7], failed: vec![0, 1], max_latency_us: vec![30, 4000] };
        assert_eq!(csv(&series), "seconds,completed,failed,max_latency_us\n0.0,5,0,30\n0.2,7,1,4000\n");
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
        let expected = report.histogram.to_histogram().expect("a histogram");
        assert_eq!((read.len(), read.value_at_quantile(0.99)), (expected.len(), expected.value_at_quantile(0.99)));
    }
}
