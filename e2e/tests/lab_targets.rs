//! Targets of experiments, all in one small run: every server that Debian has, a private copy of a user's own Apache configuration, a
//! command line, and a server that runs already. And the built-in experiments whose loads do not ask alone, each in its smallest size.

#![allow(clippy::unwrap_used, reason = "a test ends at its first surprise")]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use e2e::server::{Mpm, Server};
use e2e::{Scratch, alone, binary, pair, peer};
use serde_json::Value;

/// Debian's layout with a site of its own, a plain and a secured virtual host, and logs where a server of the system would write them.
fn debian(scratch: &Scratch) -> Vec<std::path::PathBuf> {
    let etc = scratch.path("etc");
    let (certificate, key) = pair::make(scratch).unwrap();
    let (var, site) = (scratch.path("var"), scratch.path("htdocs"));
    let (var, htdocs) = (var.display(), site.display());
    let modules = "/usr/lib/apache2/modules";
    let load = |name: &str| format!("LoadModule {name}_module {modules}/mod_{name}.so\n");
    let files = [
        (
            "apache2.conf",
            format!(
                "ServerRoot {}\nDefaultRuntimeDir ${{APACHE_RUN_DIR}}\nPidFile ${{APACHE_PID_FILE}}\nUser ${{APACHE_RUN_USER}}\n\
                 Group ${{APACHE_RUN_GROUP}}\nErrorLog ${{APACHE_LOG_DIR}}/error.log\nIncludeOptional mods-enabled/*.load\n\
                 IncludeOptional mods-enabled/*.conf\nInclude ports.conf\nIncludeOptional sites-enabled/*.conf\n",
                etc.display()
            ),
        ),
        ("envvars", "export APACHE_RUN_USER=www-data\nexport APACHE_RUN_GROUP=www-data\n".to_owned()),
        ("ports.conf", "Listen 80\n<IfModule ssl_module>\nListen 443\n</IfModule>\n".to_owned()),
        ("mods-enabled/all.load", ["authz_core", "dir", "socache_shmcb", "ssl"].map(load).concat()),
        ("mods-enabled/mpm_event.load", load("mpm_event")),
        ("mods-enabled/mpm_event.conf", "StartServers 2\nThreadLimit 64\n".to_owned()),
        ("mods-available/mpm_prefork.conf", "StartServers 3\nMaxSpareServers 4\n".to_owned()),
        ("mods-enabled/ssl.conf", format!("SSLSessionCache shmcb:{var}/scache(512000)\n")),
        (
            "sites-enabled/all.conf",
            format!(
                "<VirtualHost *:80>\nServerName first.test\nDocumentRoot {htdocs}/none\n</VirtualHost>\n\
                 <VirtualHost *:80>\nServerName second.test\nDocumentRoot {htdocs}\nCustomLog {var}/access.log \"%h %r\"\n</VirtualHost>\n\
                 <VirtualHost *:443>\nServerName second.test\nDocumentRoot {htdocs}\nErrorLog {var}/tls.log\nSSLEngine on\n\
                 SSLCertificateFile {certificate}\nSSLCertificateKeyFile {key}\n</VirtualHost>\n"
            ),
        ),
    ];
    fs::create_dir_all(&site).unwrap();
    fs::write(site.join("index.html"), "mine").unwrap();
    let mut written = Vec::new();
    for (name, text) in files {
        let file = etc.join(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, text).unwrap();
        written.push(file);
    }
    written
}

fn experiment(config: &Path, url: &str) -> String {
    let (config, manifold) = (config.display(), binary::manifold().display());
    format!(
        "format = 1\ntitle = \"t\"\nquestion = \"q\"\nrounds = 1\n\
         [[target]]\nname = \"static\"\nservers = [\"h2o\", \"lighttpd\", \"caddy\"]\n\
         [[target]]\nname = \"plain\"\nconfig = \"{config}\"\nhost = \"second.test\"\n\
         [[target]]\nname = \"prefork\"\nconfig = \"{config}\"\nhost = \"second.test\"\nport = 443\nmpm = \"prefork\"\n\
         settings = {{ MaxSpareServers = 7 }}\n\
         [[target]]\nname = \"unknown host\"\nconfig = \"{config}\"\n\
         [[target]]\nname = \"command\"\ncommand = [\"{manifold}\", \"serve\", \"{{site}}\", \"--port\", \"{{port}}\"]\n\
         [[target]]\nname = \"nowhere\"\ncommand = [\"no-such-program-anywhere\", \"{{port}}\"]\n\
         [[target]]\nname = \"there\"\nurl = \"{url}\"\n\
         [[load]]\nconnections = 2\nseconds = 0.1\nkeep-alive = true\n"
    )
}

