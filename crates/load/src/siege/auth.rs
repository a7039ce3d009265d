//! Logins: which credentials answer a challenge, and how (Basic, RFC 7617; Digest with MD5, RFC 7616).

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use manifold_stats::Rng;
use md5::{Digest, Md5};

/// `user:password[:realm]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credentials {
    user: String,
    password: String,
    /// `None`: for every realm.
    realm: Option<String>,
}

impl Credentials {
    /// As siegerc has them.
    pub fn parse(text: &str) -> Credentials {
        let mut parts = text.splitn(3, ':').map(|part| part.trim().to_owned());
        let mut part = || parts.next().unwrap_or_default();
        Credentials { user: part(), password: part(), realm: Some(part()).filter(|realm| !realm.is_empty()) }
    }

    /// Those that a URL has in front of its host.
    pub fn of_url(user: &str, password: &str) -> Credentials {
        Credentials { user: user.to_owned(), password: password.to_owned(), realm: None }
    }

    /// Those for this realm, or else those for all.
    fn choose<'c>(all: &'c [Credentials], realm: &str) -> Option<&'c Credentials> {
        let exact = all.iter().find(|one| one.realm.as_deref() == Some(realm));
        let general = |one: &&Credentials| one.realm.as_deref().is_none_or(|realm| matches!(realm, "all" | "any"));
        exact.or_else(|| all.iter().find(general))
    }
}

impl fmt::Display for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.user, self.password, self.realm.as_deref().unwrap_or("any"))
    }
}

/// How requests show who sends them, once a challenge has been answered.
#[derive(Clone, Debug)]
pub enum Login {
    /// The same words each time.
    Basic(String),
    /// Computed for each request.
    Digest(Box<DigestLogin>),
}

/// A digest challenge and the credentials that answer it.
#[derive(Clone, Debug)]
pub struct DigestLogin {
    who: Credentials,
    realm: String,
    nonce: String,
    opaque: Option<String>,
    /// The server knows quality of protection `auth`.
    qop: bool,
    session: bool,
    algorithm: Option<String>,
    cnonce: String,
    count: u32,
}

/// A challenge that cannot be answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unanswerable {
    /// There are no credentials for this realm; siege goes on without them where the scheme is Basic.
    NoCredentials { realm: String, digest: bool },
    /// NTLM, a hash other than MD5, or nothing that is a challenge.
    Scheme,
}

impl Login {
    /// Answers a `WWW-Authenticate` or `Proxy-Authenticate` field.
    ///
    /// # Errors
    /// Why that cannot be done.
    pub fn answer(challenge: &str, known: &[Credentials], rng: &mut Rng) -> Result<Login, Unanswerable> {
        let (scheme, rest) = challenge.trim().split_once(' ').ok_or(Unanswerable::Scheme)?;
        let parameters = parameters(rest);
        let parameter = |name: &str| parameters.iter().find(|(key, _)| key == name).map(|(_, value)| value.clone());
        let realm = parameter("realm").unwrap_or_default();
        let digest = scheme.eq_ignore_ascii_case("digest");
        if !digest && !scheme.eq_ignore_ascii_case("basic") {
            return Err(Unanswerable::Scheme);
        }
        let Some(who) = Credentials::choose(known, &realm) else {
            return Err(Unanswerable::NoCredentials { realm, digest });
        };
        if !digest {
            return Ok(Login::Basic(format!("Basic {}", STANDARD.encode(format!("{}:{}", who.user, who.password)))));
        }
        let algorithm = parameter("algorithm");
        let session = match algorithm.as_deref().map(str::to_ascii_lowercase).as_deref() {
            None | Some("md5") => false,
            Some("md5-sess") => true,
            Some(_) => return Err(Unanswerable::Scheme),
        };
        Ok(Login::Digest(Box::new(DigestLogin {
            who: who.clone(),
            realm,
            nonce: parameter("nonce").ok_or(Unanswerable::Scheme)?,
            opaque: parameter("opaque"),
            qop: parameter("qop").is_some_and(|qop| qop.split(',').any(|one| one.trim().eq_ignore_ascii_case("auth"))),
            session,
            algorithm,
            cnonce: client_nonce(rng),
            count: 0,
        })))
    }

    /// The value of the field for one request.
    pub fn value(&mut self, method: &str, target: &str) -> String {
        match self {
            Login::Basic(value) => value.clone(),
            Login::Digest(login) => login.value(method, target),
        }
    }
}

