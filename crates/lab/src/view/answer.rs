//! What is answered to whom: only to this machine's own pages, only questions, and never with anything that a page could be made to run.

use std::path::PathBuf;

use anyhow::{Context, Result};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use manifold_http::Status;
use sha2::{Digest, Sha256};

use super::pages::{self, Filter};
use super::query;
use crate::page;
use crate::store::{Run, Store, kinds};

/// What a client asks for.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// As sent.
    pub method: &'a [u8],
    /// Host and port that the client thinks it speaks to.
    pub host: &'a [u8],
    /// Decoded.
    pub path: &'a [u8],
    /// Without its question mark.
    pub query: &'a [u8],
}

/// What it gets.
#[derive(Debug)]
pub struct Answer {
    /// The status.
    pub status: Status,
    /// What the body is.
    pub media_type: &'static str,
    /// The body.
    pub body: String,
    /// Further fields.
    pub fields: Vec<(&'static str, String)>,
}

/// The application.
#[derive(Debug)]
pub struct App {
    store: PathBuf,
    /// The names under which it may be asked: a page of another site that has its own name lead here (DNS rebinding) has none of them.
    hosts: [String; 3],
    policy: String,
}

const HTML: &str = "text/html; charset=utf-8";

impl App {
    /// The application for a store, on this port.
    pub fn new(store: PathBuf, port: u16) -> App {
        let hosts = ["127.0.0.1", "localhost", "[::1]"].map(|name| format!("{name}:{port}"));
        let hash = |text: &str| format!("'sha256-{}'", BASE64_STANDARD.encode(Sha256::digest(text)));
        let policy = format!(
            "default-src 'none'; style-src {}; script-src {} {}; img-src data:; connect-src 'self'; form-action 'self'; \
             base-uri 'none'; frame-ancestors 'none'",
            hash(page::STYLE),
            hash(page::SCRIPT),
            hash(pages::FOLLOW)
        );
        App { store, hosts, policy }
    }

    /// The answer, whatever is asked.
    pub fn answer(&self, asked: &Asked<'_>) -> Answer {
        let mut answer = self.guarded(asked);
        for (name, value) in [
            ("Content-Security-Policy", self.policy.as_str()),
            ("X-Content-Type-Options", "nosniff"),
            ("Referrer-Policy", "no-referrer"),
            ("Cross-Origin-Resource-Policy", "same-origin"),
            ("Cross-Origin-Opener-Policy", "same-origin"),
            ("Cache-Control", "no-store"),
        ] {
            answer.fields.push((name, value.to_owned()));
        }
        answer
    }

    fn guarded(&self, asked: &Asked<'_>) -> Answer {
        if !self.hosts.iter().any(|host| host.as_bytes().eq_ignore_ascii_case(asked.host)) {
            let sentence =
                format!("This is the view of a laboratory's runs; its address is http://{}/.", self.hosts[0]);
            return refusal(Status::MISDIRECTED_REQUEST, &sentence);
        }
        if !matches!(asked.method, b"GET" | b"HEAD") {
            let mut answer = refusal(Status::METHOD_NOT_ALLOWED, "Runs can be looked at here, and nothing else.");
            answer.fields.push(("Allow", "GET, HEAD".to_owned()));
            return answer;
        }
        self.found(asked).unwrap_or_else(|error| refusal(Status::INTERNAL_SERVER_ERROR, &format!("{error:#}")))
    }

