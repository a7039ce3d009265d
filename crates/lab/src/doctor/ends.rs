//! What runs out first, and how far each thing goes: pure arithmetic on the numbers in effect, on what a child was measured to cost, and on
//! what the machine allows.

use manifold_mpm::limits::{Limits, Model};
use serde::Serialize;

use super::machine::{Machine, Said};
use super::memory::Costs;
use super::reading::{Setup, Whose};
use crate::text::{counted, grouped, number};

/// Descriptors of a process that belong to no connection: standard streams, epoll, the pipe of death, mutexes.
const OWN_DESCRIPTORS: u64 = 16;
/// Descriptors of a request that is worked on: its connection, a file or a backend's connection, a pipe's end.
const REQUEST_DESCRIPTORS: u64 = 3;
/// Threads of a child of worker and event that serve nobody: the first one and the listener.
const CHILD_THREADS: u64 = 2;
/// How long the kernel keeps the port of a connection that was closed, seconds (`TCP_TIMEWAIT_LEN`).
const TIME_WAIT_S: u64 = 60;
/// Pages of a pipe as the kernel makes it.
const PIPE_PAGES: u64 = 16;
/// Times of a request for which the law is stated, seconds.
const SERVICE_S: [(f64, &str); 3] = [(0.01, "10 ms"), (0.1, "100 ms"), (1.0, "1 s")];

/// How far one thing goes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct End {
    /// What runs out.
    pub what: &'static str,
    /// Requests that are worked on at the same time when it has run out.
    pub requests: u64,
    /// The same as a sentence, with its numbers and where they come from.
    pub sentence: String,
    /// It runs out before the workers do, which the configuration promises.
    pub too_early: bool,
}

/// What is said beside, and whether it is something to act on.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Remark {
    /// A sentence.
    pub sentence: String,
    /// Something to act on.
    pub is_finding: bool,
}

fn remark(sentence: String) -> Remark {
    Remark { sentence, is_finding: false }
}

/// Children that there may be, and threads of each that serve.
fn shape(limits: &Limits) -> (u64, u64) {
    (u64::from(limits.processes()), u64::from(limits.threads_per_child))
}

/// How far everything goes, what runs out first first.
pub fn ends(setup: &Setup, machine: &Machine, costs: Option<&Costs>) -> Vec<End> {
    let mut ends = vec![workers(setup)];
    let workers = ends[0].requests;
    ends.extend(machine.memory_kib.as_ref().zip(costs).map(|(left, costs)| memory(setup, left, costs)));
    ends.extend(machine.descriptors.as_ref().and_then(|most| descriptors(setup, most)));
    ends.extend(machine.tasks.as_ref().map(|most| tasks(setup, most)));
    for end in &mut ends {
        end.too_early = end.requests < workers;
    }
    // Where two end together it is the workers that were meant to.
    ends.sort_by_key(|end| (end.requests, end.what != WORKERS));
    ends
}

/// [`End::what`] of what a configuration limits itself.
const WORKERS: &str = "workers";

fn end(what: &'static str, requests: u64, sentence: String) -> End {
    End { what, requests, sentence, too_early: false }
}

fn workers(setup: &Setup) -> End {
    let limits = &setup.limits;
    let (processes, threads) = shape(limits);
    if limits.model == Model::Percore {
        let each = u64::from(limits.max_connections);
        let said = setup.value("MaxConnections");
        let sentence = format!(
            "{} with {} connections each hold {} (MaxConnections, {}).",
            processes_text(processes),
            grouped(each as i64),
            counted((processes * each) as usize, "connection"),
            said.from
        );
        return end(WORKERS, processes * each, sentence);
    }
    let said = setup.value("MaxRequestWorkers");
    let of = match limits.model {
        Model::Prefork => format!("{} processes of one thread", grouped(processes as i64)),
        _ => format!(
            "{processes} processes x {threads} threads (ThreadsPerChild, {})",
            setup.value("ThreadsPerChild").from
        ),
    };
    let all = u64::from(limits.max_request_workers);
    let sentence = format!(
        "{} requests are worked on at the same time: MaxRequestWorkers, {}; {of}.",
        grouped(all as i64),
        said.from
    );
    end(WORKERS, all, sentence)
}

