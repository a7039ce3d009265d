//! The directives of the core and of the modules that serve files, and what they say before it is resolved.

use std::path::PathBuf;
use std::time::Duration;

use log::LevelFilter;
use manifold_config::{ArgShape, Call, Contexts, Diagnostic, Directive, Spanned};
use manifold_engine::reqtimeout::ReadTimeouts;
use manifold_modules::log_config::Buffering;

use crate::error_log::{self, LEVEL_NAMES, Levels};
use crate::location::{self, RawLocations};
use crate::{loader, reqtimeout};

/// What the configuration says about the site and its logs; `None` where it says nothing.
#[derive(Debug, Default)]
pub(crate) struct RawSite {
    pub document_root: Option<Spanned<PathBuf>>,
    pub timeout: Option<Duration>,
    pub read_timeouts: ReadTimeouts,
    pub keep_alive: Option<bool>,
    pub keep_alive_timeout: Option<Duration>,
    pub sendfile: Option<bool>,
    pub max_keep_alive_requests: Option<u32>,
    pub server_tokens: Option<Tokens>,
    pub limit_request_line: Option<usize>,
    pub limit_request_fields: Option<usize>,
    pub limit_request_field_size: Option<usize>,
    pub limit_request_body: Option<u64>,
    pub error_log: Option<Spanned<PathBuf>>,
    pub levels: Levels,
    /// `None` where it is not written; empty after `DirectoryIndex disabled`.
    pub directory_index: Option<Vec<String>>,
    pub types_config: Option<Spanned<PathBuf>>,
    /// Media type and extension, in order.
    pub add_type: Vec<(String, String)>,
    /// `LogFormat` with a nickname: nickname and format.
    pub log_formats: Vec<(String, Spanned<String>)>,
    pub custom_logs: Vec<RawLog>,
    pub buffering: Option<Buffering>,
    pub locations: RawLocations,
}

/// `CustomLog`.
#[derive(Clone, Debug)]
pub(crate) struct RawLog {
    pub path: Spanned<PathBuf>,
    /// A nickname or a format.
    pub format: Spanned<String>,
}

/// `ServerTokens`: how much the `Server` field says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tokens {
    Product,
    Major,
    Minor,
    /// The whole version; what `OS` and `Full` add in Apache is not known to a client's use here.
    Whole,
}

