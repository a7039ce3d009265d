//! Who holds the workers: busy ones by virtual host, URL and what they do, the largest groups first. An administrator who
//! is told that the server is full learns here why.

use std::collections::{BTreeSet, HashMap};
use std::fmt;

use super::{Connections, Letter, Snapshot, Step, Worker};

/// Groups that are told; the rest is summed up.
const GROUPS_SHOWN: usize = 5;
/// Characters of a URL that are told.
const URL_CHARS_MAX: usize = 60;

/// Busy workers in groups.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Holders {
    /// Workers that are held.
    pub held: u64,
    /// All groups, the largest first.
    pub groups: Vec<Group>,
    /// Connections that wait without a worker.
    pub parked: Connections,
}

/// Workers that do the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Their letter.
    pub status: Letter,
    /// The same in finer steps.
    pub phase: Step,
    /// The host that was asked.
    pub vhost: String,
    /// The request's URL without its query; empty while the request is not known.
    pub url: String,
    /// How many they are.
    pub workers: u64,
    /// From how many addresses their requests came.
    pub clients: u64,
    /// The longest time that one of them has been at it.
    pub longest_ms: u64,
}

impl Holders {
    /// Those of one generation, or of all.
    pub fn of(snapshot: &Snapshot, generation: Option<u64>) -> Holders {
        let is_meant = |number: u64| generation.is_none_or(|generation| generation == number);
        let mut groups: HashMap<_, (u64, BTreeSet<&str>, u64)> = HashMap::new();
        let mut held = 0;
        for worker in snapshot.workers.iter().filter(|worker| is_meant(worker.generation) && is_held(worker)) {
            held += 1;
            let key = (worker.status, worker.phase, worker.vhost.as_str(), url(&worker.request));
            let (workers, clients, longest_ms) = groups.entry(key).or_default();
            *workers += 1;
            clients.insert(&worker.client);
            let since = if worker.began_ms == 0 { snapshot.time_ms } else { worker.began_ms };
            *longest_ms = (*longest_ms).max(snapshot.time_ms.saturating_sub(since));
        }
        let mut groups: Vec<Group> = groups
            .into_iter()
            .map(|((status, phase, vhost, url), (workers, clients, longest_ms))| Group {
                status,
                phase,
                vhost: vhost.to_owned(),
                url: url.to_owned(),
                workers,
                clients: clients.len() as u64,
                longest_ms,
            })
            .collect();
        groups.sort_by(|a, b| {
            let size = |group: &Group| (group.workers, group.longest_ms);
            size(b).cmp(&size(a)).then_with(|| (&a.vhost, &a.url, a.phase).cmp(&(&b.vhost, &b.url, b.phase)))
        });
        let mut parked = Connections::default();
        for row in snapshot.generations.iter().filter(|row| is_meant(row.number)) {
            parked.open += row.connections.open;
            parked.keep_alive += row.connections.keep_alive;
            parked.wait_io += row.connections.wait_io;
            parked.writing += row.connections.writing;
            parked.lingering += row.connections.lingering;
        }
        Holders { held, groups, parked }
    }

    /// Workers that only wait for their client to send, to take or to close.
    pub fn wait_for_clients(&self) -> u64 {
        let waits = |group: &&Group| matches!(group.phase, Step::Head | Step::Body | Step::KeepAlive | Step::Sending);
        self.groups.iter().filter(waits).map(|group| group.workers).sum()
    }
}

/// `300 W handler example.org/slow.php of 3 clients, longest 12 s; 80 R head of 1 client, longest 19 s; 20 others`.
impl fmt::Display for Holders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        for group in self.groups.iter().take(GROUPS_SHOWN) {
            write!(f, "{separator}{group}")?;
            separator = "; ";
        }
        let others: u64 = self.groups.iter().skip(GROUPS_SHOWN).map(|group| group.workers).sum();
        if others > 0 {
            write!(f, "{separator}{others} others")?;
            separator = "; ";
        }
        let parked = &self.parked;
        let waiting = [
            (parked.keep_alive, "kept alive"),
            (parked.wait_io, "sending slowly"),
            (parked.writing, "receiving slowly"),
            (parked.lingering, "closing"),
        ];
        for (count, what) in waiting.into_iter().filter(|(count, _)| *count > 0) {
            write!(f, "{separator}{count} without a worker {what}")?;
            separator = "; ";
        }
        if separator.is_empty() { f.write_str("nothing that is known") } else { Ok(()) }
    }
}

