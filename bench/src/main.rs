//! Fixed scenarios whose instructions are counted (`cargo xtask bench`). `manifold-bench list` names them;
//! `manifold-bench NAME ROUNDS` runs one. A scenario does the same work in every round, so that the difference of two
//! runs is the work of the rounds between.

#![forbid(unsafe_code)]

mod engine;
mod http;
mod scoreboard;

use std::hint::black_box;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};

/// One scenario.
struct Scenario {
    name: &'static str,
    /// Runs so many rounds and returns a number that depends on all of them, so that none can be left out.
    run: fn(u64) -> Result<u64>,
}

const SCENARIOS: &[Scenario] = &[
    Scenario { name: "request-head-short", run: http::request_head_short },
    Scenario { name: "request-head-browser", run: http::request_head_browser },
    Scenario { name: "response-head", run: http::response_head },
    Scenario { name: "get-44-bytes-kept-alive", run: engine::get_kept_alive },
    Scenario { name: "get-44-bytes-closing", run: engine::get_closing },
    Scenario { name: "get-index-kept-alive", run: engine::get_index },
    Scenario { name: "get-browser", run: engine::get_browser },
    Scenario { name: "get-browser-logged", run: engine::get_browser_logged },
    Scenario { name: "not-found-kept-alive", run: engine::not_found },
    Scenario { name: "scoreboard", run: scoreboard::plain },
    Scenario { name: "scoreboard-extended", run: scoreboard::extended },
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match dispatch(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn dispatch(arguments: &[String]) -> Result<()> {
    match arguments {
        [list] if list == "list" => {
            SCENARIOS.iter().for_each(|scenario| println!("{}", scenario.name));
            Ok(())
        }
        [name, rounds] => {
            let scenario = SCENARIOS.iter().find(|scenario| scenario.name == name);
            let scenario = scenario.with_context(|| format!("there is no scenario `{name}`"))?;
            let rounds = rounds.parse().with_context(|| format!("`{rounds}` is not a number of rounds"))?;
            black_box((scenario.run)(rounds)?);
            Ok(())
        }
        _ => bail!("usage: manifold-bench list | NAME ROUNDS"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_scenario_does_what_it_says() {
        for scenario in SCENARIOS {
            let (one, three) = ((scenario.run)(1).unwrap(), (scenario.run)(3).unwrap());
            assert!(one > 0 && three == 3 * one, "{}: {one} and {three}", scenario.name);
        }
    }

    #[test]
    fn an_unknown_scenario_is_refused() {
        assert!(dispatch(&["nothing".to_string(), "1".to_string()]).is_err());
        assert!(dispatch(&[SCENARIOS[0].name.to_string(), "many".to_string()]).is_err());
    }
}
