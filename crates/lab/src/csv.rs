//! `cells.csv`: every measured cell as one line, for a spreadsheet or R.

use std::fmt::Write as _;

use crate::figures::Metric;
use crate::results::{Cell, Results};

const COLUMNS: &str = "order,round,target,keep_alive,connections,seconds,completed,requests_per_second,latency_mean_us,\
latency_p50_us,latency_p90_us,latency_p99_us,latency_max_us,errors,unserved_connections,worked_on,cpu_s,cpu_us_per_request,\
user_s,system_s,pss_kib,processes,threads,switches,run_queue_s,disk_read,disk_written,\
retransmitted,backlog_overflows,generator_cpu_s,other_load,usable,marks";

/// The whole file; lines end with LF, fields never need quotes.
pub fn cells(results: &Results) -> String {
    let mut text = format!("{COLUMNS}\n");
    for (order, cell) in results.cells.iter().enumerate() {
        let name = results.targets.get(cell.target).map_or("", |target| target.name.as_str());
        line(&mut text, order, name, cell);
    }
    text
}

fn line(text: &mut String, order: usize, target: &str, cell: &Cell) {
    let latency = |of: fn(&crate::results::Latency) -> f64| optional(cell.latency_us.as_ref().map(of), 1);
    let marks: Vec<String> = cell.marks.iter().map(|mark| mark.letter().to_string()).collect();
    // Writing into a String cannot fail.
    let _ = writeln!(
        text,
        "{order},{},{target},{},{},{:.6},{},{:.1},{},{},{},{},{},{},{},{},{:.6},{},{:.2},{:.2},{},{},{},{},{:.6},{},{},{},{},{:.6},{:.3},{},{}",
        cell.round + 1,
        if cell.keep_alive { "on" } else { "off" },
        cell.concurrency,
        cell.seconds,
        cell.completed,
        cell.requests_per_second,
        latency(|l| l.mean),
        latency(|l| l.p50),
        latency(|l| l.p90),
        latency(|l| l.p99),
        latency(|l| l.max),
        cell.errors,
        cell.unserved,
        cell.worked_on,
        cell.cpu_s,
        optional(Metric::CpuUsPerRequest.of(cell), 3),
        cell.user_s,
        cell.system_s,
        cell.pss_kib.map_or(String::new(), |kib| kib.to_string()),
        cell.processes,
        cell.threads,
        cell.kernel.switches,
        cell.kernel.waited_s,
        cell.kernel.disk_read,
        cell.kernel.disk_written,
        cell.kernel.retransmitted,
        cell.kernel.overflows,
        cell.generator_cpu_s,
        cell.other_load,
        if cell.usable() { "yes" } else { "no" },
        marks.concat(),
    );
}

fn optional(value: Option<f64>, decimals: usize) -> String {
    value.map_or(String::new(), |value| format!("{value:.decimals$}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    #[test]
    fn every_line_has_every_column() {
        let results = fixture::clear_winner();
        let text = cells(&results);
        let columns = COLUMNS.split(',').count();
        assert_eq!(text.lines().count(), results.cells.len() + 1);
        for line in text.lines() {
            assert_eq!(line.split(',').count(), columns, "{line}");
        }
        let first = text.lines().nth(1).expect("a cell");
        assert!(first.starts_with("0,1,prefork,off,10,"), "{first}");
    }

    #[test]
    fn what_was_not_measured_is_empty() {
        let mut text = String::new();
        line(&mut text, 3, "nginx", &Cell::default());
        let fields: Vec<&str> = text.trim_end().split(',').collect();
        assert_eq!((fields[8], fields[17], fields[20], fields[31], fields[32]), ("", "", "", "no", ""));
    }
}
