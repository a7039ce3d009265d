//! What files come to, and what is said of those that come to nothing.

use super::*;
use crate::target::Model;

const HEAD: &str = "format = 1\ntitle = \"t\"\nquestion = \"q\"\n";
const TARGET: &str = "[[target]]\nname = \"worker\"\nmpm = \"worker\"\n";
const LOAD: &str = "[[load]]\nconnections = 10\nseconds = 1.0\n";

fn read(rest: &str) -> Result<Study, String> {
    resolve("x.toml", "x", &format!("{HEAD}{rest}"), Size::Full)
}

#[test]
fn settings_with_lists_make_a_target_for_each_combination_that_is_allowed() {
    let settings = "settings = { ThreadsPerChild = [25, 30], MaxRequestWorkers = [100, 60], Timeout = 5 }\n\
                    where = [\"MaxRequestWorkers % ThreadsPerChild == 0\"]\n";
    let study = read(&format!("{TARGET}{settings}{LOAD}")).expect("it is right");
    let labels: Vec<String> = study.targets.iter().map(Subject::label).collect();
    let (four, two) = ("MaxRequestWorkers=100 ThreadsPerChild=25", "MaxRequestWorkers=60 ThreadsPerChild=30");
    assert_eq!(
        labels,
        [
            format!("manifold worker {four}"),
            format!("apache2 worker {four}"),
            format!("manifold worker {two}"),
            format!("apache2 worker {two}")
        ]
    );
    assert!(study.targets[0].settings.contains(&("Timeout".to_owned(), "5".to_owned())));
}

#[test]
fn loads_are_every_combination() {
    let load =
        "[[load]]\nconnections = \"100..300 step 100\"\nrequests = \"connections\"\nkeep-alive = [true, false]\n";
    let study = read(&format!("{TARGET}{load}{LOAD}")).expect("it is right");
    let of = |load: &Load| (load.connections, load.keep_alive, load.work.clone());
    let got: Vec<_> = study.loads.iter().map(of).collect();
    assert_eq!(got.len(), 7);
    assert_eq!(got[1], (100, false, Work::Asks(Amount::Requests(100))));
    assert_eq!(got[6], (10, false, Work::Asks(Amount::Seconds(1.0))));
    assert_eq!((study.page.bytes, study.page.path.as_str(), study.rounds), (44, "/index.html", 5));
}

#[test]
fn slow_clients_are_a_load_for_each_kind() {
    let load = "[[load]]\nconnections = [400, 50]\nslow-clients = [\"slow-head\", \"idle\"]\n";
    let study = read(&format!("{TARGET}{load}")).expect("it is right");
    let works: Vec<&Work> = study.loads.iter().map(|load| &load.work).collect();
    assert_eq!(works, [&Work::Holds(Kind::SlowHead, vec![50, 400]), &Work::Holds(Kind::Idle, vec![50, 400])]);
    assert_eq!((study.loads[1].name.as_deref(), study.loads[1].connections), (Some("idle"), 400));
}

#[test]
fn some_loads_do_not_ask_alone() {
    let load = |rest: &str| format!("[[load]]\nconnections = [10, 20]\n{rest}\n");
    let all = [
        load("idle = true"),
        load("reloads = 6\nseconds = 3.0\nkeep-alive = [true, false]"),
        load("find-max = \"p99<50ms\"\nseconds = 2.0"),
    ];
    let text = format!("{HEAD}scaled = {{ seconds = 1.0 }}\n{TARGET}{}", all.concat());
    let of = |size| resolve("x.toml", "x", &text, size).expect("it is right").loads;
    let works = |loads: &[Load]| loads.iter().map(|load| load.work.clone()).collect::<Vec<_>>();
    let search = |seconds| Work::Searches("p99<50ms".to_owned(), seconds);
    let expected = |times: u32, seconds: f64, step_s: f64| {
        let reloads = || Work::Reloads(seconds, times);
        [Work::Idles, Work::Idles, reloads(), reloads(), reloads(), reloads(), search(step_s), search(step_s)]
    };
    assert_eq!(works(&of(Size::Full)), expected(6, 3.0, 2.0));
    assert_eq!(works(&of(Size::Scaled)), expected(2, 1.0, 1.0), "as many reloads a second as before");
    let labels: BTreeSet<String> = of(Size::Full).iter().map(view::load_label).collect();
    assert_eq!(labels.len(), 8, "each has a name of its own in the store: {labels:?}");
}

