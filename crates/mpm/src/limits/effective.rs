//! The numbers in effect, as a table: what `-t` prints and the error log tells.

use std::time::Duration;

use super::{Limits, Model, SpawnPolicy};

impl Limits {
    /// Every number of the model, under the name of its directive and as that takes it; the model itself stands first.
    pub fn effective(&self) -> Vec<(&'static str, String)> {
        let mut rows = vec![("MPM", self.model.to_string())];
        match self.model {
            Model::Percore => self.of_cores(&mut rows),
            Model::Prefork | Model::Worker | Model::Event => self.of_spares(&mut rows),
        }
        rows.push(("MaxConnectionsPerChild", self.max_connections_per_child.to_string()));
        let timeout = self.graceful_shutdown_timeout.unwrap_or(Duration::ZERO);
        rows.push(("GracefulShutdownTimeout", timeout.as_secs().to_string()));
        rows.push(("listener sets", self.listener_sets.to_string()));
        rows
    }

    fn of_cores(&self, rows: &mut Vec<(&'static str, String)>) {
        let pinning = if self.core_pinning { "On" } else { "Off" };
        rows.extend([
            ("Cores", self.cores.to_string()),
            ("CorePinning", pinning.to_owned()),
            ("MaxConnections", self.max_connections.to_string()),
        ]);
    }

    fn of_spares(&self, rows: &mut Vec<(&'static str, String)>) {
        rows.push(("ServerLimit", self.server_limit.to_string()));
        let (min, max) = if self.model.is_threaded() {
            rows.push(("ThreadLimit", self.thread_limit.to_string()));
            rows.push(("ThreadsPerChild", self.threads_per_child.to_string()));
            ("MinSpareThreads", "MaxSpareThreads")
        } else {
            ("MinSpareServers", "MaxSpareServers")
        };
        rows.extend([
            ("MaxRequestWorkers", self.max_request_workers.to_string()),
            ("processes at most", self.processes().to_string()),
            ("StartServers", self.start_servers.to_string()),
            (min, self.min_spare.to_string()),
            (max, self.max_spare.to_string()),
        ]);
        let policy = match self.spawn_policy {
            SpawnPolicy::Compatible => "compatible",
            SpawnPolicy::Predictive => "predictive",
        };
        rows.push(("SpawnPolicy", policy.to_owned()));
        if self.model == Model::Event {
            rows.push(("AsyncRequestWorkerFactor", self.async_factor.to_string()));
            rows.push(("MaxConnections", self.max_connections.to_string()));
        }
        if self.model.is_threaded() {
            let stack = self.thread_stack.map_or_else(|| "default".to_owned(), |bytes| bytes.to_string());
            rows.push(("ThreadStackSize", stack));
        }
    }
}
