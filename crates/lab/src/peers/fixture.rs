//! A run that never took place, for tests of what is derived from one.

use super::plan;
use super::results::{FORMAT, Idle, PeerCell, PeerTarget, Peers};
use crate::fixture::environment;
use crate::results::{Cell, Latency, Mark};
use crate::target::TARGETS;

/// CPU microseconds a request on the small page, in `TARGETS`' order; on others it is ten times as much, and closing doubles it.
const CPU: [f64; 13] = [10.0, 9.0, 6.0, 4.0, 30.0, 40.0, 30.0, 8.0, 6.0, 6.0, 25.0, 4.5, 4.5];

/// All targets, six equal rounds, and the generator saturated by percore.
pub fn peers() -> Peers {
    let names: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
    let mut cells = Vec::new();
    for round in 0..6 {
        for (target, work) in plan::steps(&names, true) {
            let page = if work.page == plan::Page::Small { 1.0 } else { 10.0 };
            let us = CPU[target] * page * if work.keep_alive { 1.0 } else { 2.0 };
            let p99 = us * f64::from(work.connections);
            let cell = Cell {
                round,
                target,
                keep_alive: work.keep_alive,
                concurrency: work.connections,
                completed: 1000,
                worked_on: 1000,
                requests_per_second: 1e6 / us,
                latency_us: Some(Latency { p50: p99 / 2.0, p99, ..Latency::default() }),
                cpu_s: us / 1000.0,
                marks: if names[target] == "percore" { vec![Mark::GeneratorSaturated] } else { Vec::new() },
                ..Cell::default()
            };
            cells.push(PeerCell { work, cell });
        }
    }
    let idle = |(target, us): (usize, &f64)| Idle {
        target,
        fresh_kib: Some(1024),
        idle_kib: Some((us * 1024.0) as u64),
        open: 1000,
        wanted: 1000,
        processes: 1,
        threads: 1,
        ..Idle::default()
    };
    Peers {
        format: FORMAT,
        seed: 7,
        warm_up_s: 0.12,
        measured_s: 0.5,
        rounds: 6,
        targets: TARGETS
            .iter()
            .map(|target| PeerTarget {
                name: target.name.to_owned(),
                label: target.label.to_owned(),
                family: target.family,
                model: target.model,
                version: format!("{} 1.0", target.family.name()),
            })
            .collect(),
        missing: Vec::new(),
        environment: environment("manifold lab run peers --seed 7"),
        ended_early: None,
        took_s: 700.0,
        cells,
        idle: CPU.iter().enumerate().map(idle).collect(),
    }
}
