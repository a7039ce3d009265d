//! The directives of HTTP itself: who the server says it is, what it answers besides files, and how far it goes with ranges.

use std::hash::{BuildHasher, Hasher, RandomState};

use manifold_config::{ArgShape, Call, Contexts, Diagnostic, Directive};
use manifold_engine::site::{ServerName, Signature, Site, Trace};
use manifold_http::{Boundary, EncodedSlashes, Methods, PathOptions, ProtocolOptions, RangeLimits, Strictness};
use nix::sys::utsname::uname;

/// What the configuration says of it; what it does not say is Apache's default, but for a name of the machine.
#[derive(Clone, Debug)]
pub(crate) struct RawHttp {
    name: Option<ServerName>,
    admin: Option<String>,
    signature: Signature,
    trace: Trace,
    ranges: RangeLimits,
    paths: PathOptions,
    /// Each word of `HttpProtocolOptions` that was written; it may not be taken back.
    strictness: Option<Strictness>,
    methods: Option<Methods>,
    allow_http09: Option<bool>,
    /// `AddDefaultCharset`.
    pub charset: Option<String>,
}

impl Default for RawHttp {
    fn default() -> RawHttp {
        RawHttp {
            name: None,
            admin: None,
            signature: Signature::Off,
            trace: Trace::On,
            ranges: RangeLimits::default(),
            paths: PathOptions::default(),
            strictness: None,
            methods: None,
            allow_http09: None,
            charset: None,
        }
    }
}

impl RawHttp {
    /// The server's name: what is configured, or the machine's.
    pub(crate) fn server_name(&self) -> ServerName {
        self.name.clone().unwrap_or_else(|| {
            let host = uname().ok().and_then(|names| names.nodename().to_str().map(str::to_owned));
            host.filter(|host| !host.is_empty())
                .map_or_else(ServerName::default, |host| ServerName { host, ..ServerName::default() })
        })
    }

    /// Takes it into a site.
    pub(crate) fn apply(&self, site: &mut Site) {
        site.name = self.server_name();
        if let Some(admin) = &self.admin {
            site.admin.clone_from(admin);
        }
        site.signature = self.signature;
        site.trace = self.trace;
        site.ranges = self.ranges;
        site.paths = self.paths;
        let default = ProtocolOptions::default();
        site.limits.protocol = ProtocolOptions {
            strictness: self.strictness.unwrap_or(default.strictness),
            methods: self.methods.unwrap_or(default.methods),
            allow_http09: self.allow_http09.unwrap_or(default.allow_http09),
        };
        // The standard library seeds its hashers at random.
        site.boundary = Boundary::new(RandomState::new().build_hasher().finish());
    }
}

type Row = Directive<RawHttp>;
type Set = fn(&mut RawHttp, &Call<'_>) -> Result<(), Diagnostic>;

const fn core(name: &'static str, default: &'static str, help: &'static str, set: Set) -> Row {
    Directive { name, module: "core", contexts: Contexts::SERVER, args: ArgShape::Take1, default, help, set }
}

/// Every row.
pub(crate) static ROWS: &[Row] = &[
    core("ServerName", "", "The server's host name, and its port behind a colon.", |http, call| {
        http.name = Some(server_name(call)?);
        Ok(())
    }),
    core("ServerAdmin", "", "Whom to write to about the server: error pages name this address.", |http, call| {
        http.admin = Some(call.text(0).to_owned());
        Ok(())
    }),
    core(
        "ServerSignature",
        "Off",
        "The last line of error pages: On names server, host and port, EMail links to ServerAdmin as well.",
        |http, call| {
            http.signature = match call.text(0).to_ascii_lowercase().as_str() {
                "off" => Signature::Off,
                "on" => Signature::On,
                "email" => Signature::EMail,
                _ => return Err(call.error_at(0, "ServerSignature: use one of: off | on | email")),
            };
            Ok(())
        },
    ),
    core(
        "TraceEnable",
        "on",
        "Whether TRACE is answered with the request itself; extended takes requests with a body of up to 64 KiB as well.",
        |http, call| {
            http.trace = match call.text(0).to_ascii_lowercase().as_str() {
                "on" => Trace::On,
                "off" => Trace::Off,
                "extended" => Trace::Extended,
                _ => return Err(call.error_at(0, "TraceEnable must be one of 'on', 'off', or 'extended'")),
            };
            Ok(())
        },
    ),
    core(
        "MaxRanges",
        "default",
        "Most ranges of a file that one request gets, 200 by default; who asks for more gets the whole file. A number, none, \
         default or unlimited.",
        |http, call| {
            http.ranges.ranges = most(call, RangeLimits::default().ranges)?;
            Ok(())
        },
    ),
    core(
        "MaxRangeOverlaps",
        "default",
        "Most ranges of a request that overlap the one before, 20 by default. A number, none, default or unlimited.",
        |http, call| {
            http.ranges.overlaps = most(call, RangeLimits::default().overlaps)?;
            Ok(())
        },
    ),
    core(
        "MaxRangeReversals",
        "default",
        "Most overlapping ranges of a request that begin before the one before, 20 by default. A number, none, default or \
         unlimited.",
        |http, call| {
            http.ranges.reversals = most(call, RangeLimits::default().reversals)?;
            Ok(())
        },
    ),
    Directive {
        args: ArgShape::Iterate,
        ..core(
            "HttpProtocolOptions",
            "Strict LenientMethods Allow0.9",
            "'Allow0.9' or 'Require1.0'; 'RegisteredMethods' or 'LenientMethods'; 'Unsafe' or 'Strict': how requests are read.",
            protocol_options,
        )
    },
    core(
        "AllowEncodedSlashes",
        "Off",
        "What becomes of %2F in a path: Off answers 404, On makes a slash of it, NoDecode leaves it as it is.",
        |http, call| {
            http.paths.encoded_slashes = match call.text(0).to_ascii_lowercase().as_str() {
                "on" => EncodedSlashes::Decode,
                "off" => EncodedSlashes::Refuse,
                "nodecode" => EncodedSlashes::Keep,
                _ => return Err(call.error_at(0, "AllowEncodedSlashes must be On, Off, or NoDecode")),
            };
            Ok(())
        },
    ),
    Directive {
        args: ArgShape::Flag,
        ..core("MergeSlashes", "On", "Whether several slashes in a row in a path count as one.", |http, call| {
            http.paths.merge_slashes = call.flag(0)?;
            Ok(())
        })
    },
    core(
        "AddDefaultCharset",
        "Off",
        "The character set that text/plain and text/html are said to be in; On is iso-8859-1.",
        |http, call| {
            http.charset = match call.text(0) {
                name if name.eq_ignore_ascii_case("off") => None,
                name if name.eq_ignore_ascii_case("on") => Some("iso-8859-1".to_owned()),
                // It becomes part of a header field as it is.
                name if !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_graphic() && byte != b';') => {
                    Some(name.to_owned())
                }
                name => return Err(call.error_at(0, format!("AddDefaultCharset: '{name}' is no character set"))),
            };
            Ok(())
        },
    ),
];

