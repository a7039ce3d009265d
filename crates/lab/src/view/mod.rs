//! `lab view`: the kept runs as a small web application, served by our own server inside this process to this machine alone.
//!
//! [`answer`] decides what is answered, purely but for reading the store; [`pages`] lays the pages out, [`query`] reads what was asked.
//! Pages are made here and need no script: with it a run that is being measured is followed without loading the page again.

mod answer;
mod pages;
mod query;

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Args;
use manifold_engine::phases::{Outcome, Phase, Phases};
use manifold_engine::request::{Body, Request};
use manifold_engine::site::{Site, Trace};
use manifold_http::write_field;
use manifold_mpm::inside;

use crate::interrupt::Interrupt;
use crate::store::{self, Store, VARIABLE};
use answer::{Answer, App, Asked};

/// The port where none is asked for; another if it is taken.
const PORT: u16 = 7878;
/// Connections at once: a browser opens six for a page.
const THREADS: usize = 16;
/// A client that says nothing for so long is left.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The options of `lab view`.
#[derive(Args, Debug)]
pub struct ViewArgs {
    /// The port on 127.0.0.1; 0 takes any that is free [default: 7878, or any if that is taken]
    #[arg(long, value_name = "N")]
    port: Option<u16>,
    /// Open no browser
    #[arg(long)]
    no_open: bool,
}

/// `lab view`.
///
/// # Errors
/// If there is no store that this version reads, or no port.
pub fn run(args: &ViewArgs) -> Result<()> {
    let file = store_file()?;
    // The threads that serve inherit it: an interrupt is for the one that waits.
    let interrupt = Interrupt::catch().context("cannot catch Ctrl-C")?;
    let listener = listen(args.port)?;
    let address = listener.local_addr().context("the socket has no address")?;
    println!("Runs of {}: http://{address}/ (Ctrl-C ends it)", file.display());
    if !args.no_open {
        open(&format!("http://{address}/"));
    }
    let site = site(App::new(file, address.port()));
    inside::serve(&listener, &site, THREADS, interrupt.as_fd()).context("the view cannot be served")
}

/// The user's store, made ready for this version.
fn store_file() -> Result<PathBuf> {
    let Some(file) = store::file_of_user()? else { bail!("{VARIABLE} is none, so that no run is kept to be shown") };
    if !file.exists() {
        bail!(
            "there is no store of runs yet, {}; `manifold lab run` makes it, and {VARIABLE} names another",
            file.display()
        );
    }
    // One of an older version is brought up to date; from here on it is only read.
    Store::open(&file)?;
    Ok(file)
}

fn listen(port: Option<u16>) -> Result<TcpListener> {
    let bind = |port: u16| TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
    match port {
        Some(port) => bind(port).with_context(|| format!("--port {port}: give another, or 0 for any that is free")),
        None => bind(PORT).or_else(|_| bind(0)).context("there is no free port on 127.0.0.1"),
    }
}

/// Opens the user's browser, where there is a desktop; its absence is no error, since the address was printed.
fn open(url: &str) {
    let is_set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    if is_set("DISPLAY") || is_set("WAYLAND_DISPLAY") {
        let mut command = Command::new("xdg-open");
        command.arg(url).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        // Nothing rests on it, and it ends by itself.
        let _ = command.spawn();
    }
}

/// The server's configuration: one handler for everything.
fn site(app: App) -> Site {
    let mut phases = Phases::new();
    phases.add(Phase::Handler, move |request: &mut Request| {
        let answer = app.answer(&Asked {
            method: request.method_token(),
            host: request.host().unwrap_or_default(),
            path: &request.path,
            query: request.query().unwrap_or_default(),
        });
        fill_in(request, answer);
        Outcome::Done
    });
    Site { timeout: TIMEOUT, trace: Trace::Off, ..Site::new(phases) }
}

fn fill_in(request: &mut Request, answer: Answer) {
    for (name, value) in &answer.fields {
        write_field(&mut request.response.fields, name, value.as_bytes());
    }
    request.response.status = answer.status;
    request.content_type = Some(Arc::from(answer.media_type));
    request.response.body = Body::Bytes(answer.body.into_bytes());
}

/// The name of a path's last part.
fn file_name(path: &Path) -> String {
    path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned())
}
