//! What is better: one number a round for each candidate, and the same for all of them.

use serde::{Deserialize, Serialize};

use crate::results::{Cell, Mark};

/// What a candidate that does not do what is asked gets, so that ratios to it exist: a thousandth of an answer a second.
pub const NOTHING: f64 = 0.001;

/// What is asked.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Objective {
    /// Numbers of clients, ascending; each round loads a candidate with all of them.
    pub clients: Vec<u32>,
    /// Clients keep their connections.
    pub keep_alive: bool,
    /// The 99th percentile of latency that may not be exceeded, milliseconds.
    pub p99_ms: Option<f64>,
    /// Memory (PSS of all processes) that may not be exceeded, KiB.
    pub memory_kib: f64,
}

impl Objective {
    /// The figure of one round: of the loads at which latency and memory stay within their limits, the most right answers a second, times the
    /// part of the clients that were served at all. [`NOTHING`] where there is no such load; `None` where a load has no cell that counts.
    pub fn figure(&self, cells: &[&Cell]) -> Option<f64> {
        let all = self.clients.iter().all(|clients| cells.iter().any(|cell| cell.concurrency == *clients));
        if !all {
            return None;
        }
        let figures = cells.iter().filter(|cell| self.is_within(cell)).map(|cell| served(cell));
        Some(figures.fold(NOTHING, f64::max))
    }

    /// As [`figure`](Self::figure), and `None` where something else used the machine as well: for what shall be claimed.
    pub fn undisturbed_figure(&self, cells: &[&Cell]) -> Option<f64> {
        let is_disturbed = cells.iter().any(|cell| cell.marks.contains(&Mark::Disturbed));
        self.figure(cells).filter(|_| !is_disturbed)
    }

    fn is_within(&self, cell: &Cell) -> bool {
        let fits = cell.pss_kib.is_none_or(|kib| kib as f64 <= self.memory_kib);
        let is_quick =
            self.p99_ms.is_none_or(|most| cell.latency_us.is_some_and(|latency| latency.p99 <= most * 1000.0));
        // Clients that wait for their first answer until the end are in no percentile.
        let all_served = self.p99_ms.is_none() || cell.unserved == 0;
        cell.usable() && fits && is_quick && all_served
    }

    /// In words.
    pub fn text(&self) -> String {
        let clients: Vec<String> = self.clients.iter().map(ToString::to_string).collect();
        let mode =
            if self.keep_alive { "that keep their connections" } else { "that make a connection for each request" };
        let memory = format!("within {:.0} MiB", self.memory_kib / 1024.0);
        match self.p99_ms {
            None => format!("answers a second to {} clients {mode}, {memory}", clients.join(", ")),
            Some(most) => format!(
                "most answers a second at which the 99th percentile is at most {most} ms, of {} clients {mode}, {memory}",
                crate::text::list(&clients)
            ),
        }
    }
}

/// Right answers a second, times the part of the clients that were served: a server that is quick to some and deaf to others is not better.
fn served(cell: &Cell) -> f64 {
    let clients = f64::from(cell.concurrency).max(1.0);
    cell.requests_per_second * (1.0 - (cell.unserved as f64 / clients).min(1.0))
}

/// The fewest clients at which as many answers a second come as at the best number of them, up to a twentieth.
pub fn knee(points: &[(u32, f64)]) -> Option<u32> {
    let best = points.iter().map(|(_, rate)| *rate).fold(0.0, f64::max);
    points.iter().find(|(_, rate)| best > 0.0 && *rate >= 0.95 * best).map(|(clients, _)| *clients)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::Latency;

    fn cell(clients: u32, rate: f64, p99_ms: f64, unserved: u64) -> Cell {
        let latency = Latency { p99: p99_ms * 1000.0, ..Latency::default() };
        Cell {
            concurrency: clients,
            completed: 100,
            requests_per_second: rate,
            latency_us: Some(latency),
            unserved,
            pss_kib: Some(10_240),
            ..Cell::default()
        }
    }

    fn objective(clients: &[u32], p99_ms: Option<f64>, memory_kib: f64) -> Objective {
        Objective { clients: clients.to_vec(), keep_alive: true, p99_ms, memory_kib }
    }

    #[test]
    fn a_figure_is_the_most_within_the_limits() {
        let (slow, quick) = (cell(100, 900.0, 80.0, 0), cell(50, 800.0, 40.0, 0));
        for (p99, memory, cells, expected) in [
            (None, 1e9, vec![&slow, &quick], Some(900.0)),
            (Some(50.0), 1e9, vec![&slow, &quick], Some(800.0)),
            (Some(10.0), 1e9, vec![&slow, &quick], Some(NOTHING)),
            (None, 1024.0, vec![&slow, &quick], Some(NOTHING)),
            (None, 1e9, vec![&slow], None),
        ] {
            assert_eq!(objective(&[50, 100], p99, memory).figure(&cells), expected, "{p99:?} {memory}");
        }
    }

    #[test]
    fn clients_that_are_never_served_count() {
        let deaf = cell(100, 900.0, 5.0, 60);
        assert!((objective(&[100], None, 1e9).figure(&[&deaf]).expect("a figure") - 360.0).abs() < 1e-9);
        assert_eq!(objective(&[100], Some(50.0), 1e9).figure(&[&deaf]), Some(NOTHING), "their latency is not known");
        let wrong = Cell { marks: vec![Mark::WrongLength], ..cell(100, 900.0, 5.0, 0) };
        assert_eq!(objective(&[100], None, 1e9).figure(&[&wrong]), Some(NOTHING));
        let disturbed = Cell { marks: vec![Mark::Disturbed], ..cell(100, 900.0, 5.0, 0) };
        let any = objective(&[100], None, 1e9);
        assert_eq!((any.figure(&[&disturbed]), any.undisturbed_figure(&[&disturbed])), (Some(900.0), None));
        assert_eq!(any.undisturbed_figure(&[&cell(100, 900.0, 5.0, 0)]), Some(900.0));
    }

    #[test]
    fn the_knee_is_where_more_clients_bring_no_more() {
        assert_eq!(knee(&[(1, 10.0), (2, 19.0), (4, 37.0), (8, 39.0), (16, 38.0)]), Some(8));
        assert_eq!(knee(&[(1, 38.0), (2, 39.0)]), Some(1));
        assert_eq!(knee(&[(1, 0.0)]), None);
        assert_eq!(knee(&[]), None);
    }
}