    fn found(&self, asked: &Asked<'_>) -> Result<Answer> {
        let path = String::from_utf8_lossy(asked.path);
        let parts: Vec<&str> = path.split('/').skip(1).collect();
        // A store of its own for each question: a connection is of one thread, and the file may be another by now.
        let store = Store::read(&self.store)?;
        match parts[..] {
            [""] => Ok(page(pages::list(&store.runs()?, &Filter::of(asked.query), &self.store)?)),
            ["compare"] => compare(&store, asked.query),
            ["run", number, "files", ""] => with_run(&store, number, files),
            ["run", number] => with_run(&store, number, |run| shown(&store, run)),
            ["run", number, "files", ref name @ ..] => with_run(&store, number, |run| file(run, &name.join("/"))),
            _ => Ok(refusal(Status::NOT_FOUND, "There is no such page; the list of runs is at /.")),
        }
    }
}

fn with_run(store: &Store, number: &str, then: impl FnOnce(&Run) -> Result<Answer>) -> Result<Answer> {
    match number.parse::<i64>().ok().and_then(|id| store.find(id).transpose()) {
        Some(run) => then(&run?),
        None => Ok(refusal(Status::NOT_FOUND, &format!("There is no run {number}; the list of runs is at /."))),
    }
}

/// The report, or how far the run is.
fn shown(store: &Store, run: &Run) -> Result<Answer> {
    match run.document {
        Some(_) => Ok(page(kinds::html(run, &pages::frame_of(run))?)),
        None => Ok(page(pages::live(run, &store.values(run.id)?)?)),
    }
}

fn compare(store: &Store, query: &[u8]) -> Result<Answer> {
    let (Some(a), Some(b)) = (query::value(query, "a"), query::value(query, "b")) else {
        return Ok(refusal(Status::BAD_REQUEST, "Choose two runs in the list at /, a first and a second."));
    };
    let all = query::value(query, "all").is_some();
    with_run(store, &a, |a| with_run(store, &b, |b| Ok(page(pages::compare(store, (a, b), all)?))))
}

fn files(run: &Run) -> Result<Answer> {
    match run.document {
        Some(_) => Ok(page(pages::files(run)?)),
        None => Ok(no_files(run)),
    }
}

fn no_files(run: &Run) -> Answer {
    refusal(Status::NOT_FOUND, &format!("Run {} has no files yet: it is {}.", run.id, run.state.text()))
}

/// A file of a run: what `lab export` writes.
fn file(run: &Run, name: &str) -> Result<Answer> {
    if run.document.is_none() {
        return Ok(no_files(run));
    }
    let Some(file) = kinds::files(run)?.into_iter().find(|file| file.name == name) else {
        return Ok(refusal(Status::NOT_FOUND, &format!("Run {} has no such file.", run.id)));
    };
    // As a file to be kept: nothing of it runs here.
    let extension = name.rsplit_once('.').map_or("", |(_, extension)| extension);
    let media_type = match extension {
        "json" => "application/json",
        "csv" => "text/csv; charset=utf-8",
        _ => "text/plain; charset=utf-8",
    };
    let kept = format!("attachment; filename=\"run-{}-{}\"", run.id, super::file_name(name.as_ref()));
    let fields = vec![("Content-Disposition", kept)];
    Ok(Answer { status: Status::OK, media_type, body: file.text, fields })
}

fn page(html: String) -> Answer {
    Answer { status: Status::OK, media_type: HTML, body: html, fields: Vec::new() }
}

/// A page that says why not.
fn refusal(status: Status, sentence: &str) -> Answer {
    let html = pages::refusal(sentence).context("the page cannot be made").unwrap_or_default();
    Answer { status, media_type: HTML, body: html, fields: Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;
    use crate::results::Results;
    use crate::store::{NewRun, Stored, Value};

    /// A store that goes with the test, and the view of it: a complete run of models, another that differs, and one that is measured.
    struct Fixture {
        app: App,
        folder: PathBuf,
    }

    impl Fixture {
        fn new(name: &str) -> Fixture {
            let folder = std::env::temp_dir().join(format!("manifold-lab-view-{name}-{}", std::process::id()));
            let file = folder.join("lab.sqlite");
            let mut store = Store::open(&file).expect("a store");
            for cpu in [8.0, 16.0] {
                let mut found = fixture::of(&[cpu, 7.0, 6.0, 2.0, 24.0, 21.0, 18.0, 6.5]);
                found.environment.command = "manifold lab run --site '/<b>&'".to_owned();
                let run = begin(&store, &found.environment.command);
                kinds::end(&mut store, run, &found).expect("it is kept");
            }
            let run = begin(&store, "manifold lab run <script>");
            store.tell(run, 30, 72, "round 2 of 3, <i>nginx</i>").expect("it is kept");
            let values: Vec<Value> = fixture::clear_winner().values().into_iter().take(40).collect();
            store.add_values(run, &values).expect("they are kept");
            Fixture { app: App::new(file, 80), folder }
        }

        fn get(&self, target: &str) -> Answer {
            let (path, query) = target.split_once('?').unwrap_or((target, ""));
            let (method, host) = (b"GET", b"127.0.0.1:80");
            self.app.answer(&Asked { method, host, path: path.as_bytes(), query: query.as_bytes() })
        }
    }

    fn begin(store: &Store, command: &str) -> i64 {
        let (kind, started) = (Results::KIND, "2026-11-22 06:00:00");
        let new = NewRun { kind, name: "models", command, started, folder: "/nowhere".as_ref(), plan: None };
        store.begin(&new).expect("it begins")
    }

    impl Drop for Fixture {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.folder);
        }
    }

