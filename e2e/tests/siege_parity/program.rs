//! Both programs, called in the same way under the same name, and what they did, without what depends on time.

use std::fs;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use e2e::{Scratch, binary, pair};

use super::target::Target;

/// The original program, and the name under which ours is called as well.
pub const ORIGINAL: &str = "/usr/bin/siege";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    Original,
    Ours,
}

pub const BOTH: [Which; 2] = [Which::Original, Which::Ours];

/// What every resource file begins with, unless it says that it stands alone.
const USUAL: &str = "verbose = true\ncolor = off\nparser = true\nprotocol = HTTP/1.1\nchunked = true\nlimit = 255\naccept-encoding = gzip, deflate\n";

/// A run.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// Lines of the resource file, apart by `;`; `!` in front: without the usual ones.
    pub resource: &'static str,
    /// The command line; a middle dot stands for a blank within a word, `URL` for the target, `SURL` for it over TLS, `DIR` for a folder of
    /// the run's own, `NOBODY` for a port where nobody listens, and `MUTE` and
    /// others for servers with which no handshake succeeds.
    pub line: &'static str,
}

/// What a program did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deed {
    pub end: String,
    pub stdout: String,
    pub stderr: String,
    /// `siege.log`, where the run has one.
    pub log: String,
    /// The cookies that outlast the run.
    pub cookies: String,
    pub asked: Vec<String>,
}

