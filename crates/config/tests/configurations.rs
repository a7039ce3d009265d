//! Whole configurations in, what they set and what is said about them out.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use manifold_config::{
    ArgShape, Call, Configuration, Contexts, Diagnostic, Directive, Elsewhere, Loader, Module, Reader, Spanned, Style,
    Table, World, check, document, render,
};
use proptest::prelude::*;

/// A world of files in memory; a path that ends with `/` is a folder.
struct Memory(BTreeMap<String, String>);

impl World for Memory {
    fn read(&self, path: &Path, _: u64) -> io::Result<Vec<u8>> {
        let text = self.0.get(path.to_str().expect("paths of these tests are UTF-8"));
        text.map(|text| text.clone().into_bytes()).ok_or_else(|| io::Error::from_raw_os_error(2))
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<String>> {
        let inside =
            |path: &String| Some(Path::new(path).strip_prefix(folder).ok()?.iter().next()?.to_str()?.to_owned());
        let mut names: Vec<_> = self.0.keys().filter_map(inside).collect();
        names.dedup();
        names.reverse();
        Ok(names)
    }

    fn is_folder(&self, path: &Path) -> bool {
        self.0.keys().any(|known| Path::new(known) != path && Path::new(known).starts_with(path))
    }

    fn exists(&self, path: &Path) -> bool {
        self.0.contains_key(path.to_str().expect("paths of these tests are UTF-8")) || self.is_folder(path)
    }

    fn variable(&self, name: &str) -> Option<String> {
        (name == "HOME").then(|| "/root".to_owned())
    }
}

/// Knows `mod_dir.c`, and whatever was loaded.
struct Modules(Vec<String>);

impl Loader for Modules {
    fn load(&mut self, name: &Spanned<String>, _: &Spanned<String>) -> Result<(), Diagnostic> {
        if name.value == "bad_module" {
            return Err(Diagnostic::error(name.span, "bad_module cannot be loaded").help("do without"));
        }
        self.0.push(name.value.clone());
        Ok(())
    }

