//! `siege`: its command line, resource file, URL files, output and exit status over Manifold's generator.
//!
//! What scripts can see is kept to the byte; what nobody can want is not: `docs/src/from-siege.md` lists it, and `e2e/tests/siege_parity`
//! tries both. The version whose behaviour this is stands in `settings.rs`.

mod answer;
mod args;
mod assets;
mod auth;
mod cache;
mod cookies;
mod help;
mod line;
mod names;
mod report;
mod request;
mod run;
mod security;
mod settings;
mod threshold;
mod urls;
mod user;
mod variables;

use std::ffi::OsString;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use jiff::Zoned;
use manifold_sys::signal::{Signal, Signals};

use crate::ab::called_by;
use crate::latencies::Latencies;
use crate::outcome::Clock;
use crate::plan::raise_descriptor_limit;
use crate::system_error::plain;
use crate::verdict::Breach;
use args::Instead;
use cookies::Jar;
use report::{Figures, Tally};
use run::{Crew, Ended};
use settings::{Kind, Settings, VERSION, notice};
use urls::{Scheme, Url};
use user::{Campaign, User};

/// Users of one thread at least, so that a handful of users does not take all processors.
const USERS_PER_THREAD: usize = 16;
/// Exit status where a condition of `--fail-on` holds, as of `manifold load` and `ab`.
const FAILED: u8 = 99;
/// Descriptors needed besides the connections.
const DESCRIPTORS_BESIDES: u64 = 128;

/// Why there is no run, or no end of it: words for standard error, and the exit status.
struct Stop {
    words: String,
    status: u8,
}

/// Runs `siege` with `args`, the program's name not among them.
pub fn main(args: impl Iterator<Item = OsString>) -> ExitCode {
    match prepare(args) {
        Ok(campaign) => match besiege(&campaign) {
            Ok(breaches) if breaches.is_empty() => ExitCode::SUCCESS,
            Ok(breaches) => {
                breaches.iter().for_each(|breach| tell(&notice(Kind::Error, &format!("failed on {breach}"))));
                ExitCode::from(FAILED)
            }
            Err(error) => {
                tell(&notice(Kind::Fatal, &error.to_string()));
                ExitCode::FAILURE
            }
        },
        Err(stop) => {
            tell(&stop.words);
            ExitCode::from(stop.status)
        }
    }
}

/// Everything before the first connection. `Err` ends the program, well or badly.
fn prepare(args: impl Iterator<Item = OsString>) -> Result<Campaign, Stop> {
    let given = args::collect(args);
    given.complaints.iter().for_each(|complaint| tell(&format!("{}: {complaint}\n", called_by("siege"))));
    let refused = |sentence: String| Stop { words: notice(Kind::Fatal, &sentence), status: 1 };
    let mut settings = read_settings(given.resource.as_deref())?;
    let instead = given.apply(&mut settings).map_err(refused)?;
    if let Some(conflict) = settings.settle() {
        tell(&conflict);
    }
    match instead {
        Some(Instead::Version) => {
            return Err(Stop { words: format!("SIEGE {}\n\n{}\n", version(), help::WHOSE), status: 0 });
        }
        Some(Instead::Help) => return Err(usage()),
        Some(Instead::Configuration) => return Err(shown(&settings.table())),
        None if settings.get && settings.url.is_none() => {
            let mut stop = shown("ERROR: -g/--get requires a commandline URL\n");
            stop.status = 1;
            return Err(stop);
        }
        None => {}
    }
    if settings.concurrent > settings.limit {
        say(&capped(settings.limit));
        settings.concurrent = settings.limit;
    }
    let urls = read_urls(&settings)?;
    let login = |text: &String| parse(text, &settings);
    let logins = settings.login_urls.iter().map(login).collect();
    let security = security::prepare(&settings);
    Ok(Campaign { urls, logins, security, settings, failed: AtomicU64::new(0) })
}

/// The resource file: `-R`, `SIEGERC`, or the user's own; where there is none, what siege would write into it.
fn read_settings(named: Option<&str>) -> Result<Settings, Stop> {
    let environment = |name: &str| std::env::var(name).ok();
    let home = environment("HOME").unwrap_or_default();
    let own = [format!("{home}/.siegerc"), own_file(&home)];
    let exists = |path: &&String| Path::new(path).exists();
    let found =
        named.map(str::to_owned).or_else(|| environment("SIEGERC")).or_else(|| own.iter().find(exists).cloned());
    let Some(path) = found else { return Ok(Settings::of_new_user(&own[1])) };
    let mut settings = Settings { resource: path.clone(), ..Settings::of_code() };
    let text = match std::fs::read(&path) {
        Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(_) => {
            let stars = "*".repeat(50);
            let words = format!(
                "{stars}\nsiege: could not open {path}\nrun 'siege.config' to generate a new config file\n{stars}\n"
            );
            return Err(Stop { words, status: 1 });
        }
    };
    settings.read(&text, &environment).map_err(|sentence| Stop { words: notice(Kind::Fatal, &sentence), status: 1 })?;
    Ok(settings)
}

