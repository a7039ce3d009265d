//! From an experiment file to what is measured: every target, every load, every claim as an index into them, checked.

mod loads;
mod subjects;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::Size;
use super::file::{self, Chosen, File, Relation, Side};
use super::metric::Metric;
use super::view;
use crate::generator::Amount;
use crate::reload_test::client::ANSWER_BYTES_MAX;
use crate::slow_test::kind::Kind;
use crate::store::Key;
use crate::target::Family;

pub use subjects::{CommandLine, Origin, OwnFile, Subject, peers};

/// More cells than this in one round are a mistake.
const CELLS_MAX: usize = 10_000;
/// The largest page that is made up.
const BYTES_MAX: u64 = 64 * 1024 * 1024;
/// The largest that is asked for during reloads, where each answer is compared.
const RELOADED_BYTES_MAX: u64 = ANSWER_BYTES_MAX as u64 / 2;
/// The path of a page that is made up.
const PAGE: &str = "/index.html";

/// What is measured.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Study {
    /// The file's name without its end.
    pub name: String,
    /// Above the report.
    pub title: String,
    /// What it is to find out.
    pub question: String,
    /// Where published figures come from.
    pub source: String,
    /// What the report shows.
    pub show: Vec<Metric>,
    /// How often every cell is measured.
    pub rounds: u32,
    /// If claims are still open then: further rounds up to this number, which is no less than `rounds`.
    pub most_rounds: u32,
    /// A claim is decided where both sides are the same up to this share.
    pub precision: f64,
    /// The page.
    pub page: Page,
    /// Each server with each of its settings.
    pub targets: Vec<Subject>,
    /// Each load.
    pub loads: Vec<Load>,
    /// Published figures.
    pub published: Vec<Published>,
    /// Claims, by server.
    pub claims: Vec<Claim>,
}

/// What is asked for.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Page {
    /// The path.
    pub path: String,
    /// The folder of the user's; `None` for a page that is made up.
    pub site: Option<PathBuf>,
    /// The body; read from the folder when the run begins.
    #[serde(skip)]
    pub body: Vec<u8>,
    /// Its length.
    pub bytes: u64,
    /// There is none: each server is asked for what it has under the path.
    #[serde(default)]
    pub theirs: bool,
}

impl Study {
    /// What a cell of a round is called among all that are kept.
    pub fn key(&self, round: u32, target: usize, load: usize) -> Key {
        let load = view::load_label(&self.loads[load]);
        Key { part: self.name.clone(), round, target: self.targets[target].label(), load }
    }

    /// Only these targets, in ascending order; claims about others go with them.
    pub fn keep_targets(&mut self, kept: &[usize]) {
        let place = |old: usize| kept.iter().position(|&index| index == old);
        let claims = std::mem::take(&mut self.claims).into_iter();
        self.claims = claims
            .filter_map(|claim| {
                let (of, than) = (place(claim.of.0)?, place(claim.than.0)?);
                Some(Claim { of: (of, claim.of.1), than: (than, claim.than.1), ..claim })
            })
            .collect();
        self.targets = kept.iter().filter_map(|&index| self.targets.get(index).cloned()).collect();
    }
}

/// One load.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Load {
    /// Its name, if it has one.
    pub name: Option<String>,
    /// Connections at the same time.
    pub connections: u32,
    /// Whether they are kept.
    pub keep_alive: bool,
    /// What it does.
    pub work: Work,
}

/// What a load does.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Work {
    /// It asks, until so much is done.
    Asks(Amount),
    /// It is slow in this way, with these numbers of clients one after the other.
    Holds(Kind, Vec<u32>),
    /// Its connections are idle.
    Idles,
    /// It asks for so many seconds, in which the server is reloaded so many times.
    Reloads(f64, u32),
    /// It searches the highest rate at which a condition holds, in steps of so many seconds.
    Searches(String, f64),
}

impl Work {
    /// Whether it needs a server that the laboratory starts, with a page that is made up.
    pub fn needs_our_server(&self) -> bool {
        matches!(self, Work::Holds(..) | Work::Idles | Work::Reloads(..))
    }

    /// Whether it is so many requests.
    fn is_requests(&self, requests: u64) -> bool {
        *self == Work::Asks(Amount::Requests(requests))
    }
}

/// Published figures of one target's name under one load.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Published {
    /// The name, of whatever server.
    pub target: String,
    /// Index of the load.
    pub load: usize,
    /// The figures.
    pub figures: BTreeMap<Metric, f64>,
}

/// A claim about the targets of one server.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Claim {
    /// As a sentence without its full stop.
    pub says: String,
    /// What is compared.
    pub metric: Metric,
    /// Whose: index of the target, and of its loads.
    pub of: (usize, Vec<usize>),
    /// With whose.
    pub than: (usize, Vec<usize>),
    /// The relation.
    pub is: Relation,
    /// The ratio that was published.
    pub published: Option<f64>,
}

