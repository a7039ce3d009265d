//! Where runs are kept: one SQLite file for each user, so that a run can be found, compared and gone on with long after its terminal is
//! closed.
//!
//! Each cell is written as soon as it is measured, in a transaction of its own: a laboratory that is killed loses the cell it was at and
//! nothing else. Several laboratories may write at once (write-ahead log, and waiting for one another). [`kinds`] says how each kind of run is
//! told again, [`commands`] is `lab list`, `show`, `diff`, `export` and `delete`, [`diff`] compares two runs.

pub mod commands;
pub mod diff;
pub mod kinds;
mod live;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rusqlite::{Connection, ErrorCode, OpenFlags, OptionalExtension, Row, params};

use crate::proc;

pub use kinds::{Stored, report_again};
pub use live::{Begun, Live};

/// Names another file; `none` keeps nothing.
pub const VARIABLE: &str = "MANIFOLD_LAB_STORE";
/// What a store becomes, version by version.
const MIGRATIONS: [&str; 2] = [include_str!("schema-1.sql"), include_str!("schema-2.sql")];
/// One laboratory waits so long for another's transaction.
const BUSY_WITHIN: Duration = Duration::from_secs(20);
/// Between two attempts that SQLite does not wait for itself.
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// The runs of a user.
#[derive(Debug)]
pub struct Store {
    db: Connection,
}

/// A run that begins.
#[derive(Clone, Debug)]
pub struct NewRun<'a> {
    /// Which program understands its document.
    pub kind: &'a str,
    /// The experiment.
    pub name: &'a str,
    /// What repeats it.
    pub command: &'a str,
    /// UTC, as `2026-11-21 09:30:00`.
    pub started: &'a str,
    /// Where its report will be.
    pub folder: &'a Path,
    /// What is needed to go on.
    pub plan: Option<&'a str>,
}

/// How a run ended.
#[derive(Clone, Debug)]
pub struct Outcome<'a> {
    /// Why it ended before its plan did.
    pub ended_early: Option<&'a str>,
    /// Seconds, all attempts together.
    pub took_s: f64,
    /// One sentence of the answer.
    pub headline: &'a str,
    /// All that was found.
    pub document: &'a str,
    /// What it is compared by.
    pub values: &'a [Value],
}

/// Which cell of a run.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Key {
    /// The experiment within the run.
    pub part: String,
    /// From 0.
    pub round: u32,
    /// The target's label.
    pub target: String,
    /// The load's label.
    pub load: String,
}

impl Key {
    /// The cell of this round, target and load, by their labels; `part` is the experiment within the run.
    pub fn new(part: &str, round: u32, target: &str, load: &str) -> Key {
        Key { part: part.to_owned(), round, target: target.to_owned(), load: load.to_owned() }
    }
}

/// One figure of one round.
#[derive(Clone, Debug, PartialEq)]
pub struct Value {
    /// Which cell.
    pub key: Key,
    /// The figure's name.
    pub metric: String,
    /// The figure.
    pub value: f64,
}

/// What became of a run.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum State {
    /// A process measures it.
    Running,
    /// Its process is gone without a word: it was killed, or the machine went down.
    Interrupted,
    /// It ended before its plan did.
    EndedEarly(String),
    /// All of its plan is measured.
    Complete,
}

impl State {
    /// For a style sheet.
    pub fn class(&self) -> &'static str {
        match self {
            State::Running => "running",
            State::Interrupted | State::EndedEarly(_) => "early",
            State::Complete => "complete",
        }
    }

    /// For a table.
    pub fn text(&self) -> &'static str {
        match self {
            State::Running => "running",
            State::Interrupted => "interrupted",
            State::EndedEarly(_) => "ended early",
            State::Complete => "complete",
        }
    }
}

/// A run that is kept.
#[derive(Clone, Debug)]
pub struct Run {
    /// Its number.
    pub id: i64,
    /// Which program understands its document.
    pub kind: String,
    /// The experiment.
    pub name: String,
    /// What repeats it.
    pub command: String,
    /// UTC.
    pub started: String,
    /// What became of it.
    pub state: State,
    /// Seconds.
    pub took_s: f64,
    /// Where its report is.
    pub folder: PathBuf,
    /// One sentence of the answer.
    pub headline: String,
    /// What is needed to go on.
    pub plan: Option<String>,
    /// All that was found.
    pub document: Option<String>,
    /// Cells measured one by one.
    pub cells: u64,
    /// Cells of the part that is measured now, and those of them that are done.
    pub total: u64,
    /// See `total`.
    pub done: u64,
    /// What is measured now, in words.
    pub doing: String,
}

