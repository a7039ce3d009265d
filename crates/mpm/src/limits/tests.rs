//! Every rule of Apache's tables, and ours, as rows. Texts with a number are those of Apache 2.4.71 (`apache2 -t` for the
//! start, the strings of its modules for the reload); texts without one are ours.

use super::*;

/// Numbers in effect, as `start min max servers thread-limit threads workers sets`.
fn shape(limits: &Limits) -> String {
    let l = limits;
    let numbers = [l.start_servers, l.min_spare, l.max_spare, l.server_limit, l.thread_limit, l.threads_per_child];
    let numbers = numbers.into_iter().chain([l.max_request_workers, l.listener_sets]);
    numbers.map(|number| number.to_string()).collect::<Vec<_>>().join(" ")
}

/// `settings` is `Name value; Name value` on a machine of 4 cores; `told` what is said at start and at a reload. A text for
/// both begins with `adjusted` or `note`, for its kind.
#[track_caller]
fn check(model: Model, settings: &str, expected: &str, told: &[[&str; 2]]) {
    let mut raw = RawLimits::default();
    for (name, number) in settings.split(';').filter_map(|setting| setting.trim().split_once(' ')) {
        set(&mut raw, name, number);
    }
    for (column, occasion) in [Occasion::Start, Occasion::Reload].into_iter().enumerate() {
        let (limits, findings) = resolve(model, &raw, 4, occasion);
        let seen: Vec<_> = findings.iter().map(line).collect();
        let told: Vec<_> = told.iter().map(|lines| lines[column]).collect();
        assert_eq!(seen, told, "{model}, {occasion:?}: {settings}");
        assert_eq!(shape(&limits), expected, "{model}, {occasion:?}: {settings}");
        assert!(findings.iter().all(|finding| finding.is_change() != (finding.kind == Kind::Note)));
    }
}

fn line(finding: &Finding) -> String {
    let kind = match finding.kind {
        Kind::Correction => "",
        Kind::Adjustment => "adjusted ",
        Kind::Note => "note ",
    };
    assert_eq!(finding.diagnostic.severity == Severity::Warning, finding.kind == Kind::Correction);
    format!("{kind}{}", finding.line())
}

fn set(raw: &mut RawLimits, name: &str, number: &str) {
    let integer = |directive| Some(Written { value: number.parse().unwrap(), span: None, directive });
    match name {
        "StartServers" => raw.start_servers = integer("StartServers"),
        "MinSpare" => raw.min_spare = integer("MinSpareThreads"),
        "MaxSpare" => raw.max_spare = integer("MaxSpareThreads"),
        "ServerLimit" => raw.server_limit = integer("ServerLimit"),
        "ThreadLimit" => raw.thread_limit = integer("ThreadLimit"),
        "ThreadsPerChild" => raw.threads_per_child = integer("ThreadsPerChild"),
        "MaxRequestWorkers" => raw.max_request_workers = integer("MaxRequestWorkers"),
        "MaxClients" => raw.max_request_workers = integer("MaxClients"),
        "MaxConnectionsPerChild" => raw.max_connections_per_child = integer("MaxConnectionsPerChild"),
        "MaxRequestsPerChild" => raw.max_connections_per_child = integer("MaxRequestsPerChild"),
        "Cores" => raw.cores = Some(Written { value: number.parse().ok(), span: None, directive: "Cores" }),
        "MaxConnections" => raw.max_connections = integer("MaxConnections"),
        "Ratio" => raw.listen_cores_buckets_ratio = integer("ListenCoresBucketsRatio"),
        "ThreadStackSize" => raw.thread_stack = integer("ThreadStackSize"),
        "Factor" => {
            let (value, directive) = (number.parse().unwrap(), "AsyncRequestWorkerFactor");
            raw.async_factor = Some(Written { value, span: None, directive });
        }
        _ => panic!("no setting {name}"),
    }
}

