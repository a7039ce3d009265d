//! `manifold load` at a terminal: a live view while it runs, and afterwards the terminal as it was and the report whole, whatever ended it.

#![allow(clippy::unwrap_used, reason = "a test ends at its first surprise")]

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::OwnedFd;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use e2e::{Scratch, binary, until};
use nix::pty::{Winsize, openpty};
use nix::sys::signal::{Signal, kill};
use nix::sys::termios::{Termios, tcgetattr};
use nix::unistd::Pid;
use serde_json::Value;

/// What a view begins and ends with: the other screen, and back.
const ENTER: &str = "\x1b[?1049h";
const LEAVE: &str = "\x1b[?1049l";

/// A target that answers at once.
struct Target {
    child: Child,
    url: String,
}

impl Target {
    fn start() -> Target {
        let mut command = binary::command(["load", "--target-server"]);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let url = line.split(' ').find(|word| word.starts_with("http://")).expect(&line).to_owned();
        Target { child, url }
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        let _gone = self.child.kill();
        let _gone = self.child.wait();
    }
}

/// A program on a terminal of its own.
struct OnTerminal {
    child: Child,
    keyboard: File,
    terminal: OwnedFd,
    before: Termios,
    /// All that came out of the terminal so far.
    shown: Arc<Mutex<Vec<u8>>>,
    reader: JoinHandle<()>,
}

impl OnTerminal {
    /// Starts a program on a terminal of so many columns and rows; `out`: where its standard output goes instead.
    fn start(program: &[&str], (columns, rows): (u16, u16), out: Option<File>) -> OnTerminal {
        let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        let pair = openpty(&size, None).unwrap();
        let before = tcgetattr(&pair.slave).unwrap();
        let side = || Stdio::from(pair.slave.try_clone().unwrap());
        // The terminal becomes that of the new session, whose first process the program is.
        let mut command = Command::new("setsid");
        command.arg("--ctty").args(program).env("TERM", "xterm");
        command.stdin(side()).stderr(side()).stdout(out.map_or_else(side, Stdio::from));
        let child = command.spawn().unwrap();
        let shown = Arc::new(Mutex::new(Vec::new()));
        let (mut screen, keep) = (File::from(pair.master.try_clone().unwrap()), shown.clone());
        let reader = std::thread::Builder::new().spawn(move || {
            let mut bytes = [0; 4096];
            // The terminal's other side is closed: that is an error here.
            while let Ok(read @ 1..) = screen.read(&mut bytes) {
                keep.lock().unwrap().extend_from_slice(&bytes[..read]);
            }
        });
        let reader = reader.unwrap();
        OnTerminal { child, keyboard: File::from(pair.master), terminal: pair.slave, before, shown, reader }
    }

    fn shown(&self) -> String {
        String::from_utf8_lossy(&self.shown.lock().unwrap()).into_owned()
    }

    fn wait_for(&self, text: &str) {
        let seen = until(text, || self.shown().contains(text).then_some(()));
        assert!(seen.is_ok(), "no {text:?} in {:?}", self.shown());
    }

    fn press(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).unwrap();
    }

    fn send(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id().cast_signed()), signal).unwrap();
    }

    /// Waits for the end; how it ended and what came out. Fails if the terminal is not as it was.
    #[track_caller]
    fn end(mut self) -> (ExitStatus, String) {
        let ended = until("the end of the program", || self.child.try_wait().unwrap());
        let _gone = self.child.kill();
        let status = ended.unwrap();
        let after = tcgetattr(&self.terminal).unwrap();
        drop(self.terminal);
        self.reader.join().unwrap();
        let shown = String::from_utf8_lossy(&self.shown.lock().unwrap()).into_owned();
        let modes = |of: &Termios| (of.input_flags, of.output_flags, of.local_flags, of.control_chars);
        assert_eq!(modes(&after), modes(&self.before), "the terminal's modes: {shown:?}");
        let count = |what: &str| shown.matches(what).count();
        assert_eq!(count(ENTER), count(LEAVE), "{shown:?}");
        if let Some((_, rest)) = shown.rsplit_once(ENTER) {
            let rest = rest.split_once(LEAVE).unwrap().1;
            assert!(rest.starts_with("\x1b[?25h"), "the cursor is not back: {rest:?}");
        }
        (status, shown)
    }
}

/// `manifold load` with these words.
fn program<'w>(url: &'w str, line: &'w str) -> Vec<&'w str> {
    let path = binary::manifold().to_str().unwrap();
    [path, "load", url].into_iter().chain(line.split_whitespace()).collect()
}

