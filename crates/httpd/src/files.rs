//! The directives about files: which of them are kept and for how long, what their tags are made of, which symbolic links are
//! followed. What they mean is in `manifold_modules::file_cache`.

use manifold_config::{ArgShape, Call, Contexts, Diagnostic, Directive};
use manifold_http::ContentCoding;
use manifold_modules::file_cache::{Check, FileSettings, Links, TagParts};

/// What the configuration says of it.
#[derive(Clone, Debug, Default)]
pub(crate) struct RawFiles {
    check: Option<Check>,
    size: Option<u64>,
    tag: RawTag,
    options: RawOptions,
    precompressed: Vec<ContentCoding>,
}

/// `FileETag`: what was named, and what was added to it and taken from it.
#[derive(Clone, Copy, Debug, Default)]
struct RawTag {
    named: u8,
    added: u8,
    removed: u8,
}

/// `Options`, those of them that mean something here.
#[derive(Clone, Copy, Debug)]
struct RawOptions {
    follow_links: bool,
    links_if_owner_match: bool,
}

impl Default for RawOptions {
    fn default() -> RawOptions {
        RawOptions { follow_links: true, links_if_owner_match: false }
    }
}

impl RawFiles {
    /// What holds, defaults filled in.
    pub(crate) fn resolve(&self) -> FileSettings {
        let default = FileSettings::default();
        FileSettings {
            check: self.check.unwrap_or(default.check),
            size: self.size.unwrap_or(default.size),
            tag: self.tag.resolve(),
            links: match self.options {
                RawOptions { links_if_owner_match: true, .. } => Links::OwnerMatch,
                RawOptions { follow_links: true, .. } => Links::Follow,
                RawOptions { .. } => Links::Refuse,
            },
            precompressed: self.precompressed.clone(),
        }
    }
}

type Row = Directive<RawFiles>;

/// Every row.
pub(crate) static ROWS: &[Row] = &[
    Directive {
        name: "FileETag",
        module: "core",
        contexts: Contexts::SERVER,
        args: ArgShape::RawArgs,
        default: "MTime Size",
        help: "What entity tags of files are made of: INode, MTime, Size, Digest, All or None; + and - change what holds.",
        set: file_etag,
    },
    Directive {
        name: "EnableMMAP",
        module: "core",
        contexts: Contexts::SERVER,
        args: ArgShape::Flag,
        default: "On",
        help: "Without effect: no file is ever mapped. Small ones are kept in memory, large ones are sent by the kernel.",
        set: |_, call| call.flag(0).map(drop),
    },
    Directive {
        name: "Options",
        module: "core",
        contexts: Contexts::SERVER,
        args: ArgShape::RawArgs,
        default: "FollowSymLinks",
        help: "Whether symbolic links below the document root are followed: FollowSymLinks, SymLinksIfOwnerMatch, All or None.",
        set: options,
    },
    Directive {
        name: "ManifoldFileCheck",
        module: "core",
        contexts: Contexts::SERVER,
        args: ArgShape::Take1,
        default: "always",
        help: "When a file that is kept is compared with the one on disk: always, never, or after a time such as 1s.",
        set: file_check,
    },
    Directive {
        name: "ManifoldFileCacheSize",
        module: "core",
        contexts: Contexts::SERVER,
        args: ArgShape::Take1,
        default: "8388608",
        help: "Bytes of small files that each process keeps in memory.",
        set: |files, call| {
            files.size = Some(call.integer(0, 0..=SIZE_MAX)?.cast_unsigned());
            Ok(())
        },
    },
    Directive {
        name: "ManifoldPrecompressed",
        module: "core",
        contexts: Contexts::SERVER,
        args: ArgShape::Iterate,
        default: "Off",
        help: "Codings in which files may lie beside the original, the favourite first: br (page.html.br), zstd (.zst), gzip (.gz).",
        set: precompressed,
    },
];

/// A terabyte: more is a slip of the pen.
const SIZE_MAX: i64 = 1 << 40;

const TAG_INODE: u8 = 1;
const TAG_MODIFIED: u8 = 2;
const TAG_SIZE: u8 = 4;
const TAG_DIGEST: u8 = 8;
const TAG_NONE: u8 = 16;
const TAG_ALL: u8 = TAG_INODE | TAG_MODIFIED | TAG_SIZE;

impl RawTag {
    /// As Apache does: `None` outweighs what is named or added beside it, and where nothing is left the default holds.
    fn resolve(self) -> TagParts {
        let parts = (self.named & !self.removed) | self.added;
        let has = |part| parts & part != 0;
        match parts {
            0 => TagParts::DEFAULT,
            _ if has(TAG_NONE) => TagParts::NONE,
            _ => TagParts {
                inode: has(TAG_INODE),
                size: has(TAG_SIZE),
                modified: has(TAG_MODIFIED),
                digest: has(TAG_DIGEST),
            },
        }
    }
}

/// A word without its sign, and the sign.
fn signed(word: &str) -> (Option<char>, &str) {
    match word.strip_prefix(['+', '-']) {
        Some(rest) => (word.chars().next(), rest),
        None => (None, word),
    }
}

