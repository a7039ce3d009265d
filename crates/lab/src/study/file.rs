//! An experiment file as it is written: TOML, read into what its author typed and nothing else. [`resolve`](mod@super::resolve) makes
//! sense of it.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Deserialize;
use toml::Spanned;

use super::metric::Metric;
use super::sweep::Numbers;
use crate::slow_test::kind::Kind;
use crate::target::Model;

/// The version of the files' form that is read.
pub const FORMAT: u32 = 1;

/// A whole file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct File {
    /// [`FORMAT`].
    pub format: Spanned<u32>,
    /// Above the report.
    pub title: String,
    /// What it is to find out.
    pub question: String,
    /// Where published figures come from.
    #[serde(default)]
    pub source: String,
    /// What the report shows, in this order.
    #[serde(default = "shown")]
    pub show: Vec<Metric>,
    /// How often every cell is measured.
    #[serde(default = "rounds")]
    pub rounds: Spanned<u32>,
    /// If claims are still open then: further rounds up to this number.
    pub most_rounds: Option<u32>,
    /// A claim is decided where both sides are the same up to this share.
    #[serde(default = "precision")]
    pub precision: f64,
    /// What `--scaled` changes.
    #[serde(default)]
    pub scaled: Scaled,
    /// What is asked for.
    #[serde(default)]
    pub page: Option<Spanned<Page>>,
    /// What is measured.
    #[serde(default, rename = "target")]
    pub targets: Vec<Spanned<Target>>,
    /// By which loads.
    #[serde(default, rename = "load")]
    pub loads: Vec<Spanned<Load>>,
    /// What was published of it.
    #[serde(default)]
    pub published: Vec<Spanned<Published>>,
    /// What is claimed of it.
    #[serde(default, rename = "claim")]
    pub claims: Vec<Spanned<Claim>>,
}

fn shown() -> Vec<Metric> {
    vec![Metric::RequestsPerSecond, Metric::P50, Metric::P99, Metric::CpuPerRequest, Metric::Memory]
}

fn rounds() -> Spanned<u32> {
    Spanned::new(0..0, 5)
}

fn precision() -> f64 {
    0.05
}

/// What is different in a smaller run of the same experiment.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Scaled {
    /// Rounds instead of the file's.
    pub rounds: Option<u32>,
    /// Instead of the file's.
    pub most_rounds: Option<u32>,
    /// Numbers of requests are so many times smaller, but never below the number of connections.
    pub divide_requests_by: Option<u64>,
    /// Seconds instead of those of the loads.
    pub seconds: Option<f64>,
}

/// The page: a text, or so many bytes, or a file of a folder of the user's.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Page {
    /// The body.
    pub text: Option<String>,
    /// Length of a body that is made up.
    pub bytes: Option<u64>,
    /// A folder to serve.
    pub site: Option<PathBuf>,
    /// The path asked for in it.
    pub path: Option<String>,
}

/// A server with its settings, or many that differ in some.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Target {
    /// What tables and claims call it.
    pub name: String,
    /// Whose program; each is a target of its own.
    pub servers: Option<Vec<String>>,
    /// A configuration of Apache's of the user's, of which a private copy is measured.
    pub config: Option<PathBuf>,
    /// Which virtual host of it is asked.
    pub host: Option<String>,
    /// Which of its ports is asked; or the port at which a command listens.
    pub port: Option<u16>,
    /// Or a command line, a word each.
    pub command: Option<Vec<String>>,
    /// When that is ready.
    pub ready: Option<Ready>,
    /// Or a server that runs already.
    pub url: Option<String>,
    /// The model.
    pub mpm: Option<Model>,
    /// Directives. One with a list of values makes a target for each of them.
    #[serde(default)]
    pub settings: BTreeMap<String, Setting>,
    /// Conditions on the settings; combinations that break one are left out.
    #[serde(default, rename = "where")]
    pub conditions: Vec<String>,
}

/// When a command is ready: when a path is answered.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Ready {
    /// The path; without, that of the page.
    pub path: Option<String>,
    /// After at most so many seconds.
    pub within: Option<f64>,
}

/// The value of a directive, or several.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged, expecting = "a number, a text, or a list of numbers or texts is needed")]
pub enum Setting {
    /// One.
    One(Scalar),
    /// A list.
    Many(Vec<Scalar>),
}

/// One value.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(untagged, expecting = "a number or a text is needed")]
pub enum Scalar {
    /// A number.
    Number(i64),
    /// What stands after the directive's name.
    Text(String),
}

