//! The loads of an experiment: every combination of what is listed, in full or scaled down.

use manifold_load::native::find_max;

use super::{Load, Work};
use crate::generator::Amount;
use crate::slow_test::kind::Kind;
use crate::study::file::{self, Flags};
use crate::study::sweep::Numbers;

/// More connections than this the generator does not hold from one address.
const CONNECTIONS_MAX: u64 = 20_000;
/// More requests than this take longer than anybody waits.
const REQUESTS_MAX: u64 = 1_000_000_000;
/// The longest cell, seconds.
const SECONDS_MAX: f64 = 3600.0;
/// More reloads than this in one cell are a mistake.
const RELOADS_MAX: u32 = 1000;
/// What is said of a name for several loads.
const ONE_NAME: &str = "a load with a name is a single one; leave the name out, or make one [[load]] for each";
/// The word for one request on each connection.
const CONNECTIONS: &str = "connections";

/// Every combination of what a load lists.
///
/// # Errors
/// A sentence: a number beyond its bounds, or keys that do not go together.
pub fn resolve_load(load: &file::Load) -> Result<Vec<Load>, String> {
    let keep_alive = match &load.keep_alive {
        Flags::One(flag) => vec![*flag],
        Flags::Many(flags) => flags.clone(),
    };
    if !load.slow_clients.is_empty() {
        return slow_loads(load);
    }
    if let Some(work) = special(load)? {
        return special_loads(load, &keep_alive, &work);
    }
    let mut loads = Vec::new();
    for connections in load.connections.resolve(CONNECTIONS_MAX).map_err(|said| format!("connections: {said}"))? {
        let amounts: Vec<Amount> = match (&load.requests, load.seconds) {
            (Some(Numbers::Text(word)), None) if word == CONNECTIONS => vec![Amount::Requests(connections)],
            (Some(requests), None) => {
                let numbers = requests.resolve(REQUESTS_MAX).map_err(|said| format!("requests: {said}"))?;
                numbers.into_iter().map(Amount::Requests).collect()
            }
            (None, Some(seconds)) if (0.05..=SECONDS_MAX).contains(&seconds) => vec![Amount::Seconds(seconds)],
            (None, Some(seconds)) => return Err(format!("seconds = {seconds}: 0.05 to {SECONDS_MAX} are possible")),
            (None, None) | (Some(_), Some(_)) => {
                return Err("a load ends after either requests or seconds".to_owned());
            }
        };
        for &keep_alive in &keep_alive {
            loads.extend(amounts.iter().map(|&amount| Load {
                name: load.name.clone(),
                connections: connections as u32,
                keep_alive,
                work: Work::Asks(amount),
            }));
        }
    }
    if loads.len() > 1 && load.name.is_some() {
        return Err(ONE_NAME.to_owned());
    }
    Ok(loads)
}

/// What a load does that is not asking alone.
fn special(load: &file::Load) -> Result<Option<Work>, String> {
    let seconds = |what: &str| match load.seconds {
        Some(seconds) if (0.05..=SECONDS_MAX).contains(&seconds) => Ok(seconds),
        Some(seconds) => Err(format!("seconds = {seconds}: 0.05 to {SECONDS_MAX} are possible")),
        None => Err(format!("{what} needs seconds")),
    };
    let work = match (load.idle, load.reloads, &load.find_max) {
        (false, None, None) => return Ok(None),
        (true, None, None) if load.seconds.is_some() => return Err("idle connections need no seconds".to_owned()),
        (true, None, None) => Work::Idles,
        (false, Some(times), None) if (1..=RELOADS_MAX).contains(&times) => {
            Work::Reloads(seconds("a load with reloads")?, times)
        }
        (false, Some(times), None) => return Err(format!("reloads = {times}: 1 to {RELOADS_MAX} are possible")),
        (false, None, Some(condition)) => {
            find_max::condition::parse(condition).map_err(|said| format!("find-max: {said}"))?;
            Work::Searches(condition.clone(), seconds("a search, for each of its steps,")?)
        }
        _ => return Err("a load is one of idle, reloads and find-max".to_owned()),
    };
    if load.requests.is_some() {
        return Err("idle, reloads and find-max have no requests".to_owned());
    }
    Ok(Some(work))
}

fn special_loads(load: &file::Load, keep_alive: &[bool], work: &Work) -> Result<Vec<Load>, String> {
    let numbers = load.connections.resolve(CONNECTIONS_MAX).map_err(|said| format!("connections: {said}"))?;
    // Idle connections are kept, whatever is said.
    let keep_alive = if *work == Work::Idles { &[true] } else { keep_alive };
    let of = |connections: u64| {
        keep_alive.iter().map(move |&keep_alive| Load {
            name: load.name.clone(),
            connections: connections as u32,
            keep_alive,
            work: work.clone(),
        })
    };
    let loads: Vec<Load> = numbers.into_iter().flat_map(of).collect();
    if loads.len() > 1 && load.name.is_some() {
        return Err(ONE_NAME.to_owned());
    }
    Ok(loads)
}

fn slow_loads(load: &file::Load) -> Result<Vec<Load>, String> {
    if load.requests.is_some() || load.seconds.is_some() || load.name.is_some() {
        return Err("slow clients have numbers of connections and nothing else; leave requests, seconds and name out"
            .to_owned());
    }
    let numbers = load.connections.resolve(CONNECTIONS_MAX).map_err(|said| format!("connections: {said}"))?;
    let mut numbers: Vec<u32> = numbers.into_iter().map(|number| number as u32).collect();
    numbers.sort_unstable();
    let most = numbers.last().copied().unwrap_or(0);
    let of = |&kind: &Kind| Load {
        name: Some(kind.name().to_owned()),
        connections: most,
        keep_alive: false,
        work: Work::Holds(kind, numbers.clone()),
    };
    Ok(load.slow_clients.iter().map(of).collect())
}

/// Seconds of a load that is as small as can be.
const LEAST_S: f64 = 0.1;

/// Makes them smaller, as `--scaled` asks.
pub fn shrink(loads: &mut [Load], scaled: &file::Scaled) {
    for load in loads {
        let shorter = |seconds: f64| scaled.seconds.unwrap_or(seconds).min(seconds).max(0.05);
        match &mut load.work {
            Work::Asks(Amount::Requests(requests)) => {
                let fewer = *requests / scaled.divide_requests_by.unwrap_or(1).max(1);
                *requests = fewer.max(u64::from(load.connections)).min(*requests);
            }
            Work::Asks(Amount::Seconds(seconds)) | Work::Searches(_, seconds) => *seconds = shorter(*seconds),
            // The reloads come as densely as before.
            Work::Reloads(seconds, times) => {
                let part = shorter(*seconds) / *seconds;
                *times = ((f64::from(*times) * part).round() as u32).max(1);
                *seconds = shorter(*seconds);
            }
            Work::Holds(..) | Work::Idles => {}
        }
    }
}

/// Makes them as small as can be: a request on each connection, a moment, the fewest slow clients.
pub fn least(loads: &mut [Load]) {
    for load in loads {
        match &mut load.work {
            Work::Asks(Amount::Requests(requests)) => *requests = (*requests).min(u64::from(load.connections)),
            Work::Asks(Amount::Seconds(seconds)) => *seconds = seconds.min(LEAST_S),
            Work::Holds(_, numbers) => numbers.truncate(1),
            Work::Searches(..) | Work::Reloads(..) | Work::Idles => {}
        }
    }
}
