//! The published schema of the report, and reports of every kind held against it.

#![allow(clippy::unwrap_used, reason = "a test ends at its first surprise")]

use std::ffi::OsString;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::mpsc;

use manifold_load::native::args::{Command, parse};
use manifold_load::native::find_max::{Maximum, Note, Outcome, find};
use manifold_load::native::run;
use manifold_load::report::Report;
use manifold_load::responder::serve;
use serde_json::Value;

const SCHEMA: &str = include_str!("../../../docs/src/load-report.schema.json");
const SEARCH_SCHEMA: &str = include_str!("../../../docs/src/find-max.schema.json");

/// What of JSON Schema the published one uses; anything else in it is a mistake.
const KEYWORDS: &[&str] = &[
    "$schema",
    "$defs",
    "$ref",
    "title",
    "description",
    "type",
    "properties",
    "required",
    "additionalProperties",
    "items",
    "minItems",
    "maxItems",
    "minimum",
    "enum",
    "anyOf",
];

/// What is wrong with a value.
fn faults(root: &Value, schema: &Value, value: &Value, path: &str) -> Vec<String> {
    for key in schema.as_object().unwrap().keys() {
        assert!(KEYWORDS.contains(&key.as_str()), "{path}: the schema says `{key}`, which this test cannot check");
    }
    if let Some(name) = schema["$ref"].as_str().and_then(|name| name.strip_prefix("#/$defs/")) {
        return faults(root, &root["$defs"][name], value, path);
    }
    let mut found = Vec::new();
    let right_type = match schema["type"].as_str() {
        Some("object") => value.is_object(),
        Some("array") => value.is_array(),
        Some("string") => value.is_string(),
        Some("boolean") => value.is_boolean(),
        Some("integer") => value.is_u64() || value.is_i64(),
        Some("number") => value.is_number(),
        Some("null") => value.is_null(),
        Some(other) => panic!("{path}: the schema has a type `{other}`"),
        None => true,
    };
    let allowed = schema["enum"].as_array().is_none_or(|all| all.contains(value));
    let enough = schema["minimum"].as_f64().is_none_or(|least| value.as_f64().is_some_and(|number| number >= least));
    if !(right_type && allowed && enough) {
        found.push(format!("{path}: {value} is not {schema}"));
    }
    if let Some(ways) = schema["anyOf"].as_array()
        && ways.iter().all(|way| !faults(root, way, value, path).is_empty())
    {
        found.push(format!("{path}: {value} is none of {ways:?}"));
    }
    for name in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        if value.get(name).is_none() {
            found.push(format!("{path}.{name} is missing"));
        }
    }
    for (name, member) in value.as_object().into_iter().flatten() {
        match (schema["properties"].get(name), &schema["additionalProperties"]) {
            (Some(property), _) => found.extend(faults(root, property, member, &format!("{path}.{name}"))),
            (None, Value::Bool(false)) => found.push(format!("{path}.{name} is not in the schema")),
            (None, other @ Value::Object(_)) => found.extend(faults(root, other, member, &format!("{path}.{name}"))),
            (None, _) => {}
        }
    }
    if let Some(items) = value.as_array()
        && schema["items"].is_object()
    {
        let bounds = ["minItems", "maxItems"].map(|bound| schema[bound].as_u64().map(|bound| bound as usize));
        if bounds[0].is_some_and(|least| items.len() < least) || bounds[1].is_some_and(|most| items.len() > most) {
            found.push(format!("{path}: {} items", items.len()));
        }
        for (index, item) in items.iter().enumerate() {
            found.extend(faults(root, &schema["items"], item, &format!("{path}[{index}]")));
        }
    }
    found
}

fn report(url: &str, line: &str) -> Report {
    let args = line.split_whitespace().chain([url]).map(OsString::from);
    let Ok(Command::Run(options)) = parse(args) else { panic!("{line} is not understood") };
    run(&options).unwrap()
}

/// A target with these options, answering until the test ends.
fn target(line: &str) -> (String, UnixStream) {
    let (ours, stop) = UnixStream::pair().unwrap();
    let (tell, told) = mpsc::channel();
    let args = ["--target-server"].into_iter().chain(line.split_whitespace()).map(OsString::from);
    let options = manifold_load::responder::args::parse(args).unwrap().unwrap();
    let body = move || serve(&options, stop.as_fd(), |address| tell.send(address).unwrap()).unwrap();
    std::thread::Builder::new().spawn(body).unwrap();
    (format!("http://{}/", told.recv().unwrap()), ours)
}

