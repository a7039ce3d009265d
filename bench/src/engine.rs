//! Scenarios of whole requests: through the engine and the modules, over a transport in memory. The files are real, in
//! a temporary folder; what the kernel does for them is not counted.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context as TaskContext, Poll, Waker};
use std::time::Duration;

use anyhow::{Result, bail};
use manifold_engine::memory::{Input, MemoryHost, MemoryTransport};
use manifold_engine::serve::{Conn, serve};
use manifold_engine::site::{ServerName, Site};
use manifold_engine::transport::Next;
use manifold_modules::Settings;
use manifold_modules::file_cache::FileSettings;
use manifold_modules::location::Locations;
use manifold_modules::log_config::{AccessLog, Buffering, COMBINED, Format};
use manifold_modules::mime::Types;

use crate::http::{BROWSER, SHORT};

/// The page of the published comparisons.
const PAGE: &[u8] = b"<html><body><h1>It works!</h1></body></html>";

/// So far is the host's clock set forward that the files are old; their time stamps are trusted only then.
const FORTY_YEARS: Duration = Duration::from_secs(40 * 365 * 24 * 3600);

/// A GET on a connection that stays, as load tools send it.
pub fn get_kept_alive(rounds: u64) -> Result<u64> {
    requests(SHORT, Next::KeepAlive, rounds, Vec::new())
}

/// A browser's GET on a connection that stays.
pub fn get_browser(rounds: u64) -> Result<u64> {
    requests(BROWSER, Next::KeepAlive, rounds, Vec::new())
}

/// The same with an access log.
pub fn get_browser_logged(rounds: u64) -> Result<u64> {
    let format = Format::parse(COMBINED).map_err(anyhow::Error::msg)?;
    let log = AccessLog::open(Path::new("/dev/null"), format, ServerName::default(), Buffering::Batches)?;
    requests(BROWSER, Next::KeepAlive, rounds, vec![log])
}

/// A GET on a connection of its own.
pub fn get_closing(rounds: u64) -> Result<u64> {
    requests(b"GET /page.html HTTP/1.0\r\nHost: 127.0.0.1:8080\r\n\r\n", Next::Close, rounds, Vec::new())
}

/// A GET of a folder, answered by its index.
pub fn get_index(rounds: u64) -> Result<u64> {
    requests(b"GET / HTTP/1.1\r\nHost: 127.0.0.1:8080\r\n\r\n", Next::KeepAlive, rounds, Vec::new())
}

/// A GET of what is not there.
pub fn not_found(rounds: u64) -> Result<u64> {
    requests(b"GET /missing HTTP/1.1\r\nHost: 127.0.0.1:8080\r\n\r\n", Next::KeepAlive, rounds, Vec::new())
}

/// Serves the same request again and again; returns the bytes sent.
fn requests(request: &[u8], expected: Next, rounds: u64, access_logs: Vec<AccessLog>) -> Result<u64> {
    let root = DocumentRoot::new()?;
    let settings = Settings {
        document_root: root.0.clone(),
        server_name: ServerName::default(),
        directory_index: vec!["page.html".to_string()],
        types: Types::built_in(),
        files: FileSettings::default(),
        access_logs,
        status: Arc::default(),
        locations: Locations::default(),
    };
    let mut site = Site::new(manifold_modules::phases(settings));
    site.max_keep_alive_requests = 0;
    let host = MemoryHost::default();
    host.advance(FORTY_YEARS);
    let peer = SocketAddr::from(([127, 0, 0, 1], 54_321));
    let mut conn = Conn::new(peer);
    let mut io = MemoryTransport::default();
    let mut sent = 0;
    for _ in 0..rounds {
        if expected == Next::Close {
            conn = Conn::new(peer);
        }
        // A turn of its own, so that the file is looked at for every request.
        host.advance(Duration::from_micros(1));
        io.input.push_back(Input::Bytes(request.to_vec()));
        let next = pin!(serve(&mut io, &mut conn, &site, &host)).poll(&mut TaskContext::from_waker(Waker::noop()));
        match next {
            Poll::Ready(Ok(next)) if next == expected => {}
            other => bail!("the connection ended as {other:?}, not {expected:?}"),
        }
        sent += io.sent.len() as u64;
        io.sent.clear();
    }
    Ok(sent)
}

/// A folder with the page, removed at the end. Its name has the same length in every process, so that counts are equal.
struct DocumentRoot(PathBuf);

impl DocumentRoot {
    fn new() -> Result<DocumentRoot> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let (process, number) = (std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let folder = std::env::temp_dir().join(format!("manifold-bench-{process:010}-{number:03}"));
        fs::create_dir_all(&folder)?;
        fs::write(folder.join("page.html"), PAGE)?;
        Ok(DocumentRoot(folder))
    }
}

impl Drop for DocumentRoot {
    fn drop(&mut self) {
        // What cannot be removed is left to the system's own cleaning of its temporary folder.
        let _ = fs::remove_dir_all(&self.0);
    }
}