#[test]
fn whatever_ends_it_the_terminal_is_as_it_was_and_the_report_whole() {
    let (target, scratch) = (Target::start(), Scratch::new().unwrap());
    type End = fn(&mut OnTerminal);
    let ends: [(&str, End); 4] = [
        ("q", |run| run.press("q")),
        ("^C", |run| run.press("\x03")),
        ("SIGINT", |run| run.send(Signal::SIGINT)),
        ("SIGTERM", |run| run.send(Signal::SIGTERM)),
    ];
    for (name, end) in ends {
        for size in [(80, 24), (40, 10), (3, 2)] {
            let path = scratch.path("report.json");
            let line = "-k -c 5 -t 60 --json --threads 2";
            let mut run = OnTerminal::start(&program(&target.url, line), size, Some(File::create(&path).unwrap()));
            run.wait_for(ENTER);
            if size.0 == 80 {
                // A whole second has come, and its longest p99.
                run.wait_for("up to ");
            }
            end(&mut run);
            let (status, shown) = run.end();
            assert_eq!(status.code(), Some(3), "{name} {size:?}: {shown:?}");
            let report: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
            assert!(report["flags"].as_array().unwrap().contains(&Value::from("interrupted")), "{name}: {report}");
            // Others may have ended before anything was answered.
            assert!(size.0 < 80 || report["completed"].as_u64().unwrap() > 0, "{name}: {report}");
        }
    }
}

#[test]
fn a_run_that_ends_by_itself_leaves_its_report_on_the_terminal() {
    let target = Target::start();
    let run = OnTerminal::start(&program(&target.url, "-k -c 5 -t 1.5"), (80, 24), None);
    let (status, shown) = run.end();
    // On a quiet machine the generator is saturated, and says so.
    assert!(matches!(status.code(), Some(0 | 3)), "{shown:?}");
    let report = shown.rsplit_once(LEAVE).expect(&shown).1;
    for part in ["5 connections, kept alive, 1 thread\r\n", "\r\nRequests  ", "\r\nLatency  ", "\r\nGenerator  "] {
        assert!(report.contains(part), "no {part:?} in {report:?}");
    }
}

/// Shells take a job that was stopped from the terminal and give it back later.
#[test]
fn a_suspended_run_gives_the_terminal_away_and_takes_it_back() {
    let target = Target::start();
    let load = program(&target.url, "-k -c 5 -t 60").join(" ");
    let script = format!("{load}; echo stopped with $?; stty -a; fg > /dev/null; echo ended with $?");
    let mut run = OnTerminal::start(&["bash", "-mc", &script], (80, 24), None);
    run.wait_for("^Z");
    run.press("\x1a");
    run.wait_for("stopped with 148");
    until("a second view", || (run.shown().matches(ENTER).count() == 2).then_some(())).unwrap();
    run.press("q");
    let (_, shown) = run.end();
    let between = shown.split(LEAVE).nth(1).unwrap();
    assert!(between.contains(" icanon ") && between.contains(" echo "), "{between:?}");
    assert!(shown.contains("ended with 3") && shown.contains("Requests  "), "{shown:?}");
}

/// Setting the terminal would stop a job in the background.
#[test]
fn where_there_is_no_view_a_line_says_how_it_stands() {
    let target = Target::start();
    let load = program(&target.url, "-k -c 5 -t 1.5 --progress 0.4").join(" ");
    let background = format!("{load} & wait $!; echo ended with $?");
    for (what, words, size) in [
        ("asked for", vec!["bash", "-c", &format!("{load} --no-view; echo ended with $?")], (80, 24)),
        ("a job in the background", vec!["bash", "-mc", &background], (80, 24)),
        ("a terminal without a size", vec!["bash", "-c", &format!("{load}; echo ended with $?")], (0, 0)),
        ("no real terminal", vec!["bash", "-c", &format!("TERM=dumb {load}; echo ended with $?")], (80, 24)),
    ] {
        let (_, shown) = OnTerminal::start(&words, size, None).end();
        assert!(!shown.contains('\x1b'), "{what}: {shown:?}");
        assert!(shown.contains("%, running for ") && shown.contains(" s left; "), "{what}: {shown:?}");
        // On a quiet machine the generator is saturated, which its report and its exit status say.
        let ended = ["ended with 0", "ended with 3"].iter().any(|ended| shown.contains(ended));
        assert!(shown.contains("no errors\r\n") && ended, "{what}: {shown:?}");
    }
    let lines = |line: &str| {
        let words = line.split_whitespace();
        let output = binary::command(["load", &target.url, "-k", "-c", "5", "-t", "1"]).args(words).output().unwrap();
        assert!(matches!(output.status.code(), Some(0 | 3)), "{output:?}");
        String::from_utf8(output.stderr).unwrap().lines().count()
    };
    assert_eq!((lines(""), lines("--progress 0")), (0, 0), "a short run has none");
    assert!(lines("--progress 300ms") > 0);
}
