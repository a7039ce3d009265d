//! What a request costs a whole server: instructions and allocations by callgrind, system calls by strace, for each model
//! and workload.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::baseline::{Bounds, Cost};
use super::server::{MODELS, Model, Server, Site, Tool};
use super::workload::{Client, Connections, WORKLOADS, Workload};
use super::{dump, trace};

/// Requests before those that are counted: afterwards every buffer has its size and every file is known.
const WARM_UP: usize = 100;

/// After an answer has arrived, a server may still do something for its request; it is done with that long before.
const CALM: Duration = Duration::from_millis(50);

/// Counts every workload of every model whose joint name `is_wanted`.
pub fn count_all(is_wanted: impl Fn(&str) -> bool) -> Result<BTreeMap<String, Cost>> {
    let mut costs = BTreeMap::new();
    let site = Site::new()?;
    for model in MODELS {
        for logged in [false, true] {
            let wanted: Vec<(String, &Workload)> = WORKLOADS
                .iter()
                .filter(|workload| workload.logged == logged && fits(model, workload))
                .map(|workload| (format!("{} {}", model.name, workload.name), workload))
                .filter(|(name, _)| is_wanted(name))
                .collect();
            if wanted.is_empty() {
                continue;
            }
            let mut counter = Counter::start(&site, model, logged)?;
            for (name, workload) in wanted {
                let cost = counter.count(workload).with_context(|| format!("in {name}"))?;
                costs.insert(name, cost);
            }
        }
    }
    Ok(costs)
}

/// What bounds the cost of a model and workload, by their joint name.
pub fn bounds(name: &str) -> Bounds {
    let workload = WORKLOADS.iter().find(|workload| name.split(' ').nth(1) == Some(workload.name));
    workload.map_or_else(Bounds::default, |workload| Bounds {
        instructions_may_rise: workload.instructions_may_rise,
        calls_may_rise: workload.calls_may_rise,
        allocations_max: workload.allocations_max,
    })
}

/// Whether a workload makes sense in one process of a model.
fn fits(model: &Model, workload: &Workload) -> bool {
    !matches!(workload.connections, Connections::AtOnce(_)) || model.holds_many()
}

/// Two servers, one under each tool.
struct Counter {
    callgrind: Server,
    /// Parts that valgrind has written.
    parts: usize,
    strace: Server,
}

impl Counter {
    fn start(site: &Site, model: &Model, logged: bool) -> Result<Counter> {
        let start = |tool| {
            Server::start(site, model, tool, logged)
                .with_context(|| format!("cannot start {} under {tool:?}", model.name))
        };
        Ok(Counter { callgrind: start(Tool::Callgrind)?, parts: 0, strace: start(Tool::Strace)? })
    }

    fn count(&mut self, workload: &Workload) -> Result<Cost> {
        let (instructions, allocations) = self.instructions_and_allocations(workload)?;
        let calls = self.calls(workload)?;
        Ok(Cost { instructions: instructions.round(), calls: hundredths(calls), allocations: hundredths(allocations) })
    }

    /// The difference of a part with the requests and one without, so that what ends the parts is left out.
    fn instructions_and_allocations(&mut self, workload: &Workload) -> Result<(f64, f64)> {
        let mut client = Client::new(&self.callgrind, workload)?;
        client.run(WARM_UP)?;
        client.mark()?;
        client.mark()?;
        let requests = client.run(workload.requests)? as f64;
        client.mark()?;
        drop(client);
        self.parts += 3;
        let (without, with) = (self.callgrind.dump(self.parts - 1)?, self.callgrind.dump(self.parts)?);
        let instructions = |text| dump::instructions(text).context("no total in what valgrind wrote");
        // The status page takes memory: were it not seen, none would be.
        ensure!(dump::allocations(&without) > 0, "no call of malloc is seen");
        let more = |with: u64, without: u64| (with as f64 - without as f64) / requests;
        let instructions = more(instructions(&with)?, instructions(&without)?);
        Ok((instructions, more(dump::allocations(&with), dump::allocations(&without))))
    }

    fn calls(&self, workload: &Workload) -> Result<f64> {
        let mut client = Client::new(&self.strace, workload)?;
        client.run(WARM_UP)?;
        std::thread::sleep(CALM);
        let before = self.strace.trace()?.len();
        let requests = client.run(workload.requests)?;
        std::thread::sleep(CALM);
        let during = self.strace.trace()?.split_off(before);
        Ok(trace::calls(&during) as f64 / requests as f64)
    }
}

/// Rounded, and not below zero: what ends a part may have cost a little less with the requests than without.
fn hundredths(count: f64) -> f64 {
    // Adding zero makes a negative zero positive.
    (count * 100.0).round().max(0.0) / 100.0 + 0.0
}