impl DigestLogin {
    fn value(&mut self, method: &str, target: &str) -> String {
        self.count += 1;
        let DigestLogin { who, realm, nonce, cnonce, count, .. } = &*self;
        let mut first = hex_md5(&format!("{}:{realm}:{}", who.user, who.password));
        if self.session {
            first = hex_md5(&format!("{first}:{nonce}:{cnonce}"));
        }
        let second = hex_md5(&format!("{method}:{target}"));
        let middle = if self.qop { format!("{nonce}:{count:08x}:{cnonce}:auth") } else { nonce.clone() };
        let response = hex_md5(&format!("{first}:{middle}:{second}"));
        let mut value = format!(r#"Digest username="{}", realm="{realm}", nonce="{nonce}", uri="{target}""#, who.user);
        if let Some(algorithm) = &self.algorithm {
            value.push_str(&format!(", algorithm={algorithm}"));
        }
        value.push_str(&format!(r#", response="{response}""#));
        if let Some(opaque) = &self.opaque {
            value.push_str(&format!(r#", opaque="{opaque}""#));
        }
        if self.qop {
            value.push_str(&format!(r#", qop=auth, nc={count:08x}, cnonce="{cnonce}""#));
        }
        value
    }
}

/// `name=value` and `name="value"`, apart by commas; names in lower case.
fn parameters(text: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some((name, after)) = rest.split_once('=') {
        let after = after.trim_start();
        let (value, next) = match after.strip_prefix('"') {
            Some(quoted) => quoted.split_once('"').unwrap_or((quoted, "")),
            None => after.split_at(after.find(',').unwrap_or(after.len())),
        };
        found.push((name.trim_matches([' ', ',', '\t']).to_ascii_lowercase(), value.trim().to_owned()));
        rest = next;
    }
    found
}

fn client_nonce(rng: &mut Rng) -> String {
    const LETTERS: &[u8; 62] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
    (0..16).map(|_| char::from(LETTERS[rng.below(LETTERS.len())])).collect()
}

fn hex_md5(text: &str) -> String {
    Md5::digest(text.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(lines: &[&str]) -> Vec<Credentials> {
        lines.iter().map(|line| Credentials::parse(line)).collect()
    }

    #[test]
    fn credentials_are_chosen_by_realm() {
        let check = |lines: &[&str], realm: &str, expected: Option<&str>| {
            let known = known(lines);
            assert_eq!(Credentials::choose(&known, realm).map(|one| one.user.as_str()), expected, "{lines:?} {realm}");
        };
        check(&["a:b:Admin", "c:d"], "Admin", Some("a"));
        check(&["a:b:Admin", "c:d"], "Other", Some("c"));
        check(&["a:b:Admin", "c:d:all"], "Other", Some("c"));
        check(&["a:b:Admin"], "Other", None);
        assert_eq!(Credentials::parse("u:p:realm with space").to_string(), "u:p:realm with space");
        assert_eq!(Credentials::parse("u").to_string(), "u::any");
    }

    #[test]
    fn basic() {
        let mut rng = Rng::new(1);
        let mut login = Login::answer(r#"Basic realm="x""#, &known(&["jeff:secret"]), &mut rng).unwrap();
        assert_eq!(login.value("GET", "/"), "Basic amVmZjpzZWNyZXQ=");
        let refused = Login::answer(r#"Basic realm="x""#, &[], &mut rng).unwrap_err();
        assert_eq!(refused, Unanswerable::NoCredentials { realm: "x".to_owned(), digest: false });
        assert_eq!(Login::answer("NTLM abc", &known(&["a:b"]), &mut rng).unwrap_err(), Unanswerable::Scheme);
    }

    /// The example of RFC 7616 section 3.9.1, and that of RFC 2617 section 3.5 for the older form.
    #[test]
    fn digest() {
        let challenge = r#"Digest realm="http-auth@example.org", qop="auth, auth-int", algorithm=MD5, nonce="7ypf/xlj9XXwfDPEoM4URrv/xwf94BcCAzFZH4GiTo0v", opaque="FQhe/qaU925kfnzjCev0ciny7QMkPqMAFRtzCUYo5tdS""#;
        let mut login = Login::answer(challenge, &known(&["Mufasa:Circle of Life"]), &mut Rng::new(1)).unwrap();
        if let Login::Digest(login) = &mut login {
            login.cnonce = "f2/wE4q74E6zIJEtWaHKaf5wv/H5QzzpXusqGemxURZJ".to_owned();
        }
        let value = login.value("GET", "/dir/index.html");
        assert!(value.contains(r#"response="8ca523f5e9506fed4657c9700eebdbec""#), "{value}");
        assert!(value.contains("nc=00000001") && login.value("GET", "/").contains("nc=00000002"));
        let old = r#"Digest realm="testrealm@host.com", nonce="dcd98b7102dd2f0e8b11d0f600bfb0c093""#;
        let value = Login::answer(old, &known(&["Mufasa:Circle Of Life"]), &mut Rng::new(1))
            .unwrap()
            .value("GET", "/dir/index.html");
        assert!(value.contains(r#"response="670fd8c2df070c60b045671b8b24ff02""#), "{value}");
        assert!(!value.contains("qop") && !value.contains("opaque"), "{value}");
    }
}