fn memory(setup: &Setup, left: &Said, costs: &Costs) -> End {
    let (processes, threads) = shape(&setup.limits);
    let mib = |kib: f64| number(kib / 1024.0);
    let room = (left.number as f64 - costs.base_kib).max(0.0);
    let children = if costs.child_kib > 0.0 { 1 + (room / costs.child_kib) as u64 } else { u64::MAX / threads.max(1) };
    let need = costs.of(processes as u32, threads as u32);
    let a_thread =
        if costs.thread_kib > 0.0 { format!(", a thread {} KiB", number(costs.thread_kib)) } else { String::new() };
    let sentence = format!(
        "All {} take {} MiB of the {} MiB there are ({}): measured here, PSS and not RSS, a child takes {} MiB{a_thread}, the parent with its \
         first child {} MiB, {} loaded. Children that have run your pages hold more, and a backend has memory of its own.",
        processes_text(processes),
        mib(need),
        mib(left.number as f64),
        left.by,
        mib(costs.child_kib),
        mib(costs.base_kib),
        counted(costs.modules, "further module"),
    );
    end("memory", children.saturating_mul(per_child(&setup.limits)), sentence)
}

/// Requests, or in percore connections, that a child has room for.
fn per_child(limits: &Limits) -> u64 {
    if limits.model == Model::Percore { u64::from(limits.max_connections) } else { u64::from(limits.threads_per_child) }
}

/// `None` for prefork, whose processes hold one connection each.
fn descriptors(setup: &Setup, most: &Said) -> Option<End> {
    let limits = &setup.limits;
    let (processes, threads) = shape(limits);
    let own = OWN_DESCRIPTORS + (setup.listeners + setup.logs) as u64;
    let left = most.number.saturating_sub(own);
    let (each, need) = match limits.model {
        Model::Prefork => return None,
        Model::Percore => (left, u64::from(limits.max_connections)),
        Model::Worker => (left / REQUEST_DESCRIPTORS, threads),
        // Parked connections have one each.
        Model::Event => {
            let parked = parked(limits);
            (left.saturating_sub(parked) / (REQUEST_DESCRIPTORS - 1), threads)
        }
    };
    let parked = if limits.model == Model::Event {
        format!(", {} connections parked beside them", grouped(parked(limits) as i64))
    } else {
        String::new()
    };
    let sentence = format!(
        "A process may have {} descriptors, by {}; {own} are its own (logs, listening sockets), the rest is for {} requests at the same time{parked}: \
         {} are needed.",
        descriptors_text(most.number),
        most.by,
        descriptors_text(each),
        grouped(need as i64),
    );
    Some(end("file descriptors", each.saturating_mul(processes), sentence))
}

fn processes_text(processes: u64) -> String {
    format!("{} process{}", grouped(processes as i64), if processes == 1 { "" } else { "es" })
}

fn descriptors_text(number: u64) -> String {
    i64::try_from(number).map_or_else(|_| "any number of".to_owned(), grouped)
}

/// Connections of one process of Apache's event that wait for work when all its threads are idle.
fn parked(limits: &Limits) -> u64 {
    (f64::from(limits.threads_per_child) * limits.async_factor) as u64
}

fn tasks(setup: &Setup, most: &Said) -> End {
    let limits = &setup.limits;
    let (processes, threads) = shape(limits);
    let each = if limits.model.is_threaded() { threads + CHILD_THREADS } else { 1 };
    let children = most.number.saturating_sub(1) / each;
    let sentence = format!(
        "The server has up to {} processes and threads of the {} it may have ({}).",
        grouped((1 + processes * each) as i64),
        descriptors_text(most.number),
        most.by
    );
    end("processes and threads", children.saturating_mul(per_child(limits)), sentence)
}

/// What else is to be said: waiting, keeping, queueing.
pub fn remarks(setup: &Setup, machine: &Machine, whose: Whose) -> Vec<Remark> {
    let mut remarks = Vec::new();
    remarks.extend(service_times(setup));
    remarks.extend(kept(setup, whose));
    remarks.extend(machine.somaxconn.as_ref().map(|most| backlog(setup, most)));
    remarks.extend(machine.ports.as_ref().and_then(|ports| backends(setup, ports)));
    remarks.extend(machine.pipe_pages.as_ref().and_then(|pages| pipes(setup, pages, whose)));
    remarks
}

/// Little's law: requests at the same time = requests a second x seconds each takes.
fn service_times(setup: &Setup) -> Option<Remark> {
    if setup.limits.model == Model::Percore {
        return None;
    }
    let workers = f64::from(setup.limits.max_request_workers);
    let rates: Vec<String> = SERVICE_S
        .iter()
        .map(|(seconds, name)| format!("{} where it takes {name}", grouped((workers / seconds).round() as i64)))
        .collect();
    Some(remark(format!(
        "{} workers answer at most so many requests a second (Little's law: at the same time = a second x seconds each): {}. Processors may end \
         it before.",
        grouped(workers as i64),
        rates.join(", ")
    )))
}

