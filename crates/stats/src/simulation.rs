//! Rounds of two targets with a known truth, for the tests of everything that concludes from rounds: noise as machines have it.

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

/// `n` rounds of two targets whose true ratio is `truth`.
pub(crate) fn rounds(noise: Noise, truth: f64, n: usize, seed: u64) -> (Vec<Option<f64>>, Vec<Option<f64>>) {
    let mut rng = Rng::new(seed.wrapping_mul(0x9E37).wrapping_add(n as u64));
    let mut shared = 0.0;
    let round = |index: usize| {
        let (mut a, mut b) = (disturbance(noise, &mut rng), disturbance(noise, &mut rng));
        match noise {
            Noise::Drifting => {
                let drift = (1.0 + index as f64 / (3 * n) as f64).ln();
                (a, b) = (a + drift, b + drift);
            }
            Noise::Correlated => {
                // What lasts longer than a round hits both.
                shared = 0.7 * shared + disturbance(Noise::Normal, &mut rng);
                (a, b) = (a + shared, b + shared);
            }
            Noise::Normal | Noise::Outliers | Noise::Skewed => {}
        }
        (Some(100.0 * truth * a.exp()), Some(100.0 * b.exp()))
    };
    (0..n).map(round).unzip()
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
