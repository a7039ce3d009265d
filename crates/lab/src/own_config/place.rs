//! What a server writes, binds or announces, and where that goes in a private copy: one row a directive.

/// The file of the folder into which access logs go.
pub const ACCESS_LOG: &str = "access.log";

/// What becomes of a directive.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Fate {
    /// It is left out; the copy says it once itself, or needs none.
    Left,
    /// Its first argument is a file, a pipe or the system's log, and becomes this file of the folder.
    File(&'static str),
    /// Its first argument is a folder, and becomes this one of the folder, which every user may write.
    Folder(&'static str),
    /// Its first argument is `TYPE:PATH(SIZE)` where TYPE keeps a file; the path becomes this file of the folder.
    Cache(&'static str),
    /// Its first argument may be `TYPE:FOLDER`, which becomes the folder.
    Mutex,
    /// A copy that has it would reach beyond this machine: the sentence says how.
    Refused(&'static str),
}

/// Why certificates are not managed by a copy.
const CERTIFICATES: &str =
    "mod_md would order certificates for these names; give the laboratory a configuration without it";

/// In the order of modules.
const ROWS: [(&str, Fate); 45] = [
    ("Listen", Fate::Left),
    ("NameVirtualHost", Fate::Left),
    ("PidFile", Fate::Left),
    ("DefaultRuntimeDir", Fate::Left),
    ("CoreDumpDirectory", Fate::Left),
    ("ScoreBoardFile", Fate::Left),
    ("LockFile", Fate::Left),
    ("LoadFile", Fate::Left),
    ("Mutex", Fate::Mutex),
    ("ErrorLog", Fate::File("error.log")),
    ("CustomLog", Fate::File(ACCESS_LOG)),
    ("TransferLog", Fate::File(ACCESS_LOG)),
    ("GlobalLog", Fate::File(ACCESS_LOG)),
    ("ForensicLog", Fate::File("forensic.log")),
    ("ScriptLog", Fate::File("script.log")),
    ("RewriteLog", Fate::Left),
    ("RewriteLogLevel", Fate::Left),
    ("ScriptSock", Fate::File("cgid.sock")),
    ("SSLSessionCache", Fate::Cache("ssl-sessions")),
    ("SSLStaplingCache", Fate::Cache("ssl-stapling")),
    ("AuthnCacheSOCache", Fate::Cache("authn-cache")),
    ("CacheSocache", Fate::Cache("cache-objects")),
    ("CacheRoot", Fate::Folder("cache")),
    ("CacheLockPath", Fate::Folder("cache-lock")),
    ("DavLockDB", Fate::File("dav-locks")),
    ("DavGenericLockDB", Fate::File("dav-generic-locks")),
    ("HeartbeatAddress", Fate::Left),
    ("HeartbeatListen", Fate::Left),
    ("HeartbeatStorage", Fate::File("heartbeat")),
    ("MDomain", Fate::Refused(CERTIFICATES)),
    ("ManagedDomain", Fate::Refused(CERTIFICATES)),
    ("<MDomainSet", Fate::Refused(CERTIFICATES)),
    ("<ManagedDomain", Fate::Refused(CERTIFICATES)),
    ("FcgidIPCDir", Fate::Folder("fcgid")),
    ("FcgidProcessTableFile", Fate::File("fcgid-processes")),
    ("WSGISocketPrefix", Fate::File("wsgi")),
    ("SecAuditLog", Fate::File("audit.log")),
    ("SecAuditLog2", Fate::File("audit.log")),
    ("SecAuditLogStorageDir", Fate::Folder("audit")),
    ("SecDebugLog", Fate::File("security.log")),
    ("SecDataDir", Fate::Folder("security")),
    ("SecTmpDir", Fate::Folder("security")),
    ("SecUploadDir", Fate::Folder("security")),
    ("ModPagespeedFileCachePath", Fate::Folder("pagespeed")),
    ("ModPagespeedLogDir", Fate::Folder("pagespeed-log")),
];

/// What becomes of the directive called `name`; `None` if it stays as it is.
pub(super) fn fate(name: &str) -> Option<Fate> {
    ROWS.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, fate)| *fate)
}