    fn is_loaded(&self, name: &str) -> bool {
        name == "mod_dir.c" || self.0.iter().any(|loaded| loaded == name)
    }
}

/// What the directives of these tests set, as text.
type Log = Vec<String>;

fn note(log: &mut Log, call: &Call<'_>) -> Result<(), Diagnostic> {
    let args: Vec<_> = call.args.iter().map(|arg| arg.value.as_str()).collect();
    log.push(format!("{} {}", call.name, args.join("|")));
    Ok(())
}

const fn row(
    name: &'static str,
    args: ArgShape,
    set: fn(&mut Log, &Call<'_>) -> Result<(), Diagnostic>,
) -> Directive<Log> {
    Directive { name, module: "core", contexts: Contexts::SERVER, args, default: "", help: "What it is for.", set }
}

const ROWS: &[Directive<Log>] = &[
    row("ServerName", ArgShape::Take1, note),
    row("Names", ArgShape::Iterate, note),
    row("Pair", ArgShape::Take12, note),
    row("KeepAlive", ArgShape::Flag, |log, call| {
        log.push(format!("KeepAlive {}", call.flag(0)?));
        Ok(())
    }),
    row("Workers", ArgShape::Take1, |log, call| {
        log.push(format!("Workers {}", call.integer(0, 0..=1_000)?));
        Ok(())
    }),
    row("Timeout", ArgShape::Take1, |log, call| {
        log.push(format!("Timeout {:?}", call.duration(0)?));
        Ok(())
    }),
    row("DocumentRoot", ArgShape::Take1, |log, call| {
        log.push(format!("DocumentRoot {}", call.path(0).display()));
        Ok(())
    }),
    row("<Location", ArgShape::Take1, note),
    Directive { contexts: Contexts::SECTION, ..row("Require", ArgShape::Iterate, in_section) },
    Directive { contexts: Contexts::ANYWHERE, ..row("SetHandler", ArgShape::Take1, in_section) },
];

/// Notes the section too.
fn in_section(log: &mut Log, call: &Call<'_>) -> Result<(), Diagnostic> {
    note(log, call)?;
    log.push(format!("  in {}", call.section.unwrap_or("no section")));
    Ok(())
}

fn read(main: &str, others: &[(&str, &str)]) -> (Configuration, Log, Vec<Diagnostic>) {
    let main = ("/etc/main.conf", main);
    let files = others.iter().chain([&main]).map(|(name, text)| ((*name).to_owned(), (*text).to_owned()));
    let (world, mut modules) = (Memory(files.collect()), Modules(Vec::new()));
    let mut reader = Reader::new(&world, &mut modules, Path::new("/etc"), &["FROM_D".to_owned()]);
    reader.file(Path::new("/etc/main.conf"));
    let mut configuration = reader.finish();
    let mut table = Table { rows: ROWS, value: Log::new() };
    let elsewhere = [Elsewhere { name: "MinSpareServers", help: "it belongs to the MPM prefork" }];
    let findings = check(&configuration, &mut [&mut table as &mut dyn Module], &elsewhere);
    configuration.findings.extend(findings);
    let findings = configuration.findings.clone();
    (configuration, table.value, findings)
}

/// What a faultless configuration sets.
#[track_caller]
fn sets(main: &str, others: &[(&str, &str)], expected: &[&str]) {
    let (configuration, log, findings) = read(main, others);
    let findings: String =
        findings.iter().map(|finding| render(finding, &configuration.sources, "httpd", Style::Plain)).collect();
    assert_eq!(findings, "", "{main}");
    assert_eq!(log, expected, "{main}");
}

/// What is said about a configuration.
#[track_caller]
fn says(main: &str, others: &[(&str, &str)], expected: &str) {
    let (configuration, _, findings) = read(main, others);
    let text: String =
        findings.iter().map(|finding| render(finding, &configuration.sources, "httpd", Style::Plain)).collect();
    assert_eq!(text, expected.trim_start_matches('\n'), "{main}");
}

#[test]
fn directives_are_carried_out_in_order() {
    sets(
        "# a comment \\\nServerName no\nservername a\n\n  WORKERS 7\nkeepalive oN",
        &[],
        &["ServerName a", "Workers 7", "KeepAlive true"],
    );
    sets("Names a \"b c\" \\\n  d\nPair a\nPair a b", &[], &["Names a|b c|d", "Pair a", "Pair a|b"]);
    sets(
        "Timeout 5\nTimeout 100ms\nTimeout 2mi\nTimeout 1h",
        &[],
        &["Timeout 5s", "Timeout 100ms", "Timeout 120s", "Timeout 3600s"],
    );
    sets("DocumentRoot /a\nDocumentRoot b", &[], &["DocumentRoot /a", "DocumentRoot /etc/b"]);
}

#[test]
fn variables_come_from_define_and_then_the_environment() {
    sets(
        "ServerName ${HOME}\nDefine HOME x\nServerName ${home}/${HOME}\nUnDefine Home\nServerName ${HOME}",
        &[],
        &["ServerName /root", "ServerName x/x", "ServerName /root"],
    );
    sets("Define X \"a b\"\nPair ${X}\nDefine N Server\n${N}Name z", &[], &["Pair a|b", "ServerName z"]);
    sets("ServerName ${map:key}", &[], &["ServerName ${map:key}"]);
}

#[test]
fn conditional_sections_are_resolved_while_reading() {
    sets(
        "<IfModule a_module>\nNope\n</IfModule>\nLoadModule a_module a.so\n<ifmodule a_module>\nServerName a\n</IFMODULE>",
        &[],
        &["ServerName a"],
    );
    sets(
        "<IfModule mod_dir.c>\nServerName a\n</IfModule>\n<IfModule !mod_dir.c>\nNope ${NOPE}\n</IfModule>",
        &[],
        &["ServerName a"],
    );
    sets(
        "<IfDefine FROM_D>\nServerName a\n</IfDefine>\n<IfDefine !LATER>\nDefine LATER\n</IfDefine>\n<IfDefine LATER>\nServerName b\n</IfDefine>",
        &[],
        &["ServerName a", "ServerName b"],
    );
    sets(
        "<IfModule none>\n<Foo bar>\n<IfModule mod_dir.c>\nNope\n</IfModule>\n</Foo>\n</IfModule>\nServerName a",
        &[],
        &["ServerName a"],
    );
    sets("<IfFile main.conf>\nServerName a\n</IfFile>\n<IfFile other>\nNope\n</IfFile>", &[], &["ServerName a"]);
    sets("<IfModule \"mod_dir.c\"> trailing\nServerName a\n</IfModule>", &[], &["ServerName a"]);
}

#[test]
fn includes_are_sorted_and_relative_to_server_root() {
    let files = [
        ("/etc/d/b.conf", "ServerName b"),
        ("/etc/d/a.conf", "ServerName a"),
        ("/etc/d/.hidden.conf", "Nope"),
        ("/etc/d/c.txt", "Nope"),
    ];
    sets("Include d/*.conf", &files, &["ServerName a", "ServerName b"]);
    sets("Include /etc/[d]/a.conf\nIncludeOptional none/*.conf\nIncludeOptional none.conf", &files, &["ServerName a"]);
    sets("Include d/[^b]**.conf", &files, &["ServerName a"]);
    sets(
        "Include d",
        &[("/etc/d/x/1", "ServerName 1"), ("/etc/d/y", "ServerName y")],
        &["ServerName 1", "ServerName y"],
    );
    sets("ServerRoot /srv\nInclude a", &[("/srv/a", "DocumentRoot b"), ("/etc/a", "Nope")], &["DocumentRoot /srv/b"]);
    sets("Include a\nServerName ${X}", &[("/etc/a", "Define X 1")], &["ServerName 1"]);
}

#[test]
fn a_misspelt_directive_names_the_place_and_the_nearest_one() {
    says(
        "Workers 1\n  ServrName a\n",
        &[],
        "
AH00526: Syntax error on line 2 of /etc/main.conf:
Invalid command 'ServrName', perhaps misspelled or defined by a module not included in the server configuration
 --> /etc/main.conf:2:3
  |
2 |   ServrName a
  |   ^^^^^^^^^ unknown
  |
  = help: did you mean 'ServerName'?
",
    );
}

#[test]
fn what_apache_has_and_what_another_mpm_has_is_not_called_misspelt() {
    says(
        "RewriteEngine on\nMinSpareServers 5\n<VirtualHost *:80>\nNope\n</VirtualHost>\n",
        &[],
        "
AH00526: Syntax error on line 1 of /etc/main.conf:
Invalid command 'RewriteEngine', perhaps misspelled or defined by a module not included in the server configuration
 --> /etc/main.conf:1:1
  |
1 | RewriteEngine on
  | ^^^^^^^^^^^^^ Apache has it in mod_rewrite; this version of Manifold does not
  |
  = help: remove it, or put it between '<IfDefine !MANIFOLD>' and '</IfDefine>' to keep it for Apache
AH00526: Syntax error on line 2 of /etc/main.conf:
Invalid command 'MinSpareServers', perhaps misspelled or defined by a module not included in the server configuration
 --> /etc/main.conf:2:1
  |
2 | MinSpareServers 5
  | ^^^^^^^^^^^^^^^ not of the MPM in use
  |
  = help: it belongs to the MPM prefork
AH00526: Syntax error on line 3 of /etc/main.conf:
<VirtualHost> sections are not supported by this version
 --> /etc/main.conf:3:1
  |
3 | <VirtualHost *:80>
  | ^^^^^^^^^^^^^^^^^^ this section
  |
  = help: remove it, or put it between '<IfDefine !MANIFOLD>' and '</IfDefine>' to keep it for Apache
",
    );
}

#[test]
fn sections_are_carried_out_with_what_stands_in_them() {
    sets(
        "sethandler a\n<location /x>\nRequire all granted\n<IfModule mod_dir.c>\nSetHandler b\n</IfModule>\n</LOCATION>\nKeepAlive on",
        &[],
        &[
            "SetHandler a",
            "  in no section",
            "<Location /x",
            "Require all|granted",
            "  in <Location",
            "SetHandler b",
            "  in <Location",
            "KeepAlive true",
        ],
    );
}

#[test]
fn what_stands_in_the_wrong_place_is_shown() {
    says(
        "Require all granted\n<Location /x>\nKeepAlive On\n<Location /y>\nNonsense\n</Location>\nSetHandlr x\n</Location>\n<Location>\nNonsense\n</Location>",
        &[],
        "
AH00526: Syntax error on line 1 of /etc/main.conf:
Require not allowed here
 --> /etc/main.conf:1:1
  |
1 | Require all granted
  | ^^^^^^^
  |
  = help: it belongs into a section such as '<Location /path>'
AH00526: Syntax error on line 3 of /etc/main.conf:
KeepAlive not allowed in <Location> context
 --> /etc/main.conf:3:1
  |
3 | KeepAlive On
  | ^^^^^^^^^
  |
  = help: this version takes it in: server config, virtual host
AH00526: Syntax error on line 4 of /etc/main.conf:
<Location not allowed in <Location> context
 --> /etc/main.conf:4:1
  |
4 | <Location /y>
  | ^^^^^^^^^
  |
  = help: this version takes it in: server config, virtual host
AH00526: Syntax error on line 7 of /etc/main.conf:
Invalid command 'SetHandlr', perhaps misspelled or defined by a module not included in the server configuration
 --> /etc/main.conf:7:1
  |
7 | SetHandlr x
  | ^^^^^^^^^ unknown
  |
  = help: did you mean 'SetHandler'?
AH00526: Syntax error on line 9 of /etc/main.conf:
<Location takes one argument, What it is for
 --> /etc/main.conf:9:1
  |
9 | <Location>
  | ^^^^^^^^^^ nothing follows
",
    );
}

#[test]
fn wrong_values_are_shown() {
    says(
        "Workers abc\nWorkers 5000\nKeepAlive maybe\nTimeout 5x\n",
        &[],
        "
AH00526: Syntax error on line 1 of /etc/main.conf:
Workers takes a whole number, not 'abc'
 --> /etc/main.conf:1:9
  |
1 | Workers abc
  |         ^^^ a whole number belongs here
AH00526: Syntax error on line 2 of /etc/main.conf:
Workers of 5000 is not allowed, it must be between 0 and 1000
 --> /etc/main.conf:2:9
  |
2 | Workers 5000
  |         ^^^^ out of range
AH00526: Syntax error on line 3 of /etc/main.conf:
KeepAlive must be On or Off
 --> /etc/main.conf:3:11
  |
3 | KeepAlive maybe
  |           ^^^^^ neither On nor Off
AH00526: Syntax error on line 4 of /etc/main.conf:
Timeout has wrong format
 --> /etc/main.conf:4:9
  |
4 | Timeout 5x
  |         ^^ not a time
  |
  = help: write a whole number of seconds such as '5', or a number with its unit: '500ms', '5s', '2mi', '1h'
",
    );
}

#[test]
fn wrong_numbers_of_words_are_shown() {
    says(
        "ServerName a # b\nServerName\nNames\n",
        &[],
        "
AH00526: Syntax error on line 1 of /etc/main.conf:
ServerName takes one argument, What it is for
 --> /etc/main.conf:1:14
  |
1 | ServerName a # b
  |              ^ too many
  |
  = help: an argument with spaces in it needs quotes; a comment must be on a line of its own
AH00526: Syntax error on line 2 of /etc/main.conf:
ServerName takes one argument, What it is for
 --> /etc/main.conf:2:1
  |
2 | ServerName
  | ^^^^^^^^^^ nothing follows
AH00526: Syntax error on line 3 of /etc/main.conf:
Names requires at least one argument, What it is for
 --> /etc/main.conf:3:1
  |
3 | Names
  | ^^^^^ nothing follows
",
    );
}

#[test]
fn words_after_a_flag_are_ignored_but_not_in_silence() {
    says(
        "KeepAlive on # b\n",
        &[],
        "
KeepAlive takes one word; what follows is ignored
 --> /etc/main.conf:1:14
  |
1 | KeepAlive on # b
  |              ^
  |
  = help: a comment must be on a line of its own
",
    );
}

#[test]
fn sections_must_match() {
    says(
        "<IfModule mod_dir.c>\n</IfDefine>\n</Foo>\n<Foo x>\n</Fooo>\n<IfModule mod_dir.c>\n<IfModule none>\n",
        &[],
        "
httpd: Syntax error on line 2 of /etc/main.conf: </IfDefine> without matching <IfDefine> section
 --> /etc/main.conf:2:1
  |
2 | </IfDefine>
  | ^^^^^^^^^^^
  |
  = help: <IfModule> was opened on line 1
httpd: Syntax error on line 3 of /etc/main.conf: </Foo> without matching <Foo> section
 --> /etc/main.conf:3:1
  |
3 | </Foo>
  | ^^^^^^ nothing is open here
httpd: Syntax error on line 5 of /etc/main.conf: Expected </Foo> but saw </Fooo>
 --> /etc/main.conf:5:1
  |
5 | </Fooo>
  | ^^^^^^^
  |
  = help: <Foo> was opened on line 4
httpd: Syntax error on line 7 of /etc/main.conf: Expected </IfModule> before end of configuration
 --> /etc/main.conf:7:1
  |
7 | <IfModule none>
  | ^^^^^^^^^ opened here
  |
  = help: close it with '</IfModule>' on a line of its own
httpd: Syntax error on line 6 of /etc/main.conf: Expected </IfModule> before end of configuration
 --> /etc/main.conf:6:1
  |
6 | <IfModule mod_dir.c>
  | ^^^^^^^^^ opened here
  |
  = help: close it with '</IfModule>' on a line of its own
AH00526: Syntax error on line 4 of /etc/main.conf:
Invalid command '<Foo', perhaps misspelled or defined by a module not included in the server configuration
 --> /etc/main.conf:4:1
  |
4 | <Foo x>
  | ^^^^ unknown
",
    );
    says(
        "</IfModule>\n<IfModule>\n</IfModule>\n<IfModule x\n</IfModule>\n",
        &[],
        "
httpd: Syntax error on line 1 of /etc/main.conf: </IfModule> without matching <IfModule> section
 --> /etc/main.conf:1:1
  |
1 | </IfModule>
  | ^^^^^^^^^^^ nothing is open here
httpd: Syntax error on line 2 of /etc/main.conf: <IfModule> directive requires additional arguments
 --> /etc/main.conf:2:1
  |
2 | <IfModule>
  | ^^^^^^^^^^
httpd: Syntax error on line 4 of /etc/main.conf: <IfModule> directive missing closing '>'
 --> /etc/main.conf:4:1
  |
4 | <IfModule x
  | ^^^^^^^^^^^
",
    );
}

#[test]
fn errors_in_included_files_say_who_included_them() {
    says(
        "\nInclude a.conf\n",
        &[("/etc/a.conf", "Wrkers 1")],
        "
AH00526: Syntax error on line 1 of /etc/a.conf:
Invalid command 'Wrkers', perhaps misspelled or defined by a module not included in the server configuration
 --> /etc/a.conf:1:1
  |
1 | Wrkers 1
  | ^^^^^^ unknown
  |
  = note: included by line 2 of /etc/main.conf
  = help: did you mean 'Workers'?
",
    );
    says("Include none.conf\nInclude none/*.conf\nError \"not today\"\nLoadModule bad_module x\n", &[], "
httpd: Syntax error on line 1 of /etc/main.conf: Could not open configuration file /etc/none.conf: No such file or directory
 --> /etc/main.conf:1:9
  |
1 | Include none.conf
  |         ^^^^^^^^^
  |
  = help: relative paths start at ServerRoot, which is '/etc'; IncludeOptional does not mind
httpd: Syntax error on line 2 of /etc/main.conf: Include/IncludeOptional: No matches for the wildcard 'none/*.conf' in '/etc', failing
 --> /etc/main.conf:2:9
  |
2 | Include none/*.conf
  |         ^^^^^^^^^^^
  |
  = help: relative paths start at ServerRoot, which is '/etc'; IncludeOptional does not mind
AH00526: Syntax error on line 3 of /etc/main.conf:
not today
 --> /etc/main.conf:3:1
  |
3 | Error \"not today\"
  | ^^^^^^^^^^^^^^^^^
httpd: Syntax error on line 4 of /etc/main.conf: bad_module cannot be loaded
 --> /etc/main.conf:4:12
  |
4 | LoadModule bad_module x
  |            ^^^^^^^^^^
  |
  = help: do without
");
}

#[test]
fn an_undefined_variable_is_a_warning() {
    says(
        "ServerName a${NONE}b\n",
        &[],
        "
AH00111: Config variable ${NONE} is not defined
 --> /etc/main.conf:1:13
  |
1 | ServerName a${NONE}b
  |             ^^^^^^^ left as it is
  |
  = help: 'Define NONE value' sets it, and so does the environment
",
    );
}

#[test]
fn what_is_shown_cannot_steer_a_terminal() {
    let (configuration, _, findings) = read("\u{1b}[2J\u{7} x\n", &[]);
    let text = render(&findings[0], &configuration.sources, "httpd", Style::Plain);
    assert!(text.contains("Invalid command '\\u{1b}[2J\\u{7}'"), "{text}");
    assert!(!text.contains(['\u{1b}', '\u{7}']), "{text}");
}

#[test]
fn a_file_that_includes_itself_ends() {
    let (_, _, findings) = read("Include main.conf\nInclude main.conf\n", &[]);
    assert_eq!(findings.len(), 1);
    assert_eq!(findings[0].message, "Exceeded maximum include depth of 128, There appears to be a recursion.");
}

#[test]
fn a_file_that_is_missing_is_named() {
    let (world, mut modules) = (Memory(BTreeMap::new()), Modules(Vec::new()));
    let mut reader = Reader::new(&world, &mut modules, Path::new("/etc"), &[]);
    reader.file(Path::new("/none"));
    let configuration = reader.finish();
    let text = render(&configuration.findings[0], &configuration.sources, "httpd", Style::Plain);
    assert_eq!(text, "httpd: Could not open configuration file /none: No such file or directory\n");
    assert_eq!(configuration.server_root, PathBuf::from("/etc"));
}

#[test]
fn bounds_hold() {
    let deep = "<IfModule mod_dir.c>\n".repeat(1_000);
    let (_, _, findings) = read(&deep, &[]);
    assert_eq!(findings[0].message, "Sections are nested more than 128 deep");
    let wrong = "Nope\n".repeat(1_000);
    let (_, _, findings) = read(&wrong, &[]);
    assert_eq!(findings.len(), 51);
    let growing = format!("Define A {}\n{}ServerName ${{A}}\n", "x".repeat(1_000), "Define A ${A}${A}\n".repeat(60));
    let (_, _, findings) = read(&growing, &[]);
    assert_eq!(findings[0].message, "The line is longer than 1024 kB");
}

#[test]
fn lists_come_from_the_rows() {
    let table = Table { rows: &ROWS[..1], value: Log::new() };
    let expected = "ServerName (core.c)\n\tWhat it is for.\n\tAllowed in *.conf only outside <Directory>, <Files>, <Location>, or <If>\n";
    assert_eq!(document::list(&table.rows()), expected);
    let expected = "| Directive | Arguments | Default | Context | Module | Meaning |\n|---|---|---|---|---|---|\n\
                    | `ServerName` | one |  | server config, virtual host | core | What it is for. |\n";
    assert_eq!(document::markdown(&table.rows()), expected);
}

fn holds(main: &str) {
    let (configuration, _, findings) = read(main, &[("/etc/a", "ServerName a\nNames ${X}"), ("/etc/main.conf", main)]);
    for finding in &findings {
        if let Some(span) = finding.span {
            assert!(
                span.start <= span.end && span.end as usize <= configuration.sources.source(span.source).text.len()
            );
        }
        for style in [Style::Plain, Style::Coloured] {
            render(finding, &configuration.sources, "httpd", style);
        }
    }
    for node in &configuration.nodes {
        for span in node.args.iter().map(|arg| arg.span).chain([node.span, node.name.span]) {
            configuration.sources.text(span);
        }
    }
}

/// Pieces of configurations, so that random ones get past the first line.
fn piece() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => proptest::sample::select(vec![
            "ServerName ", "Workers ", "Define A ", "UnDefine A", "${A}", "${", "}", "<IfModule ", "mod_dir.c", "!", ">", "</IfModule>",
            "<VirtualHost ", "</VirtualHost>", "Include a", "Include ", "*", "\n", "\n", "\n", "\\\n", "\r\n", " ", "\"", "'", "\\", "#",
            "IncludeOptional [", "Names a b", "KeepAlive on", "LoadModule x y", "Error ", "\t", "\u{e9}", "\u{1f980}",
        ]).prop_map(str::to_owned),
        1 => any::<String>(),
    ]
}

proptest! {
    #[test]
    fn nothing_panics_and_places_are_inside(pieces in proptest::collection::vec(piece(), 0..60)) {
        holds(&pieces.concat());
    }

    #[test]
    fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        holds(&String::from_utf8_lossy(&bytes));
    }
}

#[test]
fn times_have_a_bound() {
    let (_, log, findings) = read("Timeout 9999999999999999999999\nTimeout 99999999999h\nTimeout 31536000", &[]);
    assert_eq!(findings.len(), 2);
    assert_eq!(log, [format!("Timeout {:?}", Duration::from_secs(31_536_000))]);
}
