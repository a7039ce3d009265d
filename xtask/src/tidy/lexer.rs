//! Just enough of Rust's lexical rules to tell code from comments and strings, so that rules about code are not upset by
//! what a text says.

/// The text with comments and the contents of literals replaced by spaces; lines stay where they are.
pub fn code_only(text: &str) -> String {
    let mut lexer = Lexer { rest: text, out: String::with_capacity(text.len()) };
    while let Some(first) = lexer.rest.chars().next() {
        lexer.token(first);
    }
    lexer.out
}

struct Lexer<'a> {
    rest: &'a str,
    out: String,
}

impl Lexer<'_> {
    fn token(&mut self, first: char) {
        if self.rest.starts_with("//") {
            let end = self.rest.find('\n').unwrap_or(self.rest.len());
            self.blank(end);
        } else if self.rest.starts_with("/*") {
            self.block_comment();
        } else if let Some(hashes) = raw_string(self.rest) {
            let open = self.rest.find('"').expect("raw_string found it") + 1;
            let close = format!("\"{}", "#".repeat(hashes));
            let end = self.rest[open..].find(&close).map_or(self.rest.len(), |at| open + at + close.len());
            self.blank(end);
        } else if first == '"' {
            self.quoted('"');
        } else if first == '\'' && is_char_literal(self.rest) {
            self.quoted('\'');
        } else if first.is_alphanumeric() || first == '_' {
            let end = self.rest.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(self.rest.len());
            self.keep(end);
        } else {
            self.keep(first.len_utf8());
        }
    }

    fn keep(&mut self, n: usize) {
        let (taken, rest) = self.rest.split_at(n);
        self.out.push_str(taken);
        self.rest = rest;
    }

    fn blank(&mut self, n: usize) {
        let (taken, rest) = self.rest.split_at(n);
        self.out.extend(taken.chars().map(|c| if c == '\n' { '\n' } else { ' ' }));
        self.rest = rest;
    }

    fn quoted(&mut self, quote: char) {
        let mut escaped = false;
        let mut end = self.rest.len();
        for (at, c) in self.rest.char_indices().skip(1) {
            if !escaped && c == quote {
                end = at + 1;
                break;
            }
            escaped = !escaped && c == '\\';
        }
        self.blank(end);
    }

    fn block_comment(&mut self) {
        let mut depth = 0;
        let mut at = 0;
        while at < self.rest.len() {
            if self.rest[at..].starts_with("/*") {
                depth += 1;
                at += 2;
            } else if self.rest[at..].starts_with("*/") {
                depth -= 1;
                at += 2;
                if depth == 0 {
                    break;
                }
            } else {
                at += self.rest[at..].chars().next().map_or(1, char::len_utf8);
            }
        }
        self.blank(at);
    }
}

/// The number of hashes of the raw string that starts here, if one does: `r"`, `br#"`, `cr##"`.
fn raw_string(text: &str) -> Option<usize> {
    let text = text.strip_prefix(['b', 'c']).unwrap_or(text).strip_prefix('r')?;
    let hashes = text.len() - text.trim_start_matches('#').len();
    text[hashes..].starts_with('"').then_some(hashes)
}

/// Tells `'x'` and `'\n'` from a lifetime such as `'a`.
fn is_char_literal(text: &str) -> bool {
    let mut characters = text.chars().skip(1);
    matches!((characters.next(), characters.next()), (Some('\\'), _) | (Some(_), Some('\'')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_literals_are_blanked() {
        let check = |text: &str, expected: &str| {
            let code = code_only(text);
            assert_eq!(code.lines().count(), text.lines().count(), "{text}");
            assert_eq!(code.split_whitespace().collect::<Vec<_>>().join(" "), expected, "{text}");
        };
        check("a // b\nc", "a c");
        check("a /* b /* c */ d */ e", "a e");
        check(r#"f("x \" y", g)"#, "f( , g)");
        check("f(r#\"x \" y\"#, br\"z\")", "f( , )");
        check(r"x == '\'' || y == 'z' || b'q'", "x == || y == || b");
        check("fn f<'a>(x: &'a str)", "fn f<'a>(x: &'a str)");
        check("\"one\ntwo\" three", "three");
        check("let number = r; br", "let number = r; br");
    }
}