fn kept(setup: &Setup, whose: Whose) -> Option<Remark> {
    let limits = &setup.limits;
    let Some(seconds) = setup.keep_alive_s else {
        let from = &setup.value("KeepAlive").from;
        return Some(remark(format!(
            "Connections are not kept (KeepAlive Off, {from}): every request pays for a new one."
        )));
    };
    let workers = f64::from(limits.max_request_workers);
    let from = &setup.value("KeepAliveTimeout").from;
    let sentence = match limits.model {
        Model::Prefork | Model::Worker if seconds > 0.0 => format!(
            "A client that has been answered still holds its worker for {} s (KeepAliveTimeout, {from}): {} workers / {} s = {} new clients a \
             second, and further ones wait although nobody is working (Little's law).",
            number(seconds),
            grouped(workers as i64),
            number(seconds),
            number(workers / seconds)
        ),
        Model::Prefork | Model::Worker => return None,
        Model::Event if whose == Whose::Apache => {
            let (processes, threads) = shape(limits);
            let most = processes * (threads + parked(limits));
            format!(
                "A client that has been answered holds no worker, its connection is parked for {} s (KeepAliveTimeout, {from}); {} connections fit \
                 while threads are idle, {processes} x ({threads} + {} x {threads}), and {} when all are busy: then parked ones are closed \
                 (AsyncRequestWorkerFactor, {}).",
                number(seconds),
                grouped(most as i64),
                limits.async_factor,
                grouped(workers as i64),
                setup.value("AsyncRequestWorkerFactor").from
            )
        }
        Model::Event | Model::Percore => format!(
            "A client that has been answered holds no worker, its connection is parked for {} s (KeepAliveTimeout, {from}); {} connections fit \
             (MaxConnections x processes).",
            number(seconds),
            grouped((u64::from(limits.max_connections) * u64::from(limits.processes())) as i64)
        ),
    };
    Some(remark(sentence))
}

fn backlog(setup: &Setup, most: &Said) -> Remark {
    let wanted = u64::from(setup.backlog);
    let from = &setup.value("ListenBacklog").from;
    if most.number < wanted {
        let sentence = format!(
            "ListenBacklog of {wanted} ({from}) counts as {}: {} cuts it without a word (sysctl {}={wanted}).",
            most.number, most.by, most.by
        );
        return Remark { sentence, is_finding: true };
    }
    remark(format!(
        "When no worker is free, {wanted} more connections wait in each listening socket (ListenBacklog, {from}; {} is {}); a client beyond \
         them gets no answer and tries again after 1, 3 and 7 s.",
        most.by, most.number
    ))
}

fn backends(setup: &Setup, ports: &Said) -> Option<Remark> {
    if setup.backends.is_empty() {
        return None;
    }
    let names: Vec<&str> = setup.backends.iter().map(String::as_str).collect();
    let rate = ports.number / TIME_WAIT_S;
    Some(remark(format!(
        "Connections to a backend over TCP ({}) that are not reused keep their port for {TIME_WAIT_S} s: {} ports ({}) / {TIME_WAIT_S} s = {} new \
         connections a second to each; a Unix socket needs no port.",
        names.join(", "),
        grouped(ports.number as i64),
        ports.by,
        grouped(rate as i64)
    )))
}

/// Threads that send files by sendfile(2) have a pipe each; children of Manifold's prefork and percore make it while they are privileged.
fn pipes(setup: &Setup, pages: &Said, whose: Whose) -> Option<Remark> {
    let concerned = setup.sendfile && (whose == Whose::Apache || setup.limits.model.is_threaded());
    let full = pages.number / PIPE_PAGES;
    let workers = u64::from(setup.limits.max_request_workers);
    (concerned && pages.number > 0 && workers >= full).then(|| Remark {
        sentence: format!(
            "{} workers may each send large files through a pipe of {PIPE_PAGES} pages, and from the {}th on of a user the kernel gives 2 ({} is {}): \
             such files cost up to half as much processor time again (sysctl {}={}).",
            grouped(workers as i64),
            grouped(full as i64),
            pages.by,
            grouped(pages.number as i64),
            pages.by,
            (workers + 1).next_power_of_two() * PIPE_PAGES
        ),
        is_finding: true,
    })
}

#[cfg(test)]
mod tests {
    use super::super::reading::Value;
    use super::*;
    use manifold_mpm::limits::{Occasion, RawLimits, Written, resolve};
    use std::collections::BTreeSet;

    fn setup(model: Model, workers: i64) -> Setup {
        let number = |value| Some(Written { value, span: None, directive: "MaxRequestWorkers" });
        let raw =
            RawLimits { max_request_workers: number(workers), server_limit: number(2000), ..RawLimits::default() };
        let (limits, _) = resolve(model, &raw, 2, Occasion::Start);
        let value =
            |name: &str, from: &str| Value { name: name.to_owned(), value: String::new(), from: from.to_owned() };
        Setup {
            limits,
            mpm: value("MPM", "a:1"),
            values: vec![
                value("MaxRequestWorkers", "a:2"),
                value("KeepAliveTimeout", "a:3"),
                value("ListenBacklog", "default"),
            ],
            corrections: Vec::new(),
            modules: Vec::new(),
            keep_alive_s: Some(5.0),
            backlog: 511,
            listeners: 1,
            logs: 2,
            sendfile: true,
            backends: BTreeSet::from(["127.0.0.1:9000".to_owned()]),
            pid_file: None,
        }
    }