#[test]
fn claims_are_made_for_each_server_that_has_both() {
    let event = "[[target]]\nname = \"event\"\nmpm = \"event\"\n";
    let percore = "[[target]]\nname = \"percore\"\nservers = [\"manifold\"]\nmpm = \"percore\"\n";
    let claim = |than: &str| {
        format!("[[claim]]\nsays = \"s\"\nmetric = \"p99\"\nof = \"worker\"\nthan = {than}\nis = \"less\"\n")
    };
    let all = format!("{TARGET}{event}{percore}{LOAD}");
    let servers = |study: &Study| -> Vec<&str> {
        study.claims.iter().map(|claim| study.targets[claim.of.0].server.name()).collect()
    };
    let study = read(&format!("{all}{}", claim("\"event\""))).expect("it is right");
    assert_eq!(servers(&study), ["apache2", "manifold"]);
    let study = read(&format!("{all}{}", claim("{ target = \"percore\", connections = 10 }"))).expect("it is right");
    assert_eq!(servers(&study), ["manifold"]);
}

#[test]
fn targets_are_servers_of_many_kinds() {
    let all = "page = { path = \"/x\" }\n\
        [[target]]\nname = \"mine\"\nconfig = \"/etc/apache2/apache2.conf\"\nmpm = \"worker\"\nhost = \"a.org\"\nport = 443\n\
        settings = { ThreadsPerChild = [25, 50] }\n\
        [[target]]\nname = \"app\"\ncommand = [\"./app\", \"--port={port}\"]\nready = { path = \"/health\", within = 3.0 }\n\
        [[target]]\nname = \"there\"\nurl = \"http://10.0.0.5:8080/\"\n";
    let claim = "[[claim]]\nsays = \"s\"\nmetric = \"p99\"\nof = \"app\"\nthan = \"there\"\nis = \"less\"\n";
    let study = read(&format!("{all}{LOAD}{claim}")).expect("it is right");
    let labels: Vec<String> = study.targets.iter().map(Subject::label).collect();
    assert_eq!(labels, ["apache2 mine ThreadsPerChild=25", "apache2 mine ThreadsPerChild=50", "app", "there"]);
    let own = OwnFile {
        file: "/etc/apache2/apache2.conf".into(),
        model: Some(Model::Worker),
        host: Some("a.org".to_owned()),
        port: Some(443),
    };
    let words = vec!["./app".to_owned(), "--port={port}".to_owned()];
    let command = CommandLine { words, port: None, ready: Some("/health".to_owned()), within_s: 3.0 };
    let origins: Vec<&Origin> = study.targets[1..].iter().map(|subject| &subject.origin).collect();
    let url = "http://10.0.0.5:8080".to_owned();
    assert_eq!(origins, [&Origin::Own(own), &Origin::Command(command), &Origin::Url(url)]);
    assert!(study.page.theirs && study.page.path == "/x");
    let [claim] = &study.claims[..] else { panic!("names that stand for one target each: {:?}", study.claims) };
    assert_eq!((claim.of.0, claim.than.0), (2, 3));
}

#[test]
fn other_servers_come_from_the_one_table() {
    let study = read(&format!("[[target]]\nname = \"h2o\"\nservers = [\"h2o\", \"caddy\", \"lighttpd\"]\n{LOAD}"));
    let labels: Vec<String> = study.expect("it is right").targets.iter().map(Subject::label).collect();
    assert_eq!(labels, ["h2o", "caddy h2o", "lighttpd h2o"]);
}

#[test]
fn a_target_that_leaves_takes_its_claims_with_it() {
    let event = "[[target]]\nname = \"event\"\nmpm = \"event\"\n";
    let claim = "[[claim]]\nsays = \"s\"\nmetric = \"p99\"\nof = \"worker\"\nthan = \"event\"\nis = \"less\"\n";
    let mut study = read(&format!("{TARGET}{event}{LOAD}{claim}")).expect("it is right");
    // manifold worker, apache2 worker, manifold event, apache2 event: the second could not be started.
    study.keep_targets(&[0, 2, 3]);
    assert_eq!(study.targets.len(), 3);
    let [claim] = &study.claims[..] else { panic!("one is left: {:?}", study.claims) };
    assert_eq!((claim.of.0, claim.than.0), (0, 1));
}

