//! Which files an `Include` means: one file, all files of a folder, or whatever matches a pattern, in sorted order.

use std::path::{Path, PathBuf};

use glob::{MatchOptions, Pattern};

use crate::read::FOLDER_DEPTH_MAX;
use crate::world::World;

/// Files that one `Include` may mean.
const MATCHES_MAX: usize = 4_096;

/// Why an `Include` means no file.
pub(crate) struct NotFound {
    pub(crate) text: String,
    /// Nothing is there, which `IncludeOptional` does not mind.
    pub(crate) is_absence: bool,
}

/// The files that `pattern`, relative to `root`, means.
pub(crate) fn find(world: &dyn World, root: &Path, pattern: &str) -> Result<Vec<PathBuf>, NotFound> {
    let full = root.join(pattern);
    let mut found = Vec::new();
    if !is_pattern(pattern) {
        if !world.exists(&full) {
            let text = format!("Could not open configuration file {}: No such file or directory", full.display());
            return Err(NotFound { text, is_absence: true });
        }
        collect(world, &full, 0, &mut found)?;
        return Ok(found);
    }
    let mut paths = vec![PathBuf::new()];
    for component in full.components() {
        let component = component.as_os_str().to_string_lossy();
        paths = if is_pattern(&component) {
            matching(world, &paths, &component)?
        } else {
            paths.iter().map(|path| path.join(&*component)).filter(|path| world.exists(path)).collect()
        };
    }
    if paths.is_empty() {
        let text = format!(
            "Include/IncludeOptional: No matches for the wildcard '{pattern}' in '{}', failing",
            root.display()
        );
        return Err(NotFound { text, is_absence: true });
    }
    for path in paths {
        collect(world, &path, 0, &mut found)?;
    }
    Ok(found)
}

fn is_pattern(text: &str) -> bool {
    text.contains(['*', '?', '['])
}

/// What matches one component of a pattern in each of `folders`.
fn matching(world: &dyn World, folders: &[PathBuf], component: &str) -> Result<Vec<PathBuf>, NotFound> {
    let pattern = Pattern::new(&as_glob(component))
        .map_err(|error| NotFound { text: format!("'{component}' is no pattern: {}", error.msg), is_absence: false })?;
    // A leading dot must be written, as in a shell and in Apache.
    let options = MatchOptions { require_literal_leading_dot: true, ..MatchOptions::new() };
    let mut found = Vec::new();
    for folder in folders {
        let mut names = world.list(folder).unwrap_or_default();
        names.retain(|name| pattern.matches_with(name, options));
        names.sort_unstable();
        found.extend(names.iter().map(|name| folder.join(name)));
        bound(&found)?;
    }
    Ok(found)
}

/// A shell's pattern in the words of the `glob` crate, to which `**` and `[^` mean something else.
fn as_glob(pattern: &str) -> String {
    let mut glob = pattern.replace("[^", "[!");
    while glob.contains("**") {
        glob = glob.replace("**", "*");
    }
    glob
}

/// `path` itself, or everything below it where it is a folder.
fn collect(world: &dyn World, path: &Path, depth: usize, found: &mut Vec<PathBuf>) -> Result<(), NotFound> {
    if !world.is_folder(path) {
        found.push(path.to_owned());
        return bound(found);
    }
    if depth >= FOLDER_DEPTH_MAX {
        let text = format!(
            "Directory {} exceeds the maximum include directory nesting level of {FOLDER_DEPTH_MAX}. You have probably a \
             recursion somewhere.",
            path.display()
        );
        return Err(NotFound { text, is_absence: false });
    }
    let mut names = world.list(path).map_err(|error| NotFound {
        text: format!("Could not open config directory {}: {}", path.display(), crate::read::io_reason(&error)),
        is_absence: false,
    })?;
    names.sort_unstable();
    names.iter().try_for_each(|name| collect(world, &path.join(name), depth + 1, found))
}

fn bound(found: &[PathBuf]) -> Result<(), NotFound> {
    if found.len() > MATCHES_MAX {
        return Err(NotFound { text: format!("More than {MATCHES_MAX} files match"), is_absence: false });
    }
    Ok(())
}
