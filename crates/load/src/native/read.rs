//! Reports from files, which anybody may have written.

use std::ffi::OsString;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::MetadataExt;

use serde::Deserialize;

use crate::report::{Report, SCHEMA};

/// No report is longer: that of an hour's run has some megabytes.
const BYTES_MAX: u64 = 256 * 1024 * 1024;

/// A report and the file it is from.
#[derive(Debug)]
pub struct Named {
    /// The file's name.
    pub name: String,
    /// What it holds.
    pub report: Report,
}

/// What every version of a report has.
#[derive(Deserialize)]
struct Version {
    schema: u32,
    version: String,
}

/// Reads a report.
///
/// # Errors
/// A sentence with the file's name: it cannot be read, is no report, or one of another version.
pub fn file(path: &OsString) -> Result<Named, String> {
    let name = path.to_string_lossy().into_owned();
    let mut text = String::new();
    File::open(path)
        .and_then(|file| file.take(BYTES_MAX + 1).read_to_string(&mut text))
        .map_err(|error| format!("cannot read {name}: {error}"))?;
    if text.len() as u64 > BYTES_MAX {
        return Err(format!("{name} is longer than {} MB: no report is", BYTES_MAX >> 20));
    }
    parse(&text).map(|report| Named { report, name: name.clone() }).map_err(|said| format!("{name} {said}"))
}

/// Refuses a file that is named twice, by whatever names.
///
/// # Errors
/// A sentence with both names.
pub fn different(files: &[OsString]) -> Result<(), String> {
    // One that cannot be looked at is told of when it is read.
    let places = files.iter().filter_map(|path| {
        let metadata = std::fs::metadata(path).ok()?;
        Some((path, metadata.dev(), metadata.ino()))
    });
    let mut seen: Vec<(&OsString, u64, u64)> = Vec::new();
    for (path, device, inode) in places {
        if let Some((other, ..)) = seen.iter().find(|(_, dev, ino)| (*dev, *ino) == (device, inode)) {
            let (path, other) = (path.to_string_lossy(), other.to_string_lossy());
            return Err(if path == other {
                format!("{path} is named twice")
            } else {
                format!("{path} and {other} are the same file")
            });
        }
        seen.push((path, device, inode));
    }
    Ok(())
}

/// What is wrong begins with a verb.
fn parse(text: &str) -> Result<Report, String> {
    if text.trim().is_empty() {
        return Err("is empty".to_owned());
    }
    let no_report = |error: serde_json::Error| {
        if error.is_eof() {
            format!("ends in the middle of a report: line {}, column {}", error.line(), error.column())
        } else {
            format!("is no report of manifold load --json: {error}")
        }
    };
    let Version { schema, version } = serde_json::from_str(text).map_err(no_report)?;
    if schema != SCHEMA {
        return Err(format!(
            "has schema {schema} (Manifold {version}), and this version reads schema {SCHEMA}: use the Manifold that wrote it"
        ));
    }
    serde_json::from_str(text).map_err(no_report)
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPORT: &str = include_str!("../../../lab/tests/load-report.json");

    #[test]
    fn what_is_no_report_is_told() {
        let old = REPORT.replacen(&format!("\"schema\": {SCHEMA}"), "\"schema\": 1", 1);
        let cut = &REPORT[..REPORT.len() / 2];
        for (text, said) in [
            ("", "is empty"),
            ("\n", "is empty"),
            ("hello", "is no report of manifold load --json: expected value"),
            ("[1, 2]", "is no report"),
            ("{\"schema\": 4}", "is no report of manifold load --json: missing field `version`"),
            ("{\"schema\": 4, \"version\": \"0.1.0\"}", "is no report of manifold load --json: missing field"),
            (cut, "ends in the middle of a report: line"),
            (&old, "has schema 1 (Manifold 0.1.0), and this version reads schema"),
        ] {
            let got = parse(text).expect_err(said);
            assert!(got.starts_with(said), "{got}");
        }
        assert!(parse(REPORT).is_ok());
    }

    #[test]
    fn files_that_cannot_be_read_and_files_named_twice() {
        let folder = std::env::temp_dir().join(format!("manifold-read-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("sub")).expect("a folder");
        let [one, two, link] = ["one.json", "two.json", "link.json"].map(|name| folder.join(name).into_os_string());
        std::fs::write(&one, REPORT).expect("written");
        std::fs::write(&two, [0xff, 0xfe]).expect("written");
        std::fs::hard_link(&one, &link).expect("linked");
        assert_eq!(different(&[one.clone(), two.clone()]), Ok(()));
        assert!(
            different(&[one.clone(), two.clone(), one.clone()]).is_err_and(|said| said.ends_with("is named twice"))
        );
        assert!(different(&[one.clone(), link]).is_err_and(|said| said.ends_with("are the same file")));
        assert!(file(&one).is_ok());
        for (path, part) in
            [(two, "two.json: stream did not contain valid UTF-8"), (folder.clone().into_os_string(), "Is a directory")]
        {
            let said = file(&path).expect_err(part);
            assert!(said.starts_with("cannot read ") && said.contains(part), "{said}");
        }
        std::fs::remove_dir_all(folder).expect("removed");
    }
}
