//! The manual's page of the cases.

use crate::all_cases;
use crate::cases::{Case, GROUPS, Sent, UNSAFE};

const PREFACE: &str = "# Request smuggling

<!-- Made from e2e/tests/smuggling/cases.rs by its test, with MANIFOLD_WRITE_DOCS=1; edit that. -->

Two servers in a row that understand a request differently can be played against each other: what the first takes for the body of
one request, the second takes for another request, which nobody has checked. Manifold refuses what can be understood in two ways
with one answer, and closes the connection, so that nothing behind it is read.

Each row below is sent by a test to Manifold under each of its models, to Apache httpd 2.4.71 and to nginx 1.22.1,
all with their defaults, and another request is sent right behind it. The columns tell what came back:

- a number is the status of an answer; `body` is an answer without a head (HTTP/0.9);
- `marker` is the answer to the request behind: the server found its beginning;
- `close` after a status: the connection ends, whatever was sent behind;
- `open` after a status: the connection stays, and the request behind was taken for a part of this one, or the server waits for more;
- `nothing`: the server said nothing until the client ended the connection.

A row in **bold** is ambiguous: Manifold must refuse and close. Where a row shows no request line, it is
`GET /page.html HTTP/1.1` with `Host: h`; in *Chunk sizes*, *Chunk extensions* and *Trailers* a row shows the body of such a request with
`Transfer-Encoding: chunked`.

";

const UNSAFE_PREFACE: &str = "
## With HttpProtocolOptions Unsafe

Lines are read as leniently as by Apache then, but what says how long a request is, and for which host, is not: none of those cases
changes with Manifold. These change with one of the two, and no other does:

| Case | Manifold | Apache |
|---|---|---|
";

/// The whole page.
pub fn render() -> String {
    let ambiguous = all_cases().filter(|case| case.ambiguous).count();
    let mut page = format!("{PREFACE}{} cases, {ambiguous} of them ambiguous.\n", all_cases().count());
    for group in GROUPS {
        page.push_str(&format!("\n## {}\n\n{}\n\n", group.title, group.about));
        page.push_str("| Case | Sent | Manifold | Apache | nginx | Why |\n|---|---|---|---|---|---|\n");
        for case in group.cases {
            page.push_str(&row(case));
        }
    }
    page.push_str(UNSAFE_PREFACE);
    for row in UNSAFE {
        page.push_str(&format!("| {} | {} | {} |\n", row.name, row.manifold, row.apache));
    }
    page
}

fn row(case: &Case) -> String {
    let Case { name, manifold, apache, nginx, why, differs, .. } = case;
    let name = if case.ambiguous { format!("**{name}**") } else { (*name).to_owned() };
    let why = if differs.is_empty() { (*why).to_owned() } else { format!("{why}. {differs}") };
    format!("| {name} | {} | {manifold} | {apache} | {nginx} | {} |\n", shown(&case.sent), why.replace('|', "\\|"))
}

/// What is sent, as code in a table's cell.
fn shown(sent: &Sent) -> String {
    let code = |bytes: &[u8]| {
        let text = bytes.escape_ascii().to_string().replace("\\\"", "\"").replace("\\'", "'").replace('|', "\\|");
        // Two ticks let one stand within.
        if text.contains('`') { format!("`` {text} ``") } else { format!("`{text}`") }
    };
    match sent {
        Sent::Whole(bytes) | Sent::Chunked(bytes) => code(bytes),
        Sent::Fields(lines, b"") => code(lines),
        Sent::Fields(lines, body) => format!("{} and the body {}", code(lines), code(body)),
        Sent::Repeated(before, piece, times, after) => {
            let ends = [before, after].map(|end| if end.is_empty() { String::new() } else { code(end) });
            format!("{} {times} times {} {}", ends[0], code(piece), ends[1]).trim().to_owned()
        }
    }
}
