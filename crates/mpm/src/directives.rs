//! The directives of the process models: one row each, and what they say before it is resolved.
//!
//! Which rows there are depends on the model, as in Apache: `MinSpareServers` is unknown to event.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use manifold_config::{ArgShape, Call, Contexts, Diagnostic, Directive, Elsewhere, Spanned};

use crate::generation::{ListenAddress, ListenPlan};
use crate::limits::{Model, RawLimits, Written};

/// What the configuration says about processes, sockets and identity.
#[derive(Clone, Debug, Default)]
pub struct RawServer {
    /// Numbers of processes, threads and connections.
    pub limits: RawLimits,
    /// `Listen`, in order.
    pub listen: Vec<Spanned<ListenAddress>>,
    /// `ListenBacklog`.
    pub backlog: Option<i32>,
    /// Bytes, `SendBufferSize`.
    pub send_buffer: Option<usize>,
    /// Bytes, `ReceiveBufferSize`.
    pub receive_buffer: Option<usize>,
    /// Bytes, `ThreadStackSize`.
    pub thread_stack: Option<usize>,
    /// `PidFile`.
    pub pid_file: Option<PathBuf>,
    /// `User`: a name, or a number behind `#`.
    pub user: Option<Spanned<String>>,
    /// `Group`, likewise.
    pub group: Option<Spanned<String>>,
}

/// `ListenBacklog`'s default.
pub const LISTEN_BACKLOG: i32 = 511;

impl RawServer {
    /// Where to listen, and with what.
    pub fn listen_plan(&self) -> ListenPlan {
        let mut addresses = Vec::new();
        for listen in &self.listen {
            // The same line twice means the same socket, as in Apache.
            if !addresses.contains(&listen.value) {
                addresses.push(listen.value);
            }
        }
        ListenPlan {
            addresses,
            backlog: self.backlog.unwrap_or(LISTEN_BACKLOG),
            send_buffer: self.send_buffer,
            receive_buffer: self.receive_buffer,
        }
    }
}

/// The directives that `model` has.
pub fn rows(model: Model) -> &'static [Directive<RawServer>] {
    match model {
        Model::Prefork => PREFORK,
        Model::Worker => WORKER,
        Model::Event => EVENT,
        Model::Percore => PERCORE,
    }
}

/// The directives that other models have and `model` has not, each with a word on whose they are.
pub fn elsewhere(model: Model) -> Vec<Elsewhere> {
    let own = |name: &str| rows(model).iter().any(|row| row.name == name);
    let others = Model::ALL.into_iter().flat_map(|other| rows(other).iter()).filter(|row| !own(row.name));
    let mut found: Vec<Elsewhere> = Vec::new();
    for row in others {
        if found.iter().all(|known| known.name != row.name) {
            found.push(Elsewhere { name: row.name, help: help_elsewhere(row.name) });
        }
    }
    found
}

/// Whose directive it is.
fn help_elsewhere(name: &str) -> &'static str {
    let has = |model| rows(model).iter().any(|row| row.name == name);
    match Model::ALL.map(has) {
        [true, false, false, false] => {
            "it belongs to the MPM prefork; choose that by 'LoadModule mpm_prefork_module' or '-M prefork'"
        }
        [false, false, true, false] => {
            "it belongs to the MPM event; choose that by 'LoadModule mpm_event_module' or '-M event'"
        }
        [false, true, true, false] => {
            "it belongs to the MPMs worker and event; choose one by 'LoadModule mpm_event_module' or '-M event'"
        }
        [false, false, false, true] => {
            "it belongs to the MPM percore; choose that by 'LoadModule mpm_percore_module' or '-M percore'"
        }
        _ => "it belongs to the MPMs prefork, worker and event; percore has one process for each of its 'Cores'",
    }
}

type Row = Directive<RawServer>;