/// A user's resource file.
fn own_file(home: &str) -> String {
    format!("{home}/.siege/siege.conf")
}

/// The URL of the command line, or those of the file.
fn read_urls(settings: &Settings) -> Result<Vec<Url>, Stop> {
    let lines = match &settings.url {
        Some(url) => vec![url.clone()],
        None => match std::fs::read(&settings.file) {
            Ok(bytes) => urls::lines_of(&String::from_utf8_lossy(&bytes), &|name| std::env::var(name).ok()),
            Err(error) => {
                let sentence = format!("unable to open file: {}: {}", settings.file, plain(&error));
                tell(&notice(Kind::Alert, &sentence));
                return Err(usage());
            }
        },
    };
    let mut list: Vec<Url> = lines.iter().map(|line| parse(line, settings)).collect();
    if let Some(url) = list.iter().find(|url| url.scheme == Scheme::Ftp) {
        return Err(Stop { words: notice(Kind::Fatal, &format!("{}: {}", url.absolute, run::NO_FTP)), status: 1 });
    }
    for (id, url) in list.iter_mut().enumerate() {
        url.id = id;
        if settings.get && settings.get_sends_get == Some(false) && url.method == "GET" {
            url.method = "HEAD";
        }
    }
    if list.is_empty() { Err(usage()) } else { Ok(list) }
}

fn parse(text: &str, settings: &Settings) -> Url {
    Url::parse(text, settings.escape, &|path| std::fs::read(path), &mut |sentence| {
        tell(&notice(Kind::Error, &sentence));
    })
}

/// Makes the run and reports it. What comes back are the conditions of `--fail-on` that hold.
fn besiege(campaign: &Campaign) -> io::Result<Vec<Breach>> {
    let settings = &campaign.settings;
    if !settings.get && !settings.quiet {
        let whose = if settings.debug { format!(": debugging enabled\n\n{}", help::WHOSE) } else { String::new() };
        let newline = if settings.verbose { "\n" } else { "" };
        let users = settings.concurrent;
        tell(&format!(
            "** SIEGE {}{whose}\n** Preparing {users} concurrent users for battle.\nThe server is now under siege...{newline}",
            version()
        ));
    }
    let started = Instant::now();
    let Run { users, ended, times } = run_threads(campaign, Clock::since(started))?;
    let elapsed = crate::outcome::nanoseconds(started.elapsed());
    if ended != Ended::Done && !settings.quiet {
        tell("\nLifting the server siege...");
    }
    let mut tally = Tally::default();
    users.iter().for_each(|user| tally.add(&user.tally));
    let figures = Figures { tally, failed: campaign.failed.load(Ordering::Relaxed), elapsed };
    report(campaign, &figures)?;
    keep_cookies(&users);
    Ok(threshold::breaches(&settings.fail_on, &figures, &times))
}

/// What a run, or a thread's part of it, leaves.
struct Run {
    users: Vec<User>,
    ended: Ended,
    /// How long answers took.
    times: Latencies,
}