#[test]
fn prefork_corrects_as_apache_does() {
    let check = |settings, expected, told: &[[&str; 2]]| check(Model::Prefork, settings, expected, told);
    check("", "5 5 10 256 1 1 256 1", &[]);
    let too_many = [
        "AH00175: WARNING: ServerLimit of 300000 exceeds compile-time limit of 200000 servers, decreasing to 200000.",
        "AH00176: ServerLimit of 300000 exceeds compile-time limit of 200000, decreasing to match",
    ];
    check("ServerLimit 300000", "5 5 10 200000 1 1 256 1", &[too_many]);
    check("ServerLimit 200000", "5 5 10 200000 1 1 256 1", &[]);
    let none = [
        "AH00177: WARNING: ServerLimit of 0 not allowed, increasing to 1.",
        "AH00178: ServerLimit of 0 not allowed, increasing to 1",
    ];
    let cascade = [
        "AH00180: WARNING: MaxRequestWorkers of 256 exceeds ServerLimit value of 1 servers, decreasing \
         MaxRequestWorkers to 1. To increase, please see the ServerLimit directive.",
        "AH00181: MaxRequestWorkers of 256 exceeds ServerLimit value of 1, decreasing to match",
    ];
    let start = ["adjusted StartServers of 5 exceeds the 1 processes allowed; 1 are started."; 2];
    check("ServerLimit 0", "1 5 10 1 1 1 1 1", &[none, cascade, start]);
    let capped = [
        "AH00180: WARNING: MaxRequestWorkers of 390 exceeds ServerLimit value of 256 servers, decreasing \
         MaxRequestWorkers to 256. To increase, please see the ServerLimit directive.",
        "AH00181: MaxRequestWorkers of 390 exceeds ServerLimit value of 256, decreasing to match",
    ];
    check("MaxRequestWorkers 390", "5 5 10 256 1 1 256 1", &[capped]);
    let no_workers = [
        "AH00182: WARNING: MaxRequestWorkers of 0 not allowed, increasing to 1.",
        "AH00183: MaxRequestWorkers of 0 not allowed, increasing to 1",
    ];
    check("MaxRequestWorkers 0", "1 5 10 256 1 1 1 1", &[no_workers, start]);
    let no_start = [
        "AH00184: WARNING: StartServers of -3 not allowed, increasing to 1.",
        "AH00185: StartServers of -3 not allowed, increasing to 1",
    ];
    check("StartServers -3", "1 5 10 256 1 1 256 1", &[no_start]);
    let no_spare = [
        "AH00186: WARNING: MinSpareServers of 0 not allowed, increasing to 1 to avoid almost certain server failure. \
         Please read the documentation.",
        "AH00187: MinSpareServers of 0 not allowed, increasing to 1",
    ];
    check("MinSpare 0", "5 1 10 256 1 1 256 1", &[no_spare]);
    let old = ["note AH00188: MaxClients is deprecated, use MaxRequestWorkers instead."; 2];
    check("MaxClients 100", "5 5 10 256 1 1 100 1", &[old]);
    let older = ["note AH00545: MaxRequestsPerChild is deprecated, use MaxConnectionsPerChild instead."; 2];
    check("MaxRequestsPerChild 3", "5 5 10 256 1 1 256 1", &[older]);
    check("MaxConnectionsPerChild 3", "5 5 10 256 1 1 256 1", &[]);
    let stack =
        "note ThreadStackSize has no effect here: a child of prefork has one thread, and the system made its stack";
    check("ThreadStackSize 1", "5 5 10 256 1 1 256 1", &[[stack; 2]]);
}

