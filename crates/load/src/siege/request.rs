//! The bytes of a request, in siege's order of fields.

use super::cache::Validators;
use super::settings::Settings;
use super::urls::{Url, bracketed};

/// What depends on the user.
#[derive(Clone, Debug, Default)]
pub struct Personal {
    /// Value of `Cookie`.
    pub cookie: Option<String>,
    /// Value of `Authorization`.
    pub www: Option<String>,
    /// Value of `Proxy-Authorization`.
    pub proxy: Option<String>,
    /// What is known of the page, where that is kept.
    pub validators: Validators,
}

/// What stands behind the method: the path, or the whole URL where a proxy is asked.
pub fn target(url: &Url, settings: &Settings) -> String {
    match &settings.proxy {
        Some(_) => format!("{}://{}:{}{}", url.scheme_name(), bracketed(&url.host), url.port, url.request),
        None => url.request.clone(),
    }
}

/// Head and body.
pub fn render(url: &Url, settings: &Settings, personal: &Personal) -> Vec<u8> {
    // What is shown is asked for with HTTP/1.0, as siege does.
    let version = if settings.http11 && !settings.get && !settings.print { "HTTP/1.1" } else { "HTTP/1.0" };
    let mut head = format!("{} {} {version}\r\n", url.method, target(url, settings));
    let mut field = |name: &str, value: &str| {
        head.push_str(name);
        head.push_str(": ");
        head.push_str(value);
        head.push_str("\r\n");
    };
    if !settings.headers.iter().any(|line| line.to_ascii_lowercase().contains("host:")) {
        field("Host", &url.host_field());
    }
    for (name, value) in [
        ("Authorization", &personal.www),
        ("Proxy-Authorization", &personal.proxy),
        ("Cookie", &personal.cookie),
        ("If-Modified-Since", &personal.validators.modified),
        ("If-None-Match", &personal.validators.tag),
    ] {
        if let Some(value) = value {
            field(name, value);
        }
    }
    let first = settings.headers.first().map(|line| line.to_ascii_lowercase()).unwrap_or_default();
    if !first.starts_with("accept:") {
        field("Accept", "*/*");
    }
    field("Accept-Encoding", &settings.accept_encoding);
    field("User-Agent", &settings.user_agent);
    for line in &settings.headers {
        head.push_str(line);
        head.push_str("\r\n");
    }
    head.push_str(if settings.keep_alive { "Connection: keep-alive\r\n" } else { "Connection: close\r\n" });
    if url.sends_body() {
        let length = url.body.len();
        head.push_str(&format!("Content-Type: {}\r\nContent-Length: {length}\r\n", settings.content_type));
    }
    head.push_str("\r\n");
    let mut bytes = head.into_bytes();
    bytes.extend_from_slice(&url.body);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests() {
        let check = |url: &str, set: &dyn Fn(&mut Settings), personal: Personal, expected: &str| {
            let mut settings = Settings::of_new_user("");
            set(&mut settings);
            let url = Url::parse(url, true, &|_| Ok(Vec::new()), &mut |_| ());
            let rendered = String::from_utf8(render(&url, &settings, &personal)).unwrap();
            assert_eq!(rendered.replace("\r\n", "|"), expected, "{url:?}");
        };
        let nobody = Personal::default;
        let agent =
            "Accept: */*|Accept-Encoding: gzip, deflate|User-Agent: Mozilla/5.0 (pc-x86_64-linux-gnu) Siege/4.0.7|";
        check("http://h:81/x", &|_| (), nobody(), &format!("GET /x HTTP/1.1|Host: h:81|{agent}Connection: close||"));
        check(
            "http://h/x POST a=b",
            &|settings| settings.keep_alive = true,
            Personal {
                cookie: Some("a=b".to_owned()),
                www: Some("Basic x".to_owned()),
                proxy: Some("Basic y".to_owned()),
                validators: Validators { modified: Some("then".to_owned()), tag: Some("\"t\"".to_owned()) },
            },
            &format!(
                "POST /x HTTP/1.1|Host: h|Authorization: Basic x|Proxy-Authorization: Basic y|Cookie: a=b|If-Modified-Since: then|If-None-Match: \"t\"|{agent}Connection: keep-alive|Content-Type: application/x-www-form-urlencoded|Content-Length: 3||a=b"
            ),
        );
        let headers = |settings: &mut Settings| {
            settings.headers = vec!["Accept: x/y".to_owned(), "Host: foo".to_owned()];
            settings.user_agent = "UA".to_owned();
        };
        check(
            "h",
            &headers,
            nobody(),
            "GET / HTTP/1.1|Accept-Encoding: gzip, deflate|User-Agent: UA|Accept: x/y|Host: foo|Connection: close||",
        );
        let proxied = |settings: &mut Settings| (settings.proxy, settings.get) = (Some("p".to_owned()), true);
        check(
            "http://h/x",
            &proxied,
            nobody(),
            &format!("GET http://h:80/x HTTP/1.0|Host: h|{agent}Connection: close||"),
        );
    }
}
