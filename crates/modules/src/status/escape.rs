//! What clients sent is shown to administrators: nothing of it may be taken for markup.

use std::fmt::{Display, Formatter, Result, Write};

/// Text in HTML. Everything beyond ASCII is written as a number, so that it is right in any character set, and control
/// characters are shown as a question mark.
pub(super) struct Html<'a>(pub &'a str);

impl Display for Html<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        for character in self.0.chars() {
            match character {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                '\'' => f.write_str("&#39;")?,
                ' '..='~' => f.write_char(character)?,
                _ if character.is_control() => f.write_char('?')?,
                _ => write!(f, "&#{};", u32::from(character))?,
            }
        }
        Ok(())
    }
}

/// Text between the quotes of an OpenMetrics label.
pub(super) struct Label<'a>(pub &'a str);

impl Display for Label<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        for character in self.0.chars() {
            match character {
                '\\' => f.write_str("\\\\")?,
                '"' => f.write_str("\\\"")?,
                '\n' => f.write_str("\\n")?,
                _ => f.write_char(character)?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_stays_markup() {
        let html = |text: &str| Html(text).to_string();
        assert_eq!(html("GET /<script>&\"'"), "GET /&lt;script&gt;&amp;&quot;&#39;");
        assert_eq!(html("\u{fffd}\u{1b}\n\u{85}\u{e9}~"), "&#65533;???&#233;~");
        assert_eq!(Label("a\\b\"c\nd").to_string(), "a\\\\b\\\"c\\nd");
    }
}
