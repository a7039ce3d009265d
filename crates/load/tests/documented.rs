//! Commands in the documentation are understood by the program they name.

#![allow(clippy::unwrap_used, reason = "a test ends at its first surprise")]

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use manifold_load::native::args;
use manifold_load::responder;

/// Each page, and whether what stands in its sentences and tables is whole commands as well.
const PAGES: &[(&str, &str, bool)] = &[
    ("from-wrk-oha-hey-k6.md", include_str!("../../../docs/src/from-wrk-oha-hey-k6.md"), true),
    ("measuring-honestly.md", include_str!("../../../docs/src/measuring-honestly.md"), true),
    ("load.md", include_str!("../../../docs/src/load.md"), false),
    ("target-server.md", include_str!("../../../docs/src/target-server.md"), false),
];
const COMMAND: &str = "manifold load ";
/// What the commands name.
const FILES: &[(&str, &str)] = &[("body.json", "{}"), ("plan.toml", "requests = 10\n[[request]]\nurl = 'http://h/'\n")];

/// The commands of a page: in blocks of code, and in code spans.
fn commands(page: &str, spans: bool) -> Vec<String> {
    let mut found = Vec::new();
    let mut in_block = false;
    for line in page.lines() {
        if line.starts_with("```") {
            in_block = !in_block;
        } else if in_block {
            found.extend(line.starts_with(COMMAND).then(|| line.to_owned()));
        } else if spans {
            let spans = line.split('`').skip(1).step_by(2);
            found.extend(spans.filter(|span| span.starts_with(COMMAND)).map(str::to_owned));
        }
    }
    found
}

/// Words as a shell makes them of blanks and single quotes, up to where the output goes or a comment begins.
fn words(command: &str) -> Vec<OsString> {
    let mut words = vec![String::new()];
    let mut quoted = false;
    for c in command.chars() {
        match c {
            '\'' => quoted = !quoted,
            ' ' if !quoted => words.push(String::new()),
            other => words.last_mut().unwrap().push(other),
        }
    }
    assert!(!quoted, "{command}: a quote does not end");
    let given = words.into_iter().filter(|word| !word.is_empty());
    given.take_while(|word| word != ">" && word != "#").map(OsString::from).collect()
}

/// What is wrong with a command, if anything.
fn fault(command: &str) -> Option<String> {
    let given = words(command).into_iter().skip(2).collect::<Vec<_>>();
    let said = match given.first().and_then(|first| first.to_str()) {
        // They read their files at once, which are not there: status 1, and 2 for what it does not understand.
        Some("merge" | "compare") => {
            let wrong = format!("{:?}", ExitCode::from(2));
            Some(format!("{:?}", manifold_load::main(given.into_iter()))).filter(|status| *status == wrong)
        }
        _ if given.iter().any(|word| word == responder::args::FLAG) => responder::args::parse(given.into_iter()).err(),
        _ => args::parse(given.into_iter()).err(),
    };
    said.map(|said| format!("{command}: {said}"))
}

#[test]
fn every_command_is_understood() {
    let scratch = std::env::temp_dir().join(format!("manifold-documented-{}", std::process::id()));
    std::fs::create_dir(&scratch).unwrap();
    FILES.iter().for_each(|(name, text)| std::fs::write(scratch.join(name), text).unwrap());
    // Commands name files where they are run.
    std::env::set_current_dir(&scratch).unwrap();
    let mut faults = Vec::new();
    for (name, page, spans) in PAGES {
        let commands = commands(page, *spans);
        assert!(commands.len() > 1, "{name} has no commands");
        faults.extend(commands.iter().filter_map(|command| fault(command)).map(|said| format!("{name}: {said}")));
    }
    assert_eq!(faults, Vec::<String>::new());
    // The check itself can fail.
    assert!(fault("manifold load http://h/ --no-such-option 1").is_some());
    assert!(fault("manifold load merge a.json --no-such-option b.json").is_some());
    std::env::set_current_dir(Path::new("/")).unwrap();
    std::fs::remove_dir_all(&scratch).unwrap();
}