#[test]
fn worker_corrects_as_apache_does() {
    let check = |settings, expected, told: &[[&str; 2]]| check(Model::Worker, settings, expected, told);
    check("", "3 75 250 16 64 25 400 1", &[]);
    let many_servers = [
        "AH00300: WARNING: ServerLimit of 300000 exceeds compile-time limit of 20000 servers, decreasing to 20000.",
        "AH00301: ServerLimit of 300000 exceeds compile-time limit of 20000, decreasing to match",
    ];
    check("ServerLimit 300000", "3 75 250 20000 64 25 400 1", &[many_servers]);
    let no_server = [
        "AH00302: WARNING: ServerLimit of -7 not allowed, increasing to 1.",
        "AH00303: ServerLimit of -7 not allowed, increasing to 1",
    ];
    check("ServerLimit -7; StartServers 1; MaxRequestWorkers 25", "1 75 250 1 64 25 25 1", &[no_server]);
    let many_threads = [
        "AH00305: WARNING: ThreadLimit of 20001 exceeds compile-time limit of 20000 threads, decreasing to 20000.",
        "AH00306: ThreadLimit of 20001 exceeds compile-time limit of 20000, decreasing to match",
    ];
    check("ThreadLimit 20001", "3 75 250 16 20000 25 400 1", &[many_threads]);
    let no_threads = [
        "AH00307: WARNING: ThreadLimit of 0 not allowed, increasing to 1.",
        "AH00308: ThreadLimit of 0 not allowed, increasing to 1",
    ];
    let to_one = [
        "AH00310: WARNING: ThreadsPerChild of 25 exceeds ThreadLimit of 1 threads, decreasing to 1. To increase, please \
         see the ThreadLimit directive.",
        "AH00311: ThreadsPerChild of 25 exceeds ThreadLimit of 1, decreasing to match",
    ];
    let servers = [
        "AH00318: WARNING: MaxRequestWorkers of 400 would require 400 servers and would exceed ServerLimit of 16, \
         decreasing to 16. To increase, please see the ServerLimit directive.",
        "AH00319: MaxRequestWorkers of 400 would require 400 servers and exceed ServerLimit of 16, decreasing to 16",
    ];
    check("ThreadLimit 0", "3 75 250 16 1 1 16 1", &[no_threads, to_one, servers]);
    let no_child = [
        "AH00312: WARNING: ThreadsPerChild of 0 not allowed, increasing to 1.",
        "AH00313: ThreadsPerChild of 0 not allowed, increasing to 1",
    ];
    check("ThreadsPerChild 0", "3 75 250 16 64 1 16 1", &[no_child, servers]);
    let above = [
        "AH00310: WARNING: ThreadsPerChild of 100 exceeds ThreadLimit of 64 threads, decreasing to 64. To increase, \
         please see the ThreadLimit directive.",
        "AH00311: ThreadsPerChild of 100 exceeds ThreadLimit of 64, decreasing to match",
    ];
    let multiple = [
        "AH00316: WARNING: MaxRequestWorkers of 400 is not an integer multiple of ThreadsPerChild of 64, decreasing to \
         nearest multiple 384, for a maximum of 6 servers.",
        "AH00317: MaxRequestWorkers of 400 is not an integer multiple of ThreadsPerChild of 64, decreasing to nearest \
         multiple 384",
    ];
    check("ThreadsPerChild 100", "3 75 250 16 64 64 384 1", &[above, multiple]);
    let few = [
        "AH00314: WARNING: MaxRequestWorkers of 10 is less than ThreadsPerChild of 25, increasing to 25. \
         MaxRequestWorkers must be at least as large as the number of threads in a single server.",
        "AH00315: MaxRequestWorkers of 10 is less than ThreadsPerChild of 25, increasing to match",
    ];
    check("MaxRequestWorkers 10; StartServers 1", "1 75 250 16 64 25 25 1", &[few]);
    let no_start = [
        "AH00320: WARNING: StartServers of 0 not allowed, increasing to 1.",
        "AH00321: StartServers of 0 not allowed, increasing to 1",
    ];
    check("StartServers 0", "1 75 250 16 64 25 400 1", &[no_start]);
    let no_spare = [
        "AH00322: WARNING: MinSpareThreads of 0 not allowed, increasing to 1 to avoid almost certain server failure. \
         Please read the documentation.",
        "AH00323: MinSpareThreads of 0 not allowed, increasing to 1",
    ];
    check("MinSpare 0", "3 1 250 16 64 25 400 1", &[no_spare]);
    let old = ["note AH00324: MaxClients is deprecated, use MaxRequestWorkers instead."; 2];
    let older = ["note AH00545: MaxRequestsPerChild is deprecated, use MaxConnectionsPerChild instead."; 2];
    check("MaxClients 100; MaxRequestsPerChild 3", "3 75 250 16 64 25 100 1", &[old, older]);
    let stack = [
        "AH02435: WARNING: ThreadStackSize of 65535 is inappropriate, using default",
        "AH02435: ThreadStackSize of 65535 is inappropriate, using default",
    ];
    check("ThreadStackSize 65535", "3 75 250 16 64 25 400 1", &[stack]);
    check("ThreadStackSize 65536", "3 75 250 16 64 25 400 1", &[]);
    check("ThreadStackSize 0", "3 75 250 16 64 25 400 1", &[]);
}

