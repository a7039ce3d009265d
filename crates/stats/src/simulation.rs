//! Rounds of targets with a known truth, for the tests of everything that concludes from rounds: noise as machines have it.

use crate::rng::Rng;

/// What disturbs a figure.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Noise {
    /// A few per cent up and down.
    Normal,
    /// One round in ten is disturbed, by five times as much.
    Outliers,
    /// Mostly little, sometimes slower, never faster.
    Skewed,
    /// As `Normal`, while the machine becomes a third slower over the run.
    Drifting,
    /// As `Normal`, each round's noise partly that of the round before.
    Correlated,
}

pub(crate) const NOISES: &[Noise] =
    &[Noise::Normal, Noise::Outliers, Noise::Skewed, Noise::Drifting, Noise::Correlated];

/// `n` rounds of targets whose true figures these are.
pub(crate) fn rounds<const N: usize>(noise: Noise, truths: [f64; N], n: usize, seed: u64) -> [Vec<Option<f64>>; N] {
    let mut rng = Rng::new(seed.wrapping_mul(0x9E37).wrapping_add(n as u64));
    let mut figures = truths.map(|_| Vec::with_capacity(n));
    let mut lasting = 0.0;
    for round in 0..n {
        // What lasts longer than a round hits all targets.
        let shared = match noise {
            Noise::Drifting => (1.0 + round as f64 / (3 * n) as f64).ln(),
            Noise::Correlated => {
                lasting = 0.7 * lasting + disturbance(Noise::Normal, &mut rng);
                lasting
            }
            Noise::Normal | Noise::Outliers | Noise::Skewed => 0.0,
        };
        for (figures, truth) in figures.iter_mut().zip(truths) {
            figures.push(Some(truth * (shared + disturbance(noise, &mut rng)).exp()));
        }
    }
    figures
}

/// The logarithm of what a figure is multiplied by.
fn disturbance(noise: Noise, rng: &mut Rng) -> f64 {
    let normal = normal(rng) * 0.03;
    match noise {
        Noise::Normal | Noise::Drifting | Noise::Correlated => normal,
        Noise::Outliers if rng.below(10) == 0 => 5.0 * normal,
        Noise::Outliers => normal,
        Noise::Skewed => -0.04 * (1.0 - rng.unit()).ln(),
    }
}

/// A standard normal number, by Box and Muller's method.
fn normal(rng: &mut Rng) -> f64 {
    (-2.0 * (1.0 - rng.unit()).ln()).sqrt() * (std::f64::consts::TAU * rng.unit()).cos()
}