#[test]
fn targets_of_every_kind_are_measured_and_originals_left_alone() {
    if !peer::are_installed(&[
        "/usr/sbin/apache2",
        "/usr/bin/h2o",
        "/usr/sbin/lighttpd",
        "/usr/bin/caddy",
        pair::OPENSSL,
    ]) {
        return;
    }
    let _alone = alone();
    let scratch = Scratch::new().unwrap();
    let files = debian(&scratch);
    let texts = || files.iter().map(|file| fs::read(file).unwrap()).collect::<Vec<_>>();
    let before = texts();
    let running = Server::start(Mpm::Event, "").unwrap();
    fs::write(running.dir.path("htdocs/index.html"), "there").unwrap();
    let file = scratch.path("kinds.toml");
    fs::write(&file, experiment(&files[0], &running.url(""))).unwrap();
    let folder = scratch.path("report");
    let output = binary::command(["lab", "run"]).arg(&file).arg("--out").arg(&folder).output().unwrap();
    let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{}:\n{said}", output.status);

    let studies: Value = serde_json::from_str(&fs::read_to_string(folder.join("study.json")).unwrap()).unwrap();
    let found = &studies["found"][0];
    let names: Vec<&str> =
        found["study"]["targets"].as_array().unwrap().iter().map(|target| target["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["static", "static", "static", "plain", "prefork", "command", "there"], "{said}");
    for cell in found["cells"].as_array().unwrap() {
        assert!(cell["completed"].as_u64().unwrap() > 0 && cell["failed"] == 0, "{cell:#}");
        // Of what somebody else started nothing is known.
        let known = cell["target"] != 6;
        assert_eq!(cell["cpu_s"].as_f64().unwrap() > 0.0, known, "{cell:#}");
        assert_eq!(cell["pss_kib"].is_u64(), known, "{cell:#}");
    }
    let reasons: BTreeMap<&str, &str> = found["missing"]
        .as_array()
        .unwrap()
        .iter()
        .map(|missing| (missing["label"].as_str().unwrap(), missing["reason"].as_str().unwrap()))
        .collect();
    assert!(reasons["nowhere"].contains("there is no program no-such-program-anywhere"), "{reasons:#?}");
    assert!(reasons["apache2 unknown host"].contains("answers 404 and not 200"), "{reasons:#?}");
    let remarks = found["remarks"].to_string();
    assert!(
        remarks.contains("a private copy of") && remarks.contains("with prefork, asked at its port 443"),
        "{remarks}"
    );
    assert!(remarks.contains("there is only loaded"), "{remarks}");

    let copy = fs::read_to_string(folder.join("servers/kinds/apache2-prefork/server.conf")).unwrap();
    assert!(copy.contains("mod_mpm_prefork.so") && copy.contains("MaxSpareServers 7"), "{copy}");
    assert!(!copy.contains("MaxSpareServers 4") && !copy.contains("ThreadLimit"), "{copy}");
    let log = fs::metadata(folder.join("servers/kinds/apache2-plain/access.log")).unwrap();
    assert!(log.len() > 0, "what the original logs is logged");
    assert_eq!(texts(), before, "the originals are as they were");
    assert!(!scratch.path("var").exists(), "nothing was written where the originals write");
}

/// What was found by a built-in experiment in its smallest size, target by target: the figures of its own.
fn smallest(name: &str) -> BTreeMap<String, Vec<Value>> {
    let scratch = Scratch::new().unwrap();
    let folder = scratch.path("report");
    let mut command = binary::command(["lab", "run", name, "--smallest", "--out"]);
    let output = command.arg(&folder).output().unwrap();
    let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{name}: {}:\n{said}", output.status);
    let studies: Value = serde_json::from_str(&fs::read_to_string(folder.join("study.json")).unwrap()).unwrap();
    let found = &studies["found"][0];
    let mut figures: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for cell in found["cells"].as_array().unwrap() {
        let target = &found["study"]["targets"][cell["target"].as_u64().unwrap() as usize];
        let label = format!("{} {}", target["server"].as_str().unwrap(), target["name"].as_str().unwrap());
        figures.entry(label).or_default().push(cell["special"].clone());
    }
    let claims: Value = serde_json::from_str(&fs::read_to_string(folder.join("claims.json")).unwrap()).unwrap();
    let judged = |claim: &Value| claim["verdict"] == "not-distinguishable" && claim["measured"].is_number();
    assert!(claims.as_array().unwrap().iter().all(judged), "one round decides nothing: {claims:#}");
    figures
}

fn figure(figures: &Value, metric: &str) -> f64 {
    figures[metric].as_f64().unwrap_or_else(|| panic!("no {metric} in {figures}"))
}

#[test]
fn built_in_experiments_reload_idle_and_search() {
    if !peer::servers_are_installed() {
        return;
    }
    let _alone = alone();
    // These two wait most of the time, and nothing is said of how fast anything is.
    let (reload, idle) = std::thread::scope(|scope| {
        let idle = scope.spawn(|| smallest("idle-memory"));
        (smallest("reload"), idle.join().unwrap())
    });
    assert_eq!(reload.len(), 6, "{reload:#?}");
    for (label, cells) in &reload {
        assert_eq!(cells.len(), 2, "kept and closing connections: {label}");
        assert!(cells.iter().all(|cell| figure(cell, "answered") > 50.0), "{label}: {cells:#?}");
        // What apache2 loses is its own affair.
        let lost: f64 = cells.iter().map(|cell| figure(cell, "lost")).sum();
        assert!(!label.starts_with("manifold") || lost == 0.0, "{label} lost {lost}");
    }
    assert_eq!(idle.len(), 6, "{idle:#?}");
    for (label, cells) in idle.iter().filter(|(label, _)| label.starts_with("manifold")) {
        // How many processes prefork has made after five seconds is a matter of the machine.
        let wanted = if label.ends_with("prefork") { 1.0 } else { 100.0 };
        assert!(figure(&cells[0], "stood") >= wanted, "{label}: {cells:#?}");
        assert!(figure(&cells[0], "memory-each") > 0.0 && figure(&cells[0], "memory") > 0.0, "{label}: {cells:#?}");
    }
    let rates = smallest("find-max");
    assert_eq!(rates.len(), 4, "{rates:#?}");
    for (label, cells) in &rates {
        assert!(figure(&cells[0], "highest-rate") > 0.0, "{label}: {cells:#?}");
    }
}