    #[test]
    fn pages_hold_what_is_asked_for() {
        let fixture = Fixture::new("pages");
        for (target, status, parts, absent) in [
            ("/", Status::OK, &["Run 1<", "Run 2<", "Run 3<", "30 of 72 cells", "3 of 3 runs"][..], &["<i>nginx"][..]),
            ("/?state=running", Status::OK, &["Run 3<", "1 of 3 runs"], &["Run 1<", "Compare first"]),
            ("/?text=%3CB%3E", Status::OK, &["2 of 3 runs"], &["Run 3<"]),
            ("/?experiment=peers", Status::OK, &["0 of 3 runs"], &["Run 1<"]),
            ("/?before=2", Status::OK, &["Run 1<"], &["Run 2<"]),
            (
                "/run/1",
                Status::OK,
                &["class=\"headline\"", "All runs", "<svg class=\"plot\"", "&#60;b&#62;"],
                &["<b>&"],
            ),
            (
                "/run/3",
                Status::OK,
                &["It is being measured", "data-goes-on", "Figures so far", "&#60;script"],
                &["<script>'"],
            ),
            ("/run/9", Status::NOT_FOUND, &["no run 9"], &[]),
            ("/run/x", Status::NOT_FOUND, &["no run x"], &[]),
            ("/run/1/files/", Status::OK, &["results.json", "plots/plots.gnuplot"], &[]),
            ("/run/1/files/cells.csv", Status::OK, &["round,"], &[]),
            ("/run/1/files/../../etc/passwd", Status::NOT_FOUND, &["no such file"], &[]),
            ("/run/3/files/cells.csv", Status::NOT_FOUND, &["is running"], &[]),
            (
                "/compare?a=1&b=2",
                Status::OK,
                &["differ by their intervals", "manifold prefork", "Run 2: "],
                &["nothing to compare"],
            ),
            ("/compare?a=1&b=9", Status::NOT_FOUND, &["no run 9"], &[]),
            ("/compare?a=1", Status::BAD_REQUEST, &["Choose two runs"], &[]),
            ("/elsewhere", Status::NOT_FOUND, &["no such page"], &[]),
        ] {
            let answer = fixture.get(target);
            assert_eq!(answer.status, status, "{target}");
            for part in parts {
                assert!(answer.body.contains(part), "no {part:?} in {target}:\n{}", answer.body);
            }
            for part in absent {
                assert!(!answer.body.contains(part), "{part:?} in {target}");
            }
        }
    }

    #[test]
    fn only_this_machines_own_pages_may_ask_and_only_questions() {
        let fixture = Fixture::new("guards");
        let ask = |method: &str, host: &str| {
            let (method, host) = (method.as_bytes(), host.as_bytes());
            fixture.app.answer(&Asked { method, host, path: b"/", query: b"" }).status
        };
        for (method, host, status) in [
            ("GET", "127.0.0.1:80", Status::OK),
            ("HEAD", "LocalHost:80", Status::OK),
            ("GET", "[::1]:80", Status::OK),
            ("GET", "127.0.0.1", Status::MISDIRECTED_REQUEST),
            ("GET", "127.0.0.1:81", Status::MISDIRECTED_REQUEST),
            ("GET", "rebound.example:80", Status::MISDIRECTED_REQUEST),
            ("GET", "", Status::MISDIRECTED_REQUEST),
            ("POST", "127.0.0.1:80", Status::METHOD_NOT_ALLOWED),
            ("get", "127.0.0.1:80", Status::METHOD_NOT_ALLOWED),
        ] {
            assert_eq!(ask(method, host), status, "{method} {host}");
        }
    }

    /// The policy allows exactly the styles and scripts that pages have.
    #[test]
    fn nothing_on_a_page_is_refused_by_its_own_policy() {
        let fixture = Fixture::new("policy");
        for target in ["/", "/run/1", "/run/3", "/compare?a=1&b=2", "/run/1/files/", "/elsewhere"] {
            let Answer { body, fields, .. } = fixture.get(target);
            let policy = &fields.iter().find(|(name, _)| *name == "Content-Security-Policy").expect("there is one").1;
            for (open, close) in [("<style>", "</style>"), ("<script>", "</script>")] {
                for part in body.split(open).skip(1) {
                    let text = part.split(close).next().expect("it ends");
                    let hash = BASE64_STANDARD.encode(Sha256::digest(text));
                    assert!(policy.contains(&hash), "{open} of {target}");
                }
            }
            for inline in [" style=\"", " onclick=", "<script src", "javascript:"] {
                assert!(!body.contains(inline), "{inline} in {target}");
            }
        }
    }

    #[test]
    fn a_store_that_went_away_is_told() {
        let fixture = Fixture::new("gone");
        std::fs::remove_dir_all(&fixture.folder).expect("it is ours");
        let answer = fixture.get("/");
        assert_eq!(answer.status, Status::INTERNAL_SERVER_ERROR);
        assert!(answer.body.contains("the store of runs"), "{}", answer.body);
    }
}
