//! A row of the slow test: what the probes took, whether that passes, and the table.

use serde::Serialize;

use super::hold::Held;
use super::kind::Kind;
use super::probe::Outcome;
use crate::table;
use crate::target::{Family, Model};
use crate::text;

/// A normal request is answered within this time, or the row does not pass. Microseconds.
const ANSWERED_WITHIN_US: u64 = 100_000;
/// Where a server without slow clients takes longer than this, something else keeps the machine busy. Microseconds.
const DISTURBED_US: u64 = 50_000;

/// One server under one number of slow clients of one kind.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// The server.
    pub label: &'static str,
    /// Whose program.
    #[serde(skip)]
    pub family: Family,
    /// Its model.
    #[serde(skip)]
    pub model: Model,
    /// What the clients did.
    pub kind: Kind,
    /// How many were to come.
    pub clients: usize,
    /// How they were at the end.
    pub held: Held,
    /// The slowest of the same requests to a server without slow clients at the same time, microseconds; `None` if one was
    /// not answered.
    pub without_max_us: Option<u64>,
    /// Probes made.
    pub asked: usize,
    /// Probes answered.
    pub answered: usize,
    /// Median of those answered, microseconds.
    pub median_us: Option<u64>,
    /// The slowest of those answered, microseconds.
    pub max_us: Option<u64>,
    /// Why probes failed, each once.
    pub failures: Vec<&'static str>,
    /// Whether it passes.
    pub passed: bool,
}

impl Row {
    /// Fills in what the probes said.
    pub fn judge(mut self, without: &[Outcome], probes: &[Outcome]) -> Row {
        let times = sorted(probes);
        let others = sorted(without);
        self.without_max_us = others.last().copied().filter(|_| others.len() == without.len());
        self.asked = probes.len();
        self.answered = times.len();
        self.median_us = median(&times);
        self.max_us = times.last().copied();
        for failure in probes.iter().filter_map(|outcome| outcome.err()) {
            if !self.failures.contains(&failure) {
                self.failures.push(failure);
            }
        }
        self.passed = self.asked > 0
            && self.answered == self.asked
            && self.max_us.is_some_and(|max| max <= ANSWERED_WITHIN_US)
            // Clients that never arrived slow nobody down.
            && self.held.connected == self.clients;
        self
    }

    /// Whether the exit code depends on it: manifold's event and percore hold no worker for a slow client; prefork and worker
    /// do by their nature, and the others are not ours.
    pub fn counts(&self) -> bool {
        self.family == Family::Manifold && matches!(self.model, Model::Event | Model::Percore)
    }

    /// Whether it does not pass while a server without slow clients was slow too, so that it says nothing about this one.
    pub fn was_disturbed(&self) -> bool {
        !self.passed && self.without_max_us.is_none_or(|max| max > DISTURBED_US)
    }

    fn cells(&self) -> Vec<String> {
        let time = |us: Option<u64>| us.map_or_else(|| "-".to_owned(), |us| text::micros(us as f64));
        let verdict = match (self.passed, self.counts()) {
            (true, _) => "ok".to_owned(),
            (false, true) => format!("FAILED{}", self.why()),
            (false, false) => format!("no{}", self.why()),
        };
        vec![
            self.label.to_owned(),
            self.kind.name().to_owned(),
            text::grouped(self.clients as i64),
            text::grouped(self.held.connected as i64),
            text::grouped(self.held.open as i64),
            format!("{}/{}", self.answered, self.asked),
            time(self.median_us),
            time(self.max_us),
            time(self.without_max_us),
            verdict,
        ]
    }

    fn why(&self) -> String {
        if self.was_disturbed() {
            ": the machine was busy".to_owned()
        } else if !self.failures.is_empty() {
            format!(": {}", self.failures.join(", "))
        } else if self.held.connected < self.clients {
            ": not all could connect".to_owned()
        } else {
            String::new()
        }
    }
}

/// The table of all rows.
pub fn lines(rows: &[Row]) -> String {
    let head = [
        "server",
        "clients",
        "number",
        "connected",
        "held",
        "answered",
        "median",
        "max",
        "max without",
        "within 100 ms",
    ];
    let cells: Vec<Vec<String>> = rows.iter().map(Row::cells).collect();
    table::lines(&head, &cells)
}

