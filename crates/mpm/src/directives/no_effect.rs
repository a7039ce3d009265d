//! Directives of Apache that mean nothing here. They are checked as Apache checks them, so that a configuration is judged
//! alike, and say that they have no effect, and why.

use manifold_config::{ArgShape, Call, Diagnostic, Directive};

use super::{Row, row};

fn no_effect(call: &Call<'_>, why: &str) {
    call.report(Diagnostic::info(call.span, format!("{} has no effect here: {why}", call.name)));
}

pub(super) const SCORE_BOARD_FILE: Row = row(
    "ScoreBoardFile",
    ArgShape::Take1,
    "",
    "Accepted for Apache's sake: the scoreboard is memory without a file.",
    |_, call| {
        no_effect(call, "parent and children share the scoreboard as memory that no file stands for");
        Ok(())
    },
);

pub(super) const MAX_MEM_FREE: Row = row(
    "MaxMemFree",
    ArgShape::Take1,
    "2048",
    "Accepted for Apache's sake: requests take no memory that would have to be given back.",
    |_, call| {
        let kilobytes = call.integer(0, i64::MIN..=i64::MAX)?;
        if kilobytes < 0 {
            return Err(call.error_at(0, format!("Invalid MaxMemFree value: {kilobytes}")));
        }
        no_effect(call, "there are no pools that keep free memory; buffers are few and of a fixed size");
        Ok(())
    },
);

pub(super) const ENABLE_EXCEPTION_HOOK: Row = row(
    "EnableExceptionHook",
    ArgShape::Take1,
    "Off",
    "Accepted for Apache's sake: there are no modules whose hooks could run after a crash.",
    |_, call| {
        let word = call.text(0);
        if !word.eq_ignore_ascii_case("on") && !word.eq_ignore_ascii_case("off") {
            return Err(call.error_at(0, "parameter must be 'on' or 'off'"));
        }
        no_effect(call, "no module has a hook that runs after a crash; the error log tells the signal (AH00052)");
        Ok(())
    },
);

/// For models in which Apache has a mutex around accept.
pub(super) const MUTEX_OF_ACCEPT: Row = mutex(|_, call| check_mutex(call, &["default", "mpm-accept"]));

/// For the others.
pub(super) const MUTEX: Row = mutex(|_, call| check_mutex(call, &["default"]));

const fn mutex(set: fn(&mut super::RawServer, &Call<'_>) -> Result<(), Diagnostic>) -> Row {
    let help = "Accepted for Apache's sake: no process waits for another to accept a connection.";
    Directive { module: "core", ..row("Mutex", ArgShape::RawArgs, "default", help, set) }
}

const MECHANISMS: &str = "(Mutex mechanisms are: 'none', 'default', 'flock:/path/to/file', 'fcntl:/path/to/file', \
                          'file:/path/to/file', 'pthread', 'sysvsem', 'posixsem', 'sem')";

/// `mechanism[:folder] [what it is for]... [OmitPID]`.
fn check_mutex(call: &Call<'_>, known: &[&str]) -> Result<(), Diagnostic> {
    let Some((first, rest)) = call.args.split_first() else {
        return Err(call.error(format!("Mutex requires at least a mechanism argument {MECHANISMS}")));
    };
    let (mechanism, folder) = first.value.split_once(':').unwrap_or((&first.value, ""));
    let mechanism = mechanism.to_ascii_lowercase();
    let mechanisms = ["none", "default", "flock", "fcntl", "file", "pthread", "sysvsem", "posixsem", "sem"];
    if !mechanisms.contains(&mechanism.as_str()) {
        return Err(call.error_at(0, format!("Invalid Mutex argument {} {MECHANISMS}", first.value)));
    }
    if !folder.is_empty() && !call.server_root.join(folder).is_dir() {
        return Err(call.error_at(0, format!("Invalid Mutex directory in argument {}", first.value)));
    }
    let is_for = |word: &str| !word.eq_ignore_ascii_case("OmitPID");
    if let Some(index) = rest.iter().position(|arg| is_for(&arg.value) && !known.contains(&arg.value.as_str())) {
        return Err(call.error_at(index + 1, format!("Mutex type {} is not valid", rest[index].value)));
    }
    if mechanism == "none" {
        let what = rest.iter().map(|arg| arg.value.as_str()).find(|word| is_for(word)).unwrap_or("default");
        return Err(call.error_at(0, format!("None is not allowed for mutex type {what}")));
    }
    no_effect(call, "accepting needs no mutex, the kernel gives each connection to one process");
    Ok(())
}
