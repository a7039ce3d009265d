//! Giving up root, for good, in a child before it makes threads.

use std::ffi::CString;
use std::io;

use nix::unistd::{Gid, Group, Uid, User, geteuid, getgrouplist, setgid, setgroups, setuid};

/// Whom children run as (`User`, `Group`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The user's name.
    pub user: String,
    /// User id.
    pub uid: u32,
    /// Group id.
    pub gid: u32,
    /// All groups. Looked up once, by the parent: a look-up loads the system's name services, which would then weigh on each
    /// child.
    groups: Vec<Gid>,
}

impl Identity {
    fn new(user: String, uid: u32, gid: u32) -> Identity {
        let own = Gid::from_raw(gid);
        let listed = CString::new(user.as_str()).ok().and_then(|name| getgrouplist(&name, own).ok());
        Identity { user, uid, gid, groups: listed.unwrap_or_else(|| vec![own]) }
    }

    /// The same user with another group (`Group`).
    pub fn in_group(self, gid: u32) -> Identity {
        Identity::new(self.user, self.uid, gid)
    }
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
    Some(Identity::new(user.name, user.uid.as_raw(), user.gid.as_raw()))
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
    setgroups(&identity.groups)?;
    setgid(Gid::from_raw(identity.gid))?;
    setuid(Uid::from_raw(identity.uid))?;
    if identity.uid != 0 && setuid(Uid::from_raw(0)).is_ok() {
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, "root could be regained after setuid"));
    }
    nix::sys::prctl::set_no_new_privs()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_has_its_own_group_among_all_others() {
        let root = user("#0").expect("every system has one");
        assert!(root.uid == 0 && root.groups.contains(&Gid::from_raw(root.gid)));
        let other = root.in_group(4_711);
        assert!(other.gid == 4_711 && other.groups.contains(&Gid::from_raw(4_711)));
    }
}
