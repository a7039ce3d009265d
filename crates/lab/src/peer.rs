//! Servers that the laboratory measures beside ours, Apache and nginx: how each is found, told the common terms, and started.
//!
//! Each gets the least configuration that serves files on those terms, and otherwise its own defaults: its caches are what its
//! users get.

use std::ffi::{OsStr, OsString};

use crate::target::Terms;

/// How a peer is found and run.
#[derive(Debug)]
pub struct Peer {
    /// The program; `None` for our own binary.
    pub program: Option<Program>,
    /// The text of its configuration file.
    pub config: fn(&Terms<'_>) -> String,
    /// The arguments that make it serve in the foreground, given the file and its text.
    pub arguments: fn(&OsStr, &str) -> Vec<OsString>,
}

/// An installed program.
#[derive(Clone, Copy, Debug)]
pub struct Program {
    /// Its name in PATH.
    pub name: &'static str,
    /// Debian's package.
    pub package: &'static str,
    /// The argument on which it says its version.
    pub version: &'static str,
}

/// h2o (<https://h2o.examp1e.net/configure.html>). Its backlog cannot be set; it asks for the most that the system allows.
pub static H2O: Peer = Peer {
    program: Some(Program { name: "h2o", package: "h2o", version: "--version" }),
    config: h2o,
    arguments: |config, _| vec!["-m".into(), "worker".into(), "-c".into(), config.into()],
};

/// lighttpd (<https://redmine.lighttpd.net/projects/lighttpd/wiki/Docs_ConfigurationOptions>).
pub static LIGHTTPD: Peer = Peer {
    program: Some(Program { name: "lighttpd", package: "lighttpd", version: "-v" }),
    config: lighttpd,
    arguments: |config, _| vec!["-D".into(), "-f".into(), config.into()],
};

/// Caddy (<https://caddyserver.com/docs/caddyfile>). It has one thread for Go code a processor it may run on; its backlog is the most
/// that the system allows. It cannot become another user.
pub static CADDY: Peer = Peer {
    program: Some(Program { name: "caddy", package: "caddy", version: "version" }),
    config: caddy,
    arguments: |config, _| vec!["run".into(), "--adapter".into(), "caddyfile".into(), "--config".into(), config.into()],
};

/// `manifold load --target-server`; its configuration is its arguments, a line each.
pub static RESPONDER: Peer = Peer { program: None, config: |terms| responder(terms, ""), arguments: by_line };

/// The same, sending its body by sendfile(2).
pub static RESPONDER_SENDFILE: Peer =
    Peer { program: None, config: |terms| responder(terms, "--sendfile\n"), arguments: by_line };

/// A command line of the user's; its configuration is its words after the first, a line each.
pub static COMMAND: Peer = Peer { program: None, config: |_| String::new(), arguments: by_line };

/// The number that stands for any number where 0 does not mean that.
pub fn or_any_number(requests: u32) -> u32 {
    if requests == 0 { 1_000_000_000 } else { requests }
}

fn h2o(terms: &Terms<'_>) -> String {
    let user = terms.user.map(|(user, _)| format!("user: {user}\n")).unwrap_or_default();
    format!(
        "# h2o, as the laboratory measured it\n\
         {user}num-threads: {threads}\n\
         num-name-resolution-threads: 1\n\
         max-connections: 8192\n\
         http1-request-timeout: {keep}\n\
         temp-buffer-path: \"{folder}\"\n\
         hosts:\n\
         \x20 default:\n\
         \x20   listen:\n\
         \x20     host: 127.0.0.1\n\
         \x20     port: {port}\n\
         \x20   paths:\n\
         \x20     \"/\":\n\
         \x20       file.dir: \"{site}\"\n\
         \x20       file.index: [ 'index.html' ]\n",
        threads = terms.cores.len().max(1),
        keep = terms.limits.keep_alive_s,
        folder = terms.folder.display(),
        port = terms.port,
        site = terms.site.display(),
    )
}

fn lighttpd(terms: &Terms<'_>) -> String {
    let user = terms
        .user
        .map(|(user, group)| format!("server.username = \"{user}\"\nserver.groupname = \"{group}\"\n"))
        .unwrap_or_default();
    // One process, as it is meant to run; with several cores it would need workers, of which its manual warns.
    format!(
        "# lighttpd, as the laboratory measured it\n\
         {user}server.document-root = \"{site}\"\n\
         server.bind = \"127.0.0.1\"\n\
         server.port = {port}\n\
         server.upload-dirs = ( \"{folder}\" )\n\
         server.max-connections = 8192\n\
         server.max-fds = 16384\n\
         server.listen-backlog = {backlog}\n\
         server.max-keep-alive-requests = {requests}\n\
         server.max-keep-alive-idle = {keep}\n\
         index-file.names = ( \"index.html\" )\n\
         mimetype.assign = ( \".html\" => \"text/html\" )\n",
        site = terms.site.display(),
        port = terms.port,
        folder = terms.folder.display(),
        backlog = terms.limits.backlog,
        requests = or_any_number(terms.limits.keep_alive_requests),
        keep = terms.limits.keep_alive_s,
    )
}

fn caddy(terms: &Terms<'_>) -> String {
    format!(
        "# caddy, as the laboratory measured it\n\
         {{\n\tadmin off\n\tauto_https off\n\tlog {{\n\t\tlevel ERROR\n\t}}\n\
         \tservers {{\n\t\tprotocols h1\n\t\ttimeouts {{\n\t\t\tidle {keep}s\n\t\t}}\n\t}}\n}}\n\
         http://127.0.0.1:{port} {{\n\tbind 127.0.0.1\n\troot * \"{site}\"\n\tfile_server\n}}\n",
        keep = terms.limits.keep_alive_s,
        port = terms.port,
        site = terms.site.display(),
    )
}

fn responder(terms: &Terms<'_>, more: &str) -> String {
    format!("load\n--target-server\n--listen\n127.0.0.1:{}\n--body\n{}\n{more}", terms.port, terms.body_bytes)
}

fn by_line(_: &OsStr, text: &str) -> Vec<OsString> {
    text.lines().map(OsString::from).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::target::Limits;
    use std::path::Path;

    fn check(peer: &Peer, user: bool, has: &[&str], has_not: &str, arguments: &[&str]) {
        let limits = Limits { backlog: 99, keep_alive_s: 7, keep_alive_requests: 0, ..Limits::USUAL };
        let terms = Terms {
            port: 4711,
            site: Path::new("/a site"),
            folder: Path::new("/run/one"),
            cores: &[3],
            user: user.then_some(("www", "web")),
            limits: &limits,
            body_bytes: 139_264,
        };
        let text = (peer.config)(&terms);
        for part in has {
            assert!(text.contains(part), "no {part:?} in:\n{text}");
        }
        assert!(!text.contains(has_not), "{has_not:?} in:\n{text}");
        assert_eq!((peer.arguments)(OsStr::new("/c"), &text), arguments);
    }

    #[test]
    fn configurations() {
        let h2o = ["num-threads: 1\n", "port: 4711\n", "file.dir: \"/a site\"", "http1-request-timeout: 7\n"];
        check(&H2O, false, &h2o, "user", &["-m", "worker", "-c", "/c"]);
        check(&H2O, true, &["user: www\n"], "web", &["-m", "worker", "-c", "/c"]);
        let lighttpd = [
            "server.port = 4711\n",
            "server.document-root = \"/a site\"",
            "server.listen-backlog = 99\n",
            "server.max-keep-alive-requests = 1000000000\n",
            "server.username = \"www\"\nserver.groupname = \"web\"\n",
        ];
        check(&LIGHTTPD, true, &lighttpd, "accesslog", &["-D", "-f", "/c"]);
        let caddy = ["http://127.0.0.1:4711 {", "root * \"/a site\"", "idle 7s", "admin off"];
        check(&CADDY, true, &caddy, "www", &["run", "--adapter", "caddyfile", "--config", "/c"]);
        let words = ["load", "--target-server", "--listen", "127.0.0.1:4711", "--body", "139264"];
        check(&RESPONDER, true, &[], "sendfile", &words);
        check(&RESPONDER_SENDFILE, false, &[], "www", &[&words[..], &["--sendfile"]].concat());
    }
}
