//! `mod_status`: what the server is doing, at a location with `SetHandler server-status`. As HTML for people; `?auto`, line
//! for line as Apache writes it, for the tools that read that; `?json`, with everything; `?metrics` for Prometheus.
//!
//! The renderers are pure: a [`Snapshot`] in, text out.

mod auto;
mod escape;
mod html;
mod metrics;
mod number;

use std::sync::Arc;

use jiff::tz::TimeZone;
use manifold_engine::phases::{Concern, Outcome, Phase, Phases};
use manifold_engine::request::{Body, Request};
use manifold_engine::status::{Snapshot, StatusHandle};
use manifold_http::{Method, Status, write_field};

/// What `SetHandler` names.
pub const HANDLER: &str = "server-status";
/// `?refresh` without a number, in seconds.
const REFRESH_SECONDS: u32 = 10;

/// Adds the module's handler.
pub fn register(phases: &mut Phases, source: &Arc<StatusHandle>) {
    let source = Arc::clone(source);
    phases.add_for(Concern::NamedHandler, Phase::Handler, move |request: &mut Request| handle(&source, request));
}

fn handle(source: &StatusHandle, request: &mut Request) -> Outcome {
    if request.handler.as_deref() != Some(HANDLER) {
        return Outcome::Declined;
    }
    if !matches!(request.method(), Method::Get | Method::Head) {
        return Outcome::Declined;
    }
    let Some(source) = source.get() else {
        log::error!(target: "status", "AH01237: server status is not available: this process keeps no scoreboard");
        return Outcome::Respond(Status::INTERNAL_SERVER_ERROR);
    };
    let asked = Asked::of(request.query().unwrap_or_default());
    let host = host_name(request.head.host(&request.bytes).unwrap_or_default());
    let snapshot = source.snapshot(request.turn.wall);
    let (media_type, text) = render(&snapshot, &asked, &host, &TimeZone::system());
    if let Some(seconds) = asked.refresh {
        write_field(&mut request.response.fields, "Refresh", seconds.to_string().as_bytes());
    }
    request.content_type = Some(Arc::from(media_type));
    request.response.body = Body::Bytes(text.into_bytes());
    Outcome::Done
}

/// What the query asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Asked {
    /// In which form.
    pub form: Form,
    /// HTML without the table (`?notable`).
    pub no_table: bool,
    /// The browser shall ask again after so many seconds (`?refresh=N`).
    pub refresh: Option<u32>,
}

/// The forms of the page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Form {
    /// For people.
    #[default]
    Html,
    /// `?auto`: Apache's, for tools.
    Auto,
    /// `?json`.
    Json,
    /// `?metrics`: OpenMetrics.
    Metrics,
}

impl Asked {
    /// Reads a query; words that mean nothing are passed over, as in Apache.
    pub fn of(query: &[u8]) -> Asked {
        let mut asked = Asked::default();
        for word in query.split(|byte| *byte == b'&') {
            let (name, value) = match word.iter().position(|byte| *byte == b'=') {
                Some(place) => (&word[..place], &word[place + 1..]),
                None => (word, &word[..0]),
            };
            match name {
                b"auto" => asked.form = Form::Auto,
                b"json" => asked.form = Form::Json,
                b"metrics" => asked.form = Form::Metrics,
                b"notable" => asked.no_table = true,
                b"refresh" => {
                    let number = std::str::from_utf8(value).ok().and_then(|value| value.parse().ok());
                    asked.refresh = Some(number.filter(|seconds| *seconds > 0).unwrap_or(REFRESH_SECONDS));
                }
                _ => {}
            }
        }
        asked
    }
}

/// Media type and text of the page. `host` is the name the server was asked by; times of the day are told in `zone`.
pub fn render(snapshot: &Snapshot, asked: &Asked, host: &str, zone: &TimeZone) -> (&'static str, String) {
    match asked.form {
        Form::Html => ("text/html; charset=ISO-8859-1", html::page(snapshot, asked.no_table, host, zone)),
        Form::Auto => ("text/plain; charset=ISO-8859-1", auto::page(snapshot, host, zone)),
        Form::Json => ("application/json", serde_json::to_string(snapshot).unwrap_or_default() + "\n"),
        Form::Metrics => ("application/openmetrics-text; version=1.0.0; charset=utf-8", metrics::page(snapshot)),
    }
}

/// The name without its port. It comes from the client: only what a name may consist of is repeated.
fn host_name(field: &[u8]) -> String {
    let bracket = field.iter().rposition(|byte| *byte == b']').unwrap_or(0);
    let end = field[bracket..].iter().position(|byte| *byte == b':').map_or(field.len(), |colon| bracket + colon);
    let allowed = |byte: &&u8| byte.is_ascii_alphanumeric() || b".-_[]:".contains(byte);
    let name: String = field[..end].iter().filter(allowed).map(|byte| char::from(*byte)).collect();
    if name.is_empty() { "localhost".to_owned() } else { name }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_is_read_as_apache_reads_it() {
        let check = |query: &str, form, no_table, refresh| {
            assert_eq!(Asked::of(query.as_bytes()), Asked { form, no_table, refresh }, "{query}");
        };
        check("", Form::Html, false, None);
        check("auto", Form::Auto, false, None);
        check("auto=1", Form::Auto, false, None);
        check("json", Form::Json, false, None);
        check("metrics", Form::Metrics, false, None);
        check("notable&refresh=5", Form::Html, true, Some(5));
        check("auto&refresh", Form::Auto, false, Some(10));
        check("refresh=0", Form::Html, false, Some(10));
        check("refresh=-3", Form::Html, false, Some(10));
        check("refresh=%0d%0aX:1", Form::Html, false, Some(10));
        check("refresh=99999999999", Form::Html, false, Some(10));
        check("automatic&&x=auto", Form::Html, false, None);
    }

    #[test]
    fn a_host_is_named_without_its_port_and_cannot_bring_markup() {
        let check = |field: &str, expected: &str| assert_eq!(host_name(field.as_bytes()), expected, "{field}");
        check("www.example.org", "www.example.org");
        check("www.example.org:8080", "www.example.org");
        check("[::1]:80", "[::1]");
        check("[::1]", "[::1]");
        check("<b>\u{e9}", "b");
        check("", "localhost");
        check(":80", "localhost");
    }
}
