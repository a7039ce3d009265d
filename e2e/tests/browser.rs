//! A real browser opens a page with everything a page has: a style sheet, a script, a picture, a recording in which it seeks,
//! and a request for a part of a file. What came of it stands in the page, and what was asked for in the access log.

#![allow(clippy::unwrap_used, reason = "a test ends at its first surprise")]

use std::fs;
use std::process::Command;

use e2e::server::{Mpm, Server};
use e2e::tool::stdout;

/// Each part of the page writes here that it works.
const HTML: &str = r#"<!DOCTYPE html><html><head><link rel="stylesheet" href="style.css"></head><body><h1>Hello</h1>
<p id="style"></p><p id="script"></p><p id="length"></p><p id="place"></p><p id="part"></p><p id="picture"></p>
<img src="picture.svg" onload="document.getElementById('picture').textContent = this.naturalWidth">
<audio id="recording" src="recording.wav" preload="auto"></audio>
<script src="script.js"></script></body></html>"#;
const CSS: &str = "h1 { width: 321px }";
const SCRIPT: &str = r#"
const say = (name, text) => { document.getElementById(name).textContent = text; };
say("script", "ran");
window.onload = () => say("style", getComputedStyle(document.querySelector("h1")).width);
const recording = document.getElementById("recording");
recording.onloadedmetadata = () => { say("length", recording.duration); recording.currentTime = 2400; };
recording.onseeked = () => say("place", recording.currentTime);
fetch("/medium.bin", { headers: { Range: "bytes=100-199" } })
    .then(answer => answer.arrayBuffer().then(bytes => say("part", `${answer.status} ${bytes.byteLength}`)));
"#;
const PICTURE: &str = r#"<svg xmlns="http://www.w3.org/2000/svg" width="17" height="9"></svg>"#;

/// Seconds of the recording, and its bytes in each.
const SECONDS: u32 = 2500;
const RATE: u32 = 8000;

/// Silence of eight bits in one channel.
fn recording() -> Vec<u8> {
    let length = SECONDS * RATE;
    let numbers = |numbers: &[u32]| numbers.iter().flat_map(|number| number.to_le_bytes()).collect::<Vec<u8>>();
    let format = 1 | 1 << 16;
    let mut wav = [b"RIFF", &numbers(&[36 + length])[..], b"WAVEfmt ", &numbers(&[16, format, RATE, RATE])].concat();
    wav.extend_from_slice(&numbers(&[1 | 8 << 16]));
    wav.extend_from_slice(b"data");
    wav.extend_from_slice(&numbers(&[length]));
    wav.resize(wav.len() + length as usize, 128);
    wav
}

#[test]
fn chromium_shows_a_page_with_all_its_parts() {
    for mpm in Mpm::ALL {
        let log = "LogFormat \"%U %>s %{Range}i\" asked\nCustomLog asked.log asked\n\
                   AddType text/css css\nAddType text/javascript js\nAddType image/svg+xml svg\nAddType audio/wav wav";
        let mut server = Server::start(mpm, log).unwrap();
        let folder = server.dir.path("htdocs");
        let files: [(&str, &[u8]); 5] = [
            ("browser.html", HTML.as_bytes()),
            ("style.css", CSS.as_bytes()),
            ("script.js", SCRIPT.as_bytes()),
            ("picture.svg", PICTURE.as_bytes()),
            ("recording.wav", &recording()),
        ];
        for (name, content) in files {
            fs::write(folder.join(name), content).unwrap();
        }
        let mut chromium = Command::new("chromium");
        chromium.args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]);
        // Time stands still for the page while something is under way.
        chromium.args(["--virtual-time-budget=20000", "--dump-dom"]);
        chromium.arg(format!("--user-data-dir={}", server.dir.path("profile").display()));
        let page = stdout(chromium.arg(server.url("/browser.html"))).unwrap();
        let name = mpm.name();
        for (part, expected) in [
            ("style", "321px"),
            ("script", "ran"),
            ("length", "2500"),
            ("place", "2400"),
            ("part", "206 100"),
            ("picture", "17"),
        ] {
            assert!(page.contains(&format!("<p id=\"{part}\">{expected}</p>")), "{part} from {name}: {page}");
        }
        // Lines are written when the server ends at the latest.
        server.stop().unwrap();
        let asked = fs::read_to_string(server.dir.path("asked.log")).unwrap();
        for line in ["/browser.html 200 -", "/recording.wav 206 bytes=0-", "/medium.bin 206 bytes=100-199"] {
            assert!(asked.lines().any(|other| other == line), "{line} from {name}: {asked}");
        }
        // It did not read 20 MB to get to the last minutes.
        let sought = |line: &str| line.starts_with("/recording.wav 206 bytes=") && !line.ends_with("=0-");
        assert!(asked.lines().any(sought), "{name}: {asked}");
    }
}
