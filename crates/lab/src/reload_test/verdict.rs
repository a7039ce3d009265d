//! The result of a reload test: what is written to JSON, the table, and the verdict in one sentence.

use serde::Serialize;

use super::tally::{Counts, Loss};
use crate::table;
use crate::target::{Family, Model};
use crate::text::{self, counted};

/// Where the clients stood still for longer, in milliseconds, it is said.
const STALL_MS_MAX: f64 = 1000.0;

/// What became of one server.
#[derive(Clone, Debug, Serialize)]
pub struct Trial {
    /// The server as a person calls it.
    pub label: String,
    /// Its version, in its own words.
    pub version: String,
    /// Whether there was a listening socket for each bucket.
    pub buckets: bool,
    /// Seconds the clients were at work.
    pub seconds: f64,
    /// Milliseconds that the clients themselves stood still at most, because the machine was busy.
    pub stall_ms: f64,
    /// Ordered pairs of models that were changed between.
    pub pairs: usize,
    /// Reloads that were to be done.
    pub planned: usize,
    /// Requests lost before the first reload: the server loses them under load alone.
    pub lost_before: u64,
    /// Each reload done.
    pub reloads: Vec<Reload>,
    /// What the keep-alive clients counted.
    pub keep_alive: Counts,
    /// What the closing clients counted.
    pub closing: Counts,
    /// The first losses in words, most of them alike.
    pub examples: Vec<String>,
    /// What went wrong beside lost requests: the server ended, a reload did not take effect.
    pub faults: Vec<String>,
}

/// One reload.
#[derive(Clone, Debug, Serialize)]
pub struct Reload {
    /// The first is 1.
    pub number: usize,
    /// Model before.
    pub from: &'static str,
    /// Model after.
    pub to: &'static str,
    /// Milliseconds from the signal to the first answer by the new configuration on a fresh connection.
    pub in_force_ms: Option<f64>,
    /// Milliseconds from the signal to the last answer by an older configuration on a fresh connection; 0 if there was none.
    pub old_until_ms: f64,
    /// Requests lost from this signal to the next.
    pub lost: u64,
}

impl Trial {
    /// Whether nothing was lost and every reload took effect.
    pub fn passed(&self) -> bool {
        self.lost() == 0 && self.faults.is_empty() && self.reloads.len() == self.planned && self.answered() > 0
    }

    /// The verdict in one sentence.
    pub fn sentence(&self) -> String {
        let mut how = counted(self.reloads.len(), "graceful reload");
        if self.pairs > 0 {
            how = format!("{how} through {} of models", counted(self.pairs, "ordered pair"));
        }
        let mut text = if self.lost() == 0 {
            format!("{}: nothing lost in {how}; {} requests answered.", self.label, grouped(self.answered()))
        } else {
            let all = self.keep_alive.plus(&self.closing);
            let classes: Vec<String> = Loss::ALL
                .iter()
                .filter(|(loss, _)| all.of(*loss) > 0)
                .map(|(loss, words)| format!("{} {words}", grouped(all.of(*loss))))
                .collect();
            format!(
                "{}: {} of {} requests lost in {how}: {}.",
                self.label,
                grouped(self.lost()),
                grouped(self.answered() + self.lost()),
                text::list(&classes)
            )
        };
        if self.lost_before > 0 {
            text.push_str(&format!(" Of these {} before the first reload.", grouped(self.lost_before)));
        }
        if self.stall_ms > STALL_MS_MAX {
            text.push_str(&format!(" The clients stood still for {:.1} s: the machine was busy.", self.stall_ms / 1e3));
        }
        for fault in &self.faults {
            text.push_str(&format!(" {fault}."));
        }
        if self.answered() == 0 {
            text.push_str(" No request was answered.");
        }
        text
    }

    /// The table of counts.
    pub fn counts(&self) -> String {
        let [k, c] = [&self.keep_alive, &self.closing];
        let mut rows = vec![
            row("answered rightly", k.answered, c.answered),
            row("  on a kept connection", k.answered_reused, c.answered_reused),
            row("connections ended by Connection: close", k.ended_by_answer, c.ended_by_answer),
        ];
        rows.extend(Loss::ALL.iter().map(|&(loss, words)| row(words, k.of(loss), c.of(loss))));
        rows.push(row("lost in all", k.lost(), c.lost()));
        rows.push(row("  sent after the server had closed", k.lost_after_close, c.lost_after_close));
        table::lines(&["requests", "keep-alive clients", "closing clients"], &rows)
    }