#[test]
fn event_corrects_as_apache_does() {
    let check = |settings, expected, told: &[[&str; 2]]| check(Model::Event, settings, expected, told);
    check("", "3 75 250 16 64 25 400 1", &[]);
    let many_servers = [
        "AH00497: WARNING: ServerLimit of 20001 exceeds compile-time limit of 20000 servers, decreasing to 20000.",
        "AH00498: ServerLimit of 20001 exceeds compile-time limit of 20000, decreasing to match",
    ];
    check("ServerLimit 20001", "3 75 250 20000 64 25 400 1", &[many_servers]);
    let many_threads = [
        "AH00502: WARNING: ThreadLimit of 200000 exceeds compile-time limit of 100000 threads, decreasing to 100000.",
        "AH00503: ThreadLimit of 200000 exceeds compile-time limit of 100000, decreasing to match",
    ];
    check("ThreadLimit 200000", "3 75 250 16 100000 25 400 1", &[many_threads]);
    let servers = [
        "AH00499: WARNING: ServerLimit of 0 not allowed, increasing to 1.",
        "AH00500: ServerLimit of 0 not allowed, increasing to 1",
    ];
    let threads = [
        "AH00504: WARNING: ThreadLimit of 0 not allowed, increasing to 1.",
        "AH00505: ThreadLimit of 0 not allowed, increasing to 1",
    ];
    let above = [
        "AH00507: WARNING: ThreadsPerChild of 3 exceeds ThreadLimit of 1 threads, decreasing to 1. To increase, please \
         see the ThreadLimit directive.",
        "AH00508: ThreadsPerChild of 3 exceeds ThreadLimit of 1, decreasing to match",
    ];
    let required = [
        "AH00515: WARNING: MaxRequestWorkers of 400 would require 400 servers and would exceed ServerLimit of 1, \
         decreasing to 1. To increase, please see the ServerLimit directive.",
        "AH00516: MaxRequestWorkers of 400 would require 400 servers and exceed ServerLimit of 1, decreasing to 1",
    ];
    let start = [
        "AH00517: WARNING: StartServers of 0 not allowed, increasing to 1.",
        "AH00518: StartServers of 0 not allowed, increasing to 1",
    ];
    let all = "ServerLimit 0; ThreadLimit 0; ThreadsPerChild 3; StartServers 0";
    check(all, "1 75 250 1 1 1 1 1", &[servers, threads, above, required, start]);
    let none = [
        "AH00509: WARNING: ThreadsPerChild of 0 not allowed, increasing to 1.",
        "AH00510: ThreadsPerChild of 0 not allowed, increasing to 1",
    ];
    check("ThreadsPerChild 0; MaxRequestWorkers 9", "3 75 250 16 64 1 9 1", &[none]);
    let few = [
        "AH00511: WARNING: MaxRequestWorkers of 0 is less than ThreadsPerChild of 25, increasing to 25. \
         MaxRequestWorkers must be at least as large as the number of threads in a single server.",
        "AH00512: MaxRequestWorkers of 0 is less than ThreadsPerChild of 25, increasing to match",
    ];
    check("MaxRequestWorkers 0; StartServers 1", "1 75 250 16 64 25 25 1", &[few]);
    let multiple = [
        "AH00513: WARNING: MaxRequestWorkers of 390 is not an integer multiple of ThreadsPerChild of 25, decreasing to \
         nearest multiple 375, for a maximum of 15 servers.",
        "AH00514: MaxRequestWorkers of 390 is not an integer multiple of ThreadsPerChild of 25, decreasing to nearest \
         multiple 375",
    ];
    check("MaxRequestWorkers 390", "3 75 250 16 64 25 375 1", &[multiple]);
    let no_spare = [
        "AH00519: WARNING: MinSpareThreads of -1 not allowed, increasing to 1 to avoid almost certain server failure. \
         Please read the documentation.",
        "AH00520: MinSpareThreads of -1 not allowed, increasing to 1",
    ];
    check("MinSpare -1", "3 1 250 16 64 25 400 1", &[no_spare]);
    let old = ["note AH00521: MaxClients is deprecated, use MaxRequestWorkers instead."; 2];
    check("MaxClients 100", "3 75 250 16 64 25 100 1", &[old]);
    let stack = [
        "AH02436: WARNING: ThreadStackSize of 1 is inappropriate, using default",
        "AH02436: ThreadStackSize of 1 is inappropriate, using default",
    ];
    check("ThreadStackSize 1", "3 75 250 16 64 25 400 1", &[stack]);
    let factor = ["adjusted AsyncRequestWorkerFactor of 0.5 is less than 1, increasing to 1."; 2];
    check("Factor 0.5", "3 75 250 16 64 25 400 1", &[factor]);
    check("Factor 1.5", "3 75 250 16 64 25 400 1", &[]);
    let connections = [
        "WARNING: MaxConnections of 0 not allowed, increasing to 1.",
        "MaxConnections of 0 not allowed, increasing to 1",
    ];
    check("MaxConnections 0", "3 75 250 16 64 25 400 1", &[connections]);
}