/// Loads: every combination of what is listed.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Load {
    /// What tables call it, where there is but one.
    pub name: Option<String>,
    /// Connections at the same time.
    pub connections: Numbers,
    /// Instead of asking, so many connections of each of these kinds are slow; the numbers are tried in ascending order, until a normal
    /// client beside them is not answered within a second.
    #[serde(default)]
    pub slow_clients: Vec<Kind>,
    /// Instead of asking, the connections are idle, on a server started for them alone.
    #[serde(default)]
    pub idle: bool,
    /// While they ask, the server is reloaded so many times.
    pub reloads: Option<u32>,
    /// Instead of asking as fast as they can, the highest rate is searched at which this holds, as `p99<50ms`.
    pub find_max: Option<String>,
    /// So many requests; `"connections"` for one on each.
    pub requests: Option<Numbers>,
    /// So long, instead.
    pub seconds: Option<f64>,
    /// Connections are kept for the next request.
    #[serde(default)]
    pub keep_alive: Flags,
}

/// `true`, `false`, or both one after the other.
#[derive(Debug, Deserialize)]
#[serde(untagged, expecting = "true, false or [true, false] is needed")]
pub enum Flags {
    /// One.
    One(bool),
    /// A list.
    Many(Vec<bool>),
}

impl Default for Flags {
    fn default() -> Flags {
        Flags::One(false)
    }
}

/// Published figures of one target under one load.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Published {
    /// The target's name.
    pub target: String,
    /// The load's name.
    pub load: Option<String>,
    /// Its number of connections.
    pub connections: Option<u32>,
    /// Its number of requests.
    pub requests: Option<u64>,
    /// The figures.
    pub figures: BTreeMap<Metric, f64>,
}

/// A claim: one target has more of something than another.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Claim {
    /// The claim as a sentence without its full stop.
    pub says: String,
    /// What is compared.
    pub metric: Metric,
    /// Whose.
    pub of: Side,
    /// With whose.
    pub than: Side,
    /// The relation.
    pub is: Relation,
    /// The ratio that was published.
    pub published: Option<f64>,
}

/// One side of a claim.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged, expecting = "a target's name, or a table as { target = \"worker\", connections = 100 } is needed")]
pub enum Side {
    /// A target, under all loads.
    Name(String),
    /// A target, under those loads that are so.
    Where(Chosen),
}

/// A target and some of the loads.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Chosen {
    /// The target's name.
    pub target: String,
    /// The load's name.
    pub load: Option<String>,
    /// Its number of connections.
    pub connections: Option<u32>,
    /// Its number of requests.
    pub requests: Option<u64>,
    /// Whether it keeps connections.
    pub keep_alive: Option<bool>,
}

/// What a claim says of `of` beside `than`.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Relation {
    /// `of` has more.
    More,
    /// `of` has less.
    Less,
    /// There is no difference.
    Same,
}

impl File {
    /// Reads a file's text. `name` is for messages.
    ///
    /// # Errors
    /// `NAME:LINE: what is wrong`.
    pub fn read(name: &str, text: &str) -> Result<File, String> {
        let file: File = toml::from_str(text).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start);
            place(name, text, at, error.message())
        })?;
        match *file.format.get_ref() {
            FORMAT => Ok(file),
            other => Err(place(
                name,
                text,
                file.format.span().start,
                &format!("format {other} is not known; this version reads format {FORMAT}"),
            )),
        }
    }
}

/// A message with the line of a byte of the file.
pub fn place(name: &str, text: &str, at: usize, said: &str) -> String {
    let line = text.as_bytes()[..at.min(text.len())].iter().filter(|byte| **byte == b'\n').count() + 1;
    format!("{name}:{line}: {}", said.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mistakes_are_named_with_their_line() {
        let head = "format = 1\ntitle = \"t\"\nquestion = \"q\"\n";
        for (rest, said) in [
            ("rouns = 3\n", "x.toml:4: unknown field `rouns`, expected one of"),
            ("rounds = \"many\"\n", "x.toml:4: invalid type"),
            ("show = [\"speed\"]\n", "x.toml:4: unknown variant `speed`, expected one of `time-taken`"),
            ("\n[[target]]\nname = \"a\"\nmpm = \"threads\"\n", "x.toml:7: unknown variant `threads`"),
            ("[[load]]\nconnections = {}\n", "x.toml:5: "),
            ("[[load]]\nconnections = 1\nkeep-alive = 1\n", "x.toml:6: true, false or [true, false] is needed"),
            ("[[target\n", "x.toml:4: "),
        ] {
            let said_instead = File::read("x.toml", &format!("{head}{rest}")).expect_err(rest);
            assert!(said_instead.starts_with(said), "{rest}: {said_instead}");
        }
        let newer = File::read("x.toml", &head.replace('1', "9")).expect_err("a newer format");
        assert_eq!(newer, "x.toml:1: format 9 is not known; this version reads format 1");
        assert!(File::read("x.toml", "title = 1").is_err());
    }
}
