//! A run that never took place, for tests of everything that is derived from one.

use crate::cores::Cores;
use crate::experiment::Experiment;
use crate::figures::Cells;
use crate::results::{Cell, Environment, FORMAT, Latency, Mark, PageInfo, Results, TargetInfo};
use crate::target::TARGETS;

/// CPU microseconds a request with keep-alive, in `TARGETS`' order; without it is ten more.
const CPU: [f64; 8] = [8.0, 7.0, 6.0, 2.0, 24.0, 21.0, 18.0, 6.5];
/// MiB with 10 connections.
const MIB: [f64; 8] = [20.0, 12.0, 10.0, 4.0, 60.0, 25.0, 24.0, 9.0];

/// All eight targets, five rounds, and percore far ahead of everything.
pub fn clear_winner() -> Results {
    of(&CPU)
}

/// The same with other costs, 0 leaving a target out.
pub fn of(cpu: &[f64; 8]) -> Results {
    let experiment = Experiment {
        keep_alive: vec![false, true],
        concurrency: vec![10, 100, 1000],
        rounds: 5,
        seed: 7,
        warm_up_s: 0.12,
        measured_s: 0.4,
    };
    let there: Vec<usize> = (0..8).filter(|&i| cpu[i] > 0.0).collect();
    let mut cells = Vec::new();
    for round in 0..experiment.rounds {
        for (target, &known) in there.iter().enumerate() {
            for load in experiment.loads() {
                // Rounds differ by up to 4 %, each target in its own way.
                let wobble = 1.0 + 0.01 * f64::from((round * 3 + known as u32 * 2) % 5);
                let us = (cpu[known] + if load.keep_alive { 0.0 } else { 10.0 }) * wobble;
                let rate = 0.9e6 / us;
                let p50 = f64::from(load.concurrency) / rate * 1e6;
                cells.push(Cell {
                    round,
                    target,
                    keep_alive: load.keep_alive,
                    concurrency: load.concurrency,
                    seconds: 0.4,
                    completed: (rate * 0.4) as u64,
                    worked_on: (rate * 0.52) as u64,
                    requests_per_second: rate,
                    latency_us: Some(Latency { mean: p50 * 1.1, p50, p90: p50 * 1.5, p99: p50 * 3.0, max: p50 * 9.0 }),
                    cpu_s: us * (rate * 0.52).floor() / 1e6,
                    user_s: 0.1,
                    system_s: 0.3,
                    pss_kib: Some((1024.0 * MIB[known] * (1.0 + f64::from(load.concurrency) / 1000.0)) as u64),
                    processes: 17,
                    threads: 417,
                    generator_cpu_s: 0.4,
                    ..Cell::default()
                });
            }
        }
    }
    let targets: Vec<TargetInfo> = there
        .iter()
        .map(|&i| TargetInfo {
            name: TARGETS[i].name.to_owned(),
            label: TARGETS[i].label.to_owned(),
            family: TARGETS[i].family,
            model: TARGETS[i].model,
            version: "1.0".to_owned(),
            processes: 17,
            threads: 417,
            pss_fresh_kib: Some(4096),
            warm_up_s: 0.12,
        })
        .collect();
    let figures = Cells::new(&experiment, &cells).figures(targets.len());
    Results {
        format: FORMAT,
        experiment,
        page: PageInfo { site: None, path: "/index.html".to_owned(), bytes: 44 },
        targets,
        missing: Vec::new(),
        environment: environment("manifold lab run --seed 7"),
        ended_early: None,
        took_s: 200.0,
        cells,
        figures,
    }
}

/// Marks some cells and computes the figures again.
pub fn mark(results: &mut Results, mark: Mark, of: impl Fn(&Cell) -> bool) {
    for cell in results.cells.iter_mut().filter(|cell| of(cell)) {
        cell.marks.push(mark);
    }
    results.figures = Cells::new(&results.experiment, &results.cells).figures(results.targets.len());
}

/// A machine with two processors, on which `command` was typed.
pub fn environment(command: &str) -> Environment {
    Environment {
        started_utc: "2026-11-21 09:30:00".to_owned(),
        system: "Debian".to_owned(),
        kernel: "6.18".to_owned(),
        cpu: "a processor".to_owned(),
        memory_mib: 24_000,
        cores: Cores { server: vec![0], generator: vec![1] },
        manifold: "0.1.0".to_owned(),
        command: command.to_owned(),
        suspicions: Vec::new(),
    }
}