const RUN: &str = "SELECT id, kind, name, command, started, state, reason, took_s, folder, owner, headline, plan, document, \
                   (SELECT count(*) FROM cell WHERE cell.run = run.id), total, done, doing FROM run";

impl Store {
    /// The user's store, made if it is not there; `None` where nothing is to be kept.
    ///
    /// # Errors
    /// If it cannot be opened, or was written by a newer version; with the way out.
    pub fn of_user() -> Result<Option<Store>> {
        match file_of_user()? {
            Some(file) => Store::open(&file).map(Some),
            None => Ok(None),
        }
    }

    /// The store in this file, which must be there and of this version, for reading alone.
    ///
    /// # Errors
    /// If it is not there, cannot be read, or is of another version.
    pub fn read(file: &Path) -> Result<Store> {
        let which = || format!("the store of runs, {}", file.display());
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let store = Store { db: Connection::open_with_flags(file, flags).with_context(which)? };
        store.db.busy_timeout(BUSY_WITHIN)?;
        let version: u32 = store.db.pragma_query_value(None, "user_version", |row| row.get(0)).with_context(which)?;
        if version as usize != MIGRATIONS.len() {
            bail!("{} is of version {version}, and this program reads {}", which(), MIGRATIONS.len());
        }
        Ok(store)
    }

    /// The store in this file, made if it is not there.
    ///
    /// # Errors
    /// As [`of_user`](Self::of_user).
    pub fn open(file: &Path) -> Result<Store> {
        let way_out = || format!("the store of runs, {}; {VARIABLE} names another file", file.display());
        if let Some(folder) = file.parent() {
            fs::create_dir_all(folder).with_context(way_out)?;
        }
        let mut store = Store { db: Connection::open(file).with_context(way_out)? };
        store.prepare().with_context(way_out)?;
        Ok(store)
    }

    fn prepare(&mut self) -> Result<()> {
        self.db.busy_timeout(BUSY_WITHIN)?;
        self.write_ahead()?;
        self.db.pragma_update(None, "foreign_keys", true)?;
        // One at a time: whoever comes second finds it done.
        let transaction = self.db.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
        let version: u32 = transaction.pragma_query_value(None, "user_version", |row| row.get(0))?;
        if version as usize > MIGRATIONS.len() {
            bail!("it is of version {version}, and this program knows {}: use a newer one", MIGRATIONS.len());
        }
        for (version, migration) in (1u32..).zip(MIGRATIONS).skip(version as usize) {
            transaction.execute_batch(migration)?;
            transaction.pragma_update(None, "user_version", version)?;
        }
        Ok(transaction.commit()?)
    }

