//! The built-in files and the command line.

use clap::Parser;

use super::*;
use crate::cli::{Cli, Do};
use crate::generator::Amount;
use resolve::Work;

fn settings(line: &[&str]) -> Result<Settings, String> {
    let words = ["lab", "run"].iter().chain(line);
    match Cli::try_parse_from(words).map_err(|error| error.to_string())?.command {
        Do::Run(args) => {
            let experiment = args.experiment.clone().expect("one is given");
            super::resolve(&args, &experiment, 42)
        }
        _ => panic!("another command"),
    }
}

#[test]
fn every_built_in_experiment_is_right_in_all_sizes() {
    for one in &BUILT_IN {
        for size in [Size::Full, Size::Scaled, Size::Smallest] {
            let study = resolve::resolve(one.name, one.name, one.text, size).expect(one.name);
            assert!(!study.claims.is_empty() && study.targets.len() >= 4, "{}", one.name);
            let published = !study.published.is_empty() || study.source.contains("not printed") || !one.origin;
            assert!(published, "{} shows what was published", one.name);
        }
    }
}

#[test]
fn origin_is_all_that_was_published() {
    let settings = settings(&["origin", "--scaled", "--seed", "3"]).expect("it is right");
    let names: Vec<&str> = settings.studies.iter().map(|study| study.name.as_str()).collect();
    let expected = ["default-mpms", "big-page", "max-requests", "max-concurrency", "settings-matrix", "slow-clients"];
    assert_eq!(names, expected);
    assert_eq!(settings.command, "manifold lab run origin --scaled --seed 3");
    let most = settings.studies.iter().flat_map(|study| study.loads.iter().map(|load| load.work.clone()));
    assert!(most.clone().all(|work| work != Work::Asks(Amount::Requests(100_000))), "it is scaled down");
}

#[test]
fn a_configuration_of_ones_own_is_an_experiment() {
    let read =
        |line: &[&str]| match Cli::try_parse_from(["lab", "run"].iter().chain(line)).expect("it is right").command {
            Do::Run(args) => super::resolve(&args, "", 42).expect("it is right"),
            _ => panic!("another command"),
        };
    let settings = read(&["-f", "/etc/a \"b\".conf", "--host", "a.org", "--path", "/x"]);
    let study = &settings.studies[0];
    assert_eq!((study.targets.len(), study.claims.len(), study.page.path.as_str()), (4, 3, "/x"));
    let owns = study.targets.iter().map(|target| match &target.origin {
        resolve::Origin::Own(own) => (own.file.to_str().expect("text"), own.host.as_deref()),
        other => panic!("{other:?}"),
    });
    assert!(owns.eq([("/etc/a \"b\".conf", Some("a.org")); 4]));
    assert_eq!(read(&["-f", "/c"]).command, "manifold lab run -f /c --path / --seed 42");
    for line in [&["a-a", "-f", "/c"][..], &["-f", "/c", "--site", "/"], &["--host", "a"]] {
        assert!(Cli::try_parse_from(["lab", "run"].iter().chain(line)).is_err(), "{line:?}");
    }
}

#[test]
fn mistakes_are_named_with_a_way_out() {
    for (line, part) in [
        (
            &["defualt-mpms"][..],
            "there is no experiment \"defualt-mpms\"; there are peers, generators, origin, default-mpms",
        ),
        (&["./nothing.toml"], "./nothing.toml: No such file"),
        (&["a-a", "--quick"], "--quick does not go with the experiment a-a"),
        (&["a-a", "--seconds", "1"], "--seconds does not go with"),
        (&["origin", "--minutes", "5"], "--minutes does not go with"),
    ] {
        let said = settings(line).expect_err(&line.join(" "));
        assert!(said.contains(part), "{line:?}: {said}");
    }
}

#[test]
fn a_new_file_is_right_and_never_overwrites_another() {
    let file = std::env::temp_dir().join(format!("manifold-lab-new-{}.toml", std::process::id()));
    write_new(&file).expect("it can be written");
    let said = write_new(&file).expect_err("it is there");
    assert!(said.contains("give another name"), "{said}");
    let name = file.to_str().expect("text");
    let settings = settings(&[name, "--rounds", "2"]).expect("it is right as it is written");
    assert_eq!((settings.studies[0].rounds, settings.studies[0].targets.len()), (2, 4));
    std::fs::remove_file(&file).expect("it can be removed");
}

/// The schema that is published for editors.
const SCHEMA: &str = include_str!("../../../../docs/src/experiment.schema.json");

/// Every key that the schema has somewhere, and every word of its lists.
fn words_of(schema: &serde_json::Value, words: &mut std::collections::BTreeSet<String>) {
    if let Some(properties) = schema["properties"].as_object() {
        words.extend(properties.keys().cloned());
    }
    words.extend(schema["enum"].as_array().into_iter().flatten().filter_map(|word| Some(word.as_str()?.to_owned())));
    let children: Vec<&serde_json::Value> = match schema {
        serde_json::Value::Object(members) => members.values().collect(),
        serde_json::Value::Array(items) => items.iter().collect(),
        _ => return,
    };
    children.into_iter().for_each(|child| words_of(child, words));
}

/// What `serde` says may stand in a place is what the schema says.
#[test]
fn the_schema_knows_every_key_that_is_read() {
    let schema: serde_json::Value = serde_json::from_str(SCHEMA).expect("it is JSON");
    let mut words = std::collections::BTreeSet::new();
    words_of(&schema, &mut words);
    let head = "format = 1\ntitle = \"t\"\nquestion = \"q\"\n";
    for (rest, keys) in [
        ("nothing = 1\n", 14),
        ("scaled = { nothing = 1 }\n", 4),
        ("page = { nothing = 1 }\n", 4),
        ("[[target]]\nname = \"a\"\nnothing = 1\n", 11),
        ("[[target]]\nname = \"a\"\nready = { nothing = 1 }\n", 2),
        ("[[load]]\nconnections = 1\nnothing = 1\n", 9),
        ("[[claim]]\nnothing = 1\n", 6),
        ("[[published]]\nnothing = 1\n", 5),
        ("show = [\"nothing\"]\n", 34),
        ("[[target]]\nname = \"a\"\nmpm = \"nothing\"\n", 5),
    ] {
        let said = file::File::read("x.toml", &format!("{head}{rest}")).expect_err(rest);
        let (_, list) = said.split_once("expected ").expect("it lists what may stand there");
        let known: Vec<&str> = list.split('`').skip(1).step_by(2).collect();
        assert_eq!(known.len(), keys, "{said}");
        // nginx has one model, which no file names.
        for key in known.iter().filter(|key| **key != "loop") {
            assert!(words.contains(*key), "the schema does not know `{key}`");
        }
    }
    for peer in resolve::peers() {
        assert!(words.contains(peer.name), "the schema does not know {}", peer.name);
    }
}