fn file_etag(files: &mut RawFiles, call: &Call<'_>) -> Result<(), Diagnostic> {
    let tag = &mut files.tag;
    let mut first = true;
    for (index, word) in call.args.iter().enumerate() {
        let (sign, keyword) = signed(&word.value);
        let part = match keyword.to_ascii_lowercase().as_str() {
            "none" => TAG_NONE,
            "all" => TAG_ALL,
            "inode" => TAG_INODE,
            "mtime" | "lmtime" | "lastmodified" => TAG_MODIFIED,
            "size" => TAG_SIZE,
            "digest" => TAG_DIGEST,
            _ => return Err(call.error_at(index, format!("Unknown keyword '{keyword}' for FileETag directive"))),
        };
        match sign {
            Some(_) if matches!(part, TAG_NONE | TAG_ALL) => {
                let message = format!("FileETag keyword '{keyword}' cannot be used with '+' or '-'");
                return Err(call.error_at(index, message));
            }
            Some('+') => (tag.added, tag.removed) = (tag.added | part, tag.removed & !part),
            Some(_) => (tag.added, tag.removed) = (tag.added & !part, tag.removed | part),
            None => {
                // What was said before is forgotten; `None` and `All` forget what was named beside them as well.
                let named = if first || matches!(part, TAG_NONE | TAG_ALL) { 0 } else { tag.named };
                *tag = RawTag { named: named | part, ..RawTag::default() };
                first = false;
            }
        }
    }
    Ok(())
}

fn options(files: &mut RawFiles, call: &Call<'_>) -> Result<(), Diagnostic> {
    let options = &mut files.options;
    let mut first_sign = None;
    for (index, word) in call.args.iter().enumerate() {
        let (sign, keyword) = signed(&word.value);
        if *first_sign.get_or_insert(sign.is_some()) != sign.is_some() {
            return Err(call.error_at(index, "Either all Options must start with + or -, or no Option may."));
        }
        if sign.is_none() && index == 0 {
            *options = RawOptions { follow_links: false, links_if_owner_match: false };
        }
        let value = sign != Some('-');
        match keyword.to_ascii_lowercase().as_str() {
            which @ ("none" | "all") => {
                let name = if which == "all" { "All" } else { "None" };
                if index > 0 {
                    return Err(call.error_at(index, format!("'Options {name}' must be the first Option given.")));
                }
                if sign.is_some() {
                    let message = format!("You may not use 'Options +{name}' or 'Options -{name}'.");
                    return Err(call.error_at(index, message));
                }
                options.follow_links = which == "all";
            }
            "followsymlinks" => options.follow_links = value,
            "symlinksifownermatch" => options.links_if_owner_match = value,
            "indexes" | "includes" | "includesnoexec" | "execcgi" | "multiviews" | "runscripts" => {
                if value {
                    let message = format!("Options {keyword} has no effect: it is not part of this version");
                    call.report(Diagnostic::warning(word.span, message));
                }
            }
            _ => return Err(call.error_at(index, format!("Illegal option {keyword}"))),
        }
    }
    Ok(())
}

fn file_check(files: &mut RawFiles, call: &Call<'_>) -> Result<(), Diagnostic> {
    files.check = Some(match call.text(0).to_ascii_lowercase().as_str() {
        "always" => Check::Always,
        "never" => Check::Never,
        _ => {
            let time = call.duration(0).map_err(|error| error.help("or write 'always' or 'never'"))?;
            if time.is_zero() { Check::Always } else { Check::After(time) }
        }
    });
    Ok(())
}