/// Resolves a file's text. `name` is its name for messages, `stem` that of the study.
///
/// # Errors
/// `NAME:LINE: what is wrong, and the way out`.
pub fn resolve(name: &str, stem: &str, text: &str, size: Size) -> Result<Study, String> {
    let file = File::read(name, text)?;
    let place = |at: usize| move |said: String| file::place(name, text, at, &said);
    let page = match &file.page {
        None => made_up(crate::cli::BUILT_IN_PAGE.as_bytes().to_vec()),
        Some(page) => resolve_page(page.get_ref()).map_err(place(page.span().start))?,
    };
    let mut targets = Vec::new();
    for target in &file.targets {
        targets.extend(subjects::resolve_target(target.get_ref(), &page).map_err(place(target.span().start))?);
    }
    let mut loads = Vec::new();
    for load in &file.loads {
        loads.extend(loads::resolve_load(load.get_ref()).map_err(place(load.span().start))?);
    }
    check_cells(&targets, &loads, &page).map_err(|said| format!("{name}: {said}"))?;
    let names: BTreeSet<&str> = targets.iter().map(|target| target.name.as_str()).collect();
    let mut published = Vec::new();
    for entry in &file.published {
        published.push(resolve_published(entry.get_ref(), &names, &loads).map_err(place(entry.span().start))?);
    }
    let mut claims = Vec::new();
    for claim in &file.claims {
        claims.extend(resolve_claim(claim.get_ref(), &targets, &loads).map_err(place(claim.span().start))?);
    }
    // Files speak of the loads as they are in full, so these shrink last.
    let scaled = size != Size::Full;
    let rounds = file.scaled.rounds.filter(|_| scaled).unwrap_or(*file.rounds.get_ref());
    if !(1..=1000).contains(&rounds) {
        return Err(place(file.rounds.span().start)(format!("rounds = {rounds}: 1 to 1000 are possible")));
    }
    let most_rounds = file.scaled.most_rounds.filter(|_| scaled).or(file.most_rounds).unwrap_or(rounds).max(rounds);
    if most_rounds > 1000 {
        return Err(format!("{name}: most-rounds = {most_rounds}: 1000 are possible"));
    }
    if !(0.001..=1.0).contains(&file.precision) {
        return Err(format!("{name}: precision = {}: a share from 0.001 to 1 is needed", file.precision));
    }
    if scaled {
        loads::shrink(&mut loads, &file.scaled);
    }
    let (rounds, most_rounds) = if size == Size::Smallest { (1, 1) } else { (rounds, most_rounds) };
    if size == Size::Smallest {
        loads::least(&mut loads);
    }
    let File { title, question, source, show, precision, .. } = file;
    let name = stem.to_owned();
    Ok(Study {
        name,
        title,
        question,
        source,
        show,
        rounds,
        most_rounds,
        precision,
        page,
        targets,
        loads,
        published,
        claims,
    })
}

/// What holds of targets and loads together.
fn check_cells(targets: &[Subject], loads: &[Load], page: &Page) -> Result<(), String> {
    let mut labels = BTreeSet::new();
    if let Some(twice) = targets.iter().map(Subject::label).find(|label| !labels.insert(label.clone())) {
        return Err(format!("there are two targets \"{twice}\"; give one of them another name"));
    }
    let ours = loads.iter().any(|load| load.work.needs_our_server());
    if ours && (page.site.is_some() || page.theirs || targets.iter().any(Subject::serves_its_own)) {
        let loads = "slow clients, idle connections and reloads";
        return Err(format!("{loads} ask for a page that is made up; leave site, config and url out"));
    }
    let reloads = loads.iter().any(|load| matches!(load.work, Work::Reloads(..)));
    if let Some(other) = targets.iter().find(|target| reloads && target.server == Family::Peer) {
        return Err(format!(
            "how {} is reloaded is not known; reloads are of manifold, apache2 and nginx",
            other.label()
        ));
    }
    if reloads && page.bytes > RELOADED_BYTES_MAX {
        return Err(format!("a page that is asked for during reloads has at most {RELOADED_BYTES_MAX} bytes"));
    }
    match targets.len() * loads.len() {
        0 => Err("nothing is measured; give at least one [[target]] and one [[load]]".to_owned()),
        cells if cells > CELLS_MAX => Err(format!("{cells} cells a round are too many; {CELLS_MAX} are possible")),
        _ => Ok(()),
    }
}

fn made_up(body: Vec<u8>) -> Page {
    Page { path: PAGE.to_owned(), site: None, bytes: body.len() as u64, body, theirs: false }
}