#[test]
fn smaller_runs_ask_less_but_at_least_once_on_each_connection() {
    let text = format!(
        "{HEAD}scaled = {{ rounds = 2, divide-requests-by = 100, seconds = 0.2 }}\n{TARGET}{LOAD}\
         [[load]]\nconnections = 500\nrequests = 1000\n[[load]]\nconnections = 5\nrequests = 1000\n"
    );
    let amounts = |size| {
        let study = resolve("x.toml", "x", &text, size).expect("it is right");
        (study.rounds, study.loads.iter().map(|load| load.work.clone()).collect::<Vec<_>>())
    };
    assert_eq!(
        amounts(Size::Full),
        (5, [Amount::Seconds(1.0), Amount::Requests(1000), Amount::Requests(1000)].map(Work::Asks).to_vec())
    );
    assert_eq!(
        amounts(Size::Scaled),
        (2, [Amount::Seconds(0.2), Amount::Requests(500), Amount::Requests(10)].map(Work::Asks).to_vec())
    );
    assert_eq!(
        amounts(Size::Smallest),
        (1, [Amount::Seconds(0.1), Amount::Requests(500), Amount::Requests(5)].map(Work::Asks).to_vec())
    );
}

#[test]
fn mistakes_are_named_with_their_line() {
    let claim =
        |of: &str| format!("[[claim]]\nsays = \"s\"\nmetric = \"p99\"\nof = {of}\nthan = \"worker\"\nis = \"less\"\n");
    let target = |rest: &str| format!("[[target]]\nname = \"t\"\n{rest}\n{LOAD}");
    let load = |rest: &str| format!("{TARGET}[[load]]\n{rest}\n");
    for (rest, said) in [
        (LOAD.to_owned(), "x.toml: nothing is measured"),
        (TARGET.to_owned(), "x.toml: nothing is measured"),
        (format!("rounds = 0\n{TARGET}{LOAD}"), "x.toml:4: rounds = 0: 1 to 1000"),
        (format!("{TARGET}{TARGET}{LOAD}"), "x.toml: there are two targets \"manifold worker\""),
        (target(""), "x.toml:4: which model?"),
        (target("servers = [\"nginx\"]\nmpm = \"event\""), "x.toml:4: nginx has no models"),
        (target("servers = [\"apache2\"]\nmpm = \"percore\""), "x.toml:4: apache2 has no percore"),
        (
            target("servers = [\"ngnix\"]"),
            "x.toml:4: there is no server ngnix; there are manifold, apache2, nginx, h2o,",
        ),
        (target("servers = [\"h2o\"]\nsettings = { A = 1 }"), "x.toml:4: h2o takes no settings here"),
        (target("servers = [\"h2o\"]\nurl = \"http://a\""), "x.toml:4: a target is one of servers, config"),
        (target("servers = [\"h2o\"]\nhost = \"a\""), "x.toml:4: host belongs to config"),
        (target("config = \"c\"\nmpm = \"percore\""), "x.toml:4: apache2 has no percore"),
        (target("config = \"c\"\nhost = \"a\\nb\""), "x.toml:4: host is a name"),
        (target("command = []"), "x.toml:4: command is a list of words"),
        (target("command = [\"a\"]"), "x.toml:4: where does the command listen?"),
        (target("command = [\"a\"]\nport = 1\nready = { within = 0.0 }"), "x.toml:4: ready: within = 0"),
        (target("command = [\"a\"]\nport = 1\nready = { path = \"x\" }"), "x.toml:4: ready: path is a URL path"),
        (target("url = \"ftp://a\""), "x.toml:4: url ftp://a: http:// or https://"),
        (target("url = \"http://a/?x\""), "x.toml:4: url http://a/?x:"),
        (format!("page = {{ path = \"/x\" }}\n{TARGET}{LOAD}"), "x.toml:5: manifold has no page of its own"),
        (
            "[[target]]\nname = \"t\"\nurl = \"http://a\"\n[[load]]\nconnections = 1\nslow-clients = [\"idle\"]\n"
                .to_owned(),
            "x.toml: slow clients, idle connections and reloads ask for a page that is made up",
        ),
        (target("mpm = \"event\"\nsettings = { \"a b\" = 1 }"), "x.toml:4: settings: a b is no directive"),
        (target("mpm = \"event\"\nsettings = { A = \"1\\nUser root\" }"), "x.toml:4: settings: A: a value is one line"),
        (
            target("mpm = \"event\"\nsettings = { A = [1] }\nwhere = [\"A > 1\"]"),
            "no combination of the settings of \"t\"",
        ),
        (target("mpm = \"event\"\nwhere = [\"A > 1\"]"), "x.toml:4: A has no number"),
        (load("connections = 0\nseconds = 1.0"), "x.toml:7: connections: 0: a number from 1"),
        (load("connections = 1\nslow-clients = [\"idle\"]\nseconds = 1.0"), "x.toml:7: slow clients have numbers"),
        (load("connections = 1\nslow-clients = [\"lazy\"]"), "x.toml:9: unknown variant `lazy`"),
        (load("connections = 1\nidle = true\nreloads = 2"), "x.toml:7: a load is one of idle, reloads and find-max"),
        (load("connections = 1\nidle = true\nseconds = 1.0"), "x.toml:7: idle connections need no seconds"),
        (load("connections = 1\nreloads = 2"), "x.toml:7: a load with reloads needs seconds"),
        (load("connections = 1\nreloads = 0\nseconds = 1.0"), "x.toml:7: reloads = 0: 1 to"),
        (load("connections = 1\nfind-max = \"p99\"\nseconds = 1.0"), "x.toml:7: find-max: "),
        (
            load("connections = 1\nfind-max = \"p99<1s\"\nrequests = 1\nseconds = 1.0"),
            "x.toml:7: idle, reloads and find-max",
        ),
        (
            "[[target]]\nname = \"t\"\nservers = [\"h2o\"]\n[[load]]\nconnections = 1\nreloads = 1\nseconds = 1.0\n"
                .to_owned(),
            "x.toml: how h2o t is reloaded is not known",
        ),
        (load("connections = 1"), "x.toml:7: a load ends after either"),
        (load("connections = 1\nseconds = 0.0"), "x.toml:7: seconds = 0: 0.05 to 3600"),
        (load("connections = 1\nrequests = \"all\""), "x.toml:7: requests: \"all\" is no sweep"),
        (load("name = \"n\"\nconnections = [1, 2]\nseconds = 1.0"), "x.toml:7: a load with a name is a single one"),
        (
            format!("{TARGET}{LOAD}{}", claim("\"wroker\"")),
            "x.toml:10: there is no target \"wroker\"; there are worker",
        ),
        (
            format!("{TARGET}{LOAD}{}", claim("{ target = \"worker\", connections = 11 }")),
            "x.toml:10: there is no such load for \"worker\"",
        ),
        (
            format!("{TARGET}{LOAD}[[published]]\ntarget = \"worker\"\nconnections = 9\nfigures = {{ p99 = 1 }}\n"),
            "x.toml:10: there is no such load",
        ),
        (
            format!("{TARGET}{LOAD}{LOAD}[[published]]\ntarget = \"worker\"\nfigures = {{ p99 = 1 }}\n"),
            "x.toml:13: which load?",
        ),
        (format!("page = {{ text = \"a\", bytes = 3 }}\n{TARGET}{LOAD}"), "x.toml:4: a page is either"),
        (format!("page = {{ bytes = 0 }}\n{TARGET}{LOAD}"), "x.toml:4: bytes = 0: 1 to"),
        (format!("page = {{ site = \"/no/such\" }}\n{TARGET}{LOAD}"), "x.toml:4: site /no/such: No such file"),
    ] {
        let got = read(&rest).expect_err(&rest);
        assert!(got.contains(said), "{rest}\nsaid: {got}\nnot:  {said}");
    }
}
