//! `manifold load --target-server` under real clients: each gets the page every time, and the responder ends when asked.

#![allow(clippy::unwrap_used, reason = "a test ends at its first surprise")]

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use e2e::tool::{Load, Tool, stdout};
use e2e::{alone, binary, until};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

const REQUESTS: u64 = 10_000;

/// A running responder; killed if the test fails before it has ended it.
struct Responder {
    child: Child,
    url: String,
}

impl Responder {
    fn start(options: &[&str]) -> Responder {
        let mut command = binary::command(["load", "--target-server"]);
        let mut child = command.args(options).stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let url = line.split(' ').find(|word| word.starts_with("http://")).expect(&line).to_owned();
        Responder { child, url }
    }

    fn end(mut self, signal: Signal) {
        kill(Pid::from_raw(self.child.id() as i32), signal).unwrap();
        let status = until("the responder's end", || self.child.try_wait().unwrap()).unwrap();
        assert!(status.success(), "{status} on {signal}");
    }
}

impl Drop for Responder {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn load_tools_see_no_failure() {
    let _alone = alone();
    for (body, options) in [(44, &[][..]), (139_264, &["--body", "139264", "--sendfile"])] {
        let responder = Responder::start(options);
        let requests = if body > 1000 { REQUESTS / 20 } else { REQUESTS };
        for tool in [Tool::Ab, Tool::Wrk, Tool::H2load] {
            for keep_alive in [true, false] {
                let setting = format!("{tool:?}, {body} bytes, keep-alive {keep_alive}");
                let load = Load { requests, connections: 50, keep_alive };
                let tally = tool.run_at(&responder.url, load).expect(&setting);
                assert_eq!(tally.failed, 0, "{setting}: {tally:?}");
                assert!(tally.done >= requests, "{setting}: {tally:?}");
                if let Some(bytes) = tally.body_bytes {
                    assert_eq!(bytes, tally.done * body, "{setting}");
                }
            }
        }
        responder.end(Signal::SIGTERM);
    }
}

#[test]
fn curl_gets_the_body_in_every_way() {
    for sendfile in [&[][..], &["--sendfile"]] {
        let responder = Responder::start(&[&["--body", "1000000"], sendfile].concat());
        for option in [&[][..], &["--http1.0"], &["-H", "Connection: close"]] {
            let mut curl = Command::new("curl");
            curl.args(["--silent", "--show-error", "--fail"]).args(option).arg(&responder.url);
            let body = stdout(&mut curl).unwrap();
            assert!(body.len() == 1_000_000 && body.starts_with("<html><body><h1>It works!</h1></body></html><html>"));
        }
        let mut head = Command::new("curl");
        let head = stdout(head.args(["--silent", "--head"]).arg(&responder.url)).unwrap();
        assert!(head.starts_with("HTTP/1.1 200 OK\r\n") && head.contains("\r\nContent-Length: 1000000\r\n"), "{head}");
        responder.end(Signal::SIGINT);
    }
}
