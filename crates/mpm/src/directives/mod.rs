//! The directives of the process models: one row each, and what they say before it is resolved.
//!
//! Which rows there are depends on the model, as in Apache: `MinSpareServers` is unknown to event.

mod no_effect;
mod numbers;
mod process;
mod sockets;

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
    /// `ListenTCPDeferAccept`; never zero.
    pub defer_accept: Option<Duration>,
    /// `PidFile`.
    pub pid_file: Option<PathBuf>,
    /// `User`: a name, or a number behind `#`.
    pub user: Option<Spanned<String>>,
    /// `Group`, likewise.
    pub group: Option<Spanned<String>>,
    /// `CoreDumpDirectory`, a folder that was there.
    pub core_dump_directory: Option<PathBuf>,
    /// `ExtendedStatus`; where nothing is said, it depends on whether there is a status page.
    pub extended_status: Option<bool>,
    /// `SeeRequestTail`.
    pub see_request_tail: bool,
}

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
        let plan = ListenPlan::new();
        ListenPlan {
            addresses,
            backlog: self.backlog.unwrap_or(plan.backlog),
            send_buffer: self.send_buffer,
            receive_buffer: self.receive_buffer,
            defer_accept: self.defer_accept.or(plan.defer_accept),
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
        [false, false, true, true] => {
            "it belongs to the MPMs event and percore; choose one by 'LoadModule mpm_event_module' or '-M event'"
        }
        [false, false, false, true] => {
            "it belongs to the MPM percore; choose that by 'LoadModule mpm_percore_module' or '-M percore'"
        }
        _ => "it belongs to the MPMs prefork, worker and event; percore has one process for each of its 'Cores'",
    }
}

type Row = Directive<RawServer>;

/// What all models have, and what one of them has beyond it.
macro_rules! with_common {
    ($($own:path),* $(,)?) => {
        &[
            sockets::LISTEN,
            sockets::LISTEN_BACKLOG_ROW,
            sockets::LISTEN_CORES_BUCKETS_RATIO,
            sockets::LISTEN_TCP_DEFER_ACCEPT,
            sockets::SEND_BUFFER_SIZE,
            sockets::RECEIVE_BUFFER_SIZE,
            process::PID_FILE,
            process::USER,
            process::GROUP,
            process::CORE_DUMP_DIRECTORY,
            process::EXTENDED_STATUS,
            process::SEE_REQUEST_TAIL,
            no_effect::SCORE_BOARD_FILE,
            no_effect::MAX_MEM_FREE,
            no_effect::ENABLE_EXCEPTION_HOOK,
            numbers::GRACEFUL_SHUTDOWN_TIMEOUT,
            numbers::MAX_CONNECTIONS_PER_CHILD,
            numbers::MAX_REQUESTS_PER_CHILD,
            numbers::THREAD_STACK_SIZE,
            $($own),*
        ]
    };
}

static PREFORK: &[Row] = with_common![
    no_effect::MUTEX_OF_ACCEPT,
    numbers::START_SERVERS,
    numbers::SERVER_LIMIT,
    numbers::MAX_REQUEST_WORKERS,
    numbers::MAX_CLIENTS,
    numbers::MIN_SPARE_SERVERS,
    numbers::MAX_SPARE_SERVERS,
    numbers::SPAWN_POLICY,
];

static WORKER: &[Row] = with_common![
    no_effect::MUTEX_OF_ACCEPT,
    numbers::START_SERVERS,
    numbers::SERVER_LIMIT,
    numbers::MAX_REQUEST_WORKERS,
    numbers::MAX_CLIENTS,
    numbers::MIN_SPARE_THREADS,
    numbers::MAX_SPARE_THREADS,
    numbers::THREAD_LIMIT,
    numbers::THREADS_PER_CHILD,
    numbers::SPAWN_POLICY,
];

static EVENT: &[Row] = with_common![
    no_effect::MUTEX,
    numbers::START_SERVERS,
    numbers::SERVER_LIMIT,
    numbers::MAX_REQUEST_WORKERS,
    numbers::MAX_CLIENTS,
    numbers::MIN_SPARE_THREADS,
    numbers::MAX_SPARE_THREADS,
    numbers::THREAD_LIMIT,
    numbers::THREADS_PER_CHILD,
    numbers::SPAWN_POLICY,
    numbers::ASYNC_REQUEST_WORKER_FACTOR,
    numbers::MAX_CONNECTIONS,
];

static PERCORE: &[Row] =
    with_common![no_effect::MUTEX, numbers::CORES, numbers::MAX_CONNECTIONS, numbers::CORE_PINNING];

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

#[cfg(test)]
mod tests {
    use super::*;
    use manifold_config::{Loader, Module, Reader, Severity, System, Table, check};
    use std::path::Path;