#[test]
fn what_apache_adjusts_in_silence_is_told() {
    let prefork = |settings, expected, told: &[[&str; 2]]| check(Model::Prefork, settings, expected, told);
    let close = ["adjusted MaxSpareServers of 3 is too close to MinSpareServers of 5, increasing to 6."; 2];
    prefork("MaxSpare 3", "5 5 6 256 1 1 256 1", &[close]);
    let default = ["adjusted MaxSpareServers of 10 is too close to MinSpareServers of 20, increasing to 21."; 2];
    prefork("MinSpare 20", "5 20 21 256 1 1 256 1", &[default]);
    let start = ["adjusted StartServers of 300 exceeds the 256 processes allowed; 256 are started."; 2];
    prefork("StartServers 300", "256 5 10 256 1 1 256 1", &[start]);
    let using = ["note AH02819: Using 4 listeners bucket(s) based on 4 online CPU cores and a ratio of 1"; 2];
    let workers =
        ["adjusted MaxRequestWorkers of 2 is too little for 4 sets of listening sockets, increasing to 4."; 2];
    let one = ["adjusted StartServers of 1 is too little for 4 sets of listening sockets, increasing to 4."; 2];
    let min = ["adjusted MinSpareServers of 3 is too little for 4 sets of listening sockets, increasing to 4."; 2];
    let max = ["adjusted MaxSpareServers of 7 is too close to MinSpareServers of 4, increasing to 8."; 2];
    let all = "Ratio 1; MaxRequestWorkers 2; StartServers 1; MinSpare 3; MaxSpare 7";
    prefork(all, "4 4 8 256 1 1 4 4", &[using, workers, one, min, max]);
    prefork("Ratio 1; MaxSpare 9", "5 5 9 256 1 1 256 4", &[using]);
    prefork("Ratio 3", "5 5 10 256 1 1 256 1", &[]);
    prefork("Ratio 5", "5 5 10 256 1 1 256 1", &[]);

    let limited = "adjusted ListenCoresBucketsRatio of 1 asks for 4 sets of listening sockets, more than ServerLimit of 1 \
                   processes can accept from, decreasing to 1.";
    for model in [Model::Worker, Model::Event] {
        let check = |settings, expected, told: &[[&str; 2]]| check(model, settings, expected, told);
        let close = ["adjusted MaxSpareThreads of 80 is too close to MinSpareThreads of 75, increasing to 101."; 2];
        check("MaxSpare 80", "3 75 101 16 64 25 400 1", &[close]);
        check("MaxSpare 101", "3 75 101 16 64 25 400 1", &[]);
        let start = ["adjusted StartServers of 20 exceeds the 16 processes allowed; 16 are started."; 2];
        check("StartServers 20", "16 75 250 16 64 25 400 1", &[start]);
        let two = ["note AH02819: Using 2 listeners bucket(s) based on 4 online CPU cores and a ratio of 2"; 2];
        check("Ratio 2", "3 75 250 16 64 25 400 2", &[two]);
        let workers =
            ["adjusted MaxRequestWorkers of 50 is too little for 4 sets of listening sockets, increasing to 100."; 2];
        let servers = ["adjusted StartServers of 3 is too little for 4 sets of listening sockets, increasing to 4."; 2];
        let min =
            ["adjusted MinSpareThreads of 78 is too little for 4 sets of listening sockets, increasing to 79."; 2];
        let max = ["adjusted MaxSpareThreads of 182 is too close to MinSpareThreads of 79, increasing to 183."; 2];
        let all = "Ratio 1; MaxRequestWorkers 50; MinSpare 78; MaxSpare 182";
        check(all, "4 79 183 16 64 25 100 4", &[using, workers, servers, min, max]);
        let few = "Ratio 1; ServerLimit 1; MaxRequestWorkers 25; StartServers 1";
        check(few, "1 75 250 1 64 25 25 1", &[[limited; 2]]);
    }
}