/// The verdict over all rows in one sentence.
pub fn sentence(rows: &[Row]) -> String {
    let judged = rows.iter().filter(|row| row.counts()).count();
    let failed = rows.iter().filter(|row| row.counts() && !row.passed).count();
    let shown = rows.len() - judged;
    let others = if shown == 0 {
        String::new()
    } else {
        let passed = rows.iter().filter(|row| !row.counts() && row.passed).count();
        format!(" Not judged: {passed} of {} within 100 ms.", text::counted(shown, "row"))
    };
    match (judged, failed) {
        (0, _) => format!("No row of manifold's event or percore.{others}"),
        (_, 0) => {
            format!("Every normal request was answered within 100 ms in {}.{others}", text::counted(judged, "row"))
        }
        _ => format!(
            "Normal requests waited longer than 100 ms in {failed} of {}.{others}",
            text::counted(judged, "row")
        ),
    }
}

/// The answered ones in order.
fn sorted(outcomes: &[Outcome]) -> Vec<u64> {
    let mut times: Vec<u64> = outcomes.iter().filter_map(|outcome| outcome.ok()).collect();
    times.sort_unstable();
    times
}

fn median(sorted: &[u64]) -> Option<u64> {
    sorted.get(sorted.len().checked_sub(1)? / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(family: Family, model: Model, connected: usize, probes: &[Outcome]) -> Row {
        row_beside(&[Ok(100), Ok(200)], family, model, connected, probes)
    }

    fn row_beside(without: &[Outcome], family: Family, model: Model, connected: usize, probes: &[Outcome]) -> Row {
        let row = Row {
            label: "manifold event",
            family,
            model,
            kind: Kind::SlowHead,
            clients: 450,
            held: Held { connected, open: 440, ..Held::default() },
            without_max_us: None,
            asked: 0,
            answered: 0,
            median_us: None,
            max_us: None,
            failures: Vec::new(),
            passed: false,
        };
        row.judge(without, probes)
    }

    #[test]
    fn rows_are_judged() {
        for (connected, probes, passed, last) in [
            (450, &[Ok(500), Ok(100_000)][..], true, "ok"),
            (450, &[Ok(500), Ok(100_001)], false, "FAILED"),
            (450, &[Ok(500), Err("refused"), Err("refused")], false, "FAILED: refused"),
            (449, &[Ok(500)], false, "FAILED: not all could connect"),
            (450, &[], false, "FAILED"),
        ] {
            let row = row(Family::Manifold, Model::Event, connected, probes);
            assert_eq!((row.passed, row.cells().last().map(String::as_str)), (passed, Some(last)), "{row:?}");
            assert_eq!((row.without_max_us, row.was_disturbed()), (Some(200), false));
        }
        for (without, probe, disturbed, last) in [
            (&[Ok(50_001)][..], Ok(100_001), true, "FAILED: the machine was busy"),
            (&[Ok(1), Err("refused")], Ok(100_001), true, "FAILED: the machine was busy"),
            (&[Ok(50_000)], Ok(100_001), false, "FAILED"),
            (&[Ok(900_000)], Ok(500), false, "ok"),
        ] {
            let row = row_beside(without, Family::Manifold, Model::Event, 450, &[probe]);
            assert_eq!(
                (row.was_disturbed(), row.cells().last().map(String::as_str)),
                (disturbed, Some(last)),
                "{row:?}"
            );
        }
    }

    #[test]
    fn only_our_asynchronous_models_count() {
        let late = [Err("no answer in time")];
        let of = |family, model| row(family, model, 450, &late);
        let rows =
            [of(Family::Manifold, Model::Prefork), of(Family::Apache2, Model::Event), of(Family::Nginx, Model::Loop)];
        assert!(rows.iter().all(|row| !row.counts()));
        assert_eq!(sentence(&rows), "No row of manifold's event or percore. Not judged: 0 of 3 rows within 100 ms.");
        let good = row(Family::Manifold, Model::Percore, 450, &[Ok(1)]);
        assert_eq!(sentence(std::slice::from_ref(&good)), "Every normal request was answered within 100 ms in 1 row.");
        let both = [good, of(Family::Manifold, Model::Event)];
        assert_eq!(sentence(&both), "Normal requests waited longer than 100 ms in 1 of 2 rows.");
    }

    #[test]
    fn the_table_has_a_line_a_row() {
        let text = lines(&[row(Family::Manifold, Model::Event, 450, &[Ok(500), Ok(1500)])]);
        let last = text.lines().last().expect("a row");
        for cell in ["manifold event", "slow-head", " 450 ", " 440 ", " 2/2 ", "200 µs", "500 µs", "1.5 ms", "ok"] {
            assert!(last.contains(cell), "no {cell:?} in {last}");
        }
    }
}
