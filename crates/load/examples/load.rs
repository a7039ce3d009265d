//! `manifold load` as a program of its own, for working on the generator.

fn main() -> std::process::ExitCode {
    manifold_load::main(std::env::args_os().skip(1))
}