    fn said(number: u64) -> Option<Said> {
        Some(Said { number, by: "here".to_owned() })
    }

    const COSTS: Costs = Costs { base_kib: 10_240.0, child_kib: 2048.0, thread_kib: 30.0, threads: 25, modules: 4 };

    #[test]
    fn what_runs_out_first_stands_first() {
        let order = |model, workers, machine: &Machine| -> Vec<(&'static str, u64, bool)> {
            let ends = ends(&setup(model, workers), machine, Some(&COSTS));
            ends.into_iter().map(|end| (end.what, end.requests, end.too_early)).collect()
        };
        // 1 + (100 MiB - 10 MiB) / 2 MiB = 46 children.
        let small = Machine { memory_kib: said(102_400), ..Machine::default() };
        assert_eq!(order(Model::Prefork, 256, &small), [("memory", 46, true), ("workers", 256, false)]);
        assert_eq!(order(Model::Prefork, 46, &small), [("workers", 46, false), ("memory", 46, false)]);
        assert_eq!(order(Model::Worker, 150, &small)[..2], [("workers", 150, false), ("memory", 46 * 25, false)]);
        // 27 threads a child: (100 - 1) / 27 = 3 children.
        let few = Machine { tasks: said(100), ..Machine::default() };
        assert_eq!(order(Model::Event, 150, &few)[0], ("processes and threads", 75, true));
        // (128 - 19) / 3 = 36 requests a process are enough for 25; (64 - 19) / 3 = 15 are not.
        let descriptors = |number| Machine { descriptors: said(number), ..Machine::default() };
        assert_eq!(order(Model::Worker, 150, &descriptors(128))[1], ("file descriptors", 216, false));
        assert_eq!(order(Model::Worker, 150, &descriptors(64))[0], ("file descriptors", 90, true));
        assert_eq!(order(Model::Prefork, 150, &descriptors(64)), [("workers", 150, false)], "one connection each");
        assert_eq!(order(Model::Event, 150, &descriptors(u64::MAX)).len(), 2);
    }

    #[test]
    fn littles_law_is_stated_with_its_numbers() {
        let machine =
            Machine { somaxconn: said(4096), ports: said(28_232), pipe_pages: said(16_384), ..Machine::default() };
        let all = |model, workers, whose| -> String {
            let all = remarks(&setup(model, workers), &machine, whose);
            all.into_iter()
                .map(|remark| format!("{}{}\n", if remark.is_finding { "! " } else { "" }, remark.sentence))
                .collect()
        };
        let check = |model, workers, whose, parts: &[&str], absent: &[&str]| {
            let text = all(model, workers, whose).replace('\u{202f}', " ");
            assert!(parts.iter().all(|part| text.contains(part)), "{text}");
            assert!(!absent.iter().any(|part| text.contains(part)), "{text}");
        };
        let held = [
            "150 workers / 5.0 s = 30.0 new clients",
            "15 000 where it takes 10 ms",
            "150 where it takes 1 s",
            "470 new connections",
        ];
        check(Model::Prefork, 150, Whose::Apache, &held, &["! ", "pipe"]);
        check(Model::Event, 150, Whose::Apache, &["450 connections fit", "6 x (25 + 2 x 25)", "a:3"], &["new clients"]);
        check(Model::Event, 150, Whose::Manifold, &["393 216 connections fit"], &["closed"]);
        check(Model::Percore, 150, Whose::Manifold, &["parked"], &["Little"]);
        check(Model::Worker, 2000, Whose::Apache, &["! 2 000 workers may each send", "from the 1 024th"], &[]);
        check(Model::Prefork, 2000, Whose::Manifold, &[], &["pipe"]);
    }

    #[test]
    fn a_backlog_that_the_kernel_cuts_is_a_finding() {
        let cut = backlog(&setup(Model::Event, 150), &Said { number: 128, by: "net.core.somaxconn".to_owned() });
        assert!(cut.is_finding && cut.sentence.contains("counts as 128"), "{cut:?}");
        let whole = backlog(&setup(Model::Event, 150), &Said { number: 4096, by: "net.core.somaxconn".to_owned() });
        assert!(!whole.is_finding && whole.sentence.contains("511 more connections wait"), "{whole:?}");
    }
}
