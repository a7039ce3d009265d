//! The predictive policy's arithmetic for one set of listening sockets: how many workers its clients need, by Little's
//! law (clients present = arrival rate x service time), and how many of them to keep when the load goes.
//!
//! Never are more workers wanted than the clients present (served, or waiting where that is known) or rate x service time,
//! whichever is more, plus MaxSpare. The rate is one that lasted two looks. Only where all workers are busy and nobody
//! knows how many clients wait is the need hidden; then what is there is doubled, once it has come up.

use std::time::Duration;

use super::{SetCensus, Share, Wish};

/// How far ahead the need is worked out: a look and the start of a child.
const HORIZON: f64 = 1.0;
/// Time constant of the arrival rate in seconds.
const RATE_SECONDS: f64 = 1.0;
/// Time constant of the service time in seconds.
const SERVICE_SECONDS: f64 = 5.0;
/// The need of the last minute is remembered by so many peaks ...
const PEAKS: usize = 12;
/// ... of so many seconds each.
const PEAK_SECONDS: u64 = 5;
/// Spare workers for chance, in standard deviations of a Poisson number of clients.
const DEVIATIONS: f64 = 2.0;

/// Estimates of one set.
#[derive(Clone, Debug, Default)]
pub(super) struct Predictor {
    last: Option<Look>,
    /// Arrivals a second, smoothed.
    rate: f64,
    /// Busy workers and departures a second, smoothed alike; their ratio is the service time in seconds.
    busy: f64,
    departures: f64,
    peaks: [u32; PEAKS],
    /// Number of the current peak's period since the first look.
    period: u64,
}

#[derive(Clone, Copy, Debug)]
struct Look {
    at: Duration,
    busy: u32,
    accepted: u64,
    /// Accepted or waiting.
    arrived: u64,
}

impl Predictor {
    /// What is best for the set now.
    pub(super) fn wish(&mut self, now: Duration, set: &SetCensus, share: &Share) -> Wish {
        let need = self.need(now, set, share);
        self.remember(now, need);
        let workers = set.idle + set.busy;
        let spare_most = share.max_spare.saturating_sub(share.threads - 1).max(share.min_spare);
        let chance = (DEVIATIONS * f64::from(need).sqrt()).ceil() as u32;
        let mut wanted = need.saturating_add(chance.clamp(share.min_spare, spare_most));
        if set.waiting.is_none() && is_saturated(set, share) {
            wanted = wanted.max(set.busy.saturating_mul(2));
        }
        let missing = wanted.saturating_sub(workers).div_ceil(share.threads);
        let kept = self.peak().saturating_add(share.min_spare);
        if missing > 0 || set.processes == 0 {
            Wish::Grow(missing.clamp(1, share.forks_a_look_max))
        } else if set.idle > share.max_spare && workers.saturating_sub(share.threads) >= kept {
            Wish::EndOne
        } else {
            Wish::Rest
        }
    }

    /// Most workers that were needed at once within the last minute.
    fn peak(&self) -> u32 {
        self.peaks.iter().copied().max().unwrap_or(0)
    }

    /// Workers that the clients of the next [`HORIZON`] need.
    fn need(&mut self, now: Duration, set: &SetCensus, share: &Share) -> u32 {
        let waiting = set.waiting.unwrap_or(0);
        let look = Look { at: now, busy: set.busy, accepted: set.arrivals, arrived: set.arrivals + u64::from(waiting) };
        let Some(last) = self.last.replace(look).filter(|last| last.accepted <= look.accepted) else {
            return set.busy + waiting;
        };
        let seconds = now.saturating_sub(last.at).as_secs_f64().max(1e-3);
        let arrivals = look.arrived.saturating_sub(last.arrived) as f64 / seconds;
        let busy = f64::from(last.busy + look.busy) / 2.0;
        let left = (look.accepted - last.accepted) as f64 - (f64::from(look.busy) - f64::from(last.busy));
        let departures = left.max(0.0) / seconds;
        let rate_before = self.rate;
        smooth(&mut self.rate, arrivals, seconds / RATE_SECONDS);
        smooth(&mut self.busy, busy, seconds / SERVICE_SECONDS);
        smooth(&mut self.departures, departures, seconds / SERVICE_SECONDS);
        // Many who come at once are no rate: a forecast is made only of what lasts.
        let rate = self.rate.min(rate_before).min(arrivals);
        let service = ratio(self.busy, self.departures);
        // What all workers do at this moment says more of those who are present than the past.
        let now = if is_saturated(set, share) { service.max(ratio(busy, departures)) } else { service };
        let (busy, waiting) = (f64::from(set.busy), f64::from(waiting));
        let present = busy * staying(now) + waiting * (now / HORIZON).min(1.0);
        // Where nobody has left yet, nothing is known of those who come; the spares are there for them.
        let (arriving, lasting) =
            if service.is_finite() { (rate * service * (1.0 - staying(service)), rate * service) } else { (0.0, 0.0) };
        // A queue is not a rate: once it is served, nobody follows those who were in it.
        (present + arriving).min(lasting.max(busy + waiting)).max(busy).ceil() as u32
    }

    fn remember(&mut self, now: Duration, need: u32) {
        let period = now.as_secs() / PEAK_SECONDS;
        for passed in (self.period + 1..=period).take(PEAKS) {
            self.peaks[(passed % PEAKS as u64) as usize] = 0;
        }
        self.period = self.period.max(period);
        let peak = &mut self.peaks[(period % PEAKS as u64) as usize];
        *peak = need.max(*peak);
    }
}

/// The part of those in service, `service` seconds long on average, who are still there at the [`HORIZON`].
fn staying(service: f64) -> f64 {
    if service > 0.0 { (-HORIZON / service).exp() } else { 0.0 }
}

/// Whether all workers that are up are busy.
fn is_saturated(set: &SetCensus, share: &Share) -> bool {
    set.busy > 0 && set.idle <= set.starting.saturating_mul(share.threads)
}

fn smooth(mean: &mut f64, value: f64, time_constants: f64) {
    *mean += (value - *mean) * (1.0 - (-time_constants).exp());
}

/// `amount / rate`, in which nothing that leaves takes for ever.
fn ratio(amount: f64, rate: f64) -> f64 {
    if amount < 1e-3 {
        0.0
    } else if rate < 1e-6 {
        f64::INFINITY
    } else {
        amount / rate
    }
}
