//! Made-up results of a study for the tests of what comes after measuring.

use std::collections::BTreeMap;

use super::Size;
use super::resolve;
use super::results::{Connecting, FORMAT, Found, Studies, StudyCell};
use crate::cores::Cores;
use crate::environment;
use crate::results::{Cell, Latency};

/// `default-mpms` without its second load, six rounds: manifold's worker serves twice what its prefork does, apache2's half of it.
pub fn found() -> Found {
    let text = include_str!("../../experiments/default-mpms.toml");
    let mut study = resolve::resolve("default-mpms", "default-mpms", text, Size::Full).expect("it is built in");
    study.loads.truncate(1);
    study.published.retain(|published| published.load == 0);
    study.claims.retain(|claim| claim.of.1 == [0]);
    let rate = |label: &str| match label {
        "manifold worker" => 2000.0,
        "apache2 worker" => 500.0,
        _ => 1000.0,
    };
    let mut cells = Vec::new();
    for round in 0..6u32 {
        for (target, subject) in study.targets.iter().enumerate() {
            // A little noise, of its own in each cell.
            let noise = 1.0 + f64::from((round * 7 + target as u32 * 3) % 5) / 200.0;
            cells.push(cell(round, target, rate(&subject.label()) * noise));
        }
    }
    let versions = study.targets.iter().map(|subject| format!("{} 1", subject.server.name())).collect();
    Found { versions, rounds: 6, round_s: 10.0, cells, ..Found::new(study, Vec::new()) }
}

fn cell(round: u32, target: usize, rate: f64) -> StudyCell {
    let ms = 10_000.0 / rate;
    let cell = Cell {
        round,
        target,
        concurrency: 10,
        seconds: 10_000.0 / rate,
        completed: 10_000,
        worked_on: 10_000,
        requests_per_second: rate,
        latency_us: Some(Latency {
            mean: ms * 1000.0,
            p50: ms * 900.0,
            p90: ms * 2000.0,
            p99: ms * 4000.0,
            max: ms * 9000.0,
        }),
        cpu_s: 2.0,
        pss_kib: Some(8192),
        ..Cell::default()
    };
    StudyCell {
        load: 0,
        cell,
        failed: 0,
        received_bytes: 3_000_000,
        connect_ms: Some(Connecting { mean: 0.1, longest: 3.0 }),
        deviation_ms: Some(ms / 2.0),
        held: None,
        special: BTreeMap::new(),
        percentiles_ms: [0.9, 1.0, 1.2, 1.4, 2.0, 2.5, 3.0, 4.0].map(|part| part * ms).to_vec(),
    }
}

/// A run of it.
pub fn studies() -> Studies {
    let cores = Cores { server: vec![0], generator: vec![1] };
    Studies {
        format: FORMAT,
        seed: 7,
        size: Size::Scaled,
        environment: environment::describe(&cores, "manifold lab run default-mpms --scaled --seed 7"),
        ended_early: None,
        took_s: 61.0,
        found: vec![found()],
    }
}
