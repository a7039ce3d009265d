//! What a form of ours sends: `name=value&...`, as browsers encode it (WHATWG URL, application/x-www-form-urlencoded).

/// The value of the first field called `name`; `None` where there is none or it is empty.
pub fn value(query: &[u8], name: &str) -> Option<String> {
    let fields = query.split(|byte| *byte == b'&').map(|field| {
        let at = field.iter().position(|byte| *byte == b'=').unwrap_or(field.len());
        (&field[..at], field.get(at + 1..).unwrap_or_default())
    });
    let mut values = fields.filter(|(key, _)| *key == name.as_bytes()).map(|(_, value)| decoded(value));
    values.next().filter(|value| !value.is_empty())
}

/// With `+` as a space and `%41` as A; what is no such code stays as it is.
fn decoded(text: &[u8]) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&byte, tail)) = rest.split_first() {
        let code = || u8::from_str_radix(std::str::from_utf8(tail.get(..2)?).ok()?, 16).ok();
        rest = tail;
        match byte {
            b'+' => bytes.push(b' '),
            b'%' if tail.first().is_some_and(u8::is_ascii_hexdigit) => match code() {
                Some(code) => {
                    bytes.push(code);
                    rest = &tail[2..];
                }
                None => bytes.push(byte),
            },
            _ => bytes.push(byte),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// A value for a link.
pub fn encoded(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    let of = |byte: u8| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    text.bytes().map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_are_read_as_browsers_send_them() {
        for (query, expected) in [
            ("a=1", Some("1")),
            ("b=2&a=x+y%26z&a=3", Some("x y&z")),
            ("a=%C3%A4", Some("ä")),
            ("a=100%&b", Some("100%")),
            ("a=%+1", Some("% 1")),
            ("a=%ff", Some("\u{fffd}")),
            ("a=", None),
            ("a", None),
            ("aa=1", None),
            ("", None),
        ] {
            assert_eq!(value(query.as_bytes(), "a").as_deref(), expected, "{query}");
        }
        let odd = "100 % <&> ä";
        assert_eq!(value(format!("a={}", encoded(odd)).as_bytes(), "a").as_deref(), Some(odd));
    }
}
