//! Layouts of Debian and RHEL in, private copies out.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use super::*;

/// A world of files in memory.
struct Memory(BTreeMap<&'static str, String>);

impl Memory {
    fn of(files: &[(&'static str, &str)]) -> Memory {
        Memory(files.iter().map(|(path, text)| (*path, (*text).to_owned())).collect())
    }
}

impl World for Memory {
    fn read(&self, path: &Path, _: u64) -> io::Result<Vec<u8>> {
        let text = self.0.get(path.to_str().unwrap_or_default());
        text.map(|text| text.clone().into_bytes()).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<String>> {
        let inside = |path: &&str| Some(Path::new(path).strip_prefix(folder).ok()?.iter().next()?.to_str()?.to_owned());
        let mut names: Vec<String> = self.0.keys().filter_map(inside).collect();
        names.dedup();
        Ok(names)
    }

    fn is_folder(&self, path: &Path) -> bool {
        self.0.keys().any(|known| Path::new(known) != path && Path::new(known).starts_with(path))
    }

    fn exists(&self, path: &Path) -> bool {
        self.0.contains_key(path.to_str().unwrap_or_default()) || self.is_folder(path)
    }

    fn variable(&self, _: &str) -> Option<String> {
        None
    }
}

/// As Debian has it, with a site over TLS and one of an address.
fn debian() -> Memory {
    Memory::of(&[
        (
            "/etc/apache2/apache2.conf",
            "DefaultRuntimeDir ${APACHE_RUN_DIR}\nPidFile ${APACHE_PID_FILE}\nUser ${APACHE_RUN_USER}\n\
             KeepAliveTimeout 5\nErrorLog ${APACHE_LOG_DIR}/error.log\nMutex file:${APACHE_LOCK_DIR} default\n\
             IncludeOptional mods-enabled/*.load\nIncludeOptional mods-enabled/*.conf\nInclude ports.conf\n\
             LogFormat \"%h \\\"%r\\\"\" common\nIncludeOptional sites-enabled/*.conf\n",
        ),
        ("/etc/apache2/ports.conf", "Listen 80\n<IfModule ssl_module>\n\tListen 443\n</IfModule>\n"),
        ("/etc/apache2/mods-enabled/dir.load", "LoadModule dir_module /usr/lib/apache2/modules/mod_dir.so\n"),
        ("/etc/apache2/mods-enabled/mpm_event.conf", "StartServers 2\nThreadLimit 64\nMaxRequestWorkers 150\n"),
        (
            "/etc/apache2/mods-enabled/mpm_event.load",
            "LoadModule mpm_event_module /usr/lib/apache2/modules/mod_mpm_event.so\n",
        ),
        ("/etc/apache2/mods-enabled/ssl.load", "LoadModule ssl_module /usr/lib/apache2/modules/mod_ssl.so\n"),
        ("/etc/apache2/mods-enabled/ssl.conf", "SSLSessionCache shmcb:${APACHE_RUN_DIR}/ssl_scache(512000)\n"),
        ("/etc/apache2/mods-available/mpm_prefork.conf", "StartServers 5\nMaxSpareServers 10\nMaxRequestWorkers 150\n"),
        (
            "/etc/apache2/sites-enabled/000-default.conf",
            "<VirtualHost *:80>\n  ServerName www.example.org\n  DocumentRoot /var/www/html\n  KeepAliveTimeout 2\n\
             \x20 CustomLog ${APACHE_LOG_DIR}/access.log common env=!quiet\n\
             \x20 RewriteRule ^/a\\.b$ /${map:$1} [L]\n  <Directory /var/www>\n    KeepAliveTimeout 9\n  </Directory>\n\
             </VirtualHost>\n<VirtualHost 10.0.0.7:80>\n  ErrorLog \"|/usr/bin/rotatelogs /var/log/x\"\n</VirtualHost>\n",
        ),
        ("/etc/apache2/sites-enabled/tls.conf", "<VirtualHost _default_:443>\n  SSLEngine on\n</VirtualHost>\n"),
    ])
}

/// As RHEL has it.
fn red_hat() -> Memory {
    Memory::of(&[
        (
            "/etc/httpd/conf/httpd.conf",
            "ServerRoot \"/etc/httpd\"\nListen 80\nInclude conf.modules.d/*.conf\nUser apache\nDocumentRoot \"/var/www/html\"\n\
             ErrorLog \"logs/error_log\"\n<IfModule log_config_module>\n    CustomLog \"logs/access_log\" combined\n</IfModule>\n\
             <IfModule prefork.c>\nMaxSpareServers 10\n</IfModule>\n<IfModule mpm_event_module>\nThreadsPerChild 25\n</IfModule>\n\
             IncludeOptional conf.d/*.conf\n",
        ),
        (
            "/etc/httpd/conf.modules.d/00-mpm.conf",
            "#LoadModule mpm_prefork_module modules/mod_mpm_prefork.so\nLoadModule mpm_event_module modules/mod_mpm_event.so\n",
        ),
        ("/etc/httpd/conf.modules.d/00-base.conf", "LoadModule log_config_module modules/mod_log_config.so\n"),
        (
            "/etc/httpd/conf.d/ssl.conf",
            "Listen 443 https\n<VirtualHost _default_:443>\nSSLEngine on\nTransferLog logs/ssl_access_log\n</VirtualHost>\n",
        ),
    ])
}

fn read(world: &Memory, file: &str, model: Option<Model>) -> Result<OwnConfig, String> {
    let program = Program {
        server_root: "/etc/apache2".into(),
        compiled_in: vec!["core.c".to_owned(), "mod_so.c".to_owned(), "http_core.c".to_owned()],
        variables: BTreeMap::from([("APACHE_RUN_USER".to_owned(), "www-data".to_owned())]),
    };
    OwnConfig::read(world, &program, &Wanted { file: Path::new(file), model, folder: Some(Path::new("/private")) })
}

fn copied(own: &OwnConfig, settings: &[(&str, &str)]) -> Copy {
    let ports: Vec<u16> = (5001..).take(own.endpoints().expect("it listens").len()).collect();
    let settings: Vec<_> = settings.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    own.copy(&Changes { settings: &settings, folder: Path::new("/private"), ports: &ports }).expect("a copy")
}

#[track_caller]
fn check(text: &str, has: &[&str], has_not: &[&str]) {
    for line in has {
        assert!(text.lines().any(|l| l.trim() == *line), "no line {line:?} in:\n{text}");
    }
    for part in has_not {
        assert!(!text.contains(part), "{part:?} in:\n{text}");
    }
}

#[test]
fn a_copy_of_debian_shares_nothing_with_the_original() {
    let own = read(&debian(), "/etc/apache2/apache2.conf", None).expect("it is right");
    assert_eq!(own.own_model, Some(Model::Event));
    let endpoints = own.endpoints().expect("it listens");
    let told: Vec<_> = endpoints.iter().map(|endpoint| (endpoint.name(), endpoint.secured)).collect();
    assert_eq!(told, [("80".to_owned(), false), ("443".to_owned(), true), ("10.0.0.7:80".to_owned(), false)]);
    let copy = copied(&own, &[]);
    check(
        &copy.text,
        &[
            "ServerRoot \"/etc/apache2\"",
            "LoadModule mpm_event_module \"/usr/lib/apache2/modules/mod_mpm_event.so\"",
            "DefaultRuntimeDir \"/private\"",
            "PidFile \"/private/httpd.pid\"",
            "Listen 127.0.0.1:5001",
            "Listen 127.0.0.1:5002",
            "Listen 127.0.0.1:5003",
            "User www-data",
            "Mutex \"file:/private\" \"default\"",
            "SSLSessionCache \"shmcb:/private/ssl-sessions(512000)\"",
            "ThreadLimit 64",
            "KeepAliveTimeout 5",
            "<VirtualHost *:5001 *:5003>",
            "<VirtualHost 127.0.0.1:5003>",
            "<VirtualHost *:5002>",
            "CustomLog \"/private/access.log\" \"common\" \"env=!quiet\"",
            "ErrorLog \"/private/error.log\"",
            // Variables of other uses and backslashes stay as they are.
            "RewriteRule ^/a\\.b$ /${map:$1} [L]",
            "LogFormat \"%h \\\"%r\\\"\" common",
            "</VirtualHost>",
        ],
        &["Include", "/var/log", "/var/run", "Listen 80", "<IfModule"],
    );
    let piped = "ErrorLog goes to a file instead of |/usr/bin/rotatelogs /var/log/x (/etc/apache2/sites-enabled/000-default.conf:12)";
    assert_eq!(copy.notes, [piped]);
}

#[test]
fn an_mpm_comes_with_its_own_settings() {
    let own = read(&debian(), "/etc/apache2/apache2.conf", Some(Model::Prefork)).expect("it is right");
    assert_eq!(own.own_model, Some(Model::Event));
    let module = "LoadModule mpm_prefork_module \"/usr/lib/apache2/modules/mod_mpm_prefork.so\"";
    check(&copied(&own, &[]).text, &[module, "MaxSpareServers 10", "StartServers 5"], &["event", "ThreadLimit"]);
    // Without that file what prefork does not know is left out, and said.
    let mut world = debian();
    world.0.remove("/etc/apache2/mods-available/mpm_prefork.conf");
    let own = read(&world, "/etc/apache2/apache2.conf", Some(Model::Prefork)).expect("it is right");
    let copy = copied(&own, &[]);
    check(&copy.text, &["MaxRequestWorkers 150", "StartServers 2"], &["ThreadLimit"]);
    let note = "prefork does not know ThreadLimit 64 (/etc/apache2/mods-enabled/mpm_event.conf:2), which is left out";
    assert!(copy.notes.iter().any(|said| said == note), "{:?}", copy.notes);
}

#[test]
fn settings_take_the_place_of_those_of_the_file() {
    let own = read(&debian(), "/etc/apache2/apache2.conf", None).expect("it is right");
    let text = copied(&own, &[("MaxClients", "400"), ("KeepAliveTimeout", "1")]).text;
    check(
        &text,
        &["MaxClients 400", "KeepAliveTimeout 1", "KeepAliveTimeout 9"],
        &["MaxRequestWorkers", "KeepAliveTimeout 5", "KeepAliveTimeout 2"],
    );
}

#[test]
fn a_copy_of_red_hat_follows_server_root() {
    let own = read(&red_hat(), "/etc/httpd/conf/httpd.conf", Some(Model::Prefork)).expect("it is right");
    let text = copied(&own, &[]).text;
    check(
        &text,
        &[
            "ServerRoot \"/etc/httpd\"",
            "LoadModule mpm_prefork_module \"modules/mod_mpm_prefork.so\"",
            "LoadModule log_config_module \"modules/mod_log_config.so\"",
            "Listen 127.0.0.1:5002 https",
            "MaxSpareServers 10",
            "CustomLog \"/private/access.log\" \"combined\"",
            "TransferLog \"/private/access.log\"",
        ],
        &["ThreadsPerChild", "logs/"],
    );
}

#[test]
fn mistakes_are_named_with_file_and_line() {
    for (text, said) in [
        ("Listen 80\nInclude gone.conf\n", "/c:2: Could not open configuration file /etc/apache2/gone.conf"),
        ("Listen 80\n<VirtualHost *:80>\n", "/c:2: <VirtualHost> was not closed."),
        ("Listen http\n", "/c:1: Listen http: a port is needed"),
        ("ServerName x\n", "/c has no Listen line"),
        (
            "Listen 80\n<Macro M $p>\n<VirtualHost *:$p>\n</VirtualHost>\n</Macro>\n",
            "/c:3: <VirtualHost> *:$p: $p is no port",
        ),
        ("Listen 80\nMDomain example.org\n", "/c:2: MDomain: mod_md would order certificates"),
    ] {
        let world = Memory::of(&[("/c", text)]);
        let copy = read(&world, "/c", None).and_then(|own| {
            let ports = vec![5001; own.endpoints()?.len()];
            own.copy(&Changes { settings: &[], folder: Path::new("/private"), ports: &ports })
        });
        let error = copy.expect_err(text);
        assert!(error.starts_with(said), "{error}");
    }
    let none = read(&Memory::of(&[("/c", "Listen 80\n")]), "/c", Some(Model::Worker)).expect_err("no MPM");
    assert!(none.starts_with("/c loads no MPM, so that there is none to change into worker"), "{none}");
}
