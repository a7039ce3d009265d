//! The same configuration, checked by the real Apache and by us: same verdict, same exit code, same first words. Where we
//! are stricter on purpose, the case says so.

#![allow(clippy::unwrap_used, reason = "a test ends at its first surprise")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use e2e::{Scratch, binary};

/// Where distributions keep Apache's modules.
const MODULES: [&str; 3] = ["/usr/lib/apache2/modules", "/usr/lib64/httpd/modules", "/usr/lib/httpd/modules"];

/// The real one: its program and the folder of its modules.
fn apache() -> Option<(PathBuf, PathBuf)> {
    let modules = MODULES.iter().map(Path::new).find(|folder| folder.join("mod_mpm_event.so").exists())?;
    let programs = ["/usr/sbin/apache2", "/usr/sbin/httpd"].map(PathBuf::from);
    Some((programs.into_iter().find(|program| program.exists())?, modules.to_owned()))
}

/// What `-t` says: the exit code, and the lines without times and program names.
fn verdict(command: &mut Command) -> (Option<i32>, Vec<String>) {
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    let lines = text.lines().map(|line| {
        // A warning that Apache gives while it reads comes in the form of its error log.
        let line = if line.starts_with('[') { line.find("AH").map_or(line, |at| &line[at..]) } else { line };
        line.replace("apache2: ", "httpd: ")
    });
    (output.status.code(), lines.collect())
}

/// Both judge `directives` under `mpm`, and every line that Apache says is said by us; otherwise tells how they differ.
fn difference(apache: &(PathBuf, PathBuf), mpm: &str, directives: &str) -> Option<String> {
    let dir = Scratch::new().unwrap();
    let root = dir.path("");
    let (root, modules) = (root.display(), apache.1.display());
    fs::create_dir(dir.path("htdocs")).unwrap();
    let directives = directives.replace("MODULES", &apache.1.to_string_lossy());
    let text = format!(
        "ServerRoot \"{root}\"\n<IfDefine !MANIFOLD>\nDefaultRuntimeDir \"{root}\"\n</IfDefine>\n\
         LoadModule mpm_{mpm}_module \"{modules}/mod_mpm_{mpm}.so\"\n\
         ServerName localhost\nListen 127.0.0.1:18080\nPidFile httpd.pid\nErrorLog error.log\nDocumentRoot htdocs\n{directives}\n"
    );
    let file = dir.path("httpd.conf");
    fs::write(&file, text).unwrap();
    let (their_code, theirs) = verdict(Command::new(&apache.0).args(["-t", "-f"]).arg(&file));
    let (our_code, ours) = verdict(binary::command(["httpd", "-t", "-f"]).arg(&file));
    let same = our_code == their_code && theirs.iter().all(|line| ours.contains(line));
    (!same).then(|| {
        format!(
            "{mpm}: {directives}\nApache {their_code:?}:\n{}\nManifold {our_code:?}:\n{}\n",
            theirs.join("\n"),
            ours.join("\n")
        )
    })
}

/// Corrections, alone and in cascades.
const CORRECTED: &[&str] = &[
    "",
    "ServerLimit 300000",
    "ServerLimit 0",
    "ServerLimit -7",
    "MaxRequestWorkers 390",
    "MaxRequestWorkers 10",
    "MaxRequestWorkers 1000",
    "MaxRequestWorkers 0",
    "StartServers 0",
    "StartServers 100000",
    "ServerLimit 0\nStartServers 0\nMaxRequestWorkers 0",
    "MaxClients 20000\nMaxRequestsPerChild 5",
    "Mutex sem default OmitPID\nMutex pthread mpm-accept",
    "ListenCoresBucketsRatio 1\nListenTCPDeferAccept 30\nMaxMemFree 0\nThreadStackSize 131072\nCoreDumpDirectory htdocs\n\
     ScoreBoardFile board\nExtendedStatus off\nSeeRequestTail on",
];

/// The same for models with threads.
const CORRECTED_THREADS: &[&str] = &[
    "ThreadLimit 200000",
    "ThreadLimit 0",
    "ThreadsPerChild 100",
    "ThreadsPerChild 0",
    "ThreadsPerChild 7\nMaxRequestWorkers 50",
    "MinSpareThreads 0\nMaxSpareThreads 0",
    "ServerLimit 0\nThreadLimit 0\nThreadsPerChild 3\nStartServers 0",
    "ThreadLimit 8\nThreadsPerChild 9\nServerLimit 2",
    "MinSpareServers 5",
];