#[test]
fn percore_has_a_process_a_core() {
    let check = |settings, expected, told: &[[&str; 2]]| check(Model::Percore, settings, expected, told);
    check("", "4 0 4 4 1 1 4 4", &[]);
    check("Cores auto", "4 0 4 4 1 1 4 4", &[]);
    check("Cores 2", "2 0 2 2 1 1 2 2", &[]);
    let none = ["WARNING: Cores of 0 not allowed, increasing to 1.", "Cores of 0 not allowed, increasing to 1"];
    check("Cores 0", "1 0 1 1 1 1 1 1", &[none]);
    let shared = ["note Cores of 8 exceeds the 4 that this process may use; cores are shared."; 2];
    check("Cores 8", "8 0 8 8 1 1 8 8", &[shared]);
    let many = [
        "WARNING: Cores of 5000 exceeds compile-time limit of 4096 cores, decreasing to 4096.",
        "Cores of 5000 exceeds compile-time limit of 4096, decreasing to match",
    ];
    let shared = ["note Cores of 4096 exceeds the 4 that this process may use; cores are shared."; 2];
    check("Cores 5000", "4096 0 4096 4096 1 1 4096 4096", &[many, shared]);
    let none = [
        "WARNING: MaxConnections of 0 not allowed, increasing to 1.",
        "MaxConnections of 0 not allowed, increasing to 1",
    ];
    check("MaxConnections 0", "4 0 4 4 1 1 4 4", &[none]);
    let many = [
        "WARNING: MaxConnections of 1048577 exceeds compile-time limit of 1048576 connections, decreasing to 1048576.",
        "MaxConnections of 1048577 exceeds compile-time limit of 1048576, decreasing to match",
    ];
    check("MaxConnections 1048577", "4 0 4 4 1 1 4 4", &[many]);
    let ratio = "note ListenCoresBucketsRatio has no effect here: percore has a set of listening sockets for each core";
    check("Ratio 2", "4 0 4 4 1 1 4 4", &[[ratio; 2]]);
    let stack =
        "note ThreadStackSize has no effect here: a process of percore has one thread, and the system made its stack";
    check("ThreadStackSize 99999", "4 0 4 4 1 1 4 4", &[[stack; 2]]);
    let older = ["note AH00545: MaxRequestsPerChild is deprecated, use MaxConnectionsPerChild instead."; 2];
    check("MaxRequestsPerChild 3", "4 0 4 4 1 1 4 4", &[older]);
}

#[test]
fn what_is_not_corrected_arrives() {
    let raw = RawLimits {
        graceful_shutdown_timeout: Some(Duration::from_secs(9)),
        core_pinning: Some(false),
        spawn_policy: Some(SpawnPolicy::Predictive),
        ..RawLimits::default()
    };
    for model in Model::ALL {
        let with = |settings: &str| {
            let mut raw = raw.clone();
            for (name, number) in settings.split("; ").filter_map(|setting| setting.split_once(' ')) {
                set(&mut raw, name, number);
            }
            resolve(model, &raw, 4, Occasion::Start).0
        };
        let limits = with("Factor 1.5; MaxConnections 7; ThreadStackSize 80000; MaxConnectionsPerChild 3");
        let (is_event, is_percore) = (model == Model::Event, model == Model::Percore);
        assert_eq!(limits.async_factor, if is_event { 1.5 } else { 1.0 });
        assert_eq!(limits.max_connections, if is_event || is_percore { 7 } else { 0 });
        assert_eq!(limits.thread_stack, model.is_threaded().then_some(80_000));
        assert_eq!((limits.max_connections_per_child, limits.core_pinning), (3, false));
        assert_eq!(
            (limits.graceful_shutdown_timeout, limits.spawn_policy),
            (Some(Duration::from_secs(9)), SpawnPolicy::Predictive)
        );
        assert_eq!(with("Factor 0.5").async_factor, 1.0);
    }
}

