//! `RequestReadTimeout` as it is written: `header=20-40,MinRate=500`. What it means is in `manifold_engine::reqtimeout`.

use std::time::Duration;

use manifold_config::{Call, Diagnostic};
use manifold_engine::reqtimeout::{ReadTimeouts, Stage};

use crate::directives::RawSite;

/// The parameters that the directive knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Parameter {
    /// There is no TLS in this version, and so no handshake: its bounds are checked and otherwise without meaning.
    Handshake,
    Header,
    Body,
}

/// Takes the directive's words into the site; a stage that is not named keeps what it had.
pub(crate) fn set(site: &mut RawSite, call: &Call<'_>) -> Result<(), Diagnostic> {
    for (index, word) in call.args.iter().enumerate() {
        let (parameter, stage) = parse(&word.value).map_err(|error| {
            call.error_at(index, error).help("write it as in 'header=20-40,MinRate=500 body=20,MinRate=500'")
        })?;
        let ReadTimeouts { header, body } = &mut site.read_timeouts;
        match parameter {
            Parameter::Handshake => {}
            Parameter::Header => *header = stage,
            Parameter::Body => *body = stage,
        }
    }
    Ok(())
}

/// One word. Errors are worded as Apache's.
fn parse(word: &str) -> Result<(Parameter, Stage), String> {
    const FORM: &str = "Invalid RequestReadTimeout parameter. Parameter must be in the form 'key=value'";
    let (key, value) = word.split_once('=').ok_or(FORM)?;
    let in_context = |error: String| format!("RequestReadTimeout: {word}: {error}");
    let parameter = match key.to_ascii_lowercase().as_str() {
        "handshake" => Parameter::Handshake,
        "header" => Parameter::Header,
        "body" => Parameter::Body,
        _ => return Err(in_context("Unknown RequestReadTimeout parameter".to_owned())),
    };
    stage(value).map(|stage| (parameter, stage)).map_err(in_context)
}

/// `timeout[-maxtimeout][,MinRate=rate]`.
fn stage(value: &str) -> Result<Stage, String> {
    const MIN_RATE: &str = ",minrate=";
    let Some(at) = value.to_ascii_lowercase().find(MIN_RATE) else {
        if value.contains('-') {
            return Err("Must set MinRate option if using timeout range".to_owned());
        }
        return Ok(Stage { timeout: seconds(number(value)?), ..Stage::OFF });
    };
    let (times, rate) = (&value[..at], &value[at + MIN_RATE.len()..]);
    let min_rate = number(rate)?;
    if min_rate == 0 {
        return Err("Minimum data rate must be larger than 0".to_owned());
    }
    let (initial, most) = match times.split_once('-') {
        Some((initial, most)) => (initial, number(most)?),
        None => (times, 0),
    };
    let initial = number(initial)?;
    if most > 0 && initial >= most {
        return Err("Maximum timeout must be larger than initial timeout".to_owned());
    }
    Ok(Stage { timeout: seconds(initial), max_timeout: seconds(most), min_rate })
}

fn seconds(number: u32) -> Duration {
    Duration::from_secs(number.into())
}

/// A whole number that is not negative. Where Apache lets a number overflow, this is an error.
fn number(text: &str) -> Result<u32, String> {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let digits = unsigned.bytes().take_while(u8::is_ascii_digit).count();
    if digits == 0 {
        return Err(format!("Value '{text}' not numerical"));
    }
    if digits < unsigned.len() {
        return Err(format!("Cannot parse '{}'", &unsigned[digits..]));
    }
    match unsigned.parse::<i32>() {
        Ok(number) if !text.starts_with('-') || number == 0 => Ok(number.unsigned_abs()),
        Ok(_) => Err("Value must be non-negative".to_owned()),
        Err(_) => Err(format!("Value '{text}' is too large; the largest is {}", i32::MAX)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_of_a_stage_is_read() {
        let check = |word: &str, parameter, timeout, most, min_rate| {
            let stage = Stage { timeout: seconds(timeout), max_timeout: seconds(most), min_rate };
            assert_eq!(parse(word), Ok((parameter, stage)), "{word}");
        };
        check("header=20-40,MinRate=500", Parameter::Header, 20, 40, 500);
        check("body=20,MinRate=500", Parameter::Body, 20, 0, 500);
        check("HEADER=5,minrate=1", Parameter::Header, 5, 0, 1);
        check("handshake=0", Parameter::Handshake, 0, 0, 0);
        check("body=0", Parameter::Body, 0, 0, 0);
        check("header=+10", Parameter::Header, 10, 0, 0);
        check("header=10-0,MinRate=5", Parameter::Header, 10, 0, 5);
        check("header=0-5,MinRate=1", Parameter::Header, 0, 5, 1);
        check("body=2147483647", Parameter::Body, 2_147_483_647, 0, 0);
    }

    #[test]
    fn errors_are_worded_as_apaches() {
        let check = |word: &str, error: &str| {
            assert_eq!(parse(word), Err(format!("RequestReadTimeout: {word}: {error}")));
        };
        check("head=1", "Unknown RequestReadTimeout parameter");
        check("header=x", "Value 'x' not numerical");
        check("header=", "Value '' not numerical");
        check("header=1x", "Cannot parse 'x'");
        check("header=10-20", "Must set MinRate option if using timeout range");
        check("header=-1", "Must set MinRate option if using timeout range");
        check("header=10-20,MinRate=0", "Minimum data rate must be larger than 0");
        check("header=10-20,MinRate=-0", "Minimum data rate must be larger than 0");
        check("header=10-20,MinRate=5x", "Cannot parse 'x'");
        check("header=10,MinRate=", "Value '' not numerical");
        check("header=10,MinRate=-1", "Value must be non-negative");
        check("header=10-x,MinRate=5", "Value 'x' not numerical");
        check("header=1--1,MinRate=5", "Value must be non-negative");
        check("header=10-20-30,MinRate=5", "Cannot parse '-30'");
        check("header=10-10,MinRate=5", "Maximum timeout must be larger than initial timeout");
        check("body=2147483648", "Value '2147483648' is too large; the largest is 2147483647");
        check("body=\u{df},MinRate=1", "Value '\u{df}' not numerical");
        let form = "Invalid RequestReadTimeout parameter. Parameter must be in the form 'key=value'";
        assert_eq!(parse("header"), Err(form.to_owned()));
    }
}
