//! The one binary: a server, a load generator and a laboratory. Which of them it is depends on the name it was called by
//! (a link called `httpd`, `apachectl` or `ab` is that program), and otherwise on its first argument.
#![forbid(unsafe_code)]

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::ExitCode;

/// A program that the binary can be.
struct Program {
    name: &'static str,
    about: &'static str,
    main: fn(&mut dyn Iterator<Item = OsString>) -> ExitCode,
}

/// The programs, in the order of the help.
static PROGRAMS: [Program; 8] = [
    Program {
        name: "httpd",
        about: "a web server run by an Apache configuration",
        main: |args| manifold_httpd::main(args),
    },
    Program {
        name: "serve",
        about: "a web server for one folder, without any configuration",
        main: |args| manifold_httpd::serve_main(args),
    },
    Program {
        name: "status",
        about: "what a running server is doing, and whether it runs",
        main: |args| manifold_top::status_main(args),
    },
    Program { name: "top", about: "the same as a live view", main: |args| manifold_top::top_main(args) },
    Program {
        name: "ab",
        about: "a load generator with ab's options and output",
        main: |args| manifold_load::ab::main(args),
    },
    Program {
        name: "siege",
        about: "a load generator with siege's options and output",
        main: |args| manifold_load::siege::main(args),
    },
    Program {
        name: "load",
        about: "the load generator itself, with JSON output",
        main: |args| manifold_load::main(args),
    },
    Program {
        name: "lab",
        about: "measure concurrency models and servers, and compare them",
        main: |args| manifold_lab::main(args),
    },
];

fn main() -> ExitCode {
    let mut args = std::env::args_os();
    let called_by = args.next().unwrap_or_default();
    if let Some(program) = by_link(&called_by) {
        return (program.main)(&mut args);
    }
    let Some(first) = args.next() else {
        eprint!("{}", usage());
        return ExitCode::FAILURE;
    };
    if first == "--help" || first == "-h" || first == "help" {
        print!("{}", usage());
        return ExitCode::SUCCESS;
    }
    if first == "--version" || first == "-V" {
        println!("manifold {}", env!("CARGO_PKG_VERSION"));
        return ExitCode::SUCCESS;
    }
    match PROGRAMS.iter().find(|program| first == program.name) {
        Some(program) => (program.main)(&mut args),
        None => {
            eprintln!("manifold: there is no program '{}'\n\n{}", first.to_string_lossy(), usage());
            ExitCode::FAILURE
        }
    }
}

/// The program that a link to the binary stands for.
fn by_link(called_by: &OsStr) -> Option<&'static Program> {
    let name = Path::new(called_by).file_name()?.to_str()?;
    let name = match name {
        "apachectl" | "apache2ctl" | "apache2" => "httpd",
        name => name,
    };
    PROGRAMS.iter().find(|program| program.name == name)
}

fn usage() -> String {
    let mut text = String::from("Usage: manifold PROGRAM [ARGUMENTS]\n\nPrograms:\n");
    for program in &PROGRAMS {
        text.push_str(&format!("  {:7} {}\n", program.name, program.about));
    }
    text.push_str(
        "\n'manifold PROGRAM --help' (-h for httpd and ab) tells more. A link to this binary that is called\n",
    );
    text.push_str("httpd, apachectl, ab or siege is that program.\n");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_is_the_program_it_is_called_by() {
        let check = |path: &str, expected: Option<&str>| {
            assert_eq!(by_link(OsStr::new(path)).map(|program| program.name), expected, "{path}");
        };
        check("/usr/sbin/httpd", Some("httpd"));
        check("apachectl", Some("httpd"));
        check("./ab", Some("ab"));
        check("/usr/local/bin/siege", Some("siege"));
        check("/opt/manifold", None);
        check("", None);
    }
}