fn resolve_page(page: &file::Page) -> Result<Page, String> {
    match page {
        file::Page { text: Some(text), bytes: None, site: None, path: None } => Ok(made_up(text.as_bytes().to_vec())),
        file::Page { text: None, bytes: Some(bytes), site: None, path: None } if (1..=BYTES_MAX).contains(bytes) => {
            Ok(made_up(crate::cli::BUILT_IN_PAGE.bytes().cycle().take(*bytes as usize).collect()))
        }
        file::Page { bytes: Some(bytes), .. } if !(1..=BYTES_MAX).contains(bytes) => {
            Err(format!("bytes = {bytes}: 1 to {BYTES_MAX} are possible"))
        }
        file::Page { text: None, bytes: None, site: Some(site), path } => {
            let path = path.as_deref().unwrap_or("/");
            let (site, page) = crate::cli::page_of(site, path)?;
            Ok(Page {
                path: page.path,
                site: Some(site),
                bytes: page.body.len() as u64,
                body: page.body,
                theirs: false,
            })
        }
        file::Page { text: None, bytes: None, site: None, path: Some(path) } if path.starts_with('/') => {
            Ok(Page { path: path.clone(), theirs: true, ..made_up(Vec::new()) })
        }
        _ => Err("a page is either text, or bytes, or site with a path, or a path that each server knows".to_owned()),
    }
}

fn resolve_published(entry: &file::Published, names: &BTreeSet<&str>, loads: &[Load]) -> Result<Published, String> {
    if !names.contains(entry.target.as_str()) {
        return Err(no_target(&entry.target, names));
    }
    let chosen = Chosen {
        target: entry.target.clone(),
        load: entry.load.clone(),
        connections: entry.connections,
        requests: entry.requests,
        keep_alive: None,
    };
    match chosen_loads(&chosen, loads)[..] {
        [load] => Ok(Published { target: entry.target.clone(), load, figures: entry.figures.clone() }),
        [] => Err("there is no such load".to_owned()),
        [_, _, ..] => Err("which load? say its name, or its connections or requests".to_owned()),
    }
}

/// The claim for every server that has both targets, or between the only ones of their names.
fn resolve_claim(claim: &file::Claim, targets: &[Subject], loads: &[Load]) -> Result<Vec<Claim>, String> {
    let chosen = |side: &Side| match side {
        Side::Name(target) => Chosen { target: target.clone(), ..Chosen::default() },
        Side::Where(chosen) => chosen.clone(),
    };
    let (of, than) = (chosen(&claim.of), chosen(&claim.than));
    let names: BTreeSet<&str> = targets.iter().map(|target| target.name.as_str()).collect();
    let mut sides = Vec::new();
    for side in [&of, &than] {
        if !names.contains(side.target.as_str()) {
            return Err(no_target(&side.target, &names));
        }
        let chosen = chosen_loads(side, loads);
        if chosen.is_empty() {
            return Err(format!("there is no such load for \"{}\"", side.target));
        }
        sides.push(chosen);
    }
    let servers: BTreeSet<&str> = targets.iter().map(Subject::server_name).collect();
    let pair = |server: &str| {
        let index = |name: &str| targets.iter().position(|t| t.server_name() == server && t.name == name);
        Some((index(&of.target)?, index(&than.target)?))
    };
    let mut pairs: Vec<(usize, usize)> = servers.into_iter().filter_map(pair).collect();
    if pairs.is_empty() {
        let only = |name: &str| {
            let mut named = (0..targets.len()).filter(|&index| targets[index].name == name);
            named.next().filter(|_| named.next().is_none())
        };
        // Names that stand for one target each say which of different servers are compared.
        pairs.extend(only(&of.target).zip(only(&than.target)));
    }
    if pairs.is_empty() {
        return Err(format!("no server has both \"{}\" and \"{}\"", of.target, than.target));
    }
    let claim = |(a, b)| Claim {
        says: claim.says.clone(),
        metric: claim.metric,
        of: (a, sides[0].clone()),
        than: (b, sides[1].clone()),
        is: claim.is,
        published: claim.published,
    };
    Ok(pairs.into_iter().map(claim).collect())
}

fn no_target(name: &str, names: &BTreeSet<&str>) -> String {
    let known: Vec<&str> = names.iter().copied().collect();
    format!("there is no target \"{name}\"; there are {}", known.join(", "))
}

fn chosen_loads(chosen: &Chosen, loads: &[Load]) -> Vec<usize> {
    let is = |load: &Load| {
        chosen.load.as_ref().is_none_or(|name| load.name.as_ref() == Some(name))
            && chosen.connections.is_none_or(|connections| load.connections == connections)
            && chosen.requests.is_none_or(|requests| load.work.is_requests(requests))
            && chosen.keep_alive.is_none_or(|keep_alive| load.keep_alive == keep_alive)
    };
    loads.iter().enumerate().filter(|(_, load)| is(load)).map(|(index, _)| index).collect()
}

#[cfg(test)]
mod tests;