/// Runs one of them, for at most so long.
pub fn run(which: Which, case: Case, target: &Target, longest: Duration, nobody: u16) -> Deed {
    let folder = Scratch::new().expect("a folder");
    let dir = folder.path("").display().to_string();
    let dir = dir.trim_end_matches('/');
    let meant = |text: &str| {
        let text = text.replace("HOSTPORT", &target.address.to_string()).replace("NOBODY", &nobody.to_string());
        let named = |text: String, (name, port): &(&str, u16)| text.replace(name, &port.to_string());
        let text = target.misfits.iter().fold(text, named);
        text.replace("PORT", &target.address.port().to_string()).replace("DIR", dir).replace('·', " ")
    };
    let url = |text: &str| meant(&text.replace("SURL", "https://HOSTPORT").replace("URL", "http://HOSTPORT"));
    let (usual, lines) = case.resource.strip_prefix('!').map_or((USUAL, case.resource), |lines| ("", lines));
    fs::create_dir(folder.path(".siege")).expect("a folder");
    fs::write(folder.path(".siege/siege.conf"), "").expect("a file");
    fs::write(folder.path("rc"), format!("{usual}{}\n", url(&lines.replace(';', "\n")))).expect("a file");
    for (name, text) in FILES {
        fs::write(folder.path(name), url(text)).expect("a file");
    }
    if case.resource.contains("certificate.pem") {
        pair::make(&folder).expect("a certificate");
    }
    target.take();
    let mut command = match which {
        Which::Original => Command::new(ORIGINAL),
        Which::Ours => Command::new(binary::manifold()),
    };
    command.arg0(ORIGINAL).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
        .env("TZ", "UTC")
        .env("HOME", dir)
        .env("SIEGERC", folder.path("rc"))
        .env("MINE", "from-outside")
        .current_dir(dir);
    let mut child = command.args(case.line.split_whitespace().map(url)).spawn().expect("it starts");
    let (began, mut killed) = (Instant::now(), false);
    while child.try_wait().expect("a child").is_none() {
        if began.elapsed() > longest && !killed {
            child.kill().expect("it can be killed");
            killed = true;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    let output = child.wait_with_output().expect("a child");
    let text = |bytes: &[u8]| masked(&String::from_utf8_lossy(bytes).replace(dir, "DIR"));
    let several = case.line.contains("-c2") || case.line.contains("-c3");
    let sorted = |text: String| if several { sorted_lines(&text) } else { text };
    let mut asked: Vec<String> = target.take().iter().map(|request| without_nonce(request)).collect();
    if several {
        asked.sort();
    }
    let read = |name: &str| fs::read(folder.path(name)).unwrap_or_default();
    let cookies = String::from_utf8_lossy(&read(".siege/cookies.txt")).into_owned();
    Deed {
        end: if killed { HANGS.to_owned() } else { output.status.to_string() },
        stdout: sorted(text(&output.stdout)),
        stderr: text(&output.stderr),
        log: text(&read("siege.log")),
        cookies: cookies.lines().filter_map(|line| Some(line.split_once(" | ")?.1)).collect::<Vec<_>>().join("\n"),
        asked,
    }
}

/// The original was still running when it should long have ended.
pub const HANGS: &str = "it hangs";

/// Files that command lines name.
const FILES: [(&str, &str); 10] = [
    ("five", "URL/1\nURL/2\nURL/3\nURL/4\nURL/5\n"),
    (
        "variables",
        "# comment\nPROT=http\nHOST=HOSTPORT\n\n   \n$(PROT)://$(HOST)/one\n${PROT}://${HOST}/two POST a=$(PROT)\n$(PROT)://$(HOST)/x$(NONE)y\n$PROT://$HOST/bare\n  URL/indented\nURL/$(MINE)\nURL/eq?a=b\nURL/h#frag\n#URL/no\n",
    ),
    ("blanks", "URL/fi ve\nHOSTPORT/noscheme\nHOSTPORT\nURL\n"),
    ("body", "a=b\nc=d\n\n"),
    ("body.json", "{\"a\": 1}\n\n"),
    ("body.txt", "a=b\n"),
    ("nothing", "# only comments\n\n"),
    ("hosts", "URL/1\nhttp://nohost.invalid/\nURL/2\n"),
    ("mixed", "SURL/1\nURL/2\nSURL/3 POST a=b\n"),
    ("other-rc", "verbose = true\ncolor = off\nuser-agent = other\n"),
];

fn sorted_lines(text: &str) -> String {
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    lines.join("\n")
}

/// Nonces are random, and so is what is made of them.
fn without_nonce(request: &str) -> String {
    let mut request = request.to_owned();
    for name in ["cnonce=\"", "response=\""] {
        if let Some(start) = request.find(name).map(|at| at + name.len()) {
            let end = request[start..].find('"').map_or(request.len(), |length| start + length);
            request.replace_range(start..end, &"#".repeat(end - start));
        }
    }
    request
}

/// Rows whose figures are times or made of them.
const TIMED: [&str; 12] = [
    "Elapsed time:",
    "Response time:",
    "Transaction rate:",
    "Throughput:",
    "Concurrency:",
    "Longest",
    "Shortest",
    "\"elapsed_time",
    "\"response_time",
    "\"transaction_rate",
    "\"throughput",
    "\"concurrency",
];

fn masked(text: &str) -> String {
    // What OpenSSL says besides.
    let lines = text.split('\n').filter(|line| !line.contains("] stack: "));
    lines.map(masked_line).collect::<Vec<_>>().join("\n")
}

fn masked_line(line: &str) -> String {
    let mut line = line.replace(": Operation now in progress", "");
    // Which program this is.
    if let Some((version, rest)) = line.split_once(" (Manifold ") {
        line = format!("{version}{}", rest.split_once(')').map_or("", |(_, rest)| rest));
    }
    if line.starts_with("20") && line.split(',').count() == 10 {
        let timed = |(at, field): (usize, &str)| {
            if [0, 2, 4, 5, 6, 7].contains(&at) { format!("#{}", field.len()) } else { field.to_owned() }
        };
        return line.split(',').enumerate().map(timed).collect::<Vec<_>>().join(",");
    }
    if TIMED.iter().any(|name| line.contains(name)) || line.contains("_transaction\":\t\t") && !line.contains("failed")
    {
        let start = line.rfind('\t').map_or(0, |at| at + 1);
        let figures = line[start..].len().min(12);
        return format!("{}#{figures}{}", &line[..start], &line[start + figures..]);
    }
    if line.contains("HTTP/1.") && line.matches(',').count() >= 5 {
        let timed = |field: &str| field.contains('.') && field.trim().parse::<f64>().is_ok() || field.starts_with("20");
        let field = |field: &str| if timed(field) { format!("#{}", field.len()) } else { field.to_owned() };
        line = line.split(',').map(field).collect::<Vec<_>>().join(",");
    }
    if let Some(at) = line.find(" secs:") {
        let start = line[..at].rfind(' ').unwrap_or(0);
        line.replace_range(start..at, &"#".repeat(at - start));
    }
    if let Some(at) = line.find(", 20").filter(|_| line.contains('[')) {
        line = format!("DATE{}", line[at..].split_once(']').map_or("", |(_, rest)| rest));
    }
    line
}
