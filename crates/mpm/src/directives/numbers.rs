//! Directives that count: processes, threads, connections.

use std::time::Duration;

use manifold_config::{ArgShape, Call, Diagnostic};

use super::{INT, RawServer, Row, number, row};
use crate::limits::{SpawnPolicy, Written};

pub(super) const THREAD_STACK_SIZE: Row = row(
    "ThreadStackSize",
    ArgShape::Take1,
    "the system's",
    "Bytes of the stack of threads that serve connections; 0 leaves it to the system.",
    |server, call| {
        let bytes = call.integer(0, INT)?;
        if bytes < 0 {
            return Err(call.error_at(0, format!("Invalid ThreadStackSize value: {bytes}")));
        }
        server.limits.thread_stack = number(call)?;
        Ok(())
    },
);

pub(super) const GRACEFUL_SHUTDOWN_TIMEOUT: Row = row(
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

pub(super) const MAX_CONNECTIONS_PER_CHILD: Row = row(
    "MaxConnectionsPerChild",
    ArgShape::Take1,
    "0",
    "Connections after which a process is replaced by a new one; 0 is never.",
    set_max_connections_per_child,
);

pub(super) const MAX_REQUESTS_PER_CHILD: Row = row(
    "MaxRequestsPerChild",
    ArgShape::Take1,
    "0",
    "The old name of MaxConnectionsPerChild.",
    set_max_connections_per_child,
);

pub(super) const START_SERVERS: Row = row(
    "StartServers",
    ArgShape::Take1,
    "5 in prefork, 3 in worker and event",
    "Processes that are started with the server.",
    |server, call| {
        server.limits.start_servers = number(call)?;
        Ok(())
    },
);

pub(super) const SERVER_LIMIT: Row = row(
    "ServerLimit",
    ArgShape::Take1,
    "256 in prefork, 16 in worker and event",
    "Most processes that the other settings may ask for.",
    |server, call| {
        server.limits.server_limit = number(call)?;
        Ok(())
    },
);

pub(super) const MAX_REQUEST_WORKERS: Row = row(
    "MaxRequestWorkers",
    ArgShape::Take1,
    "256 in prefork, 400 in worker and event",
    "Requests that are worked on at the same time: processes in prefork, threads in worker and event.",
    |server, call| {
        server.limits.max_request_workers = number(call)?;
        Ok(())
    },
);

pub(super) const MAX_CLIENTS: Row =
    row("MaxClients", ArgShape::Take1, "", "The old name of MaxRequestWorkers.", |server, call| {
        server.limits.max_request_workers = number(call)?;
        Ok(())
    });

pub(super) const MIN_SPARE_SERVERS: Row = row(
    "MinSpareServers",
    ArgShape::Take1,
    "5",
    "Fewest processes that wait for a connection; when there are fewer, more are made.",
    |server, call| {
        server.limits.min_spare = number(call)?;
        Ok(())
    },
);

pub(super) const MAX_SPARE_SERVERS: Row = row(
    "MaxSpareServers",
    ArgShape::Take1,
    "10",
    "Most processes that wait for a connection; when there are more, some are ended.",
    |server, call| {
        server.limits.max_spare = number(call)?;
        Ok(())
    },
);

pub(super) const MIN_SPARE_THREADS: Row = row(
    "MinSpareThreads",
    ArgShape::Take1,
    "75",
    "Fewest threads of the whole server that wait for work; when there are fewer, processes are made.",
    |server, call| {
        server.limits.min_spare = number(call)?;
        Ok(())
    },
);

pub(super) const MAX_SPARE_THREADS: Row = row(
    "MaxSpareThreads",
    ArgShape::Take1,
    "250",
    "Most threads of the whole server that wait for work; when there are more, processes are ended.",
    |server, call| {
        server.limits.max_spare = number(call)?;
        Ok(())
    },
);

pub(super) const THREAD_LIMIT: Row =
    row("ThreadLimit", ArgShape::Take1, "64", "Most threads that ThreadsPerChild may ask for.", |server, call| {
        server.limits.thread_limit = number(call)?;
        Ok(())
    });

pub(super) const THREADS_PER_CHILD: Row =
    row("ThreadsPerChild", ArgShape::Take1, "25", "Threads of each process that serve connections.", |server, call| {
        server.limits.threads_per_child = number(call)?;
        Ok(())
    });

pub(super) const ASYNC_REQUEST_WORKER_FACTOR: Row = row(
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

pub(super) const CORES: Row = row(
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

pub(super) const MAX_CONNECTIONS: Row = row(
    "MaxConnections",
    ArgShape::Take1,
    "65536",
    "Connections that a process holds at the same time, idle ones included; beyond, idle ones end or 503 is said.",
    |server, call| {
        server.limits.max_connections = number(call)?;
        Ok(())
    },
);

fn set_max_connections_per_child(server: &mut RawServer, call: &Call<'_>) -> Result<(), Diagnostic> {
    let value = call.integer(0, 0..=i64::from(i32::MAX))?;
    let written = Written { value, span: Some(call.arg_span(0)), directive: call.name };
    server.limits.max_connections_per_child = Some(written);
    Ok(())
}

pub(super) const CORE_PINNING: Row = row(
    "CorePinning",
    ArgShape::Flag,
    "On",
    "Whether each process stays on the core that it is for.",
    |server, call| {
        server.limits.core_pinning = Some(call.flag(0)?);
        Ok(())
    },
);

pub(super) const SPAWN_POLICY: Row = row(
    "SpawnPolicy",
    ArgShape::Take1,
    "compatible",
    "How spare processes are made: as Apache does ('compatible'), or as many as the load asks for ('predictive').",
    |server, call| {
        server.limits.spawn_policy = Some(match call.text(0).to_ascii_lowercase().as_str() {
            "compatible" => SpawnPolicy::Compatible,
            "predictive" => SpawnPolicy::Predictive,
            other => {
                let message = format!("SpawnPolicy takes 'compatible' or 'predictive', not '{other}'");
                return Err(call.error_at(0, message).label("no such policy"));
            }
        });
        Ok(())
    },
);