    /// The table of reloads.
    pub fn reload_table(&self) -> String {
        let row = |reload: &Reload| {
            let change = if reload.from == reload.to {
                same(reload.to).to_owned()
            } else {
                format!("{} -> {}", reload.from, reload.to)
            };
            let in_force = reload.in_force_ms.map_or_else(|| "never".to_owned(), |ms| format!("{ms:.0}"));
            vec![
                format!("{:>2}  {change}", reload.number),
                in_force,
                format!("{:.0}", reload.old_until_ms),
                reload.lost.to_string(),
            ]
        };
        let before = ["    before the first", "", "", &self.lost_before.to_string()].map(str::to_owned).to_vec();
        let rows: Vec<Vec<String>> = std::iter::once(before).chain(self.reloads.iter().map(row)).collect();
        table::lines(&["reload", "in force after ms", "old until ms", "lost"], &rows)
    }

    fn answered(&self) -> u64 {
        self.keep_alive.answered + self.closing.answered
    }

    fn lost(&self) -> u64 {
        self.keep_alive.lost() + self.closing.lost()
    }
}

/// How a model that stays is called: nginx's has no name of its own.
fn same(model: &'static str) -> &'static str {
    if model == Model::Loop.name() { Family::Nginx.name() } else { model }
}

fn row(words: &str, keep_alive: u64, closing: u64) -> Vec<String> {
    vec![words.to_owned(), grouped(keep_alive), grouped(closing)]
}

fn grouped(number: u64) -> String {
    text::grouped(number as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trial() -> Trial {
        let reload = |number| Reload {
            number,
            from: "event",
            to: if number == 1 { "percore" } else { "event" },
            in_force_ms: Some(12.4),
            old_until_ms: 3.2,
            lost: 0,
        };
        Trial {
            label: "manifold".to_owned(),
            version: "Manifold".to_owned(),
            buckets: false,
            seconds: 3.0,
            stall_ms: 3.0,
            pairs: 1,
            planned: 2,
            lost_before: 0,
            reloads: vec![reload(1), reload(2)],
            keep_alive: Counts { answered: 1000, answered_reused: 900, ended_by_answer: 10, ..Counts::default() },
            closing: Counts { answered: 500, ..Counts::default() },
            examples: Vec::new(),
            faults: Vec::new(),
        }
    }

    fn check(change: impl Fn(&mut Trial), passed: bool, sentence: &str) {
        let mut trial = trial();
        change(&mut trial);
        assert_eq!((trial.passed(), trial.sentence().replace('\u{202f}', " ")), (passed, sentence.to_owned()));
    }

    #[test]
    fn verdicts() {
        let how = "2 graceful reloads through 1 ordered pair of models";
        check(|_| {}, true, &format!("manifold: nothing lost in {how}; 1 500 requests answered."));
        check(|t| t.pairs = 0, true, "manifold: nothing lost in 2 graceful reloads; 1 500 requests answered.");
        let lose = |t: &mut Trial| {
            t.closing.lose(Loss::Refused, false);
            t.closing.lose(Loss::Refused, false);
            t.keep_alive.lose(Loss::ClosedReused, true);
        };
        let lost = "2 refused and 1 closed without an answer, kept connection";
        check(lose, false, &format!("manifold: 3 of 1 503 requests lost in {how}: {lost}."));
        let before = |t: &mut Trial| {
            t.closing.lose(Loss::TimedOut, false);
            t.lost_before = 1;
        };
        let lost = "1 timed out. Of these 1 before the first reload";
        check(before, false, &format!("manifold: 1 of 1 501 requests lost in {how}: {lost}."));
        let busy = " The clients stood still for 1.5 s: the machine was busy.";
        check(
            |t| t.stall_ms = 1500.0,
            true,
            &format!("manifold: nothing lost in {how}; 1 500 requests answered.{busy}"),
        );
        let fault = |t: &mut Trial| t.faults.push("The server ended".to_owned());
        check(fault, false, &format!("manifold: nothing lost in {how}; 1 500 requests answered. The server ended."));
        check(|t| t.planned = 3, false, &format!("manifold: nothing lost in {how}; 1 500 requests answered."));
        let nothing = |t: &mut Trial| (t.keep_alive.answered, t.closing.answered) = (0, 0);
        check(
            nothing,
            false,
            &format!("manifold: nothing lost in {how}; 0 requests answered. No request was answered."),
        );
    }

    #[test]
    fn tables() {
        let counts = trial().counts();
        assert!(
            counts.starts_with("requests                                    keep-alive clients  closing clients\n")
        );
        assert!(counts.contains("connections ended by Connection: close                      10                0\n"));
        assert_eq!(counts.lines().count(), 4 + Loss::ALL.len() + 2);
        let expected = "reload                in force after ms  old until ms  lost\n    \
                        before the first                                      0\n \
                        1  event -> percore                 12             3     0\n \
                        2  event                            12             3     0\n";
        assert_eq!(trial().reload_table(), expected);
    }
}
