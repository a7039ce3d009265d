//! What each reload changes: a walk over the models that takes every ordered pair, and limits that change with them.

use std::fmt::Write as _;

use crate::target::{Family, Model};

/// The models in the order in which a graceful reload takes them: each ordered pair of different ones follows one another
/// once in `n (n - 1)` reloads, and then it begins anew (an Eulerian circuit, since every model has as many ways out as in).
/// One model alone follows itself.
pub fn walk(models: &[Model], reloads: usize) -> Vec<Model> {
    let n = models.len();
    if n < 2 {
        return models.iter().copied().cycle().take(reloads + 1).collect();
    }
    // Hierholzer: go on by unused ways until there is none, and close detours on the way back.
    let mut unused: Vec<Vec<usize>> = (0..n).map(|from| (0..n).rev().filter(|&to| to != from).collect()).collect();
    let mut path = vec![0];
    let mut circuit = Vec::with_capacity(n * (n - 1) + 1);
    while let Some(&at) = path.last() {
        match unused[at].pop() {
            Some(to) => path.push(to),
            None => circuit.extend(path.pop()),
        }
    }
    // It ends where it begins; the repeated end is left out so that circuits follow one another.
    circuit.reverse();
    circuit.pop();
    circuit.into_iter().cycle().take(reloads + 1).map(|model| models[model]).collect()
}

/// How many of the ordered pairs of different models a walk takes.
pub fn pairs(walk: &[Model]) -> usize {
    let mut seen: Vec<(Model, Model)> = Vec::new();
    for pair in walk.windows(2) {
        if pair[0] != pair[1] && !seen.contains(&(pair[0], pair[1])) {
            seen.push((pair[0], pair[1]));
        }
    }
    seen.len()
}

/// The lines of one generation's configuration: room for `clients` connections at once from the start, and in manifold
/// other limits than those of the generation before. Apache may not change ServerLimit and ThreadLimit on a reload, so
/// for apache2 and nginx the page alone changes: the easiest reload there is.
pub fn lines(family: Family, model: Model, clients: usize, generation: usize) -> String {
    let odd = family == Family::Manifold && generation % 2 == 1;
    let mut text = String::new();
    if family == Family::Nginx {
        return "sendfile on;\nkeepalive_timeout 60s;\nkeepalive_requests 100;\n".to_owned();
    }
    // Far above the clients' pauses, also where a busy machine lets them stand still for seconds.
    text.push_str("Timeout 60\nKeepAlive On\nKeepAliveTimeout 60\nMaxKeepAliveRequests 100\n");
    // Half as many again as there are clients, so that nobody waits for a process to be made.
    let start = clients + clients / 2;
    match model {
        Model::Prefork => {
            let limit = (2 * clients).max(256) + if odd { 40 } else { 0 };
            let _ = write!(
                text,
                "ServerLimit {limit}\nMaxRequestWorkers {limit}\nStartServers {start}\nMinSpareServers 5\nMaxSpareServers {limit}\n"
            );
        }
        Model::Worker | Model::Event => {
            let threads = if odd { 20 } else { 25 };
            let servers = (2 * clients).div_ceil(threads).max(16);
            let _ = write!(
                text,
                "ServerLimit {servers}\nThreadLimit {}\nThreadsPerChild {threads}\nMaxRequestWorkers {}\nStartServers {}\n\
                 MinSpareThreads 25\nMaxSpareThreads {}\n",
                if odd { 100 } else { 64 },
                servers * threads,
                start.div_ceil(threads).max(1),
                servers * threads,
            );
        }
        Model::Percore | Model::Loop => {}
    }
    text
}

/// Whether a generation listens on one more port: every second one of manifold does.
pub fn second_port(family: Family, generation: usize) -> bool {
    family == Family::Manifold && generation % 2 == 1
}

/// The models that an error log says were taken into force, in order: those of its "resuming normal operations" lines.
pub fn models_logged(log: &str) -> Vec<&str> {
    let lines = log.lines().filter(|line| line.contains("resuming normal operations"));
    lines.filter_map(|line| line.split_once("[mpm_")?.1.split(':').next()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Model; 4] = [Model::Prefork, Model::Worker, Model::Event, Model::Percore];

    #[test]
    fn the_walk_takes_every_ordered_pair_once_in_a_circuit() {
        for (models, reloads, taken) in [
            (&ALL[..], 12, 12),
            (&ALL, 20, 12),
            (&ALL, 24, 12),
            (&ALL, 5, 5),
            (&ALL[..3], 6, 6),
            (&ALL[1..3], 2, 2),
            (&ALL[..1], 4, 0),
        ] {
            let walk = walk(models, reloads);
            assert_eq!((walk.len(), pairs(&walk)), (reloads + 1, taken), "{walk:?}");
            assert_eq!(walk[0], models[0]);
            let still = walk.windows(2).filter(|pair| pair[0] == pair[1]).count();
            assert_eq!(still, if models.len() == 1 { reloads } else { 0 }, "{walk:?}");
        }
    }

    #[test]
    fn limits_change_where_a_reload_may_change_them() {
        let of = |family, generation| lines(family, Model::Event, 128, generation);
        assert_ne!(of(Family::Manifold, 0), of(Family::Manifold, 1));
        assert_eq!(of(Family::Apache2, 0), of(Family::Apache2, 1));
        assert_eq!(of(Family::Manifold, 0), of(Family::Apache2, 0), "at the start the terms are the same");
        for part in ["ServerLimit 16\n", "ThreadsPerChild 25\n", "MaxRequestWorkers 400\n", "StartServers 8\n"] {
            assert!(of(Family::Manifold, 0).contains(part), "{}", of(Family::Manifold, 0));
        }
        assert!(lines(Family::Manifold, Model::Prefork, 128, 1).contains("ServerLimit 296\nMaxRequestWorkers 296\n"));
        assert!(!lines(Family::Manifold, Model::Percore, 128, 1).contains("Limit"));
        assert_eq!([0, 1].map(|g| second_port(Family::Manifold, g)), [false, true]);
        assert!(!second_port(Family::Apache2, 1));
    }

    #[test]
    fn the_log_names_the_models() {
        let log = "[Sat] [mpm_event:notice] [pid 1:tid 1] AH00489: Apache/2.4.71 configured -- resuming normal operations\n\
                   [Sat] [core:notice] AH00094: Command line\n\
                   [Sat] [mpm_prefork:notice] [pid 1] AH00163: x configured -- resuming normal operations\n";
        assert_eq!(models_logged(log), ["event", "prefork"]);
        assert_eq!(models_logged(""), [""; 0]);
    }
}
