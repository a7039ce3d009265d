//! What a child and a thread of the installed server cost in memory: the server is started privately, in two or three sizes, and the
//! differences of its proportional set sizes (PSS) are taken. What processes share falls out of a difference, so a child's cost is what one
//! more of them takes; summed RSS would count shared pages once a process.

use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use crate::cli::BUILT_IN_PAGE;
use crate::sampler;
use crate::server::{self, Page};
use crate::staged::{Recipe, Stage};
use crate::target::{Family, Model};

/// Children beside the first one, in the larger of two sizes.
const MORE: u32 = 4;
/// Clients at the same time: each makes a thread serve.
const CLIENTS_MAX: u32 = 400;
/// A client's connection and its answer.
const ANSWERED_WITHIN: Duration = Duration::from_secs(2);
/// How long a server may take to have its threads.
const FULL_WITHIN: Duration = Duration::from_secs(10);
/// How long reading its memory may take.
const READ_WITHIN: Duration = Duration::from_secs(5);
/// Modules that every private server has.
const OWN: [&str; 3] = ["authz_core_module", "mime_module", "dir_module"];
/// `ServerLimit` beyond which the model's own bound matters; no size here comes near.
const THREAD_LIMIT_MAX: u32 = 20_000;

/// What it costs, KiB.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
pub struct Costs {
    /// The parent with one child.
    pub base_kib: f64,
    /// One more child with all its threads.
    pub child_kib: f64,
    /// One more thread in a child; 0 in prefork and percore, whose children have one.
    pub thread_kib: f64,
    /// Threads that serve, of the child measured.
    pub threads: u32,
    /// Modules that were loaded beside those every server needs.
    pub modules: usize,
}

impl Costs {
    /// Of a server of so many children with so many threads each, KiB.
    pub fn of(&self, children: u32, threads: u32) -> f64 {
        self.base_kib
            + (f64::from(children) - 1.0) * self.child_kib
            + f64::from(children) * (f64::from(threads) - f64::from(self.threads)) * self.thread_kib
    }
}

/// What is measured.
#[derive(Debug)]
pub struct Measured<'a> {
    /// Whose program.
    pub family: Family,
    /// Which model.
    pub model: Model,
    /// Threads of a child; 1 in prefork and percore.
    pub threads: u32,
    /// Modules besides: name and file, as `LoadModule` takes them.
    pub modules: &'a [(String, PathBuf)],
}

/// One size of a server.
#[derive(Clone, Copy, Debug)]
struct Size {
    children: u32,
    threads: u32,
}

