//! The other servers: the installed apache2 and nginx, serving the same site from a folder of their own.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::Result;

use crate::server::{Server, free_port};
use crate::{Scratch, site};

const APACHE: &str = "/usr/sbin/apache2";
const NGINX: &str = "/usr/sbin/nginx";

/// Whether programs are there. On a developer's machine without them a comparison is left out, in CI it fails.
pub fn are_installed(programs: &[&str]) -> bool {
    let missing: Vec<_> = programs.iter().filter(|path| !Path::new(path).exists()).collect();
    if missing.is_empty() {
        return true;
    }
    assert!(std::env::var_os("CI").is_none(), "{missing:?} not installed; run `cargo xtask setup`");
    eprintln!("left out, since {missing:?} is not installed; `cargo xtask setup` installs it");
    false
}

/// Whether both servers are there; as [`are_installed`].
pub fn servers_are_installed() -> bool {
    are_installed(&[APACHE, NGINX])
}

/// Apache with its event MPM and hardly any module; with further directives.
///
/// # Errors
/// When it does not start.
pub fn apache(directives: &str) -> Result<Server> {
    let (dir, port) = folder()?;
    let root = dir.path("").display().to_string();
    let modules = "/usr/lib/apache2/modules";
    let identity = if nix::unistd::geteuid().is_root() { "User www-data\nGroup www-data\n" } else { "" };
    let configuration = format!(
        "ServerRoot {root}\nServerName localhost\nListen 127.0.0.1:{port}\nPidFile {root}pid\nErrorLog {root}error.log\n\
         LoadModule mpm_event_module {modules}/mod_mpm_event.so\nLoadModule authz_core_module {modules}/mod_authz_core.so\n\
         DocumentRoot {root}htdocs\n{identity}{directives}\n"
    );
    fs::write(dir.path("apache.conf"), configuration)?;
    Server::run(dir, port, |dir| {
        let mut command = Command::new(APACHE);
        command.args(["-D", "FOREGROUND", "-f"]).arg(dir.path("apache.conf"));
        command
    })
}

/// nginx with one process, no access log and connections without a limit of requests; with further directives in its `server`.
///
/// # Errors
/// When it does not start.
pub fn nginx(directives: &str) -> Result<Server> {
    let (dir, port) = folder()?;
    let root = dir.path("").display().to_string();
    let paths: String =
        ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"].map(|n| format!("{n}_temp_path {root}{n};")).concat();
    let configuration = format!(
        "daemon off; master_process off; pid {root}pid; error_log {root}error.log;\n\
         events {{ worker_connections 1024; }}\n\
         http {{ access_log off; keepalive_requests 1000000; {paths}\n\
         server {{ listen 127.0.0.1:{port}; root {root}htdocs; {directives} }} }}\n"
    );
    fs::write(dir.path("nginx.conf"), configuration)?;
    Server::run(dir, port, |dir| {
        let mut command = Command::new(NGINX);
        command.arg("-c").arg(dir.path("nginx.conf"));
        command
    })
}

/// A folder with the test site, and a free port.
fn folder() -> Result<(Scratch, u16)> {
    let dir = Scratch::new()?;
    site::write(&dir.path("htdocs"))?;
    Ok((dir, free_port()?))
}