    use crate::limits::SpawnPolicy;

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
        assert_eq!((limits.thread_stack.unwrap().value, server.pid_file), (65536, Some("/srv/x.pid".into())));
        assert_eq!((server.user.unwrap().value, server.group.unwrap().value), ("www".into(), "#5".into()));
        let (server, _) = read(Model::Percore, "Cores AUTO\nMaxConnections 3");
        assert_eq!(server.limits.cores.unwrap().value, None);
        assert_eq!(server.limits.max_connections.unwrap().value, 3);
    }

    #[test]
    fn the_rarer_directives_arrive() {
        let text = "ListenCoresBucketsRatio 2\nListenTCPDeferAccept 7\nCoreDumpDirectory /\nExtendedStatus Off\n\
                    SeeRequestTail On\nSpawnPolicy Predictive\nMaxConnections 12";
        let (server, findings) = read(Model::Event, text);
        assert_eq!(findings, []);
        let limits = &server.limits;
        assert_eq!(limits.listen_cores_buckets_ratio.unwrap().value, 2);
        assert_eq!((server.defer_accept, server.core_dump_directory), (Some(Duration::from_secs(7)), Some("/".into())));
        assert_eq!((server.extended_status, server.see_request_tail), (Some(false), true));
        assert_eq!((limits.spawn_policy, limits.max_connections.unwrap().value), (Some(SpawnPolicy::Predictive), 12));
        let (server, _) = read(Model::Percore, "CorePinning off");
        assert_eq!(server.limits.core_pinning, Some(false));
    }

    #[test]
    fn what_has_no_effect_says_so_and_is_checked_nevertheless() {
        let check = |model: Model, line: &str, expected: &str| {
            let (_, findings) = read(model, line);
            let [finding] = &findings[..] else { panic!("{line}: {findings:?}") };
            let told = (finding.severity, finding.message.as_str());
            let start = format!("{} has no effect here: ", line.split(' ').next().unwrap());
            match expected {
                "" => assert!(told.0 == Severity::Info && told.1.starts_with(&start), "{line}: {told:?}"),
                _ => assert_eq!(told, (Severity::Error, expected), "{line}"),
            }
        };
        for model in Model::ALL {
            check(model, "ScoreBoardFile logs/scoreboard", "");
            check(model, "MaxMemFree 2048", "");
            check(model, "EnableExceptionHook ON", "");
            check(model, "Mutex default", "");
            check(model, "Mutex SEM default OmitPid", "");
            check(model, "Mutex file:/", "");
        }
        check(Model::Prefork, "Mutex pthread mpm-accept", "");
        let mechanisms = "(Mutex mechanisms are: 'none', 'default', 'flock:/path/to/file', 'fcntl:/path/to/file', \
                          'file:/path/to/file', 'pthread', 'sysvsem', 'posixsem', 'sem')";
        // The texts of `apache2 -t`, 2.4.71.
        let check = |line, expected: &str| check(Model::Event, line, expected);
        check("MaxMemFree -1", "Invalid MaxMemFree value: -1");
        check("MaxMemFree much", "MaxMemFree takes a whole number, not 'much'");
        check("EnableExceptionHook maybe", "parameter must be 'on' or 'off'");
        check("Mutex", &format!("Mutex requires at least a mechanism argument {mechanisms}"));
        check("Mutex foo", &format!("Invalid Mutex argument foo {mechanisms}"));
        check("Mutex file:/nonexistent nosuch", "Invalid Mutex directory in argument file:/nonexistent");
        check("Mutex sem nosuch", "Mutex type nosuch is not valid");
        check("Mutex sem mpm-accept", "Mutex type mpm-accept is not valid");
        check("Mutex none", "None is not allowed for mutex type default");
        check("CoreDumpDirectory /nonexistent", "CoreDumpDirectory /nonexistent does not exist");
        check("CoreDumpDirectory /dev/null", "CoreDumpDirectory /dev/null is not a directory");
        check("ListenCoresBucketsRatio 0", "ListenCoresBucketsRatio must be > 0");
        check("ListenTCPDeferAccept 0", "ListenTCPDeferAccept must be > 0");
        check("SpawnPolicy fast", "SpawnPolicy takes 'compatible' or 'predictive', not 'fast'");
    }

    /// Text where a number belongs, more digits than a number has, and nothing at all: no row takes any of it.
    #[test]
    fn only_numbers_are_numbers() {
        let of_text = ["Listen", "PidFile", "User", "Group", "CoreDumpDirectory", "ScoreBoardFile", "Mutex"];
        for model in Model::ALL {
            for row in rows(model).iter().filter(|row| !of_text.contains(&row.name)) {
                for word in ["5x", "abc", "\"\"", "99999999999999999999", "-99999999999999999999", "0x10", "1,5", "+"] {
                    let (server, findings) = read(model, &format!("{} {word}", row.name));
                    let is_error = matches!(&findings[..], [finding] if finding.severity == Severity::Error);
                    assert!(is_error, "{model}: {} {word}: {findings:?}", row.name);
                    assert_eq!(format!("{server:?}"), format!("{:?}", RawServer::default()), "{} {word}", row.name);
                }
            }
        }
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
        check(Model::Worker, "MaxConnections 2", "the MPMs event and percore;");
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
