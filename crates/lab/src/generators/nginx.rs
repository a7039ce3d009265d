//! The target for what `manifold load --target-server` does not speak: nginx, with a certificate made for the run.

use std::path::Path;

use anyhow::{Context, Result};
use rcgen::{CertifiedKey, generate_simple_self_signed};

use crate::peers::fleet::Places;
use crate::server::{Page, Place, Server, free_ports};
use crate::staged::Stage;
use crate::target::{Installed, TARGETS, nginx_temporary};

/// The answer to everything, as long as the other target's.
const BODY: &str = "Forty-four bytes from nginx, for generators.";
/// The folder of its certificate and key.
const KEYS: &str = "keys";

/// A server that speaks TLS and HTTP/2.
#[derive(Debug)]
pub struct Nginx {
    /// It.
    pub server: Server,
    /// Where it speaks HTTP/1.1 over TLS.
    pub https: String,
    /// Where it speaks HTTP/2 without TLS.
    pub http2: String,
}

/// Looks for it.
///
/// # Errors
/// A sentence: it is missing, and how to get it.
pub fn detect(manifold: &Path) -> Result<Installed, String> {
    let known = TARGETS.iter().find(|target| target.name == "nginx");
    known.ok_or("nginx is not known")?.detect(manifold)
}

impl Nginx {
    /// Starts it in `folder`, and waits until it answers.
    ///
    /// # Errors
    /// If it does not start.
    pub fn start(installed: &Installed, stage: &Stage, places: &Places, folder: &Path) -> Result<Nginx> {
        let names = ["localhost".to_owned(), "127.0.0.1".to_owned()];
        let CertifiedKey { cert, signing_key } =
            generate_simple_self_signed(names).context("cannot make a certificate")?;
        let certificate = stage.write(KEYS, "certificate.pem", cert.pem().as_bytes())?;
        let key = stage.write(KEYS, "key.pem", signing_key.serialize_pem().as_bytes())?;
        let ports = free_ports(3).context("no free port on 127.0.0.1")?;
        let [plain, https, http2] = ports[..] else { anyhow::bail!("no free port on 127.0.0.1") };
        let text = config(folder, stage.user(), &certificate, &key, [plain, https, http2]);
        let place = Place { folder, port: plain, cores: &places.one };
        let mut server = Server::start_with(installed, &place, &text, &stage.manifold)?;
        server.wait_ready(&Page { path: "/".to_owned(), body: BODY.as_bytes().to_vec() })?;
        let url = |scheme: &str, port| format!("{scheme}://127.0.0.1:{port}/");
        Ok(Nginx { server, https: url("https", https), http2: url("http", http2) })
    }
}

/// The port that speaks plain HTTP/1.1 is for the laboratory, which looks there whether it is up.
fn config(folder: &Path, user: Option<(&str, &str)>, certificate: &Path, key: &Path, ports: [u16; 3]) -> String {
    let temporary = nginx_temporary(folder);
    let (folder, [plain, https, http2]) = (folder.display(), ports);
    let user = user.map(|(user, group)| format!("user {user} {group};\n")).unwrap_or_default();
    format!(
        "# nginx, as the laboratory measured generators with it\n\
         {user}worker_processes 1;\n\
         worker_rlimit_nofile 16384;\n\
         daemon off;\n\
         pid \"{folder}/nginx.pid\";\n\
         error_log \"{folder}/error.log\" warn;\n\
         events {{ worker_connections 8192; }}\n\
         http {{\n\
         {temporary}    access_log off;\n\
         \x20   default_type text/plain;\n\
         \x20   keepalive_timeout 60s;\n\
         \x20   keepalive_requests 1000000000;\n\
         \x20   ssl_certificate \"{certificate}\";\n\
         \x20   ssl_certificate_key \"{key}\";\n\
         \x20   server {{\n\
         \x20       listen 127.0.0.1:{plain};\n\
         \x20       listen 127.0.0.1:{https} ssl backlog=4096;\n\
         \x20       return 200 \"{BODY}\";\n\
         \x20   }}\n\
         \x20   server {{\n\
         \x20       listen 127.0.0.1:{http2} http2 backlog=4096;\n\
         \x20       return 200 \"{BODY}\";\n\
         \x20   }}\n\
         }}\n",
        certificate = certificate.display(),
        key = key.display(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_configuration_has_a_port_for_each_protocol() {
        let text =
            config(Path::new("/run/n"), Some(("www", "web")), Path::new("/k/c.pem"), Path::new("/k/k.pem"), [1, 2, 3]);
        for line in [
            "user www web;",
            "listen 127.0.0.1:1;",
            "listen 127.0.0.1:2 ssl backlog=4096;",
            "listen 127.0.0.1:3 http2 backlog=4096;",
            "ssl_certificate_key \"/k/k.pem\";",
            "proxy_temp_path \"/run/n/proxy\";",
        ] {
            assert!(text.lines().any(|l| l.trim() == line), "no line {line:?} in:\n{text}");
        }
        assert_eq!(BODY.len(), 44);
    }
}
