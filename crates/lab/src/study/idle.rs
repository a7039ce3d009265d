//! Cells of idle connections: what each costs a server that was started for the cell alone, as in `lab idle-test`.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::interrupt::Interrupt;
use crate::sampler;
use crate::server::Server;
use crate::slow_test::holders::{Holders, Wanted};
use crate::slow_test::kind::Kind;
use crate::slow_test::probe::{Times, probe};

/// Clients may take this long to arrive.
const ARRIVE_WITHIN: Duration = Duration::from_secs(5);
/// Requests before anything is measured, so that what a server allocates once is not taken for a connection's.
const WARM_UP: Times = Times::one_by_one(200);
/// After the connections have come, until what they set off is over.
const SETTLE: Duration = Duration::from_millis(300);
/// Reading the server's memory may take this long.
const MEMORY_WITHIN: Duration = Duration::from_secs(5);
/// What such a cell takes, for the estimate, seconds.
pub const CELL_S: f64 = 2.5;

/// What idle connections cost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cost {
    /// Connections that stood.
    pub stood: usize,
    /// Private memory for each of them, KiB.
    pub each_kib: Option<f64>,
    /// Memory of the server with them, PSS, KiB.
    pub pss_kib: Option<u64>,
}

/// Puts so many idle connections on a server that has served nothing yet. `None` if it was interrupted.
///
/// # Errors
/// If clients cannot be started, or the server ends.
pub fn cost(
    server: &Server,
    connections: usize,
    page: &[u8],
    (manifold, interrupt): (&Path, &Interrupt),
) -> Result<Option<Cost>> {
    let interrupted = || interrupt.came();
    probe(&[server.port], page, WARM_UP, interrupted).context("cannot ask as a normal client")?;
    let fresh = sampler::private_kib(&sampler::tree(server.pid())?);
    let wanted = Wanted { port: server.port, kind: Kind::Idle, clients: connections, within: ARRIVE_WITHIN };
    let mut holders = Holders::start(manifold, &wanted, connections)?;
    holders.wait_open(&wanted, interrupted)?;
    std::thread::sleep(SETTLE);
    let tree = sampler::tree(server.pid())?;
    let full = sampler::private_kib(&tree);
    let pss_kib = sampler::pss_kib(&tree, Instant::now() + MEMORY_WITHIN);
    let stood = holders.held()?.open;
    let each = |(fresh, full): (u64, u64)| full.saturating_sub(fresh) as f64 / stood.max(1) as f64;
    Ok((!interrupted()).then(|| Cost { stood, each_kib: fresh.zip(full).map(each), pss_kib }))
}
