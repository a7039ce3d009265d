//! Socket activation: listening sockets that a service manager made and hands over, as sd_listen_fds(3) says.

use std::ops::Range;
use std::os::fd::RawFd;

use manifold_mpm::listeners::{Inherited, Owner};
use manifold_sys::listener;

/// The variables that name the sockets. They are meant for one process, which the first one names.
pub(crate) const VARIABLES: [&str; 3] = [LISTEN_PID, LISTEN_FDS, LISTEN_FDNAMES];
const LISTEN_PID: &str = "LISTEN_PID";
const LISTEN_FDS: &str = "LISTEN_FDS";
const LISTEN_FDNAMES: &str = "LISTEN_FDNAMES";

/// The first socket's descriptor.
const FIRST: RawFd = 3;
/// Sockets that are taken.
const SOCKETS_MAX: u32 = 4096;

/// The sockets that the environment names, and what is wrong with others that it names: a server of TCP has no use for them.
///
/// # Errors
/// When the environment makes no sense.
pub(crate) fn take() -> Result<(Vec<Inherited>, Vec<String>), String> {
    let text = |name: &str| std::env::var(name).ok();
    let descriptors = descriptors(text(LISTEN_PID).as_deref(), text(LISTEN_FDS).as_deref(), std::process::id())?;
    let names = text(LISTEN_FDNAMES).unwrap_or_default();
    let mut names = names.split(':');
    let (mut sockets, mut unfit) = (Vec::new(), Vec::new());
    for descriptor in descriptors {
        let name = names.next().filter(|name| !name.is_empty()).unwrap_or("unknown");
        match listener::inherited(descriptor) {
            Ok(socket) => sockets.push(Inherited { socket, owner: Owner::ServiceManager }),
            Err(error) => {
                unfit.push(format!("the socket '{name}' of the service manager cannot be used and is closed: {error}"));
            }
        }
    }
    Ok((sockets, unfit))
}

fn descriptors(pid: Option<&str>, count: Option<&str>, own_pid: u32) -> Result<Range<RawFd>, String> {
    let (Some(pid), Some(count)) = (pid, count) else { return Ok(FIRST..FIRST) };
    let number = |name: &str, text: &str| text.parse::<u32>().map_err(|error| format!("{name} '{text}': {error}"));
    if number(LISTEN_PID, pid)? != own_pid {
        // They were meant for a process that started this one.
        return Ok(FIRST..FIRST);
    }
    let count = number(LISTEN_FDS, count)?;
    if count > SOCKETS_MAX {
        return Err(format!("{LISTEN_FDS} {count}: more than {SOCKETS_MAX} sockets are not taken"));
    }
    Ok(FIRST..FIRST + count.cast_signed())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_are_for_the_process_that_is_named() {
        let check = |pid: Option<&str>, count: Option<&str>, expected: Result<Range<RawFd>, &str>| {
            assert_eq!(descriptors(pid, count, 7), expected.map_err(str::to_owned), "{pid:?} {count:?}");
        };
        check(Some("7"), Some("2"), Ok(3..5));
        check(Some("8"), Some("2"), Ok(3..3));
        check(None, Some("2"), Ok(3..3));
        check(Some("7"), None, Ok(3..3));
        check(Some("7"), Some("-1"), Err("LISTEN_FDS '-1': invalid digit found in string"));
        check(Some("me"), Some("2"), Err("LISTEN_PID 'me': invalid digit found in string"));
        check(Some("7"), Some("4097"), Err("LISTEN_FDS 4097: more than 4096 sockets are not taken"));
    }
}