static PREFORK: &[Row] = &[
    LISTEN,
    LISTEN_BACKLOG_ROW,
    SEND_BUFFER_SIZE,
    RECEIVE_BUFFER_SIZE,
    PID_FILE,
    USER,
    GROUP,
    GRACEFUL_SHUTDOWN_TIMEOUT,
    MAX_CONNECTIONS_PER_CHILD,
    MAX_REQUESTS_PER_CHILD,
    START_SERVERS,
    SERVER_LIMIT,
    MAX_REQUEST_WORKERS,
    MAX_CLIENTS,
    MIN_SPARE_SERVERS,
    MAX_SPARE_SERVERS,
];

static WORKER: &[Row] = &[
    LISTEN,
    LISTEN_BACKLOG_ROW,
    SEND_BUFFER_SIZE,
    RECEIVE_BUFFER_SIZE,
    PID_FILE,
    USER,
    GROUP,
    GRACEFUL_SHUTDOWN_TIMEOUT,
    MAX_CONNECTIONS_PER_CHILD,
    MAX_REQUESTS_PER_CHILD,
    START_SERVERS,
    SERVER_LIMIT,
    MAX_REQUEST_WORKERS,
    MAX_CLIENTS,
    MIN_SPARE_THREADS,
    MAX_SPARE_THREADS,
    THREAD_LIMIT,
    THREADS_PER_CHILD,
    THREAD_STACK_SIZE,
];

static EVENT: &[Row] = &[
    LISTEN,
    LISTEN_BACKLOG_ROW,
    SEND_BUFFER_SIZE,
    RECEIVE_BUFFER_SIZE,
    PID_FILE,
    USER,
    GROUP,
    GRACEFUL_SHUTDOWN_TIMEOUT,
    MAX_CONNECTIONS_PER_CHILD,
    MAX_REQUESTS_PER_CHILD,
    START_SERVERS,
    SERVER_LIMIT,
    MAX_REQUEST_WORKERS,
    MAX_CLIENTS,
    MIN_SPARE_THREADS,
    MAX_SPARE_THREADS,
    THREAD_LIMIT,
    THREADS_PER_CHILD,
    THREAD_STACK_SIZE,
    ASYNC_REQUEST_WORKER_FACTOR,
];

static PERCORE: &[Row] = &[
    LISTEN,
    LISTEN_BACKLOG_ROW,
    SEND_BUFFER_SIZE,
    RECEIVE_BUFFER_SIZE,
    PID_FILE,
    USER,
    GROUP,
    GRACEFUL_SHUTDOWN_TIMEOUT,
    MAX_CONNECTIONS_PER_CHILD,
    MAX_REQUESTS_PER_CHILD,
    CORES,
    MAX_CONNECTIONS,
];

/// What an `int` of Apache holds: numbers beyond it are typing errors, numbers within it are corrected by the limits.
const INT: std::ops::RangeInclusive<i64> = i32::MIN as i64..=i32::MAX as i64;

