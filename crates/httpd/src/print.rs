//! What is printed instead of running a server: `-v`, `-V`, `-S`, and what is in effect after corrections.

use std::fmt::Write as _;
use std::io::Write as _;

use jiff::Timestamp;
use manifold_config::Configuration;
use manifold_mpm::generation::ListenPlan;
use manifold_mpm::limits::{Limits, Model};

use crate::config::{CONFIG_FILE, Config, ERROR_LOG, PID_FILE, SERVER_ROOT};
use crate::control_group::ControlGroup;

/// Prints `text` on standard output. A reader that has seen enough (`httpd -L | head`) is no error.
pub(crate) fn say(text: &str) {
    let _closed = std::io::stdout().write_all(text.as_bytes());
}

/// Prints `text` on standard error, likewise.
pub(crate) fn tell(text: &str) {
    let _closed = std::io::stderr().write_all(text.as_bytes());
}

/// `-v`.
pub(crate) fn version() -> String {
    format!("Server version: Manifold/{} (Unix)\nServer built:   {}\n", env!("CARGO_PKG_VERSION"), built())
}

/// When the program was built.
pub(crate) fn built() -> String {
    let built = env!("MANIFOLD_BUILT").parse().ok().and_then(|seconds| Timestamp::from_second(seconds).ok());
    built.unwrap_or_default().strftime("%Y-%m-%dT%H:%M:%S").to_string()
}

/// `-V`: how the program was built. Only lines of Apache's that are true here are printed.
pub(crate) fn settings(model: Model) -> String {
    let mut text = version();
    let threaded = if model.is_threaded() { "yes (fixed thread count)" } else { "no" };
    let forked = if model == Model::Percore { "yes (fixed process count)" } else { "yes (variable process count)" };
    // Writing to a String cannot fail.
    let _ = write!(
        text,
        "Architecture:   {}-bit\n\
         Server MPM:     {model}\n\
         \x20 threaded:     {threaded}\n\
         \x20   forked:     {forked}\n\
         Server compiled with....\n\
         \x20-D APR_HAS_SENDFILE\n\
         \x20-D APR_HAVE_IPV6 (IPv4-mapped addresses enabled)\n\
         \x20-D SINGLE_LISTEN_UNSERIALIZED_ACCEPT\n\
         \x20-D HTTPD_ROOT=\"{SERVER_ROOT}\"\n\
         \x20-D DEFAULT_PIDLOG=\"{PID_FILE}\"\n\
         \x20-D DEFAULT_ERRORLOG=\"{ERROR_LOG}\"\n\
         \x20-D SERVER_CONFIG_FILE=\"{CONFIG_FILE}\"\n",
        usize::BITS
    );
    text
}

/// `-t -D DUMP_RUN_CFG`.
pub(crate) fn run_configuration(config: &Config) -> String {
    let mut text = format!(
        "ServerRoot: \"{}\"\nMain DocumentRoot: \"{}\"\nMain ErrorLog: \"{}\"\nPidFile: \"{}\"\n",
        config.server_root.display(),
        config.document_root.display(),
        config.error_log.display(),
        config.pid_file.display()
    );
    for name in &config.defines {
        let _ = writeln!(text, "Define: {name}");
    }
    if let Some(identity) = &config.identity {
        let _ = writeln!(text, "User: name=\"{}\" id={}\nGroup: id={}", identity.user, identity.uid, identity.gid);
    }
    text
}

/// `-t -D DUMP_INCLUDES`: a file included by another is indented, behind the number of the line that includes it.
pub(crate) fn includes(configuration: &Configuration) -> String {
    let mut text = "Included configuration files:\n".to_owned();
    let sources = &configuration.sources;
    for (_, source) in sources.iter().filter(|(_, source)| !source.name.starts_with('-')) {
        let mut depth = 0;
        let mut outer = source.included_from;
        while let Some(span) = outer {
            depth += 1;
            outer = sources.source(span.source).included_from;
        }
        let line = source.included_from.map_or("*".to_owned(), |span| sources.line(span).to_string());
        let _ = writeln!(text, "  {:indent$}({line}) {}", "", source.name, indent = 2 * depth);
    }
    text
}

/// The numbers in effect: a name and a value on each line.
pub(crate) fn effective_table(limits: &Limits, listen: &ListenPlan, group: ControlGroup) -> String {
    let mut text = "In effect:\n".to_owned();
    for (name, value) in effective(limits, listen, group) {
        let _ = writeln!(text, "  {name:<24} {value}");
    }
    text
}

