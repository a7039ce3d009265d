//! The directives of Apache's MPMs: which model knows which, and their older names.

use crate::target::Model;

/// A directive and the models that have it.
struct Directive {
    name: &'static str,
    /// What it was called before 2.4, which still works.
    old: Option<&'static str>,
    models: &'static [Model],
}

use Model::{Event, Prefork, Worker};

/// As `apache2 -L` lists them for each model; those that all models have in common without one of their own are left out.
const DIRECTIVES: [Directive; 11] = [
    of("StartServers", &[Prefork, Worker, Event]),
    of("ServerLimit", &[Prefork, Worker, Event]),
    Directive { old: Some("MaxClients"), ..of("MaxRequestWorkers", &[Prefork, Worker, Event]) },
    Directive { old: Some("MaxRequestsPerChild"), ..of("MaxConnectionsPerChild", &[Prefork, Worker, Event]) },
    of("MinSpareServers", &[Prefork]),
    of("MaxSpareServers", &[Prefork]),
    of("MinSpareThreads", &[Worker, Event]),
    of("MaxSpareThreads", &[Worker, Event]),
    of("ThreadsPerChild", &[Worker, Event]),
    of("ThreadLimit", &[Worker, Event]),
    of("AsyncRequestWorkerFactor", &[Event]),
];

const fn of(name: &'static str, models: &'static [Model]) -> Directive {
    Directive { name, old: None, models }
}

fn find(name: &str) -> Option<&'static Directive> {
    let is = |known: &str| known.eq_ignore_ascii_case(name);
    DIRECTIVES.iter().find(|directive| is(directive.name) || directive.old.is_some_and(is))
}

/// Whether two names mean the same directive.
pub(super) fn same(a: &str, b: &str) -> bool {
    a.eq_ignore_ascii_case(b) || find(a).is_some_and(|directive| find(b).is_some_and(|b| b.name == directive.name))
}

/// Whether this is a directive of other MPMs that the model does not know.
pub(super) fn is_foreign(name: &str, model: Model) -> bool {
    find(name).is_some_and(|directive| !directive.models.contains(&model))
}

/// The MPM that a module is: `event` of `mpm_event_module`.
pub(super) fn of_module(identifier: &str) -> Option<&str> {
    identifier.strip_prefix("mpm_")?.strip_suffix("_module")
}

/// The model of that name, of those that Apache has.
pub(super) fn model(name: &str) -> Option<Model> {
    [Prefork, Worker, Event].into_iter().find(|model| model.name() == name)
}
