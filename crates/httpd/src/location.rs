//! `<Location>` sections and what may stand in them: `SetHandler` and `Require`. What they mean is in `manifold_modules`.

use std::sync::Arc;

use manifold_config::{Call, Diagnostic};
use manifold_modules::authz_core::Provider;
use manifold_modules::authz_host::Subnet;
use manifold_modules::location::{Location, Locations};

use crate::directives::RawSite;

/// The sections as they are written.
#[derive(Debug, Default)]
pub(crate) struct RawLocations {
    /// `SetHandler` outside of all sections.
    everywhere: Option<Option<Arc<str>>>,
    sections: Vec<Location>,
}

impl RawLocations {
    /// Whether a handler is named anywhere.
    pub(crate) fn name_handler(&self, name: &str) -> bool {
        let sections = self.sections.iter().map(|section| &section.handler);
        sections.chain([&self.everywhere]).flatten().flatten().any(|handler| &**handler == name)
    }

    /// Where a handler answers, as a path: the last such section.
    pub(crate) fn path_of(&self, name: &str) -> Option<String> {
        let named =
            |section: &&Location| section.handler.as_ref().is_some_and(|handler| handler.as_deref() == Some(name));
        self.sections.iter().rev().find(named).map(|section| String::from_utf8_lossy(&section.path).into_owned())
    }

    /// The sections, preceded by what holds everywhere.
    pub(crate) fn resolve(&self) -> Locations {
        let everywhere = self.everywhere.clone().map(|handler| Location {
            path: Vec::new(),
            handler: Some(handler),
            require: Vec::new(),
        });
        Locations(everywhere.into_iter().chain(self.sections.iter().cloned()).collect())
    }
}

/// Begins a section.
pub(crate) fn open(site: &mut RawSite, call: &Call<'_>) -> Result<(), Diagnostic> {
    let path = match call.args {
        [path] => &path.value,
        [] => return Err(call.error("<Location> directive requires additional arguments").label("no path")),
        [tilde, ..] if tilde.value == "~" => {
            return Err(call.error_at(0, "<Location ~> with a regular expression is not supported by this version"));
        }
        _ => return Err(call.error_at(1, "Multiple <Location> arguments not (yet) supported.")),
    };
    if path.contains(['*', '?', '[']) {
        let error = call.error_at(0, "<Location> with wildcards is not supported by this version");
        return Err(error.help("name the beginning of the path; what is below it is in the section"));
    }
    if !path.starts_with('/') {
        let error = call.error_at(0, "<Location> of anything but a path is not supported by this version");
        return Err(error.help("a path begins with '/'"));
    }
    site.locations.sections.push(Location { path: path.clone().into_bytes(), handler: None, require: Vec::new() });
    Ok(())
}

/// `SetHandler NAME` and `SetHandler None`.
pub(crate) fn set_handler(site: &mut RawSite, call: &Call<'_>) -> Result<(), Diagnostic> {
    let name = call.text(0);
    if name.is_empty() {
        return Err(call.error_at(0, "SetHandler takes one argument, the name of a handler, or None"));
    }
    if name.starts_with("expr=") || name.starts_with("proxy:") {
        let (kind, _) = name.split_once([':', '=']).unwrap_or((name, ""));
        return Err(call.error_at(0, format!("SetHandler with '{kind}' is not supported by this version")));
    }
    let handler = (!name.eq_ignore_ascii_case("none")).then(|| Arc::from(name));
    let locations = &mut site.locations;
    match locations.sections.last_mut().filter(|_| call.section.is_some()) {
        Some(section) => section.handler = Some(handler),
        None => locations.everywhere = Some(handler),
    }
    Ok(())
}

/// `Require`; several of them in a section grant access if any one does.
pub(crate) fn require(site: &mut RawSite, call: &Call<'_>) -> Result<(), Diagnostic> {
    let provider = provider(call)?;
    match site.locations.sections.last_mut() {
        Some(section) => section.require.push(provider),
        None => return Err(call.error("Require not allowed here")),
    }
    Ok(())
}

/// What Apache's own modules can require, and this version cannot.
const NOT_BUILT: [&str; 13] = [
    "host",
    "forward-dns",
    "user",
    "valid-user",
    "group",
    "file-owner",
    "file-group",
    "dbm-group",
    "dbm-file-group",
    "env",
    "method",
    "expr",
    "ldap-user",
];

fn provider(call: &Call<'_>) -> Result<Provider, Diagnostic> {
    let negated = call.text(0).eq_ignore_ascii_case("not");
    let at = usize::from(negated);
    let name = call.text(at);
    let arguments = call.args.get(at + 1..).unwrap_or_default();
    let provider = match name {
        "all" => match arguments {
            [one] if one.value.eq_ignore_ascii_case("granted") => Provider::All(true),
            [one] if one.value.eq_ignore_ascii_case("denied") => Provider::All(false),
            _ => return Err(call.error("Argument for 'Require all' must be 'granted' or 'denied'")),
        },
        "local" => Provider::Local,
        "ip" => {
            let given = arguments.iter().enumerate().filter(|(_, range)| !range.value.is_empty());
            let ranges: Result<Vec<_>, _> = given
                .map(|(index, range)| {
                    Subnet::parse(&range.value).map_err(|error| call.error_at(at + 1 + index, error).help(RANGES))
                })
                .collect();
            match ranges? {
                ranges if ranges.is_empty() => {
                    return Err(call.error("'require ip' requires an argument").help(RANGES));
                }
                ranges => Provider::Ip(ranges),
            }
        }
        name if NOT_BUILT.contains(&name) => {
            let error = call.error_at(at, format!("Require {name} is not supported by this version"));
            return Err(error.help("there are 'Require all', 'Require local' and 'Require ip'"));
        }
        name => {
            let error = call.error_at(at, format!("Unknown Authz provider: {name}"));
            return Err(error.help("there are 'Require all', 'Require local' and 'Require ip'"));
        }
    };
    if negated {
        return Err(call.error("negative Require directive has no effect in <RequireAny> directive"));
    }
    Ok(provider)
}