/// The grammar, good and bad.
const GRAMMAR: &[&str] = &[
    "KeepAlive \\\n  Off",
    "keepalive OFF # no comment",
    "\"KeepAlive\" 'On'",
    "Define A 5\nTimeout ${a}\nUnDefine A\nServerName ${A}",
    "Define X \"80 http x\"\nListen ${X}",
    "Define A:B c",
    "ServerName ${",
    "<IfModule mpm_event_module>\nStartServers 0\n</IfModule>",
    "<IfModule event.c>\nStartServers 0\n</ifmodule>",
    "<IfModule EVENT.C>\nStartServers 0\n</IfModule>",
    "<IfModule !none.c>\nStartServers 0\n</IfModule> ",
    "<IfModule none.c>\n<Directory />\nNonsense ${NONE}\n</Directory>\n</IfModule>",
    "<IfDefine NONE>\nNonsense\n</IfDefine>",
    "Define SOME\n<IfDefine SOME>\nStartServers 0\n</IfDefine>",
    "<IfFile httpd.conf>\nStartServers 0\n</IfFile>",
    "Nonsense on",
    "<Nonsense on>\n</Nonsense>",
    "</IfModule>",
    "<IfModule>\n</IfModule>",
    "<IfModule none\n</IfModule>",
    "<IfModule event.c>\n</IfDefine>",
    "<IfModule none.c>\nNonsense",
    "Include none.conf",
    "Include none*.conf",
    "IncludeOptional none.conf\nIncludeOptional none*.conf",
    "Error \"not today\"",
    "ServerRoot /nonexistent",
];

/// Values that are refused.
const REFUSED: &[&str] = &[
    "KeepAlive maybe",
    "KeepAlive",
    "KeepAliveTimeout 5x",
    "KeepAliveTimeout abc",
    "Listen abc",
    "Listen 1.2.3.4",
    "Listen 99999",
    "Listen [::1:80",
    "Listen 80 http foo",
    "ListenBacklog 0",
    "SendBufferSize 100",
    "ReceiveBufferSize 100",
    "ThreadStackSize -1",
    "ListenCoresBucketsRatio 0",
    "ListenTCPDeferAccept 0",
    "MaxMemFree -1",
    "CoreDumpDirectory /nonexistent",
    "CoreDumpDirectory httpd.conf",
    "ExtendedStatus maybe",
    "SeeRequestTail 1",
    "Mutex",
    "Mutex foo",
    "Mutex none",
    "Mutex sem nosuch",
    "Mutex file:/nonexistent",
    "AsyncRequestWorkerFactor 0",
    "AsyncRequestWorkerFactor abc",
    "LogLevel loud",
    "LogLevel core:loud",
    "LogLevel nonsense:info",
    "DocumentRoot nonexistent",
    "User nonexistent-user",
    "Group nonexistent-group",
    "ServerTokens loud",
    "ServerName a:99999",
    "ServerName a:0",
    "ServerName a:x",
    "ServerSignature loud",
    "TraceEnable loud",
    "MaxRanges loud",
    "MaxRanges 0",
    "MaxRanges -1",
    "MaxRangeOverlaps 0",
    "MaxRangeReversals -3",
    "AllowEncodedSlashes loud",
    "MergeSlashes loud",
    "HttpProtocolOptions loud",
    "HttpProtocolOptions Strict Unsafe",
    "HttpProtocolOptions Strict\nHttpProtocolOptions LenientMethods Unsafe",
    "HttpProtocolOptions Allow0.9 Require1.0",
    "HttpProtocolOptions RegisteredMethods LenientMethods",
    "LimitRequestLine -1",
    "LimitRequestFields -1",
    "LimitRequestBody -1",
];

