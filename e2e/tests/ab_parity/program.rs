//! Both programs, called in the same way under the same name, and what they did, without what depends on time.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use e2e::binary;

/// The original program, and the name under which ours is called as well.
pub const ORIGINAL: &str = "/usr/bin/ab";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    Original,
    Ours,
}

pub const BOTH: [Which; 2] = [Which::Original, Which::Ours];

/// A command that runs one of them, for at most a minute.
pub fn command(which: Which) -> Command {
    let mut command = match which {
        Which::Original => Command::new(ORIGINAL),
        Which::Ours => Command::new(binary::manifold()),
    };
    command.arg0(ORIGINAL).stdin(Stdio::null()).env("TZ", "UTC");
    command
}

/// What a program did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deed {
    pub status: Option<i32>,
    pub stdout: String,
    pub stderr: String,
    /// The files of `-e` and `-g`.
    pub files: Vec<String>,
}

impl Deed {
    /// Masked: times are `#`, the banner is left out, since it names the program.
    pub fn of(output: &Output, folder: &Path) -> Deed {
        let [stdout, stderr] =
            [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
        let files = ["out.csv", "out.tsv"].iter().filter_map(|name| fs::read(folder.join(name)).ok());
        let files =
            files.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).map(|text| file_shape(&text)).collect();
        let stdout = masked(without_banner(&stdout));
        Deed { status: output.status.code(), stdout, stderr: without_usage(&stderr), files }
    }

    /// The lines in which two differ, for people.
    pub fn differences(&self, other: &Deed) -> Vec<String> {
        let mut found = Vec::new();
        if self.status != other.status {
            found.push(format!("status {:?} / {:?}", self.status, other.status));
        }
        for (name, left, right) in [("stdout", &self.stdout, &other.stdout), ("stderr", &self.stderr, &other.stderr)] {
            found.extend(lines_apart(name, left, right));
        }
        if self.files != other.files {
            found.push(format!("files {:?} / {:?}", self.files, other.files));
        }
        found
    }
}

/// Lines that only one of two texts has, in order.
fn lines_apart(name: &str, left: &str, right: &str) -> Vec<String> {
    let only = |sign: &str, these: &str, those: &str| -> Vec<String> {
        let those: Vec<&str> = those.split('\n').collect();
        these.split('\n').filter(|line| !those.contains(line)).map(|line| format!("{name}{sign} {line:?}")).collect()
    };
    let mut found = [only("-", left, right), only("+", right, left)].concat();
    if found.is_empty() && left != right {
        found.push(format!("{name}: the same lines, in another order or number: {left:?} / {right:?}"));
    }
    found
}

/// Without the lines that say which program this is.
fn without_banner(text: &str) -> &str {
    let lines = if text.starts_with("<p>") { 5 } else { 4 };
    if !text.contains("This is ApacheBench") {
        return text;
    }
    let end = text.match_indices('\n').nth(lines - 1).map_or(text.len(), |(at, _)| at + 1);
    &text[end..]
}

/// Without the options' descriptions, which are in our own words.
fn without_usage(text: &str) -> String {
    text.split_once("\nOptions are:\n").map_or_else(|| text.to_owned(), |(before, _)| format!("{before}\n"))
}

/// Lines that appear only with certain times.
const TIMED_LINES: [&str; 4] =
    ["ERROR: The median", "deviation apart.", "WARNING: The median", "These results are probably"];
/// Lines whose figures are times.
const TIMED_FIGURES: [&str; 5] = ["Time taken", "Requests per second", "Time per request", "Transfer rate", "kb/s"];
/// Rows of the tables: columns keep their width, so that one out of place shows.
const TABLES: [&str; 4] = ["Connect:  ", "Processing: ", "Waiting:  ", "Total:  "];

fn masked(text: &str) -> String {
    text.split('\n')
        .filter(|line| !TIMED_LINES.iter().any(|word| line.contains(word)))
        .map(masked_line)
        .collect::<Vec<_>>()
        .join("\n")
}

fn masked_line(line: &str) -> String {
    let percentile = line.split_once("%  ").is_some_and(|(left, _)| left.trim().parse::<u32>().is_ok());
    if TABLES.iter().any(|start| line.starts_with(start)) || percentile {
        let label = if percentile { 6 } else { 12 };
        let digits = |c: char| if c.is_ascii_digit() || c == ' ' { '#' } else { c };
        return line.chars().take(label).chain(line.chars().skip(label).map(digits)).collect();
    }
    if ["Connect:<", "Processing:<", "Total:<"].iter().any(|word| line.contains(word)) {
        return line.replace(|c: char| c.is_ascii_digit(), " ");
    }
    if TIMED_FIGURES.iter().any(|word| line.contains(word)) {
        return numbers_masked(line);
    }
    if line.starts_with("Date: ") { "Date: #".to_owned() } else { line.to_owned() }
}

/// Each number is one `#`, its decimals as many as they are.
fn numbers_masked(line: &str) -> String {
    let mut masked = String::new();
    let mut whole = true;
    for c in line.chars() {
        if !c.is_ascii_digit() {
            whole = c != '.';
            masked.push(c);
        } else if !whole || !masked.ends_with('#') {
            masked.push('#');
        }
    }
    masked
}

/// A file of `-e` or `-g`: everything but the times, which have to ascend.
fn file_shape(text: &str) -> String {
    let gnuplot = text.starts_with("starttime");
    let mut before = 0.0;
    let rows = text.split('\n').map(|line| {
        let cells: Vec<&str> = line.split(if gnuplot { '\t' } else { ',' }).collect();
        let time = cells.get(if gnuplot { 4 } else { 1 }).and_then(|cell| cell.parse::<f64>().ok());
        let ascending = time.is_none_or(|time| time >= before);
        before = time.unwrap_or(before);
        let cells: Vec<String> = match (gnuplot, time) {
            (_, None) => cells.iter().map(|cell| (*cell).to_owned()).collect(),
            (true, _) => vec![cells[0].len().to_string(), cells.len().to_string()],
            (false, _) => vec![cells[0].to_owned(), numbers_masked(cells[1])],
        };
        format!("{}{}", cells.join(","), if ascending { "" } else { " DESCENDS" })
    });
    rows.collect::<Vec<_>>().join("\n")
}