const RANGES: &str = "write a range as '10.1', '10.1.0.0/16', '10.1.0.0/255.255.0.0' or '2001:db8::/32'";

#[cfg(test)]
mod tests {
    use super::*;
    use manifold_config::{Reader, System, Table, check};
    use std::path::Path;

    use crate::directives::ROWS;
    use crate::loader::Modules;

    /// Reads `lines`: the sections, or the first error.
    fn read(lines: &str) -> Result<Locations, String> {
        let mut modules = Modules::new(None);
        let mut reader = Reader::new(&System, &mut modules, Path::new("/"), &[]);
        reader.text("test", lines);
        let configuration = reader.finish();
        let mut table = Table { rows: ROWS, value: RawSite::default() };
        let findings = check(&configuration, &mut [&mut table], &[]);
        match configuration.findings.iter().chain(&findings).next() {
            Some(finding) => Err(finding.message.clone()),
            None => Ok(table.value.locations.resolve()),
        }
    }

    fn section(path: &str, handler: Option<Option<&str>>, require: Vec<Provider>) -> Location {
        Location { path: path.into(), handler: handler.map(|name| name.map(Arc::from)), require }
    }

    #[test]
    fn sections_are_resolved() {
        let check = |lines: &str, expected: Vec<Location>| assert_eq!(read(lines), Ok(Locations(expected)), "{lines}");
        check("", vec![]);
        // Debian's status.conf, without its comments.
        check(
            "<Location /server-status>\n\tSetHandler server-status\n\tRequire local\n\t#Require ip 192.0.2.0/24\n</Location>\n\
             <IfModule mod_proxy.c>\n\tProxyStatus On\n</IfModule>",
            vec![section("/server-status", Some(Some("server-status")), vec![Provider::Local])],
        );
        let ranges = ["10.1", "::1"].map(|range| Subnet::parse(range).unwrap());
        check(
            "<Location \"/a b\">\nRequire ip 10.1 ::1\nRequire all Denied\n</Location>\n<location />\nSetHandler NONE\n</location>\n\
             SetHandler x\nSetHandler y",
            vec![
                section("", Some(Some("y")), vec![]),
                section("/a b", None, vec![Provider::Ip(ranges.to_vec()), Provider::All(false)]),
                section("/", Some(None), vec![]),
            ],
        );
    }

    #[test]
    fn what_is_wrong_in_a_section_is_told() {
        let check = |lines: &str, error: &str| assert_eq!(read(lines), Err(error.to_owned()), "{lines}");
        let inside = |line: &str, error: &str| check(&format!("<Location /x>\n{line}\n</Location>"), error);
        check("Require local", "Require not allowed here");
        check("<Location>\n</Location>", "<Location> directive requires additional arguments");
        check("<Location /a /b>\n</Location>", "Multiple <Location> arguments not (yet) supported.");
        check(
            "<Location ~ \"/a|/b\">\n</Location>",
            "<Location ~> with a regular expression is not supported by this version",
        );
        check("<Location /a*>\n</Location>", "<Location> with wildcards is not supported by this version");
        check("<Location a>\n</Location>", "<Location> of anything but a path is not supported by this version");
        check("<LocationMatch /a>\n</LocationMatch>", "<LocationMatch> sections are not supported by this version");
        check(
            "<Directory />\nRequire all granted\n</Directory>",
            "<Directory> sections are not supported by this version",
        );
        inside("<Location /y>\n</Location>", "<Location not allowed in <Location> context");
        inside("KeepAlive On", "KeepAlive not allowed in <Location> context");
        let all = "Argument for 'Require all' must be 'granted' or 'denied'";
        for arguments in ["", " x", " granted x"] {
            inside(&format!("Require all{arguments}"), all);
        }
        for (line, name) in [("Require", ""), ("Require not", ""), ("Require foo", "foo"), ("Require LOCAL", "LOCAL")] {
            inside(line, &format!("Unknown Authz provider: {name}"));
        }
        inside("Require ip", "'require ip' requires an argument");
        inside("Require ip \"\"", "'require ip' requires an argument");
        inside("Require ip 10.1.1.1 x", "ip address 'x' appears to be invalid");
        inside("Require host example.org", "Require host is not supported by this version");
        let negative = "negative Require directive has no effect in <RequireAny> directive";
        inside("Require not ip 10.1.1.1", negative);
        inside("Require not all granted", negative);
        inside(
            "SetHandler",
            "SetHandler takes one argument, The handler that answers, such as server-status; None is the usual one",
        );
        inside("SetHandler \"\"", "SetHandler takes one argument, the name of a handler, or None");
        inside("SetHandler proxy:fcgi://127.0.0.1:9000", "SetHandler with 'proxy' is not supported by this version");
    }
}
