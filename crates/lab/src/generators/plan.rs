//! What `lab run generators` measures of each generator, and in which order.

use serde::{Deserialize, Serialize};

use manifold_stats::Rng;

/// One kind of load.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, PartialEq, Serialize)]
pub struct Work {
    /// Connections are kept for all requests, or each request has its own.
    pub keep_alive: bool,
    /// Connections at the same time.
    pub connections: u32,
}

impl Work {
    /// `keep-alive, c = 100`.
    pub fn label(self) -> String {
        let mode = if self.keep_alive { "keep-alive" } else { "closing" };
        format!("{mode}, c = {}", crate::text::grouped(i64::from(self.connections)))
    }
}

/// Speed, with kept connections and with one for each request; and memory.
pub const WORKS: [Work; 3] = [KEPT, CLOSING, MANY];
/// See [`WORKS`].
pub const KEPT: Work = Work { keep_alive: true, connections: 100 };
/// See [`WORKS`].
pub const CLOSING: Work = Work { keep_alive: false, connections: 100 };
/// See [`WORKS`].
pub const MANY: Work = Work { keep_alive: true, connections: 1000 };

/// One measurement to be made: an index into the programs, and the load.
pub type Step = (usize, Work);

/// The order of a round: random, so that a slow second of the machine hits all and not one, and decided by the seed.
pub fn round(programs: usize, rng: &mut Rng) -> Vec<Step> {
    let mut steps: Vec<Step> =
        (0..programs).flat_map(|program| WORKS.into_iter().map(move |work| (program, work))).collect();
    rng.shuffle(&mut steps);
    steps
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn rounds_have_every_step_once_in_an_order_of_their_own() {
        let mut rng = Rng::new(7);
        let rounds = [round(4, &mut rng), round(4, &mut rng)];
        assert_ne!(rounds[0], rounds[1]);
        assert!(rounds.iter().all(|round| round.iter().collect::<HashSet<_>>().len() == 12));
        assert_eq!(round(4, &mut Rng::new(7)), rounds[0]);
    }
}
