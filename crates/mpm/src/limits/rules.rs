//! What differs between the models: defaults, bounds and message numbers (each model's `mpm_default.h` and its source in
//! Apache).
//!
//! A message's number is that at start; at a reload it is the next one.

/// `MaxConnections` where nothing is said.
pub const MAX_CONNECTIONS: u32 = 65_536;
/// Descriptors that the kernel lets a process have at most (`fs.nr_open` where nobody raised it).
pub(super) const MAX_CONNECTIONS_BOUND: i64 = 1_048_576;
/// More cores than any machine of today has; bounds the memory of the scoreboard.
pub(super) const CORES_BOUND: i64 = 4_096;
/// Bytes of stack below which a request cannot be served for certain; where Apache asks the C library, 16 KiB.
pub(super) const THREAD_STACK_LEAST: i64 = 65_536;

/// Number of the message that `MaxRequestWorkers` is below 1; only prefork can get there.
pub(super) const PREFORK_WORKERS_BELOW: u16 = 182;
/// Number of the message that `MaxRequestsPerChild` is an old name; the same in all models.
pub(super) const MAX_REQUESTS_PER_CHILD: u16 = 545;
/// Number of the message that tells the sets of listening sockets; the same in all models.
pub(super) const LISTENER_SETS: u16 = 2819;

/// What prefork, worker and event have each in its own way.
pub(super) struct Rules {
    pub server_limit: i64,
    pub server_limit_bound: i64,
    pub server_limit_above: u16,
    pub server_limit_below: u16,
    pub max_request_workers: i64,
    pub workers_above_servers: u16,
    pub start_servers: i64,
    pub start_servers_below: u16,
    pub min_spare: i64,
    pub min_spare_below: u16,
    pub max_spare: i64,
    /// Told with this number at any time.
    pub max_clients: u16,
}

/// What worker and event have beyond it.
pub(super) struct ThreadRules {
    pub thread_limit: i64,
    pub thread_limit_bound: i64,
    pub thread_limit_above: u16,
    pub thread_limit_below: u16,
    pub threads_per_child: i64,
    pub threads_above: u16,
    pub threads_below: u16,
    pub workers_below_threads: u16,
    pub workers_no_multiple: u16,
    /// Told with this number at any time.
    pub thread_stack: u16,
}

pub(super) static PREFORK: Rules = Rules {
    server_limit: 256,
    server_limit_bound: 200_000,
    server_limit_above: 175,
    server_limit_below: 177,
    max_request_workers: 256,
    workers_above_servers: 180,
    start_servers: 5,
    start_servers_below: 184,
    min_spare: 5,
    min_spare_below: 186,
    max_spare: 10,
    max_clients: 188,
};

pub(super) static WORKER: Rules = Rules {
    server_limit: 16,
    server_limit_bound: 20_000,
    server_limit_above: 300,
    server_limit_below: 302,
    max_request_workers: 400,
    workers_above_servers: 318,
    start_servers: 3,
    start_servers_below: 320,
    min_spare: 75,
    min_spare_below: 322,
    max_spare: 250,
    max_clients: 324,
};

pub(super) static WORKER_THREADS: ThreadRules = ThreadRules {
    thread_limit: 64,
    thread_limit_bound: 20_000,
    thread_limit_above: 305,
    thread_limit_below: 307,
    threads_per_child: 25,
    threads_above: 310,
    threads_below: 312,
    workers_below_threads: 314,
    workers_no_multiple: 316,
    thread_stack: 2435,
};

pub(super) static EVENT: Rules = Rules {
    server_limit: 16,
    server_limit_bound: 20_000,
    server_limit_above: 497,
    server_limit_below: 499,
    max_request_workers: 400,
    workers_above_servers: 515,
    start_servers: 3,
    start_servers_below: 517,
    min_spare: 75,
    min_spare_below: 519,
    max_spare: 250,
    max_clients: 521,
};

pub(super) static EVENT_THREADS: ThreadRules = ThreadRules {
    thread_limit: 64,
    thread_limit_bound: 100_000,
    thread_limit_above: 502,
    thread_limit_below: 504,
    threads_per_child: 25,
    threads_above: 507,
    threads_below: 509,
    workers_below_threads: 511,
    workers_no_multiple: 513,
    thread_stack: 2436,
};