/// Directives of HTTP that are taken.
const TAKEN: &[&str] = &[
    "ServerName http://a:80\nServerAdmin x\nServerSignature EMAIL\nTraceEnable EXTENDED\nMaxRanges UNLIMITED\nMaxRangeOverlaps none",
    "ServerName a.example:8080\nMaxRanges 5\nMaxRangeReversals default\nAddDefaultCharset On\nAddDefaultCharset utf-8\nMergeSlashes off",
    "HttpProtocolOptions unsafe registeredmethods require1.0\nHttpProtocolOptions Unsafe\nAllowEncodedSlashes NODECODE",
];

/// Directives of modules, which real Apache loads from the folder of its modules, good and bad.
const OF_MODULES: &[(&str, &[&str])] = &[
    (
        "LoadModule reqtimeout_module MODULES/mod_reqtimeout.so",
        &[
            "RequestReadTimeout handshake=5 header=20-40,MinRate=500 body=20,MinRate=500",
            "RequestReadTimeout header=0 body=0,minrate=1",
            "RequestReadTimeout",
            "RequestReadTimeout header",
            "RequestReadTimeout head=1",
            "RequestReadTimeout body=1 header=1x",
            "RequestReadTimeout header=10-20",
            "RequestReadTimeout header=10-20,MinRate=0",
            "RequestReadTimeout header=10-10,MinRate=5",
            "RequestReadTimeout header=1--1,MinRate=5",
        ],
    ),
    (
        "LoadModule authz_core_module MODULES/mod_authz_core.so\nLoadModule authz_host_module MODULES/mod_authz_host.so\n\
         LoadModule status_module MODULES/mod_status.so",
        &[
            // As Debian's mods-available/status.conf has it.
            "<Location /server-status>\n\tSetHandler server-status\n\tRequire local\n\t#Require ip 192.0.2.0/24\n</Location>\n\
             ExtendedStatus On\n#SeeRequestTail On\n<IfModule mod_proxy.c>\n\tProxyStatus On\n</IfModule>",
            "SetHandler none\n<location \"/a b\">\nRequire all GRANTED\n<IfModule core.c>\nSetHandler x\n</IfModule>\n</LOCATION>",
            "<Location />\nRequire ip 10.1 10.1.0.0/16 10.0.0.0/255.0.0.0 2001:db8::/32\n</Location>",
            "Require local",
            "<Location>\n</Location>",
            "<Location /a /b>\n</Location>",
            "<Location /a>\nKeepAlive On\n</Location>",
            "<Location /a>\n<Location /b>\n</Location>\n</Location>",
            "<Location /a>\nNonsense\n</Location>",
            "<Location /a>\n</Directory>",
            "<Location /a>\nRequire\n</Location>",
            "<Location /a>\nRequire nonsense\n</Location>",
            "<Location /a>\nRequire all\n</Location>",
            "<Location /a>\nRequire not local\n</Location>",
            "<Location /a>\nRequire ip\n</Location>",
            "<Location /a>\nRequire ip example.org\n</Location>",
            "<Location /a>\nRequire ip 10.1/16\n</Location>",
            "<Location /a>\nRequire ip 10.1.0.0/33\n</Location>",
        ],
    ),
];

#[test]
fn apache_and_manifold_judge_alike() {
    let Some(apache) = apache() else {
        eprintln!("Apache is not installed: nothing was compared");
        return;
    };
    let two = format!("LoadModule mpm_worker_module \"{}/mod_mpm_worker.so\"", apache.1.display());
    let mut cases = vec![("prefork", "MinSpareServers 0"), ("event", two.as_str())];
    for mpm in ["prefork", "worker", "event"] {
        cases.extend(CORRECTED.iter().chain(CORRECTED_THREADS).map(|directives| (mpm, *directives)));
    }
    cases.extend(GRAMMAR.iter().chain(REFUSED).chain(TAKEN).map(|directives| ("event", *directives)));
    let of_modules: Vec<String> = OF_MODULES
        .iter()
        .flat_map(|(load, all)| all.iter().map(move |directives| format!("{load}\n{directives}")))
        .collect();
    cases.extend(of_modules.iter().map(|directives| ("event", directives.as_str())));
    let differences: Vec<_> =
        cases.iter().filter_map(|(mpm, directives)| difference(&apache, mpm, directives)).collect();
    assert!(
        differences.is_empty(),
        "{} of {} cases differ:\n{}",
        differences.len(),
        cases.len(),
        differences.join("\n")
    );
}