/// Shares the users out to threads and waits for them.
fn run_threads(campaign: &Campaign, clock: Clock) -> io::Result<Run> {
    let settings = &campaign.settings;
    let count = usize::try_from(settings.concurrent).unwrap_or(1);
    // Without the descriptors, connecting fails and says so.
    let _told_by_the_run = raise_descriptor_limit(count as u64 + DESCRIPTORS_BESIDES);
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = processors.min(count.div_ceil(USERS_PER_THREAD));
    let now = u64::try_from(Zoned::now().timestamp().as_second()).unwrap_or(0);
    let mut jars = cookies_file()
        .and_then(|path| std::fs::read_to_string(path).ok())
        .map(|text| cookies::read_file(&text, now))
        .unwrap_or_default()
        .into_iter();
    let seed = Zoned::now().timestamp().as_nanosecond() as u64;
    let mut shares: Vec<Vec<User>> = (0..threads).map(|_| Vec::new()).collect();
    for id in 0..count {
        let jar = if settings.cookies { jars.next().unwrap_or_default() } else { Jar::default() };
        shares[id % threads].push(User::new(id, count, campaign, jar, seed));
    }
    let interrupt = Signals::collect(&[Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP])?;
    let names = names::Names::default();
    let end = u64::try_from(settings.seconds)
        .ok()
        .filter(|seconds| *seconds > 0)
        .map(|seconds| seconds.saturating_mul(1_000_000_000));
    let work = |share: Vec<User>| -> io::Result<Run> {
        let mut crew = Crew::new(campaign, &names, clock, share, interrupt.as_fd())?;
        let ended = crew.run(end)?;
        let (users, times) = crew.into_parts();
        Ok(Run { users, ended, times })
    };
    let results: Vec<io::Result<Run>> = std::thread::scope(|scope| {
        let work = &work;
        let handles: Vec<_> = shares.into_iter().map(|share| scope.spawn(move || work(share))).collect();
        handles
            .into_iter()
            .map(|handle| handle.join().unwrap_or_else(|_| Err(io::Error::other("a thread has panicked"))))
            .collect()
    });
    let mut run = Run { users: Vec::with_capacity(count), ended: Ended::Done, times: Latencies::default() };
    for result in results {
        let share = result?;
        run.users.extend(share.users);
        run.times.merge(&share.times);
        run.ended = if share.ended == Ended::Done { run.ended } else { share.ended };
    }
    run.users.sort_by_key(|user| user.id);
    Ok(run)
}

fn report(campaign: &Campaign, figures: &Figures) -> io::Result<()> {
    let settings = &campaign.settings;
    let aborted = campaign.is_hopeless();
    if !settings.quiet {
        if aborted {
            tell(
                "siege aborted due to excessive socket failure; you\ncan change the failure threshold in $HOME/.siegerc\n",
            );
        }
        tell(&report::summary(figures, settings));
    }
    if settings.json {
        tell("\n");
        io::stdout().write_all(report::json(figures, settings).as_bytes())?;
    }
    if settings.logging {
        if settings.show_log_file && !settings.quiet {
            say(&format!(
                "LOG FILE: {}\nYou can disable this log file notification by editing\n{} and changing 'show-logfile' to false.\n",
                settings.log_file,
                own_file(&std::env::var("HOME").unwrap_or_default())
            ));
        }
        if let Err(error) = write_log(Path::new(&settings.log_file), figures, settings, aborted) {
            let sentence = format!("unable to create log file: {}: {}", settings.log_file, plain(&error));
            tell(&notice(Kind::Error, &sentence));
        }
    }
    Ok(())
}

fn write_log(path: &Path, figures: &Figures, settings: &Settings, aborted: bool) -> io::Result<()> {
    let mut file = std::fs::OpenOptions::new().append(true).create(true).open(path)?;
    let empty = file.metadata()?.len() == 0;
    file.write_all(report::log(figures, settings, aborted, empty, &Zoned::now()).as_bytes())
}

/// Where cookies outlast a run, if the user has siege's folder.
fn cookies_file() -> Option<PathBuf> {
    let folder = PathBuf::from(std::env::var_os("HOME")?).join(".siege");
    folder.is_dir().then(|| folder.join("cookies.txt"))
}

fn keep_cookies(users: &[User]) {
    let text = cookies::file_of(users.iter().map(|user| (user.id, &user.jar)));
    if let Some(path) = cookies_file()
        && let Err(error) = std::fs::write(&path, text)
    {
        tell(&notice(Kind::Error, &format!("unable to write {}: {error}", path.display())));
    }
}

/// siege's version, and ours.
fn version() -> String {
    format!("{VERSION} (Manifold {})", env!("CARGO_PKG_VERSION"))
}

/// The help, with which siege also answers what it cannot understand.
fn usage() -> Stop {
    say(help::HELP);
    Stop { words: format!("SIEGE {}\n", version()), status: 0 }
}

/// Shows this and ends.
fn shown(text: &str) -> Stop {
    say(text);
    Stop { words: String::new(), status: 0 }
}

fn capped(limit: i64) -> String {
    let bar = "=".repeat(64);
    let gap = if limit > 999 { " " } else { "  " };
    format!(
        "\n{bar}\nWARNING: The number of users is capped at {limit}.{gap}To increase this\n         limit, search your .siegerc file for 'limit' and change\n         its value. Make sure you read the instructions there...\n{bar}\n"
    )
}

/// Writes to standard output, which nobody may be reading.
fn say(text: &str) {
    let _nobody_reads = io::stdout().write_all(text.as_bytes());
}

/// Writes to standard error, which nobody may be reading.
fn tell(text: &str) {
    let _nobody_reads = io::stderr().write_all(text.as_bytes());
}