    /// Turns the write-ahead log on. While others do the same for a new file SQLite refuses at once, whatever time it was given to wait.
    fn write_ahead(&self) -> Result<()> {
        let began = Instant::now();
        loop {
            match self.db.pragma_update(None, "journal_mode", "wal") {
                Err(error)
                    if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy) && began.elapsed() < BUSY_WITHIN =>
                {
                    std::thread::sleep(LOOK_AGAIN);
                }
                done => return Ok(done?),
            }
        }
    }

    /// Notes that a run begins; returns its number.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn begin(&self, new: &NewRun<'_>) -> Result<i64> {
        let NewRun { kind, name, command, started, folder, plan } = new;
        self.db.execute(
            "INSERT INTO run (kind, name, command, started, state, folder, owner, plan) VALUES (?, ?, ?, ?, 'running', ?, ?, ?)",
            params![kind, name, command, started, folder.to_string_lossy(), this_process(), plan],
        )?;
        Ok(self.db.last_insert_rowid())
    }

    /// Notes that this process goes on with a run.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn take_up(&self, run: i64) -> Result<()> {
        let changed = "UPDATE run SET state = 'running', reason = NULL, owner = ? WHERE id = ?";
        self.db.execute(changed, params![this_process(), run])?;
        Ok(())
    }

    /// Keeps a cell that was measured, and how long the run has taken by then.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn cell(&mut self, run: i64, key: &Key, data: &str, took_s: f64) -> Result<()> {
        let transaction = self.db.transaction()?;
        let Key { part, round, target, load } = key;
        transaction.execute(
            "INSERT OR REPLACE INTO cell (run, part, round, target, load, data) VALUES (?, ?, ?, ?, ?, ?)",
            params![run, part, round, target, load, data],
        )?;
        transaction.execute("UPDATE run SET took_s = ? WHERE id = ?", params![took_s, run])?;
        Ok(transaction.commit()?)
    }

    /// Notes where a run is.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn tell(&mut self, run: i64, done: usize, total: usize, doing: &str) -> Result<()> {
        let told = "UPDATE run SET done = ?, total = ?, doing = ? WHERE id = ?";
        self.db.execute(told, params![done as i64, total as i64, doing, run])?;
        Ok(())
    }

    /// Keeps figures of a run that goes on.
    ///
    /// # Errors
    /// If they cannot be written.
    pub fn add_values(&mut self, run: i64, values: &[Value]) -> Result<()> {
        let transaction = self.db.transaction()?;
        insert(&transaction, run, values)?;
        Ok(transaction.commit()?)
    }

    /// Keeps how a run ended.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn end(&mut self, run: i64, outcome: &Outcome<'_>) -> Result<()> {
        let Outcome { ended_early, took_s, headline, document, values } = outcome;
        let state = if ended_early.is_some() { "ended-early" } else { "complete" };
        let transaction = self.db.transaction()?;
        transaction.execute(
            "UPDATE run SET state = ?, reason = ?, took_s = ?, headline = ?, document = ? WHERE id = ?",
            params![state, ended_early, took_s, headline, document, run],
        )?;
        transaction.execute("DELETE FROM value WHERE run = ?", params![run])?;
        insert(&transaction, run, values)?;
        Ok(transaction.commit()?)
    }

    /// All runs, the oldest first, without their documents.
    ///
    /// # Errors
    /// If they cannot be read.
    pub fn runs(&self) -> Result<Vec<Run>> {
        let mut query = self.db.prepare(&format!("{RUN} ORDER BY id").replace("document,", "NULL,"))?;
        let runs = query.query_map([], run_of)?;
        Ok(runs.collect::<rusqlite::Result<_>>()?)
    }

    /// The run of this number, if there is one.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn find(&self, run: i64) -> Result<Option<Run>> {
        Ok(self.db.prepare(&format!("{RUN} WHERE id = ?"))?.query_row(params![run], run_of).optional()?)
    }

    /// One run: a number, or `last`.
    ///
    /// # Errors
    /// If there is none, with the way out.
    pub fn run(&self, which: &str) -> Result<Run> {
        let order = if which == "last" { "ORDER BY id DESC LIMIT 1" } else { "WHERE id = ?" };
        let mut query = self.db.prepare(&format!("{RUN} {order}"))?;
        let found = match which {
            "last" => query.query_row([], run_of).optional()?,
            number => {
                let number: i64 =
                    number.parse().with_context(|| format!("{number}: a run's number is needed, or last"))?;
                query.query_row(params![number], run_of).optional()?
            }
        };
        found.with_context(|| format!("there is no run {which}; `manifold lab list` shows them"))
    }

    /// The cells of a run.
    ///
    /// # Errors
    /// If they cannot be read.
    pub fn cells(&self, run: i64) -> Result<Vec<(Key, String)>> {
        let mut query = self.db.prepare("SELECT part, round, target, load, data FROM cell WHERE run = ?")?;
        let cells = query.query_map(params![run], |row| {
            let key = Key { part: row.get(0)?, round: row.get(1)?, target: row.get(2)?, load: row.get(3)? };
            Ok((key, row.get(4)?))
        })?;
        Ok(cells.collect::<rusqlite::Result<_>>()?)
    }

    /// What a run is compared by.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn values(&self, run: i64) -> Result<Vec<Value>> {
        let mut query = self.db.prepare("SELECT part, round, target, load, metric, value FROM value WHERE run = ?")?;
        let values = query.query_map(params![run], |row| {
            let key = Key { part: row.get(0)?, round: row.get(1)?, target: row.get(2)?, load: row.get(3)? };
            Ok(Value { key, metric: row.get(4)?, value: row.get(5)? })
        })?;
        Ok(values.collect::<rusqlite::Result<_>>()?)
    }

    /// Forgets a run.
    ///
    /// # Errors
    /// If it is being measured, or cannot be deleted.
    pub fn delete(&self, run: &Run) -> Result<()> {
        if run.state == State::Running {
            bail!("run {} is being measured; end it first (Ctrl-C where it runs)", run.id);
        }
        self.db.execute("DELETE FROM run WHERE id = ?", params![run.id])?;
        Ok(())
    }
}