impl fmt::Display for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.workers, self.status.0, self.phase.name())?;
        if !self.vhost.is_empty() || !self.url.is_empty() {
            // What clients sent must not look like something else in a log.
            let text = self.vhost.chars().chain(self.url.chars().take(URL_CHARS_MAX));
            let clean: String = text.map(|character| if character.is_control() { '?' } else { character }).collect();
            write!(f, " {clean}")?;
        }
        let plural = if self.clients == 1 { "" } else { "s" };
        write!(f, " of {} client{plural}, longest {} s", self.clients, self.longest_ms / 1000)
    }
}

/// Neither idle nor on its way in or out.
fn is_held(worker: &Worker) -> bool {
    !matches!(worker.phase, Step::Dead | Step::Starting | Step::Idle)
}

/// The path of the target in a request line, of which the beginning may be missing (`SeeRequestTail`), or the end.
fn url(request: &str) -> &str {
    let mut words = request.split(' ');
    let first = words.next().unwrap_or_default();
    let target = words.next().filter(|word| !word.starts_with("HTTP/")).unwrap_or(first);
    target.split('?').next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::Generation;

    const NOW_MS: u64 = 1_700_000_000_000;

    fn worker(letter: char, phase: Step, request: &str, client: &str, seconds: u64) -> Worker {
        Worker {
            generation: 1,
            status: Letter(letter),
            phase,
            began_ms: NOW_MS - seconds * 1000,
            vhost: if request.is_empty() { String::new() } else { "a.example".to_owned() },
            request: request.to_owned(),
            client: client.to_owned(),
            ..Worker::default()
        }
    }

    #[test]
    fn the_largest_groups_are_told_first_and_few_of_them() {
        let mut workers = vec![worker('_', Step::Idle, "GET / HTTP/1.1", "x", 9), worker('R', Step::Head, "", "x", 19)];
        for seconds in 0..3 {
            workers.push(worker('W', Step::Handler, &format!("GET /slow.php?id={seconds} HTTP/1.1"), "y", seconds));
        }
        for path in ["b", "c\u{1b}[1m", "d", "e", "f"] {
            workers.push(worker('W', Step::Sending, &format!("GET /{path} HTTP/1.1"), "z", 1));
        }
        let mut snapshot = Snapshot { time_ms: NOW_MS, workers, ..Snapshot::default() };
        let connections = Connections { open: 50, keep_alive: 7, ..Connections::default() };
        snapshot.generations = vec![Generation { number: 1, connections, ..Generation::default() }];
        let holders = Holders::of(&snapshot, None);
        assert_eq!((holders.held, holders.wait_for_clients()), (9, 6));
        assert_eq!(
            holders.to_string(),
            "3 W handler a.example/slow.php of 1 client, longest 2 s; 1 R head of 1 client, longest 19 s; \
             1 W sending a.example/b of 1 client, longest 1 s; 1 W sending a.example/c?[1m of 1 client, longest 1 s; \
             1 W sending a.example/d of 1 client, longest 1 s; 2 others; 7 without a worker kept alive"
        );
        assert_eq!(Holders::of(&snapshot, Some(2)).to_string(), "nothing that is known");
    }

    #[test]
    fn a_url_is_found_in_what_is_left_of_a_request_line() {
        let check = |request: &str, expected: &str| assert_eq!(url(request), expected, "{request}");
        check("GET /a/b?c=d HTTP/1.1", "/a/b");
        check("GET /a/b", "/a/b");
        check("ath/b?c HTTP/1.1", "ath/b");
        check("GET", "GET");
        check("", "");
    }
}
