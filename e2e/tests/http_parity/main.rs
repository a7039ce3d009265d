//! The correctness matrix of HTTP: the same bytes sent to the real Apache and to us, on the same files and with the same
//! directives. Status, fields in their order, body and whether the connection stays are the same; where we differ on purpose,
//! the row names the difference, which must be one.

#![allow(clippy::unwrap_used, reason = "a test ends at its first surprise")]

mod answer;
mod cases;
mod difference;

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::time::{Duration, UNIX_EPOCH};

use e2e::server::{Mpm, Server, configured, foreground};
use e2e::{Scratch, peer};

use crate::answer::{Answer, ask};
use crate::cases::{Case, Group};

/// The files that both serve. All are as old as the test site, so that tags and dates are the same in every run.
struct Site {
    folder: Scratch,
}

impl Site {
    fn new() -> Site {
        let folder = Scratch::new().unwrap();
        let root = folder.path("htdocs");
        fs::create_dir_all(root.join("dir/sub")).unwrap();
        fs::create_dir_all(root.join("empty")).unwrap();
        fs::create_dir_all(root.join("a b;c'(d)~e\u{e9}")).unwrap();
        let long: Vec<u8> = (0..200_000u32).map(|number| (number % 251) as u8).collect();
        let files: [(&[u8], &[u8]); 13] = [
            (b"index.html", b"<html>front page</html>\n"),
            (b"probe.txt", b"probe"),
            (b"page.html", b"<html>page</html>\n"),
            (b"letters.txt", b"abcdefghijklmnopqrstuvwxyz"),
            (b"nothing.txt", b""),
            (b"one.txt", b"1"),
            (b"plain", b"no extension\n"),
            (b"long.bin", &long),
            (b"dir/index.html", b"<html>directory</html>\n"),
            (b"dir/page.txt", b"below\n"),
            (b"back\\slash.txt", b"backslash"),
            (b"latin\xe9.txt", b"not UTF-8"),
            (b"two words.txt", b"a space"),
        ];
        for (name, content) in files {
            let path = root.join(std::ffi::OsStr::from_bytes(name));
            fs::write(&path, content).unwrap();
            let file = fs::File::options().write(true).open(&path).unwrap();
            file.set_modified(UNIX_EPOCH + Duration::from_secs(1_000_000_000)).unwrap();
        }
        fs::write(folder.path("mime.types"), "text/html html\ntext/plain txt\napplication/octet-stream bin\n").unwrap();
        Site { folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path(name)
    }

    /// What both are told.
    fn directives(&self, more: &str) -> String {
        let (root, types) = (self.path("htdocs"), self.path("mime.types"));
        format!("DocumentRoot \"{}\"\nTypesConfig \"{}\"\n{more}", root.display(), types.display())
    }

    fn apache(&self, more: &str) -> Server {
        let modules = ["dir", "autoindex", "mime"]
            .map(|name| format!("LoadModule {name}_module /usr/lib/apache2/modules/mod_{name}.so\n"))
            .concat();
        peer::apache(&format!("StartServers 1\n{modules}{}", self.directives(more))).unwrap()
    }

    fn manifold(&self, mpm: Mpm, more: &str) -> Server {
        let (dir, port) = configured(mpm, &self.directives(more)).unwrap();
        Server::run(dir, port, foreground).unwrap()
    }
}

/// How our answer to a case is not what it should be.
fn complaint(case: &Case, theirs: &[Answer], ours: &[Answer]) -> Option<String> {
    let same = theirs == ours;
    let problem = match case.difference {
        None if same => return None,
        None => "they differ".to_owned(),
        Some(difference) if same => format!("they do not differ, as {difference:?} says they do"),
        Some(difference) if difference.explains(theirs, ours) => return None,
        Some(difference) => format!("{difference:?} is not all the difference"),
    };
    let show = |answers: &[Answer]| answers.iter().map(ToString::to_string).collect::<String>();
    Some(format!("{case}: {problem}\n--- Apache\n{}--- Manifold\n{}", show(theirs), show(ours)))
}

/// Sends every case of a group to both.
fn compare(site: &Site, mpm: Mpm, group: &Group) -> Vec<String> {
    let (apache, manifold) = (site.apache(group.directives), site.manifold(mpm, group.directives));
    let check = |case: &Case| complaint(case, &ask(apache.port, case), &ask(manifold.port, case));
    let complaints = group.cases.iter().filter_map(check);
    complaints.map(|text| format!("{} with '{}': {text}", mpm.name(), group.directives)).collect()
}

#[track_caller]
fn check(compared: &[(Mpm, &[Group])]) {
    if !peer::are_installed(&["/usr/sbin/apache2"]) {
        return;
    }
    let site = Site::new();
    let mut complaints = Vec::new();
    for (mpm, groups) in compared {
        for group in *groups {
            complaints.extend(compare(&site, *mpm, group));
        }
    }
    assert!(complaints.is_empty(), "{} cases:\n{}", complaints.len(), complaints.join("\n"));
}

#[test]
fn with_the_defaults_every_model_answers_as_apache() {
    let groups = [cases::defaults()];
    assert!(groups[0].cases.len() >= 200, "{} cases", groups[0].cases.len());
    check(&[(Mpm::Percore, &groups), (Mpm::Event, &groups)]);
}

#[test]
fn prefork_and_worker_answer_as_apache() {
    let groups = [cases::defaults()];
    check(&[(Mpm::Prefork, &groups), (Mpm::Worker, &groups)]);
}

#[test]
fn directives_have_the_effect_that_they_have_in_apache() {
    check(&[(Mpm::Percore, &cases::with_directives())]);
}
