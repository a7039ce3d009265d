//! `cargo xtask setup`: installs what the tests use and the lab compares with. On Debian and its kin, as root, with the
//! system's own packages; otherwise it prints the command to type. Servers are installed but never started.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::run::{Run, root, target_dir};

/// A Debian package and what it is here for.
struct Package {
    name: &'static str,
    why: &'static str,
}

const PACKAGES: &[Package] = &[
    Package { name: "apache2", why: "a peer in the lab, and ab's parity test" },
    Package { name: "apache2-utils", why: "the real ab" },
    Package { name: "caddy", why: "a peer in the lab" },
    Package { name: "chromium", why: "opens the lab's pages" },
    Package { name: "collectd-core", why: "its apache plugin reads the status page" },
    Package { name: "curl", why: "a real client" },
    Package { name: "g++", why: "builds the fuzzing engine" },
    Package { name: "gnuplot-nox", why: "draws the lab's plots from its files" },
    Package { name: "h2o", why: "a peer in the lab" },
    Package { name: "libwww-perl", why: "with it munin's plugins fetch pages" },
    Package { name: "lighttpd", why: "a peer in the lab" },
    Package { name: "munin-plugins-core", why: "its apache plugins read the status page" },
    Package { name: "nghttp2-client", why: "h2load" },
    Package { name: "nghttp2-server", why: "nghttpd, a server of HTTP/2" },
    Package { name: "nginx-light", why: "a peer in the lab, and ab's parity test" },
    Package { name: "procps", why: "ps, for looking at process trees" },
    Package { name: "prometheus-apache-exporter", why: "reads the status page" },
    Package { name: "python3-venv", why: "a place for Playwright, which drives chromium" },
    Package { name: "siege", why: "a real client" },
    Package { name: "strace", why: "system calls a request" },
    Package { name: "systemd", why: "systemd-analyze checks the unit files" },
    Package { name: "util-linux", why: "taskset, for counts on one core" },
    Package { name: "valgrind", why: "instruction counts" },
    Package { name: "wrk", why: "a real client" },
];

/// Servers that a package might start, by the name of their init script.
const SERVICES: &[&str] = &["apache2", "caddy", "h2o", "lighttpd", "nginx", "prometheus-apache-exporter"];

/// Debian asks this file before a package starts or stops a service.
const POLICY: &str = "/usr/sbin/policy-rc.d";

/// Components of the Rust toolchain that the tests need, with the command that shows each is there.
const COMPONENTS: &[(&str, &str)] = &[("rustfmt", "fmt --version"), ("clippy", "clippy --version")];

/// Runs the task.
pub fn main(arguments: &[String]) -> Result<()> {
    if !arguments.is_empty() {
        bail!(
            "usage: cargo xtask setup\n\nIt takes no arguments. It installs: {}, and Playwright below {}",
            names(PACKAGES).join(" "),
            target_dir().display()
        );
    }
    packages()?;
    components()?;
    playwright()
}

fn packages() -> Result<()> {
    if !Run::new("dpkg-query", ["--version"]).succeeds() {
        bail!(
            "this is not Debian or one of its kin, so packages cannot be installed here; install by hand what corresponds to: {}",
            names(PACKAGES).join(" ")
        );
    }
    let missing: Vec<&Package> = PACKAGES.iter().filter(|package| !installed(package.name)).collect();
    if missing.is_empty() {
        println!("setup: all {} packages are installed", PACKAGES.len());
        return Ok(());
    }
    for package in &missing {
        println!("setup: {} is missing ({})", package.name, package.why);
    }
    let names: Vec<&str> = missing.iter().map(|package| package.name).collect();
    if !is_root()? {
        bail!(
            "only root can install packages; type:\n  sudo apt-get update && sudo apt-get install --yes {}",
            names.join(" ")
        );
    }
    install(&names)
}

