//! A user's cookies, with siege's rules: what a server sets without a domain belongs to the host's parent domain, and paths do not count.

use manifold_http::parse_http_date;

/// A user keeps so many; the oldest gives way.
const COOKIES_MAX: usize = 300;
/// A cookie longer than this is not taken.
const COOKIE_BYTES_MAX: usize = 8192;

/// One cookie.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Cookie {
    name: String,
    value: String,
    domain: String,
    path: Option<String>,
    /// Seconds since 1970; `None`: for the session.
    expires: Option<u64>,
}

/// What one user has been given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Jar {
    cookies: Vec<Cookie>,
}

impl Jar {
    /// Takes in the value of a `Set-Cookie` field, or of a line of the cookies' file, from `host` at `now` (seconds since 1970).
    pub fn set(&mut self, text: &str, host: &str, now: u64) {
        if text.len() > COOKIE_BYTES_MAX {
            return;
        }
        let mut parts = text.split(';').map(str::trim);
        let Some((name, value)) = parts.next().and_then(|pair| pair.split_once('=')) else { return };
        let parent = host.find('.').map_or(".", |at| &host[at..]);
        let mut cookie = Cookie {
            name: name.trim().to_owned(),
            value: value.trim().to_owned(),
            domain: parent.to_owned(),
            path: None,
            expires: None,
        };
        for part in parts {
            let (key, value) = part.split_once('=').unwrap_or((part, ""));
            let value = value.trim();
            match key.trim().to_ascii_lowercase().as_str() {
                "expires" => {
                    cookie.expires =
                        value.parse().ok().or_else(|| parse_http_date(value.as_bytes())).or(cookie.expires);
                }
                "max-age" => cookie.expires = value.parse::<u64>().ok().map(|age| now.saturating_add(age)).or(Some(0)),
                "domain" if !value.is_empty() => value.clone_into(&mut cookie.domain),
                "path" => cookie.path = Some(value.to_owned()),
                _ => {}
            }
        }
        let same = |old: &Cookie| old.name.eq_ignore_ascii_case(&cookie.name) && belongs(&old.domain, host);
        if let Some(old) = self.cookies.iter_mut().find(|old| same(old)) {
            (old.value, old.expires) = (cookie.value, cookie.expires);
        } else {
            if self.cookies.len() == COOKIES_MAX {
                self.cookies.remove(0);
            }
            self.cookies.push(cookie);
        }
        self.cookies.retain(|cookie| cookie.expires.is_none_or(|expires| expires > now));
    }

    /// The value of the Cookie field of a request to `host` at `now`; `None` where there is nothing to send.
    pub fn field(&self, host: &str, now: u64) -> Option<String> {
        let valid =
            |cookie: &&Cookie| cookie.expires.is_none_or(|expires| expires > now) && belongs(&cookie.domain, host);
        let pairs: Vec<String> =
            self.cookies.iter().filter(valid).map(|cookie| format!("{}={}", cookie.name, cookie.value)).collect();
        (!pairs.is_empty()).then(|| pairs.join(";"))
    }

    /// Forgets all (`expire-session`).
    pub fn clear(&mut self) {
        self.cookies.clear();
    }

    /// Lines for the cookies' file: those that outlast the session.
    fn lasting(&self) -> impl Iterator<Item = String> {
        self.cookies.iter().filter_map(|Cookie { name, value, domain, path, expires }| {
            let path = path.as_deref().unwrap_or("/");
            expires.map(|expires| format!("{name}={value}; domain={domain}; path={path}; expires={expires}"))
        })
    }
}

/// Whether a domain's cookies go to a host: it is the host, or the host ends with it.
fn belongs(domain: &str, host: &str) -> bool {
    let domain = domain.strip_prefix('.').unwrap_or(domain).as_bytes();
    let end = host.len().checked_sub(domain.len());
    end.is_some_and(|end| host.as_bytes()[end..].eq_ignore_ascii_case(domain))
}

/// The cookies' file for these users, by their numbers.
pub fn file_of<'j>(jars: impl Iterator<Item = (usize, &'j Jar)>) -> String {
    let mut text = "#\n# Siege cookies file. You may edit this file to add cookies\n# manually but comments and formatting will be removed.    \n# All cookies that expire in the future will be preserved. \n# ---------------------------------------------------------\n".to_owned();
    for (id, jar) in jars {
        jar.lasting().for_each(|line| text.push_str(&format!("{id} | {line}\n")));
    }
    text
}

/// The jars in such a file, in the order in which their owners first appear, whatever they are called there.
pub fn read_file(text: &str, now: u64) -> Vec<Jar> {
    let mut owners: Vec<(&str, Jar)> = Vec::new();
    for line in text.lines() {
        let line = line.split('#').next().unwrap_or_default();
        let Some((owner, cookie)) = line.split_once('|') else { continue };
        let owner = owner.trim();
        let at = owners.iter().position(|(known, _)| *known == owner).unwrap_or_else(|| {
            owners.push((owner, Jar::default()));
            owners.len() - 1
        });
        owners[at].1.set(cookie.trim(), ".", now);
    }
    owners.into_iter().map(|(_, jar)| jar).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cookies_go_back_to_where_they_came_from() {
        let check = |set: &[&str], from: &str, to: &str, expected: Option<&str>| {
            let mut jar = Jar::default();
            set.iter().for_each(|text| jar.set(text, from, 1000));
            assert_eq!(jar.field(to, 1000).as_deref(), expected, "{set:?} {from} {to}");
        };
        check(&["a=b; path=/", "c=d; path=/sub; HttpOnly"], "h", "h", Some("a=b;c=d"));
        check(&["a=b", "a=c"], "h", "h", Some("a=c"));
        check(&["a=b; SameSite=Lax; Secure"], "h", "h", Some("a=b"));
        check(&["a=b; domain=localhost"], "127.0.0.1", "127.0.0.1", None);
        check(&["a=b; domain=.example.org"], "x.example.org", "y.example.org", Some("a=b"));
        check(&["a=b"], "www.example.org", "www.example.org", Some("a=b"));
        check(&["a=b"], "www.example.org", "www.other.org", None);
        check(&["a=b; Max-Age=10"], "h", "h", Some("a=b"));
        check(&["a=b; Max-Age=0"], "h", "h", None);
        check(&["a=b; expires=Thu, 01 Jan 1970 00:00:00 GMT"], "h", "h", None);
        check(&["a=b; expires=Thu, 01 Jan 2037 00:00:00 GMT"], "h", "h", Some("a=b"));
        check(&["nonsense"], "h", "h", None);
    }

    #[test]
    fn what_lasts_is_kept_in_a_file() {
        let mut jar = Jar::default();
        jar.set("e=f; expires=Thu, 01 Jan 2037 00:00:00 GMT", "127.0.0.1", 0);
        jar.set("g=h", "127.0.0.1", 0);
        let text = file_of([(3, &jar)].into_iter());
        assert!(text.ends_with("3 | e=f; domain=.0.0.1; path=/; expires=2114380800\n"), "{text}");
        let jars = read_file(&format!("{text}9 | x=y; domain=.h; expires=5\n"), 10);
        assert_eq!(jars.len(), 2);
        assert_eq!(jars[0].field("127.0.0.1", 10).as_deref(), Some("e=f"));
        assert_eq!(jars[1], Jar::default(), "it has expired");
    }
}
