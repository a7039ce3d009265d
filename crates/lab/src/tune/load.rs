//! What is asked for: one page of a folder, a list of URLs, or the most frequent paths of an access log.

use std::collections::BTreeMap;
use std::path::Path;

/// Different paths that a load has at most.
const PATHS_MAX: usize = 16;
/// Requests of a cycle, in which each path stands as often as its share.
pub const CYCLE: usize = 48;
/// Bytes of a list or log that are read.
const BYTES_MAX: u64 = 256 << 20;

/// Paths by how often they are asked for, and what share of all requests they are.
#[derive(Clone, Debug, PartialEq)]
pub struct Paths {
    /// A cycle of requests, the most frequent path first.
    pub cycle: Vec<String>,
    /// The different ones, the most frequent first.
    pub paths: Vec<String>,
    /// Their part of the requests; 1 for all.
    pub share: f64,
}

impl Paths {
    /// One path.
    pub fn one(path: &str) -> Paths {
        Paths { cycle: vec![path.to_owned()], paths: vec![path.to_owned()], share: 1.0 }
    }

    /// Of a list: a URL or a path a line, equally often.
    ///
    /// # Errors
    /// A sentence with the file, and the line that is neither.
    pub fn of_list(file: &Path) -> Result<Paths, String> {
        list(&read(file)?).map_err(|said| format!("{}:{said}", file.display()))
    }

    /// Of an access log in the common or combined format: paths that were got with status 200.
    ///
    /// # Errors
    /// A sentence with the file, where it has no such line.
    pub fn of_log(file: &Path) -> Result<Paths, String> {
        log(&read(file)?)
            .ok_or_else(|| format!("{}: no line of it is a GET that was answered with 200", file.display()))
    }
}

fn read(file: &Path) -> Result<String, String> {
    let failed = |error: std::io::Error| format!("{}: {error}", file.display());
    let size = std::fs::metadata(file).map_err(failed)?.len();
    if size > BYTES_MAX {
        return Err(format!("{} is larger than {} MiB; give a part of it", file.display(), BYTES_MAX >> 20));
    }
    std::fs::read(file).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).map_err(failed)
}

fn list(text: &str) -> Result<Paths, String> {
    let mut counts = BTreeMap::new();
    for (number, line) in text.lines().enumerate().map(|(index, line)| (index + 1, line.trim())) {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let path = match line.split_once("://") {
            Some((_, rest)) => rest.find('/').map_or("/", |at| &rest[at..]),
            None => line,
        };
        if !is_path(path) {
            return Err(format!("{number}: a URL or a path beginning with / is needed, not '{line}'"));
        }
        *counts.entry(path.to_owned()).or_insert(0) += 1;
    }
    weighted(counts).ok_or_else(|| "1: there is no URL in it".to_owned())
}

fn log(text: &str) -> Option<Paths> {
    let mut counts = BTreeMap::new();
    for line in text.lines() {
        // HOST - USER [TIME] "GET /path HTTP/1.1" 200 SIZE ...
        let mut parts = line.splitn(3, '"').skip(1);
        let (Some(request), Some(rest)) = (parts.next(), parts.next()) else { continue };
        let mut words = request.split(' ');
        let (Some("GET"), Some(path)) = (words.next(), words.next()) else { continue };
        if rest.split_ascii_whitespace().next() == Some("200") && is_path(path) {
            *counts.entry(path.to_owned()).or_insert(0) += 1;
        }
    }
    weighted(counts)
}

fn is_path(text: &str) -> bool {
    text.starts_with('/') && !text.contains(|c: char| c.is_ascii_control() || c == ' ' || c == '#')
}

/// The most frequent, each as often as its share of them says and at least once.
fn weighted(counts: BTreeMap<String, u64>) -> Option<Paths> {
    let all: u64 = counts.values().sum();
    let mut ranked: Vec<(String, u64)> = counts.into_iter().collect();
    ranked.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    ranked.truncate(PATHS_MAX);
    let kept: u64 = ranked.iter().map(|(_, count)| count).sum();
    let times = |count: u64| ((count as f64 / kept as f64 * CYCLE as f64).round() as usize).max(1);
    let cycle = match &ranked[..] {
        [] => return None,
        [(only, _)] => vec![only.clone()],
        several => several.iter().flat_map(|(path, count)| std::iter::repeat_n(path.clone(), times(*count))).collect(),
    };
    let paths = ranked.into_iter().map(|(path, _)| path).collect();
    Some(Paths { cycle, paths, share: kept as f64 / all as f64 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists() {
        let paths = list("# mine\nhttp://h.example/a\n/b?x=1\nhttps://h.example\n").expect("three");
        assert_eq!((paths.paths.join(" "), paths.share), ("/ /a /b?x=1".to_owned(), 1.0));
        assert_eq!(paths.cycle.len(), CYCLE);
        assert_eq!(list("/only\n").expect("one").cycle, ["/only"]);
        for (text, said) in [("/a\nb\n", "2: a URL or a path"), ("", "no URL")] {
            assert!(list(text).expect_err(text).contains(said), "{text}");
        }
    }

    #[test]
    fn logs_are_weighed() {
        let line = |path: &str, status: u16| {
            format!("127.0.0.1 - - [10/Oct/2026:13:55:36 +0000] \"GET {path} HTTP/1.1\" {status} 44 \"-\" \"x\"\n")
        };
        let text = line("/a", 200).repeat(3) + &line("/b", 200) + &line("/c", 404) + "nonsense\n" + &line("/a", 304);
        let paths = log(&text).expect("two");
        assert_eq!((paths.paths.join(" "), paths.share), ("/a /b".to_owned(), 1.0));
        assert_eq!(paths.cycle.iter().filter(|path| *path == "/a").count(), 36);
        assert_eq!(log("nothing"), None);
        let many: String = (0..40).map(|number| line(&format!("/{number}"), 200)).collect();
        let paths = log(&many).expect("many");
        assert_eq!((paths.paths.len(), paths.share), (PATHS_MAX, 0.4));
    }
}
