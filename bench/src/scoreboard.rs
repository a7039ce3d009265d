//! What a request costs in the scoreboard: everything that a worker tells of it, without and with `ExtendedStatus`.

use std::net::SocketAddr;
use std::sync::atomic::AtomicBool;

use anyhow::{Result, bail};
use manifold_engine::request::Pooled;
use manifold_engine::serve::Conn;
use manifold_engine::transport::{Activity, Host};
use manifold_http::Limits;
use manifold_mpm::host::{Telling, ThreadHost};
use manifold_mpm::scoreboard::Scoreboard;

use crate::http::BROWSER;

/// As without a status page: letters and counts.
pub fn plain(rounds: u64) -> Result<u64> {
    requests(false, rounds)
}

/// The request, the client and the times as well. The clock is read once a request.
pub fn extended(rounds: u64) -> Result<u64> {
    requests(true, rounds)
}

fn requests(extended: bool, rounds: u64) -> Result<u64> {
    let (board, draining) = (Scoreboard::new(1, 1)?, AtomicBool::new(false));
    let telling = Telling { extended, tail: false };
    let host = ThreadHost::at(board.worker(0, 0), board.server(0), &draining, telling);
    let host: &dyn Host = &host;
    let mut conn = Conn::new(SocketAddr::from(([127, 0, 0, 1], 54_321)));
    let mut request = Pooled::take(conn.peer, host.turn());
    let Some(length) = request.head.parse_more(BROWSER, &Limits::default())? else { bail!("the head is incomplete") };
    request.bytes.extend_from_slice(&BROWSER[..length]);
    for _ in 0..rounds {
        host.reading(&conn);
        host.began(&request);
        host.activity(Activity::Handling);
        host.activity(Activity::Writing);
        conn.sent += 300;
        host.served(300, &request, &conn);
        host.activity(Activity::Logging);
    }
    Ok(board.worker(0, 0).bytes())
}
