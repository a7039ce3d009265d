//! Giving up root, for good, in a child before it makes threads.

use std::ffi::CString;
use std::io;

use nix::unistd::{Gid, Group, Uid, User, geteuid, initgroups, setgid, setuid};

/// Whom children run as (`User`, `Group`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The user's name, for the supplementary groups.
    pub user: String,
    /// User id.
    pub uid: u32,
    /// Group id.
    pub gid: u32,
}

/// Whether the process may change its identity at all.
pub fn is_root() -> bool {
    geteuid().is_root()
}

/// The user called `name`, or the one with that number where `name` starts with `#`: name, user id, group id.
pub fn user(name: &str) -> Option<Identity> {
    let found = match name.strip_prefix('#') {
        Some(number) => User::from_uid(Uid::from_raw(number.parse().ok()?)),
        None => User::from_name(name),
    };
    let user = found.ok()??;
    Some(Identity { user: user.name, uid: user.uid.as_raw(), gid: user.gid.as_raw() })
}

/// The id of the group called `name`, or the number itself where `name` starts with `#`.
pub fn group(name: &str) -> Option<u32> {
    match name.strip_prefix('#') {
        Some(number) => number.parse().ok(),
        None => Some(Group::from_name(name).ok()??.gid.as_raw()),
    }
}

/// Becomes `identity` and makes sure that root cannot be regained.
///
/// # Errors
/// The error of the call that was refused; `PermissionDenied` when root could be regained afterwards.
pub fn drop_to(identity: &Identity) -> io::Result<()> {
    let name = CString::new(identity.user.as_str())?;
    let gid = Gid::from_raw(identity.gid);
    initgroups(&name, gid)?;
    setgid(gid)?;
    setuid(Uid::from_raw(identity.uid))?;
    if identity.uid != 0 && setuid(Uid::from_raw(0)).is_ok() {
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, "root could be regained after setuid"));
    }
    nix::sys::prctl::set_no_new_privs()?;
    Ok(())
}