type Row = Directive<RawSite>;
type Set = fn(&mut RawSite, &Call<'_>) -> Result<(), Diagnostic>;

const fn core(
    name: &'static str,
    contexts: Contexts,
    args: ArgShape,
    default: &'static str,
    help: &'static str,
    set: Set,
) -> Row {
    Directive { name, module: "core", contexts, args, default, help, set }
}

const SERVER: Contexts = Contexts::SERVER;

/// Every row of the core and its modules.
pub(crate) static ROWS: &[Row] = &[
    core("DocumentRoot", SERVER, ArgShape::Take1, "htdocs", "The folder whose files are served.", |site, call| {
        site.document_root = Some(path(call)?);
        Ok(())
    }),
    core(
        "Timeout",
        SERVER,
        ArgShape::Take1,
        "60",
        "Longest wait for a client while it sends or receives, in seconds.",
        |site, call| {
            let timeout = call.duration(0)?;
            if timeout.is_zero() {
                return Err(call.error_at(0, "Timeout of 0 is not allowed, no request could be received"));
            }
            site.timeout = Some(timeout);
            Ok(())
        },
    ),
    Directive {
        module: "mod_reqtimeout",
        ..core(
            "RequestReadTimeout",
            SERVER,
            ArgShape::RawArgs,
            "handshake=0 header=20-40,MinRate=500 body=20,MinRate=500",
            "Longest time for a request head and body in seconds, and the rate in bytes a second that extends it.",
            reqtimeout::set,
        )
    },
    Directive {
        module: "http_core",
        ..core(
            "KeepAlive",
            SERVER,
            ArgShape::Flag,
            "On",
            "Whether a connection may carry more than one request.",
            |site, call| {
                site.keep_alive = Some(call.flag(0)?);
                Ok(())
            },
        )
    },
    Directive {
        module: "http_core",
        ..core(
            "KeepAliveTimeout",
            SERVER,
            ArgShape::Take1,
            "5",
            "Longest wait for a connection's next request, in seconds.",
            |site, call| {
                site.keep_alive_timeout = Some(call.duration(0)?);
                Ok(())
            },
        )
    },
    Directive {
        module: "http_core",
        ..core(
            "MaxKeepAliveRequests",
            SERVER,
            ArgShape::Take1,
            "100",
            "Requests of one connection; 0 is no limit.",
            |site, call| {
                site.max_keep_alive_requests = Some(bounded(call, i64::from(i32::MAX))?);
                Ok(())
            },
        )
    },
    core(
        "EnableSendfile",
        SERVER,
        ArgShape::Flag,
        "On",
        "Whether the kernel sends large files from its page cache; off, they are read and sent.",
        |site, call| {
            site.sendfile = Some(call.flag(0)?);
            Ok(())
        },
    ),
    core("LimitRequestLine", SERVER, ArgShape::Take1, "8190", "Longest request line, in bytes.", |site, call| {
        site.limit_request_line = Some(limit(call, 1 << 20)?);
        Ok(())
    }),
    core(
        "LimitRequestFields",
        SERVER,
        ArgShape::Take1,
        "100",
        "Most fields of a request; 0 is as many as possible.",
        |site, call| {
            site.limit_request_fields = Some(limit(call, 32_767)?);
            Ok(())
        },
    ),
    core(
        "LimitRequestFieldSize",
        SERVER,
        ArgShape::Take1,
        "8190",
        "Longest field of a request, in bytes.",
        |site, call| {
            site.limit_request_field_size = Some(limit(call, 1 << 20)?);
            Ok(())
        },
    ),
    core(
        "LimitRequestBody",
        SERVER,
        ArgShape::Take1,
        "1073741824",
        "Longest body of a request, in bytes; 0 is no limit.",
        |site, call| {
            let bytes: u64 = limit(call, i64::MAX)?;
            site.limit_request_body = Some(if bytes == 0 { u64::MAX } else { bytes });
            Ok(())
        },
    ),
    core(
        "ServerTokens",
        Contexts::GLOBAL,
        ArgShape::Take1,
        "Full",
        "How much the Server field of an answer says: Prod, Major, Minor, Min, OS or Full.",
        server_tokens,
    ),
    core("ErrorLog", SERVER, ArgShape::Take1, "logs/error_log", "The file for the server's messages.", |site, call| {
        no_program_or_syslog(call)?;
        site.error_log = Some(path(call)?);
        Ok(())
    }),
    core(
        "LogLevel",
        SERVER,
        ArgShape::Iterate,
        "warn",
        "Which messages are kept, for all or as module:level for one.",
        log_level,
    ),
    core(
        "<Location",
        SERVER,
        ArgShape::RawArgs,
        "",
        "What holds for a path of the URL and all that is below it; later sections outweigh earlier ones.",
        location::open,
    ),
    core(
        "SetHandler",
        Contexts::ANYWHERE,
        ArgShape::Take1,
        "",
        "The handler that answers, such as server-status; None is the usual one.",
        location::set_handler,
    ),
    Directive {
        module: "mod_authz_core",
        ..core(
            "Require",
            Contexts::SECTION,
            ArgShape::RawArgs,
            "",
            "Who has access: all granted, all denied, local, or ip and ranges of addresses; of several lines, one has to fit.",
            location::require,
        )
    },
    Directive {
        module: "mod_dir",
        ..core(
            "DirectoryIndex",
            SERVER,
            ArgShape::Iterate,
            "index.html",
            "Names that are tried when a folder is asked for, in order; 'disabled' forgets them.",
            directory_index,
        )
    },
    Directive {
        module: "mod_mime",
        ..core(
            "TypesConfig",
            SERVER,
            ArgShape::Take1,
            "",
            "A mime.types file; without it the usual types are built in.",
            |site, call| {
                site.types_config = Some(path(call)?);
                Ok(())
            },
        )
    },
    Directive {
        module: "mod_mime",
        ..core(
            "AddType",
            SERVER,
            ArgShape::Iterate2,
            "",
            "A media type followed by one or more file name extensions.",
            add_type,
        )
    },
    Directive {
        module: "mod_log_config",
        ..core(
            "LogFormat",
            SERVER,
            ArgShape::Take12,
            "",
            "A format of access log lines and its name for CustomLog; common and combined are there already.",
            log_format,
        )
    },
    Directive {
        module: "mod_log_config",
        ..core(
            "CustomLog",
            SERVER,
            ArgShape::Take23,
            "",
            "An access log: a file, and a format or its name.",
            custom_log,
        )
    },
    Directive {
        module: "mod_log_config",
        ..core(
            "BufferedLogs",
            Contexts::GLOBAL,
            ArgShape::Flag,
            "On",
            "Whether access log lines are written many at a time, within a second, or each one at once.",
            |site, call| {
                site.buffering = Some(if call.flag(0)? { Buffering::Batches } else { Buffering::EachLine });
                Ok(())
            },
        )
    },
];

fn path(call: &Call<'_>) -> Result<Spanned<PathBuf>, Diagnostic> {
    if call.text(0).is_empty() || call.text(0).contains('\0') {
        return Err(call.error_at(0, format!("{}: this is no path", call.name)));
    }
    Ok(Spanned { value: call.path(0), span: call.arg_span(0) })
}

/// A number from 0 to `most`.
fn bounded<T: TryFrom<i64>>(call: &Call<'_>, most: i64) -> Result<T, Diagnostic> {
    let number = call.integer(0, 0..=most)?;
    T::try_from(number).map_err(|_| call.error_at(0, format!("{} of {number} is not allowed", call.name)))
}

/// The same for a limit of requests; what is below zero is refused in Apache's words.
fn limit<T: TryFrom<i64>>(call: &Call<'_>, most: i64) -> Result<T, Diagnostic> {
    let (name, text) = (call.name, call.text(0));
    if !text.starts_with('-') {
        return bounded(call, most);
    }
    Err(call.error_at(
        0,
        match name {
            "LimitRequestBody" => format!("{name} requires a non-negative integer."),
            "LimitRequestFields" => format!("{name} \"{text}\" must be a non-negative integer (0 = no limit)"),
            _ => format!("{name} \"{text}\" must be a non-negative integer"),
        },
    ))
}

fn server_tokens(site: &mut RawSite, call: &Call<'_>) -> Result<(), Diagnostic> {
    site.server_tokens = Some(match call.text(0).to_ascii_lowercase().as_str() {
        "prod" | "productonly" => Tokens::Product,
        "major" => Tokens::Major,
        "minor" => Tokens::Minor,
        "min" | "minimal" | "os" | "full" => Tokens::Whole,
        _ => {
            let names =
                "ServerTokens takes 1 argument: 'Prod(uctOnly)', 'Major', 'Minor', 'Min(imal)', 'OS', or 'Full'";
            return Err(call.error_at(0, names));
        }
    });
    Ok(())
}

fn log_level(site: &mut RawSite, call: &Call<'_>) -> Result<(), Diagnostic> {
    for (index, arg) in call.args.iter().enumerate() {
        let Some((module, level)) = arg.value.split_once(':') else {
            // As in Apache, a level for all forgets those of single modules.
            site.levels = Levels { server: level_of(call, index, &arg.value, "")?, modules: Vec::new() };
            continue;
        };
        let level = level_of(call, index, level, &format!("{}: ", arg.value))?;
        let name = loader::log_name(module).ok_or_else(|| {
            call.error_at(index, format!("Cannot find module {module}")).help("'httpd -l' lists the modules")
        })?;
        site.levels.modules.push((name, level));
    }
    Ok(())
}

fn level_of(call: &Call<'_>, index: usize, name: &str, before: &str) -> Result<LevelFilter, Diagnostic> {
    error_log::level(name).ok_or_else(|| call.error_at(index, format!("{before}{LEVEL_NAMES}")))
}

fn directory_index(site: &mut RawSite, call: &Call<'_>) -> Result<(), Diagnostic> {
    let names = site.directory_index.get_or_insert_default();
    if let [only] = call.args
        && only.value.eq_ignore_ascii_case("disabled")
    {
        names.clear();
        return Ok(());
    }
    names.extend(call.args.iter().map(|arg| arg.value.clone()));
    Ok(())
}

fn add_type(site: &mut RawSite, call: &Call<'_>) -> Result<(), Diagnostic> {
    let media_type = call.text(0);
    // It becomes the value of a header field as it is.
    let is_type = media_type.contains('/') && media_type.bytes().all(|byte| (b' '..=b'~').contains(&byte));
    if !is_type {
        return Err(call
            .error_at(0, format!("AddType: '{media_type}' is no media type"))
            .help("write it as 'text/html'"));
    }
    let extensions = call.args.iter().skip(1);
    site.add_type.extend(extensions.map(|extension| (media_type.to_owned(), extension.value.clone())));
    Ok(())
}

fn log_format(site: &mut RawSite, call: &Call<'_>) -> Result<(), Diagnostic> {
    let [format, name] = call.args else {
        let error =
            call.error("LogFormat without a name sets TransferLog's format, which is not supported by this version");
        return Err(error.help("give the format a name, and use that in CustomLog"));
    };
    check_format(call, 0)?;
    site.log_formats.push((name.value.clone(), format.clone()));
    Ok(())
}

fn custom_log(site: &mut RawSite, call: &Call<'_>) -> Result<(), Diagnostic> {
    no_program_or_syslog(call)?;
    if call.args.len() > 2 {
        return Err(call.error_at(2, "CustomLog: conditions are not supported by this version"));
    }
    let format = call.args.get(1).ok_or_else(|| call.error("CustomLog takes a file and a format"))?;
    if format.value.contains('%') {
        check_format(call, 1)?;
    }
    site.custom_logs.push(RawLog { path: path(call)?, format: format.clone() });
    Ok(())
}

fn check_format(call: &Call<'_>, index: usize) -> Result<(), Diagnostic> {
    manifold_modules::log_config::Format::parse(call.text(index)).map(drop).map_err(|error| call.error_at(index, error))
}

fn no_program_or_syslog(call: &Call<'_>) -> Result<(), Diagnostic> {
    let target = call.text(0);
    if target.starts_with('|') || target == "syslog" || target.starts_with("syslog:") {
        let error = call
            .error_at(0, format!("{}: logging to programs and to syslog is not supported by this version", call.name));
        return Err(error.help("name a file; /dev/stderr is one as well"));
    }
    Ok(())
}
