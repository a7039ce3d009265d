//! `manifold load`: the generator with figures to trust, for people and for the laboratory.

pub mod args;

use std::ffi::OsString;
use std::process::ExitCode;

use args::Command;

/// Runs `manifold load` with `args` (the program's name first, as from `std::env::args_os`).
pub fn main(args: impl Iterator<Item = OsString>) -> ExitCode {
    match args::parse(args) {
        Ok(Command::Help) => {
            print!("{}", args::USAGE);
            ExitCode::SUCCESS
        }
        Ok(Command::Run(_options)) => {
            eprintln!("manifold load: this build has the report's shape only; the loop follows");
            ExitCode::from(1)
        }
        Err(sentence) => {
            eprintln!("manifold load: {sentence}\n\n{}", args::USAGE);
            ExitCode::from(2)
        }
    }
}
