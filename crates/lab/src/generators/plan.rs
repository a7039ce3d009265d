//! What `lab run generators` measures of each generator, and in which order.

use serde::{Deserialize, Serialize};

use manifold_stats::Rng;

use super::program::Program;

/// What is spoken.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Over {
    /// HTTP/1.1 without TLS.
    Plain,
    /// HTTP/1.1 over TLS.
    Tls,
    /// HTTP/2 without TLS, from the first byte.
    Http2,
}

/// One kind of load.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, PartialEq, Serialize)]
pub struct Work {
    /// What is spoken.
    pub over: Over,
    /// Connections are kept for all requests, or each request has its own.
    pub keep_alive: bool,
    /// Connections at the same time.
    pub connections: u32,
    /// Requests at the same time on each, which only HTTP/2 can have more than one of.
    pub streams: u32,
}

impl Work {
    /// `keep-alive, c = 100`, `HTTPS, closing, c = 100`, `HTTP/2, c = 10, m = 10`.
    pub fn label(self) -> String {
        let mode = if self.keep_alive { "keep-alive" } else { "closing" };
        let connections = crate::text::grouped(i64::from(self.connections));
        match self.over {
            Over::Plain => format!("{mode}, c = {connections}"),
            Over::Tls => format!("HTTPS, {mode}, c = {connections}"),
            Over::Http2 => format!("HTTP/2, c = {connections}, m = {}", self.streams),
        }
    }
}

const fn work(over: Over, keep_alive: bool, connections: u32, streams: u32) -> Work {
    Work { over, keep_alive, connections, streams }
}

/// Speed, with kept connections and with one for each request; memory; the same speeds over TLS; and HTTP/2.
pub const WORKS: [Work; 7] = [KEPT, CLOSING, MANY, TLS_KEPT, TLS_CLOSING, H2_SHARED, H2_SINGLE];
/// See [`WORKS`].
pub const KEPT: Work = work(Over::Plain, true, 100, 1);
/// See [`WORKS`].
pub const CLOSING: Work = work(Over::Plain, false, 100, 1);
/// See [`WORKS`].
pub const MANY: Work = work(Over::Plain, true, 1000, 1);
/// See [`WORKS`].
pub const TLS_KEPT: Work = work(Over::Tls, true, 100, 1);
/// See [`WORKS`].
pub const TLS_CLOSING: Work = work(Over::Tls, false, 100, 1);
/// See [`WORKS`].
pub const H2_SHARED: Work = work(Over::Http2, true, 10, 10);
/// See [`WORKS`].
pub const H2_SINGLE: Work = work(Over::Http2, true, 100, 1);

/// One measurement to be made: an index into the programs, and the load.
pub type Step = (usize, Work);

/// The order of a round: random, so that a slow second of the machine hits all and not one, and decided by the seed. Each program is given
/// those of `works` that it speaks.
pub fn round(programs: &[&Program], works: &[Work], rng: &mut Rng) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    for (index, program) in programs.iter().enumerate() {
        steps.extend(works.iter().filter(|work| program.speaks.contains(&work.over)).map(|work| (index, *work)));
    }
    rng.shuffle(&mut steps);
    steps
}

#[cfg(test)]
mod tests {
    use super::super::program::PROGRAMS;
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn rounds_have_every_step_once_in_an_order_of_their_own() {
        let find = |name: &str| PROGRAMS.iter().find(|program| program.name == name).expect("a program");
        let programs = [find("load"), find("h2load"), find("wrk"), find("siege")];
        let mut rng = Rng::new(7);
        let rounds = [round(&programs, &WORKS, &mut rng), round(&programs, &WORKS, &mut rng)];
        assert_ne!(rounds[0], rounds[1]);
        // Two speak all, wrk no HTTP/2, and siege is asked without TLS only.
        assert!(rounds.iter().all(|round| round.iter().collect::<HashSet<_>>().len() == 7 + 7 + 5 + 3));
        assert_eq!(round(&programs, &WORKS, &mut Rng::new(7)), rounds[0]);
        assert_eq!(round(&programs, &[KEPT, H2_SINGLE], &mut rng).len(), 6);
    }

    #[test]
    fn labels() {
        let labels = WORKS.map(Work::label);
        assert_eq!(labels[..2], ["keep-alive, c = 100", "closing, c = 100"]);
        assert_eq!(labels[4..6], ["HTTPS, closing, c = 100", "HTTP/2, c = 10, m = 10"]);
    }
}