const fn row(
    name: &'static str,
    args: ArgShape,
    default: &'static str,
    help: &'static str,
    set: fn(&mut RawServer, &Call<'_>) -> Result<(), Diagnostic>,
) -> Row {
    Directive { name, module: "mpm_common", contexts: Contexts::GLOBAL, args, default, help, set }
}

fn number(call: &Call<'_>) -> Result<Option<Written<i64>>, Diagnostic> {
    let value = call.integer(0, INT)?;
    Ok(Some(Written { value, span: Some(call.arg_span(0)), directive: call.name }))
}

const LISTEN: Row = row(
    "Listen",
    ArgShape::RawArgs,
    "",
    "A port number or a numeric IP address and a port number, and an optional protocol.",
    |server, call| {
        let address = listen_address(call)?;
        server.listen.push(Spanned { value: address, span: call.span });
        Ok(())
    },
);

const LISTEN_BACKLOG_ROW: Row = row(
    "ListenBacklog",
    ArgShape::Take1,
    "511",
    "Connections that may wait to be accepted; the system has a bound of its own.",
    |server, call| {
        let backlog = call.integer(0, INT)?;
        if backlog < 1 {
            return Err(call.error_at(0, "ListenBacklog must be > 0"));
        }
        server.backlog = i32::try_from(backlog).ok();
        Ok(())
    },
);

const SEND_BUFFER_SIZE: Row = row(
    "SendBufferSize",
    ArgShape::Take1,
    "0",
    "Bytes of each connection's send buffer; 0 leaves it to the system.",
    |server, call| {
        server.send_buffer = buffer_size(call)?;
        Ok(())
    },
);

const RECEIVE_BUFFER_SIZE: Row = row(
    "ReceiveBufferSize",
    ArgShape::Take1,
    "0",
    "Bytes of each connection's receive buffer; 0 leaves it to the system.",
    |server, call| {
        server.receive_buffer = buffer_size(call)?;
        Ok(())
    },
);

const THREAD_STACK_SIZE: Row = row(
    "ThreadStackSize",
    ArgShape::Take1,
    "",
    "Bytes of the stack of threads that serve connections.",
    |server, call| {
        let bytes = call.integer(0, INT)?;
        if bytes < 0 {
            return Err(call.error_at(0, format!("Invalid ThreadStackSize value: {bytes}")));
        }
        server.thread_stack = usize::try_from(bytes).ok().filter(|bytes| *bytes > 0);
        Ok(())
    },
);

const PID_FILE: Row = row(
    "PidFile",
    ArgShape::Take1,
    "logs/httpd.pid",
    "A file for the process id of the running server.",
    |server, call| {
        server.pid_file = Some(call.path(0));
        Ok(())
    },
);

const USER: Row = Directive {
    module: "mod_unixd",
    ..row("User", ArgShape::Take1, "nobody", "Whom children run as: a name, or # and a number.", |server, call| {
        server.user = call.args.first().cloned();
        Ok(())
    })
};

const GROUP: Row = Directive {
    module: "mod_unixd",
    ..row("Group", ArgShape::Take1, "", "The group children run as: a name, or # and a number.", |server, call| {
        server.group = call.args.first().cloned();
        Ok(())
    })
};

const GRACEFUL_SHUTDOWN_TIMEOUT: Row = row(
    "GracefulShutdownTimeout",
    ArgShape::Take1,
    "0",
    "Seconds that a graceful stop waits for connections to end; 0 waits as long as they take.",
    |server, call| {
        let seconds = call.integer(0, 0..=i64::from(i32::MAX))?;
        server.limits.graceful_shutdown_timeout = Some(Duration::from_secs(seconds.unsigned_abs()));
        Ok(())
    },
);

const MAX_CONNECTIONS_PER_CHILD: Row = row(
    "MaxConnectionsPerChild",
    ArgShape::Take1,
    "0",
    "Connections after which a process is replaced by a new one; 0 is never.",
    set_max_connections_per_child,
);

const MAX_REQUESTS_PER_CHILD: Row = row(
    "MaxRequestsPerChild",
    ArgShape::Take1,
    "0",
    "The old name of MaxConnectionsPerChild.",
    set_max_connections_per_child,
);

fn set_max_connections_per_child(server: &mut RawServer, call: &Call<'_>) -> Result<(), Diagnostic> {
    let value = call.integer(0, 0..=i64::from(i32::MAX))?;
    let written = Written { value, span: Some(call.arg_span(0)), directive: call.name };
    server.limits.max_connections_per_child = Some(written);
    Ok(())
}

const START_SERVERS: Row = row(
    "StartServers",
    ArgShape::Take1,
    "5 in prefork, 3 in worker and event",
    "Processes that are started with the server.",
    |server, call| {
        server.limits.start_servers = number(call)?;
        Ok(())
    },
);

const SERVER_LIMIT: Row = row(
    "ServerLimit",
    ArgShape::Take1,
    "256 in prefork, 16 in worker and event",
    "Most processes that the other settings may ask for.",
    |server, call| {
        server.limits.server_limit = number(call)?;
        Ok(())
    },
);

const MAX_REQUEST_WORKERS: Row = row(
    "MaxRequestWorkers",
    ArgShape::Take1,
    "256 in prefork, 400 in worker and event",
    "Requests that are worked on at the same time: processes in prefork, threads in worker and event.",
    |server, call| {
        server.limits.max_request_workers = number(call)?;
        Ok(())
    },
);

const MAX_CLIENTS: Row =
    row("MaxClients", ArgShape::Take1, "", "The old name of MaxRequestWorkers.", |server, call| {
        server.limits.max_request_workers = number(call)?;
        Ok(())
    });

const MIN_SPARE_SERVERS: Row = row(
    "MinSpareServers",
    ArgShape::Take1,
    "5",
    "Fewest processes that wait for a connection; when there are fewer, more are made.",
    |server, call| {
        server.limits.min_spare = number(call)?;
        Ok(())
    },
);

const MAX_SPARE_SERVERS: Row = row(
    "MaxSpareServers",
    ArgShape::Take1,
    "10",
    "Most processes that wait for a connection; when there are more, some are ended.",
    |server, call| {
        server.limits.max_spare = number(call)?;
        Ok(())
    },
);

const MIN_SPARE_THREADS: Row = row(
    "MinSpareThreads",
    ArgShape::Take1,
    "75",
    "Fewest threads of the whole server that wait for work; when there are fewer, processes are made.",
    |server, call| {
        server.limits.min_spare = number(call)?;
        Ok(())
    },
);

const MAX_SPARE_THREADS: Row = row(
    "MaxSpareThreads",
    ArgShape::Take1,
    "250",
    "Most threads of the whole server that wait for work; when there are more, processes are ended.",
    |server, call| {
        server.limits.max_spare = number(call)?;
        Ok(())
    },
);

const THREAD_LIMIT: Row =
    row("ThreadLimit", ArgShape::Take1, "64", "Most threads that ThreadsPerChild may ask for.", |server, call| {
        server.limits.thread_limit = number(call)?;
        Ok(())
    });

const THREADS_PER_CHILD: Row =
    row("ThreadsPerChild", ArgShape::Take1, "25", "Threads of each process that serve connections.", |server, call| {
        server.limits.threads_per_child = number(call)?;
        Ok(())
    });

const ASYNC_REQUEST_WORKER_FACTOR: Row = row(
    "AsyncRequestWorkerFactor",
    ArgShape::Take1,
    "2",
    "Connections that a process accepts beyond ThreadsPerChild, for each thread that is idle. Fractions count.",
    |server, call| {
        // Apache's messages; the bound keeps connections of a process countable.
        let factor = call.text(0).parse().ok().filter(|factor: &f64| factor.is_finite() && *factor <= 1e6);
        let factor = factor.ok_or_else(|| call.error_at(0, "error parsing value").label("a number belongs here"))?;
        if factor <= 0.0 {
            return Err(call.error_at(0, "AsyncRequestWorkerFactor argument must be a positive number"));
        }
        server.limits.async_factor =
            Some(Written { value: factor, span: Some(call.arg_span(0)), directive: call.name });
        Ok(())
    },
);

const CORES: Row = row(
    "Cores",
    ArgShape::Take1,
    "auto",
    "Processes, one for each core: a number, or 'auto' for all cores that the server may use.",
    |server, call| {
        let cores = if call.text(0).eq_ignore_ascii_case("auto") { None } else { Some(call.integer(0, INT)?) };
        server.limits.cores = Some(Written { value: cores, span: Some(call.arg_span(0)), directive: call.name });
        Ok(())
    },
);

const MAX_CONNECTIONS: Row = row(
    "MaxConnections",
    ArgShape::Take1,
    "65536",
    "Connections that each core holds at the same time; more wait to be accepted.",
    |server, call| {
        server.limits.max_connections = number(call)?;
        Ok(())
    },
);

fn buffer_size(call: &Call<'_>) -> Result<Option<usize>, Diagnostic> {
    let bytes = call.integer(0, INT)?;
    if bytes != 0 && bytes < 512 {
        return Err(call.error_at(0, format!("{} must be >= 512 bytes, or 0 for system default.", call.name)));
    }
    Ok(usize::try_from(bytes).ok().filter(|bytes| *bytes > 0))
}

/// `[address:]port [protocol]`; an IPv6 address stands in brackets, `*` is every address.
fn listen_address(call: &Call<'_>) -> Result<ListenAddress, Diagnostic> {
    if call.args.is_empty() || call.args.len() > 2 {
        return Err(call.error("Listen requires 1 or 2 arguments."));
    }
    if call.args.len() == 2 && !call.text(1).eq_ignore_ascii_case("http") {
        let message = format!("Listen: the protocol '{}' is not supported by this version", call.text(1));
        return Err(call.error_at(1, message).help("leave it out, or write 'http'"));
    }
    let text = call.text(0);
    let (address, port) = match text.rsplit_once(':') {
        Some((address, port)) if !port.contains(']') => (Some(address), port),
        _ => (None, text),
    };
    if port.is_empty() || !port.bytes().all(|byte| byte.is_ascii_digit()) {
        let error = call.error_at(0, "Port must be specified");
        return Err(error.help("write 'Listen 8080', 'Listen 127.0.0.1:8080' or 'Listen [::1]:8080'"));
    }
    let invalid = || call.error_at(0, "Invalid address or port");
    let port = port.parse().map_err(|_| invalid().label("a port is a number up to 65535"))?;
    let Some(address) = address.filter(|address| *address != "*") else { return Ok(ListenAddress::Any(port)) };
    let bare = match address.strip_prefix('[') {
        Some(rest) => rest.strip_suffix(']').ok_or_else(|| invalid().label("']' is missing"))?,
        None if address.contains(':') => {
            return Err(invalid()
                .label("an IPv6 address belongs in brackets")
                .help(format!("write '[{address}]:{port}'")));
        }
        None => address,
    };
    let ip: IpAddr = bare.parse().map_err(|_| invalid().label("not an IP address").help("names are not looked up"))?;
    Ok(ListenAddress::At(SocketAddr::new(ip, port)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use manifold_config::{Loader, Module, Reader, System, Table, check};
    use std::path::Path;

    struct NoModules;

    impl Loader for NoModules {
        fn load(&mut self, _: &Spanned<String>, _: &Spanned<String>) -> Result<(), Diagnostic> {
            Ok(())
        }

        fn is_loaded(&self, _: &str) -> bool {
            false
        }
    }

    fn read(model: Model, text: &str) -> (RawServer, Vec<Diagnostic>) {
        let mut loader = NoModules;
        let mut reader = Reader::new(&System, &mut loader, Path::new("/srv"), &[]);
        reader.text("test", text);
        let mut table = Table { rows: rows(model), value: RawServer::default() };
        let findings = check(&reader.finish(), &mut [&mut table as &mut dyn Module], &elsewhere(model));
        (table.value, findings)
    }

    /// What is said about a line: message and help.
    #[track_caller]
    fn says(model: Model, text: &str, expected: &str) {
        let (_, findings) = read(model, text);
        let [finding] = &findings[..] else { panic!("{text}: {findings:?}") };
        assert_eq!((finding.message.as_str(), finding.code), (expected, Some(526)), "{text}");
    }

    #[test]
    fn listen_takes_addresses_as_apache_does() {
        let check = |text: &str, expected: &[&str]| {
            let (server, findings) = read(Model::Event, text);
            assert_eq!(findings, [], "{text}");
            let seen: Vec<_> = server.listen_plan().addresses.iter().map(|address| format!("{address:?}")).collect();
            assert_eq!(seen, expected, "{text}");
        };
        check("Listen 80", &["Any(80)"]);
        check("Listen *:80\nListen 80 http", &["Any(80)"]);
        check("Listen 127.0.0.1:8080\nListen [::1]:8080", &["At(127.0.0.1:8080)", "At([::1]:8080)"]);
        says(Model::Event, "Listen abc", "Port must be specified");
        says(Model::Event, "Listen 1.2.3.4", "Port must be specified");
        says(Model::Event, "Listen [::1]", "Port must be specified");
        says(Model::Event, "Listen 99999", "Invalid address or port");
        says(Model::Event, "Listen [::1:80", "Invalid address or port");
        says(Model::Event, "Listen ::1:80", "Invalid address or port");
        says(Model::Event, "Listen host.example:80", "Invalid address or port");
        says(Model::Event, "Listen 80 http foo", "Listen requires 1 or 2 arguments.");
        says(Model::Event, "Listen 443 https", "Listen: the protocol 'https' is not supported by this version");
    }

    #[test]
    fn wrong_values_are_refused() {
        says(Model::Event, "StartServers abc", "StartServers takes a whole number, not 'abc'");
        says(Model::Event, "AsyncRequestWorkerFactor abc", "error parsing value");
        says(Model::Event, "AsyncRequestWorkerFactor nan", "error parsing value");
        let positive = "AsyncRequestWorkerFactor argument must be a positive number";
        says(Model::Event, "AsyncRequestWorkerFactor 0", positive);
        says(Model::Event, "ListenBacklog 0", "ListenBacklog must be > 0");
        says(Model::Event, "SendBufferSize 100", "SendBufferSize must be >= 512 bytes, or 0 for system default.");
        says(Model::Event, "ThreadStackSize -1", "Invalid ThreadStackSize value: -1");
        says(Model::Percore, "Cores many", "Cores takes a whole number, not 'many'");
        let range = "MaxConnectionsPerChild of -1 is not allowed, it must be between 0 and 2147483647";
        says(Model::Percore, "MaxConnectionsPerChild -1", range);
    }

    #[test]
    fn values_arrive() {
        let text = "StartServers 2\nMinSpareThreads 3\nMaxSpareThreads 4\nServerLimit 5\nThreadLimit 6\nThreadsPerChild 7\n\
                    MaxClients 8\nMaxRequestsPerChild 9\nAsyncRequestWorkerFactor 1.5\nGracefulShutdownTimeout 10\n\
                    ListenBacklog 11\nSendBufferSize 4096\nReceiveBufferSize 0\nThreadStackSize 65536\nPidFile x.pid\n\
                    User www\nGroup #5\n";
        let (server, findings) = read(Model::Event, text);
        assert_eq!(findings, []);
        let limits = &server.limits;
        let numbers = [
            &limits.start_servers,
            &limits.min_spare,
            &limits.max_spare,
            &limits.server_limit,
            &limits.thread_limit,
            &limits.threads_per_child,
            &limits.max_request_workers,
            &limits.max_connections_per_child,
        ];
        assert_eq!(numbers.map(|written| written.unwrap().value), [2, 3, 4, 5, 6, 7, 8, 9]);
        assert_eq!(limits.max_request_workers.unwrap().directive, "MaxClients");
        assert_eq!(limits.async_factor.unwrap().value, 1.5);
        assert_eq!(limits.graceful_shutdown_timeout, Some(Duration::from_secs(10)));
        assert_eq!((server.backlog, server.send_buffer, server.receive_buffer), (Some(11), Some(4096), None));
        assert_eq!((server.thread_stack, server.pid_file), (Some(65536), Some("/srv/x.pid".into())));
        assert_eq!((server.user.unwrap().value, server.group.unwrap().value), ("www".into(), "#5".into()));
        let (server, _) = read(Model::Percore, "Cores AUTO\nMaxConnections 3");
        assert_eq!(server.limits.cores.unwrap().value, None);
        assert_eq!(server.limits.max_connections.unwrap().value, 3);
    }

    #[test]
    fn a_directive_of_another_model_says_whose_it_is() {
        let check = |model: Model, line: &str, whose: &str| {
            let (_, findings) = read(model, line);
            let help = findings[0].help.clone().unwrap_or_default();
            assert!(
                findings[0].message.starts_with("Invalid command '") && help.contains(whose),
                "{model} {line}: {help}"
            );
        };
        check(Model::Event, "MinSpareServers 5", "the MPM prefork;");
        check(Model::Prefork, "ThreadsPerChild 5", "the MPMs worker and event;");
        check(Model::Worker, "AsyncRequestWorkerFactor 2", "the MPM event;");
        check(Model::Event, "Cores 2", "the MPM percore;");
        check(Model::Percore, "StartServers 2", "the MPMs prefork, worker and event;");
    }

    #[test]
    fn no_row_stands_twice() {
        for model in Model::ALL {
            let mut names: Vec<_> = rows(model).iter().map(|row| row.name).collect();
            names.sort_unstable();
            let count = names.len();
            names.dedup();
            assert_eq!(names.len(), count, "{model}");
        }
    }
}