impl Measured<'_> {
    /// Starts the servers one after the other, and compares them.
    ///
    /// # Errors
    /// If the server is not installed, does not start, or its memory may not be read.
    pub fn costs(&self, stage: &Stage) -> Result<Costs> {
        let small = self.pss(stage, Size { children: 1, threads: self.threads })?;
        let large = self.pss(stage, Size { children: 1 + MORE, threads: self.threads })?;
        let child_kib = ((large - small) / f64::from(MORE)).max(0.0);
        let thread_kib = if self.threads > 1 {
            let single = self.pss(stage, Size { children: 1, threads: 1 })?;
            ((small - single) / f64::from(self.threads - 1)).max(0.0)
        } else {
            0.0
        };
        let modules = self.others().count();
        Ok(Costs { base_kib: small, child_kib, thread_kib, threads: self.threads, modules })
    }

    /// The proportional set size of a server of this size whose children have each served, KiB.
    fn pss(&self, stage: &Stage, size: Size) -> Result<f64> {
        let installed = stage.detect(self.family, self.model).map_err(anyhow::Error::msg)?;
        let name = format!("doctor-{}-{}", size.children, size.threads);
        let page = Page { path: "/index.html".to_owned(), body: BUILT_IN_PAGE.as_bytes().to_vec() };
        let site = stage.write("site", "index.html", &page.body)?;
        let port = server::free_ports(1).context("no free port on 127.0.0.1")?[0];
        let recipe = Recipe {
            model: self.model,
            ports: &[port],
            root: site.parent().context("a file has a folder")?,
            buckets: false,
            workers: None,
            modules: &[],
            lines: self.lines(size),
        };
        let text = stage.config(&name, self.family, &recipe)?;
        let mut server = stage.start(&name, &installed, port, &text)?;
        server.wait_ready(&page)?;
        // Apache's listener starts last; more threads than these do no harm.
        server.wait_threads(size.children * size.threads, FULL_WITHIN)?;
        server.wait_full_size();
        let clients = touch(port, (size.children * size.threads).min(CLIENTS_MAX));
        let pids = sampler::tree(server.pid())?;
        let pss = sampler::pss_kib(&pids, Instant::now() + READ_WITHIN);
        drop(clients);
        pss.map(|kib| kib as f64).context("its memory may not be read here (/proc/PID/smaps_rollup)")
    }

    fn others(&self) -> impl Iterator<Item = &(String, PathBuf)> {
        self.modules.iter().filter(|(name, file)| !OWN.contains(&name.as_str()) && file.exists())
    }

    /// The lines that give it exactly this size, and its modules.
    fn lines(&self, size: Size) -> String {
        let Size { children, threads } = size;
        let mut text = match self.model {
            Model::Prefork => format!(
                "ServerLimit {children}\nMaxRequestWorkers {children}\nStartServers {children}\nMinSpareServers 1\n\
                 MaxSpareServers {children}\n"
            ),
            Model::Worker | Model::Event => {
                let all = children * threads;
                let limit = threads.clamp(64, THREAD_LIMIT_MAX);
                format!(
                    "ServerLimit {children}\nThreadLimit {limit}\nThreadsPerChild {threads}\nMaxRequestWorkers {all}\n\
                     StartServers {children}\nMinSpareThreads 1\nMaxSpareThreads {}\n",
                    all + threads + 1
                )
            }
            Model::Percore => format!("Cores {children}\n"),
            Model::Loop => String::new(),
        };
        if self.family == Family::Apache2 {
            for (name, file) in self.others() {
                // Writing to a String cannot fail.
                let _ = writeln!(text, "LoadModule {name} \"{}\"", file.display());
            }
        }
        text
    }
}

/// Clients that each have had an answer on a connection that stays open. One that gets none is not there.
fn touch(port: u16, clients: u32) -> Vec<TcpStream> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let connect = |_| {
        let mut stream = TcpStream::connect_timeout(&address, ANSWERED_WITHIN).ok()?;
        stream.set_read_timeout(Some(ANSWERED_WITHIN)).ok()?;
        stream.write_all(b"GET /index.html HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n").ok()?;
        Some(stream)
    };
    // All ask before the first answer is read, so that as many threads as there are have something to do.
    let mut asked: Vec<TcpStream> = (0..clients).filter_map(connect).collect();
    let deadline = Instant::now() + ANSWERED_WITHIN;
    asked.retain_mut(|stream| Instant::now() < deadline && matches!(stream.read(&mut [0; 1024]), Ok(n) if n > 0));
    asked
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_of_other_sizes_follow_from_those_measured() {
        let costs = Costs { base_kib: 5000.0, child_kib: 1000.0, thread_kib: 20.0, threads: 25, modules: 3 };
        assert_eq!(costs.of(1, 25), 5000.0);
        assert_eq!(costs.of(6, 25), 10_000.0);
        assert_eq!(costs.of(2, 50), 5000.0 + 1000.0 + 2.0 * 25.0 * 20.0);
    }

    #[test]
    fn servers_have_exactly_the_size_that_is_measured() {
        let modules = [("dir_module".to_owned(), "/bin/sh".into()), ("x_module".to_owned(), "/bin/sh".into())];
        let lines = |family, model| {
            Measured { family, model, threads: 25, modules: &modules }.lines(Size { children: 5, threads: 25 })
        };
        let event = lines(Family::Apache2, Model::Event);
        assert!(event.contains("MaxRequestWorkers 125\nStartServers 5\n"), "{event}");
        assert!(event.contains("LoadModule x_module") && !event.contains("dir_module"), "{event}");
        assert!(!lines(Family::Manifold, Model::Event).contains("LoadModule"));
        assert_eq!(lines(Family::Manifold, Model::Percore), "Cores 5\n");
    }
}