fn insert(db: &Connection, run: i64, values: &[Value]) -> Result<()> {
    let mut insert = db.prepare(
        "INSERT OR REPLACE INTO value (run, part, target, load, metric, round, value) VALUES (?, ?, ?, ?, ?, ?, ?)",
    )?;
    for Value { key: Key { part, round, target, load }, metric, value } in values {
        insert.execute(params![run, part, target, load, metric, round, value])?;
    }
    Ok(())
}

fn run_of(row: &Row<'_>) -> rusqlite::Result<Run> {
    let (state, reason, owner): (String, Option<String>, String) = (row.get(5)?, row.get(6)?, row.get(9)?);
    let state = match state.as_str() {
        "running" if is_alive(&owner) => State::Running,
        "running" => State::Interrupted,
        "ended-early" => State::EndedEarly(reason.unwrap_or_default()),
        _ => State::Complete,
    };
    Ok(Run {
        id: row.get(0)?,
        kind: row.get(1)?,
        name: row.get(2)?,
        command: row.get(3)?,
        started: row.get(4)?,
        state,
        took_s: row.get(7)?,
        folder: PathBuf::from(row.get::<_, String>(8)?),
        headline: row.get(10)?,
        plan: row.get(11)?,
        document: row.get(12)?,
        cells: row.get::<_, i64>(13)?.max(0) as u64,
        total: row.get::<_, i64>(14)?.max(0) as u64,
        done: row.get::<_, i64>(15)?.max(0) as u64,
        doing: row.get(16)?,
    })
}

/// Where the user's store is; `None` where nothing is to be kept.
///
/// # Errors
/// If the environment does not tell.
pub fn file_of_user() -> Result<Option<PathBuf>> {
    place(|name| std::env::var_os(name).map(PathBuf::from))
}

/// Where the store is, by the environment; `None` where nothing is to be kept.
fn place(variable: impl Fn(&str) -> Option<PathBuf>) -> Result<Option<PathBuf>> {
    let given = |name: &str| variable(name).filter(|path| !path.as_os_str().is_empty());
    match given(VARIABLE) {
        Some(file) if file.as_os_str() == "none" => return Ok(None),
        Some(file) => return Ok(Some(file)),
        None => {}
    }
    let data = given("XDG_DATA_HOME").or_else(|| given("HOME").map(|home| home.join(".local/share")));
    let data =
        data.with_context(|| format!("neither HOME nor XDG_DATA_HOME is set; {VARIABLE} names a file for the runs"))?;
    Ok(Some(data.join("manifold").join("lab.sqlite")))
}

/// This process as nobody else will ever be.
fn this_process() -> String {
    let pid = std::process::id();
    format!("{} {pid} {}", boot(), start_time(pid).unwrap_or_default())
}

/// Whether the process that was called so by [`this_process`] is there.
fn is_alive(owner: &str) -> bool {
    let mut words = owner.split(' ');
    let (of_boot, pid, started) = (
        words.next(),
        words.next().and_then(|pid| pid.parse().ok()),
        words.next().and_then(|ticks| ticks.parse().ok()),
    );
    of_boot == Some(boot().as_str())
        && pid.is_some_and(|pid: u32| start_time(pid).is_some_and(|began| started == Some(began)))
}

fn boot() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").map_or_else(|_| "?".to_owned(), |id| id.trim().to_owned())
}

/// When a process began, in ticks since boot.
fn start_time(pid: u32) -> Option<u64> {
    proc::stat(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?).map(|stat| stat.started)
}

#[cfg(test)]
mod tests;