/// Takes the words of `HttpProtocolOptions`. Of two that exclude each other the second is an error, wherever it stands.
fn protocol_options(http: &mut RawHttp, call: &Call<'_>) -> Result<(), Diagnostic> {
    for (index, word) in call.args.iter().enumerate() {
        let word = word.value.to_ascii_lowercase();
        let excluded = match word.as_str() {
            "strict" => choose(&mut http.strictness, Strictness::Strict, "Strict' and 'Unsafe"),
            "unsafe" => choose(&mut http.strictness, Strictness::Unsafe, "Strict' and 'Unsafe"),
            "registeredmethods" => {
                choose(&mut http.methods, Methods::Registered, "RegisteredMethods' and 'LenientMethods")
            }
            "lenientmethods" => choose(&mut http.methods, Methods::Lenient, "RegisteredMethods' and 'LenientMethods"),
            "require1.0" => choose(&mut http.allow_http09, false, "Allow0.9' and 'Require1.0"),
            "allow0.9" => choose(&mut http.allow_http09, true, "Allow0.9' and 'Require1.0"),
            _ => {
                let message = "HttpProtocolOptions accepts 'Unsafe' or 'Strict' (default), 'RegisteredMethods' or \
                               'LenientMethods' (default), and 'Require1.0' or 'Allow0.9' (default)";
                return Err(call.error_at(index, message));
            }
        };
        if let Some(pair) = excluded {
            return Err(call.error_at(index, format!("HttpProtocolOptions '{pair}' are mutually exclusive")));
        }
    }
    Ok(())
}

/// Makes a choice; where the opposite was chosen before, gives the names of the two.
fn choose<T: PartialEq>(place: &mut Option<T>, choice: T, pair: &'static str) -> Option<&'static str> {
    if place.as_ref().is_some_and(|before| *before != choice) {
        return Some(pair);
    }
    *place = Some(choice);
    None
}

/// `[scheme://]host[:port]`.
fn server_name(call: &Call<'_>) -> Result<ServerName, Diagnostic> {
    let text = call.text(0);
    let authority = text.split_once("://").map_or(text, |(_, authority)| authority);
    let end_of_host = authority.rfind(']').unwrap_or(0);
    let (host, port) = match authority[end_of_host..].find(':') {
        Some(colon) => (&authority[..end_of_host + colon], Some(&authority[end_of_host + colon + 1..])),
        None => (authority, None),
    };
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    // It becomes part of a header field.
    if host.is_empty() || !host.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(call.error_at(0, format!("ServerName: '{text}' names no host")));
    }
    let port = match port.map(str::parse) {
        None => ServerName::default().port,
        Some(Ok(port @ 1..)) => port,
        Some(_) => {
            let message = format!("The port number \"{authority}\" is outside the appropriate range (i.e., 1..65535).");
            return Err(call.error_at(0, message));
        }
    };
    Ok(ServerName { host: host.to_owned(), port })
}

/// How many of something a request may ask for; `None` is no limit.
fn most(call: &Call<'_>, default: Option<u32>) -> Result<Option<u32>, Diagnostic> {
    match call.text(0).to_ascii_lowercase().as_str() {
        "none" => Ok(Some(0)),
        "default" => Ok(default),
        "unlimited" => Ok(None),
        number => match number.parse() {
            Ok(number @ 1..) => Ok(Some(number)),
            _ => {
                let name = call.name;
                let message = format!("{name} requires 'none', 'default', 'unlimited' or a positive integer");
                Err(call.error_at(0, message))
            }
        },
    }
}