#[test]
fn reports_are_as_the_schema_says() {
    let schema: Value = serde_json::from_str(SCHEMA).unwrap();
    let (url, _serving) = target("");
    let log = std::env::temp_dir().join(format!("manifold-schema-{}.log", std::process::id()));
    let line = |method| format!("h - - [10/Oct/2000:13:55:36 -0700] \"{method} / HTTP/1.1\" 404 1 \"-\" \"X\"\n");
    std::fs::write(&log, ["GET", "POST", "nonsense \"", "GET"].map(line).concat()).unwrap();
    for line in [
        "-n 20 -c 2",
        "-k -n 50 -c 2 --warmup 0.01 --threads 2 --think 1ms..2ms --expect-status 404 --expect-length 3",
        "-k -t 0.1 --rate 200 --arrivals poisson",
        "-k --stage 0..200:0.1 --stage 50:0.1 -m POST -d x",
        &format!("-k -n 50 -c 2 {url}b"),
        &format!("-k --replay {}", log.display()),
        &format!("-k --replay {} --replay-speed max --expect-status 404", log.display()),
    ] {
        let value = serde_json::to_value(report(&url, line)).unwrap();
        assert_eq!(faults(&schema, &schema, &value, "report"), Vec::<String>::new(), "{line}");
    }
    std::fs::remove_file(&log).unwrap();
    // The check itself can fail.
    let mut value = serde_json::to_value(report(&url, "-n 20 -c 2")).unwrap();
    value["completed"] = Value::from(-1);
    value["config"]["surprise"] = Value::from(1);
    value["flags"] = Value::from(vec!["no-such-flag"]);
    value.as_object_mut().unwrap().remove("seconds");
    assert_eq!(faults(&schema, &schema, &value, "report").len(), 4);
}

/// How a search ends, what it found, and that its document is as the schema says.
fn search(target_line: &str, line: &str) -> Maximum {
    let (url, _serving) = target(target_line);
    let args = line.split_whitespace().chain([url.as_str()]).map(OsString::from);
    let Ok(Command::Run(options)) = parse(args) else { panic!("{line} is not understood") };
    let mut text = String::new();
    let maximum = find(&options, &mut |more| text.push_str(more)).unwrap();
    let rows = text.lines().count() - 4;
    assert_eq!(rows, maximum.steps.len(), "{text}");
    let schema: Value = serde_json::from_str(SEARCH_SCHEMA).unwrap();
    let value = serde_json::to_value(&maximum).unwrap();
    assert_eq!(faults(&schema, &schema, &value, "search"), Vec::<String>::new(), "{line}");
    maximum
}

#[test]
fn a_search_never_finds_more_than_the_target_can_do() {
    // A queue of 20 ms grows in 0.7 s from 3 % above the capacity on; below, what is found depends on what else the machine has to do.
    let found = search("--capacity 400", "-k -t 0.5 --warmup 0.2 --drain 0.2 --precision 20% --find-max p90<20ms");
    assert!(found.holds.unwrap_or(0.0) < 420.0, "{found:?}");
    assert!(matches!(found.outcome, Outcome::Found | Outcome::AtLeast | Outcome::Open), "{found:?}");
    if let Outcome::Found = found.outcome {
        assert!(found.holds <= found.maximum && found.maximum <= found.fails, "{found:?}");
    }
}

#[test]
fn what_never_holds_has_no_maximum_and_what_is_cut_short_is_open() {
    let never = search("--delay 300ms", "-k -t 0.2 --warmup 0 --drain 0.5 --precision 100% --find-max p50<200ms");
    assert_eq!((never.outcome, never.maximum, never.notes.as_slice()), (Outcome::Never, None, [].as_slice()));
    let short = search("--delay 1ms", "-k -t 0.3 --warmup 0 --budget 0.5 --find-max p50<2s,errors<50%");
    assert_eq!((short.outcome, short.notes.as_slice()), (Outcome::Open, [Note::Budget].as_slice()));
}

#[test]
fn a_failing_server_holds_no_condition_on_failures() {
    let failing = search("--fail reset:50%", "-k -t 0.2 --warmup 0 --precision 100% --find-max errors<10%");
    assert_eq!((failing.outcome, failing.holds), (Outcome::Never, None));
}

#[test]
fn few_connections_are_said_to_be_the_limit() {
    // Two connections with 50 ms each make 40 a second, however many the target could.
    let few =
        search("--delay 50ms", "-k -c 2 -t 0.5 --warmup 0 --drain 0.5 --precision 50% --rate 160 --find-max p90<200ms");
    assert!(few.holds.unwrap_or(0.0) < 60.0 && few.notes.contains(&Note::FewConnections), "{few:?}");
}