fn install(names: &[&str]) -> Result<()> {
    let policy = StartNothing::new()?;
    let apt = |arguments: &[&str]| Run::new("apt-get", arguments).env("DEBIAN_FRONTEND", "noninteractive");
    apt(&["update", "--quiet=2"]).show()?;
    apt(&["install", "--yes", "--quiet=2", "--no-install-recommends"]).args(names).show()?;
    drop(policy);
    for service in SERVICES.iter().filter(|service| names.iter().any(|name| name.starts_with(**service))) {
        stop(service)?;
    }
    Ok(())
}

/// Stops a service that its installation started all the same (a policy file of the machine's own may allow that).
fn stop(service: &str) -> Result<()> {
    let script = format!("/etc/init.d/{service}");
    if Path::new(&script).exists() && Run::new(&script, ["status"]).succeeds() {
        Run::new(&script, ["stop"]).show()?;
    }
    Ok(())
}

fn components() -> Result<()> {
    for (component, probe) in COMPONENTS {
        if Run::cargo(probe).succeeds() {
            continue;
        }
        if !Run::new("rustup", ["--version"]).succeeds() {
            bail!(
                "`cargo {probe}` fails and there is no rustup to add the component; install {component} for this toolchain"
            );
        }
        Run::new("rustup", ["component", "add", component]).show()?;
    }
    Ok(())
}

/// Playwright in the versions that the tests name, in a folder of its own beside what cargo builds. It brings no browser.
fn playwright() -> Result<()> {
    let wanted = root().join("e2e/browser/requirements.txt");
    let text = fs::read_to_string(&wanted).with_context(|| format!("cannot read {}", wanted.display()))?;
    let folder = target_dir().join("playwright");
    // Written last, so that half an installation is done again.
    let noted = folder.join("installed.txt");
    if fs::read_to_string(&noted).is_ok_and(|noted| noted == text) {
        println!("setup: Playwright is installed");
        return Ok(());
    }
    let path = folder.to_string_lossy();
    Run::new("python3", ["-m", "venv", "--clear", &path]).show()?;
    let pip = ["install", "--quiet", "--no-deps", "--disable-pip-version-check", "--requirement"];
    Run::new(&format!("{path}/bin/pip"), pip).args([wanted.to_string_lossy()]).show()?;
    fs::write(&noted, text).with_context(|| format!("cannot write {}", noted.display()))
}

fn installed(package: &str) -> bool {
    let query = Run::new("sh", ["-c", "dpkg-query -W -f '${db:Status-Status}' \"$1\" 2>/dev/null", "sh", package]);
    query.output().is_ok_and(|status| status == "installed")
}

fn is_root() -> Result<bool> {
    Ok(Run::new("id", ["-u"]).output()?.trim() == "0")
}

fn names(packages: &[Package]) -> Vec<&'static str> {
    packages.iter().map(|package| package.name).collect()
}

/// While this lives, packages that are installed start no service. A policy file that is there already is kept as it is.
struct StartNothing {
    wrote: bool,
}

impl StartNothing {
    fn new() -> Result<StartNothing> {
        if Path::new(POLICY).exists() {
            return Ok(StartNothing { wrote: false });
        }
        fs::write(POLICY, "#!/bin/sh\n# Written for the time of an installation: start nothing.\nexit 101\n")
            .with_context(|| format!("cannot write {POLICY}"))?;
        let guard = StartNothing { wrote: true };
        fs::set_permissions(POLICY, fs::Permissions::from_mode(0o755))?;
        Ok(guard)
    }
}

impl Drop for StartNothing {
    fn drop(&mut self) {
        if self.wrote && fs::remove_file(POLICY).is_err() {
            eprintln!("warning: could not remove {POLICY}; while it is there, packages start no service");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_are_in_order_and_each_has_a_reason() {
        assert!(names(PACKAGES).is_sorted());
        assert!(PACKAGES.iter().all(|package| !package.why.is_empty()));
    }

    #[test]
    fn a_package_that_does_not_exist_is_not_installed() {
        assert!(!installed("no-such-package-here"));
    }
}