#[test]
fn no_numbers_break_it() {
    let extremes = [i64::MIN, -1, 0, 1, 7, 1 << 31, i64::MAX];
    let wild = |value| Some(Written { value, span: None, directive: "ServerLimit" });
    for (model, (a, b)) in Model::ALL
        .into_iter()
        .flat_map(|model| extremes.into_iter().flat_map(move |a| extremes.into_iter().map(move |b| (model, (a, b)))))
    {
        let raw = RawLimits {
            start_servers: wild(b),
            min_spare: wild(a),
            max_spare: wild(b),
            server_limit: wild(a),
            thread_limit: wild(b),
            threads_per_child: wild(b),
            max_request_workers: wild(a),
            max_connections: wild(b),
            listen_cores_buckets_ratio: wild(a),
            thread_stack: wild(b),
            ..RawLimits::default()
        };
        for cores in [0, 5, u32::MAX] {
            let (limits, _) = resolve(model, &raw, cores, Occasion::Start);
            assert!(limits.start_servers >= 1 && limits.start_servers <= limits.processes(), "{limits:?}");
            assert!(limits.processes() <= limits.server_limit && limits.threads_per_child <= limits.thread_limit);
            assert!(limits.listener_sets >= 1 && limits.listener_sets <= limits.processes(), "{limits:?}");
            assert_eq!(limits.max_request_workers % limits.threads_per_child, 0);
        }
    }
}

#[test]
fn the_effective_table_has_every_number_of_the_model() {
    let check = |model, expected: &str| {
        let (limits, _) = resolve(model, &RawLimits::default(), 2, Occasion::Start);
        let rows: Vec<_> = limits.effective().into_iter().map(|(name, value)| format!("{name} {value}")).collect();
        assert_eq!(rows.join(", "), expected);
    };
    check(
        Model::Prefork,
        "MPM prefork, ServerLimit 256, MaxRequestWorkers 256, processes at most 256, StartServers 5, MinSpareServers 5, \
         MaxSpareServers 10, SpawnPolicy compatible, MaxConnectionsPerChild 0, GracefulShutdownTimeout 0, listener sets 1",
    );
    check(
        Model::Worker,
        "MPM worker, ServerLimit 16, ThreadLimit 64, ThreadsPerChild 25, MaxRequestWorkers 400, processes at most 16, \
         StartServers 3, MinSpareThreads 75, MaxSpareThreads 250, SpawnPolicy compatible, ThreadStackSize default, \
         MaxConnectionsPerChild 0, GracefulShutdownTimeout 0, listener sets 1",
    );
    check(
        Model::Event,
        "MPM event, ServerLimit 16, ThreadLimit 64, ThreadsPerChild 25, MaxRequestWorkers 400, processes at most 16, \
         StartServers 3, MinSpareThreads 75, MaxSpareThreads 250, SpawnPolicy compatible, AsyncRequestWorkerFactor 2, \
         MaxConnections 65536, ThreadStackSize default, MaxConnectionsPerChild 0, GracefulShutdownTimeout 0, listener sets 1",
    );
    check(
        Model::Percore,
        "MPM percore, Cores 2, CorePinning On, MaxConnections 65536, MaxConnectionsPerChild 0, GracefulShutdownTimeout 0, \
         listener sets 2",
    );
}

#[test]
fn names_round_trip() {
    for model in Model::ALL {
        assert_eq!(model.to_string().parse(), Ok(model));
    }
    assert_eq!("mpm".parse::<Model>(), Err(UnknownModel("mpm".to_owned())));
}
