//! Directives about the processes themselves: whom they run as, their files, and what the status page says of them.

use manifold_config::{ArgShape, Directive};

use super::{Row, row};

pub(super) const PID_FILE: Row = row(
    "PidFile",
    ArgShape::Take1,
    "logs/httpd.pid",
    "A file for the process id of the running server.",
    |server, call| {
        server.pid_file = Some(call.path(0));
        Ok(())
    },
);

pub(super) const USER: Row = Directive {
    module: "mod_unixd",
    ..row("User", ArgShape::Take1, "nobody", "Whom children run as: a name, or # and a number.", |server, call| {
        server.user = call.args.first().cloned();
        Ok(())
    })
};

pub(super) const GROUP: Row = Directive {
    module: "mod_unixd",
    ..row("Group", ArgShape::Take1, "", "The group children run as: a name, or # and a number.", |server, call| {
        server.group = call.args.first().cloned();
        Ok(())
    })
};

pub(super) const CORE_DUMP_DIRECTORY: Row = row(
    "CoreDumpDirectory",
    ArgShape::Take1,
    "ServerRoot",
    "The folder children work in, where the system writes their core dumps if it is configured to.",
    |server, call| {
        let folder = call.path(0);
        let complaint = match std::fs::metadata(&folder) {
            Ok(found) if found.is_dir() => {
                server.core_dump_directory = Some(folder);
                return Ok(());
            }
            Ok(_) => "is not a directory",
            Err(_) => "does not exist",
        };
        Err(call.error_at(0, format!("CoreDumpDirectory {} {complaint}", folder.display())))
    },
);

pub(super) const EXTENDED_STATUS: Row = Directive {
    module: "core",
    ..row(
        "ExtendedStatus",
        ArgShape::Flag,
        "On where there is a status page",
        "Whether requests, bytes and times are counted for the status page.",
        |server, call| {
            server.extended_status = Some(call.flag(0)?);
            Ok(())
        },
    )
};

pub(super) const SEE_REQUEST_TAIL: Row = Directive {
    module: "core",
    ..row(
        "SeeRequestTail",
        ArgShape::Flag,
        "Off",
        "Whether the status page shows the last 64 bytes of a long request line instead of the first.",
        |server, call| {
            server.see_request_tail = call.flag(0)?;
            Ok(())
        },
    )
};
