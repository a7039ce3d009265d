//! `ab` as a program of its own, for working on the generator and for comparing it with the original.

fn main() -> std::process::ExitCode {
    manifold_load::ab::main(std::env::args_os().skip(1))
}
