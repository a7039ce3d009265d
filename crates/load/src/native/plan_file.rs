//! Plan files: the options of the command line under the same names, and several requests, in TOML.

use toml::de::{DeTable, DeValue};

use super::settings::{Settings, is_flag};

/// The table whose repetitions are requests.
const REQUEST: &str = "request";

/// Reads a plan into the settings.
///
/// # Errors
/// What is wrong, with the file's name, the line and the key.
pub fn read(name: &str, text: &str, settings: &mut Settings) -> Result<(), String> {
    let line_of = |at: usize| text[..at.min(text.len())].matches('\n').count() + 1;
    let table = DeTable::parse(text).map_err(|error| {
        let line = error.span().map_or(1, |span| line_of(span.start));
        format!("{name}:{line}: {}", error.message().trim())
    })?;
    for (key, value) in table.get_ref() {
        let place = |at: usize, key: &str, said: String| format!("{name}:{}: {key}: {said}", line_of(at));
        let named = key.get_ref().as_ref();
        if named != REQUEST {
            option(named, value.get_ref(), &mut |value| settings.set(named, value))
                .and_then(|flag| if let Some(on) = flag { settings.flag(named, on) } else { Ok(()) })
                .map_err(|said| place(key.span().start, named, said))?;
            continue;
        }
        let requests = value.get_ref().as_array().ok_or("begin each request with [[request]]".to_owned());
        for request in requests.map_err(|said| place(key.span().start, named, said))? {
            let begins = request.span().start;
            let Some(fields) = request.get_ref().as_table() else {
                return Err(place(begins, named, "begin each request with [[request]]".to_owned()));
            };
            settings.begin_request();
            for (key, value) in fields {
                let named = key.get_ref().as_ref();
                option(named, value.get_ref(), &mut |value| settings.set_of_request(named, value))
                    .map_err(|said| place(key.span().start, named, said))?;
            }
            settings.end_request().map_err(|said| place(begins, named, said))?;
        }
    }
    Ok(())
}

/// Gives a key's value, or each of an array's, to `set` as text; a flag is returned.
fn option(
    key: &str,
    value: &DeValue<'_>,
    set: &mut dyn FnMut(&str) -> Result<(), String>,
) -> Result<Option<bool>, String> {
    match value {
        DeValue::Boolean(on) if is_flag(key) => return Ok(Some(*on)),
        _ if is_flag(key) => return Err("true or false is needed".to_owned()),
        DeValue::String(text) => set(text)?,
        DeValue::Integer(number) => set(&number.to_string())?,
        DeValue::Float(number) => set(&number.to_string())?,
        DeValue::Array(values) => {
            for value in values {
                option(key, value.get_ref(), set)?;
            }
        }
        DeValue::Boolean(_) | DeValue::Datetime(_) | DeValue::Table(_) => {
            return Err("a text, a number or a list of these is needed".to_owned());
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::native::args::{ExpectLength, Options};

    fn options(text: &str) -> Result<Options, String> {
        let mut settings = Settings::default();
        read("plan.toml", text, &mut settings)?;
        settings.finish()
    }

    #[test]
    fn a_whole_plan() {
        let plan = r#"
            connections = 20
            keep-alive = true
            stage = ["0..100:10s", "100:1min"]
            arrivals = "poisson"
            timeout = 2.5
            header = ["X-All: 1"]
            fail-on = "p99>50ms"

            [[request]]
            url = "http://h/a"
            weight = 3

            [[request]]
            url = "http://[::1]:81/b"
            method = "POST"
            data = "x=1"
            header = ["Content-Type: text/plain", "X-Own: 2"]
            expect-status = 201
            expect-length = "any"
        "#;
        let options = options(plan).expect("a plan");
        assert_eq!((options.connections, options.keep_alive, options.timeout.as_millis()), (20, true, 2500));
        assert_eq!((options.requests.len(), options.fail_on.len()), (2, 1));
        let [a, b] = options.requests.as_slice() else { panic!("two requests") };
        assert_eq!((a.method.as_str(), a.weight, a.headers.len(), a.expect_length), ("GET", 3, 1, ExpectLength::First));
        assert_eq!((b.method.as_str(), b.weight, b.headers.len(), b.body.as_slice()), ("POST", 1, 3, &b"x=1"[..]));
        assert_eq!((b.expect_status, b.expect_length, b.target.port), (Some(201), ExpectLength::Any, 81));
    }

    #[test]
    fn mistakes_are_named_with_line_and_key() {
        for (plan, said) in [
            ("connections = 0\n", "plan.toml:1: connections: 0: a whole number from 1"),
            ("\n\nconections = 5\n", "plan.toml:3: conections: there is no such option"),
            ("keep-alive = 1\n", "plan.toml:1: keep-alive: true or false"),
            ("connections = 5\nrate = [\n", "plan.toml:"),
            ("[[request]]\nweight = 1\n", "plan.toml:1: request: the URL is missing"),
            ("[[request]]\nurl = 'ftp://h/'\n", "plan.toml:2: url: `ftp://h/` is no http:// or https:// URL"),
            ("[[request]]\nurl = 'http://h/'\nwait = 3\n", "plan.toml:3: wait: there is no such key of a request"),
            ("[[request]]\nurl = 'http://h/'\nweight = -1\n", "plan.toml:3: weight: -1: a whole number"),
            ("[request]\nurl = 'http://h/'\n", "plan.toml:1: request: begin each request with [[request]]"),
            ("connections = 1979-05-27\n", "plan.toml:1: connections: a text, a number"),
        ] {
            let got = options(plan).expect_err(plan);
            assert!(got.starts_with(said), "{plan:?}: {got}");
        }
    }
}