/// The same for the error log, where a message is one line.
pub(crate) fn effective_line(limits: &Limits, listen: &ListenPlan, group: ControlGroup) -> String {
    let rows = effective(limits, listen, group).map(|(name, value)| format!("{name} {value}"));
    format!("In effect: {}", rows.collect::<Vec<_>>().join(", "))
}

fn effective(
    limits: &Limits,
    listen: &ListenPlan,
    group: ControlGroup,
) -> impl Iterator<Item = (&'static str, String)> {
    let buffer = |bytes: Option<usize>| bytes.unwrap_or(0).to_string();
    let of_sockets = [
        ("ListenBacklog", listen.backlog.to_string()),
        ("ListenTCPDeferAccept", listen.defer_accept.map_or(0, |longest| longest.as_secs()).to_string()),
        ("SendBufferSize", buffer(listen.send_buffer)),
        ("ReceiveBufferSize", buffer(listen.receive_buffer)),
    ];
    limits.effective().into_iter().chain(of_sockets).chain(group.rows())
}

#[cfg(test)]
mod tests {
    use super::*;
    use manifold_mpm::directives::RawServer;
    use manifold_mpm::limits::{Occasion, RawLimits, resolve};

    #[test]
    fn the_version_has_apaches_shape() {
        let text = version();
        let (first, second) = text.trim_end().split_once('\n').unwrap();
        assert_eq!(first, format!("Server version: Manifold/{} (Unix)", env!("CARGO_PKG_VERSION")));
        let date = second.strip_prefix("Server built:   ").unwrap();
        assert!(date.len() == 19 && date.as_bytes()[10] == b'T', "{date}");
    }

    #[test]
    fn the_settings_have_apaches_shape() {
        let check = |model: Model, threaded: &str, forked: &str| {
            let text = settings(model);
            let after: String = text.lines().skip(2).map(|line| format!("{line}\n")).collect();
            let expected = format!(
                "Architecture:   64-bit\nServer MPM:     {model}\n  threaded:     {threaded}\n    forked:     {forked}\n\
                 Server compiled with....\n -D APR_HAS_SENDFILE\n -D APR_HAVE_IPV6 (IPv4-mapped addresses enabled)\n \
                 -D SINGLE_LISTEN_UNSERIALIZED_ACCEPT\n -D HTTPD_ROOT=\"/etc/manifold\"\n -D DEFAULT_PIDLOG=\"logs/httpd.pid\"\n \
                 -D DEFAULT_ERRORLOG=\"logs/error_log\"\n -D SERVER_CONFIG_FILE=\"httpd.conf\"\n"
            );
            assert_eq!(after, expected);
        };
        check(Model::Event, "yes (fixed thread count)", "yes (variable process count)");
        check(Model::Prefork, "no", "yes (variable process count)");
        check(Model::Percore, "no", "yes (fixed process count)");
    }

    #[test]
    fn what_is_in_effect_is_a_table_and_a_line() {
        let (limits, _) = resolve(Model::Percore, &RawLimits::default(), 2, Occasion::Start);
        let listen = ListenPlan { backlog: 9, send_buffer: Some(4096), ..RawServer::default().listen_plan() };
        let table = "In effect:\n  MPM                      percore\n  Cores                    2\n  \
                     CorePinning              On\n  MaxConnections           65536\n  \
                     MaxConnectionsPerChild   0\n  GracefulShutdownTimeout  0\n  \
                     listener sets            2\n  ListenBacklog            9\n  \
                     ListenTCPDeferAccept     30\n  \
                     SendBufferSize           4096\n  ReceiveBufferSize        0\n";
        let none = ControlGroup::default();
        assert_eq!(effective_table(&limits, &listen, none), table);
        let group = ControlGroup { memory_max: Some(4096), pids_max: Some(7) };
        let rows = "  memory.max               4096\n  pids.max                 7\n";
        assert_eq!(effective_table(&limits, &listen, group), format!("{table}{rows}"));
        let line = "In effect: MPM percore, Cores 2, CorePinning On, MaxConnections 65536, MaxConnectionsPerChild 0, \
                    GracefulShutdownTimeout 0, listener sets 2, ListenBacklog 9, ListenTCPDeferAccept 30, \
                    SendBufferSize 4096, ReceiveBufferSize 0";
        assert_eq!(effective_line(&limits, &listen, none), line);
    }
}