fn precompressed(files: &mut RawFiles, call: &Call<'_>) -> Result<(), Diagnostic> {
    files.precompressed.clear();
    if call.args.len() == 1 && call.text(0).eq_ignore_ascii_case("off") {
        return Ok(());
    }
    for (index, word) in call.args.iter().enumerate() {
        let Some(coding) = ContentCoding::named(word.value.as_bytes()) else {
            let error = call.error_at(index, format!("ManifoldPrecompressed: there is no coding '{}'", word.value));
            return Err(error.help("there are br, zstd and gzip; 'Off' means none"));
        };
        if !files.precompressed.contains(&coding) {
            files.precompressed.push(coding);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use manifold_config::{Reader, System, Table, check};
    use std::path::Path;
    use std::time::Duration;

    use crate::loader::Modules;

    /// What `lines` resolve to, or the first finding.
    fn read(lines: &str) -> Result<FileSettings, String> {
        let mut modules = Modules::new(None);
        let mut reader = Reader::new(&System, &mut modules, Path::new("/"), &[]);
        reader.text("test", lines);
        let configuration = reader.finish();
        let mut table = Table { rows: ROWS, value: RawFiles::default() };
        let findings = check(&configuration, &mut [&mut table], &[]);
        match findings.first() {
            Some(finding) => Err(finding.message.clone()),
            None => Ok(table.value.resolve()),
        }
    }

    /// Each row as Apache 2.4.71 answers it.
    #[test]
    fn tags_are_made_of_what_is_said() {
        let none = TagParts::NONE;
        let (inode, size) = (TagParts { inode: true, ..none }, TagParts { size: true, ..none });
        let check = |lines: &str, expected: TagParts| assert_eq!(read(lines).unwrap().tag, expected, "{lines}");
        check("", TagParts::DEFAULT);
        check("FileETag", TagParts::DEFAULT);
        check("FileETag INode MTime Size", TagParts::ALL);
        check("FileETag all", TagParts::ALL);
        check("FileETag None", none);
        check("FileETag +INode", inode);
        check("FileETag -MTime", TagParts::DEFAULT);
        check("FileETag -MTime -Size", TagParts::DEFAULT);
        check("FileETag INode +Size", TagParts { size: true, ..inode });
        check("FileETag None INode", none);
        check("FileETag None +Size", none);
        check("FileETag None\nFileETag Size", size);
        check("FileETag +INode\nFileETag +Size", TagParts { size: true, ..inode });
        check("FileETag All -INode", TagParts::DEFAULT);
        check("FileETag All\nFileETag -INode", TagParts::DEFAULT);
        check("FileETag All -INode MTime", TagParts::ALL);
        check("FileETag -INode +INode", inode);
        check("FileETag +Digest", TagParts { digest: true, ..none });
        check("FileETag Digest MTime", TagParts { digest: true, modified: true, ..none });
        let wrong = |lines: &str, error: &str| assert_eq!(read(lines).unwrap_err(), error);
        wrong("FileETag foo", "Unknown keyword 'foo' for FileETag directive");
        wrong("FileETag +None", "FileETag keyword 'None' cannot be used with '+' or '-'");
        wrong("FileETag Size -All", "FileETag keyword 'All' cannot be used with '+' or '-'");
    }

    #[test]
    fn links_are_followed_as_options_say() {
        let check = |lines: &str, expected: Links| assert_eq!(read(lines).unwrap().links, expected, "{lines}");
        check("", Links::Follow);
        check("Options", Links::Follow);
        check("Options All", Links::Follow);
        check("Options None", Links::Refuse);
        check("Options -FollowSymLinks", Links::Refuse);
        check("Options -Indexes", Links::Follow);
        check("Options SymLinksIfOwnerMatch", Links::OwnerMatch);
        check("Options +SymLinksIfOwnerMatch", Links::OwnerMatch);
        check("Options FollowSymLinks SymLinksIfOwnerMatch", Links::OwnerMatch);
        check("Options None\nOptions +followsymlinks", Links::Follow);
        check("Options SymLinksIfOwnerMatch\nOptions -SymLinksIfOwnerMatch", Links::Refuse);
        check("EnableMMAP Off", Links::Follow);
        let wrong = |lines: &str, error: &str| assert_eq!(read(lines).unwrap_err(), error);
        wrong("Options foo", "Illegal option foo");
        wrong("Options -Indexes Includes", "Either all Options must start with + or -, or no Option may.");
        wrong("Options FollowSymLinks None", "'Options None' must be the first Option given.");
        wrong("Options FollowSymLinks All", "'Options All' must be the first Option given.");
        wrong("Options +None", "You may not use 'Options +None' or 'Options -None'.");
        wrong("Options -All", "You may not use 'Options +All' or 'Options -All'.");
        wrong("Options Indexes FollowSymLinks", "Options Indexes has no effect: it is not part of this version");
        wrong("EnableMMAP foo", "EnableMMAP must be On or Off");
    }

    #[test]
    fn files_are_kept_and_checked_as_is_said() {
        let check = |lines: &str, expected: Check| assert_eq!(read(lines).unwrap().check, expected, "{lines}");
        check("", Check::Always);
        check("ManifoldFileCheck Always", Check::Always);
        check("ManifoldFileCheck never", Check::Never);
        check("ManifoldFileCheck 1s", Check::After(Duration::from_secs(1)));
        check("ManifoldFileCheck 500ms", Check::After(Duration::from_millis(500)));
        check("ManifoldFileCheck 0", Check::Always);
        assert_eq!(read("ManifoldFileCheck often").unwrap_err(), "ManifoldFileCheck has wrong format");
        assert_eq!(read("ManifoldFileCacheSize 0").unwrap().size, 0);
        assert_eq!(read("ManifoldFileCacheSize 67108864").unwrap().size, 64 << 20);
        assert_eq!(read("").unwrap().size, 8_388_608);
        let codings = |lines: &str| read(lines).map(|files| files.precompressed);
        assert_eq!(codings(""), Ok(vec![]));
        assert_eq!(codings("ManifoldPrecompressed br Gzip br"), Ok(vec![ContentCoding::Brotli, ContentCoding::Gzip]));
        assert_eq!(codings("ManifoldPrecompressed zstd\nManifoldPrecompressed Off"), Ok(vec![]));
        assert_eq!(
            codings("ManifoldPrecompressed bz2"),
            Err("ManifoldPrecompressed: there is no coding 'bz2'".to_owned())
        );
    }
}
