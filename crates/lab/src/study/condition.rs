//! Conditions on settings, as `MaxRequestWorkers % ThreadsPerChild == 0`: whole numbers, directives' names, `+ - * / %`, one comparison.

use std::collections::BTreeMap;

/// Deeper than so many operators nobody writes.
const TOKENS_MAX: usize = 200;

/// Whether the condition holds for these settings.
///
/// # Errors
/// A sentence: what is wrong with it, or which directive has no number.
pub fn holds(condition: &str, settings: &BTreeMap<String, i64>) -> Result<bool, String> {
    let tokens = tokens(condition)?;
    let mut reader = Reader { tokens: &tokens, settings };
    let left = reader.sum()?;
    let Some((comparison, rest)) = reader.tokens.split_first() else {
        return Err(format!("\"{condition}\" compares nothing; write it as \"A <= B\""));
    };
    let compare: fn(&i64, &i64) -> bool = match *comparison {
        "<" => i64::lt,
        "<=" => i64::le,
        ">" => i64::gt,
        ">=" => i64::ge,
        "==" => i64::eq,
        "!=" => i64::ne,
        other => return Err(format!("\"{condition}\": {other} is no comparison; there are < <= > >= == !=")),
    };
    reader.tokens = rest;
    let right = reader.sum()?;
    match reader.tokens.first() {
        None => Ok(compare(&left, &right)),
        Some(token) => Err(format!("\"{condition}\": {token} is one too many")),
    }
}

fn tokens(text: &str) -> Result<Vec<&str>, String> {
    let mut tokens = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let length = if word(first) {
            rest.find(|c| !word(c)).unwrap_or(rest.len())
        } else if ["<=", ">=", "==", "!="].iter().any(|two| rest.starts_with(two)) {
            2
        } else if "<>+-*/%".contains(first) {
            1
        } else {
            return Err(format!("\"{text}\": {first} has no meaning in a condition"));
        };
        tokens.push(&rest[..length]);
        if tokens.len() > TOKENS_MAX {
            return Err("the condition is too long".to_owned());
        }
        rest = rest[length..].trim_start();
    }
    Ok(tokens)
}

struct Reader<'t> {
    tokens: &'t [&'t str],
    settings: &'t BTreeMap<String, i64>,
}

impl Reader<'_> {
    fn next_of(&mut self, wanted: &[&str]) -> Option<String> {
        let (token, rest) = self.tokens.split_first()?;
        wanted.contains(token).then(|| {
            self.tokens = rest;
            (*token).to_owned()
        })
    }

    fn sum(&mut self) -> Result<i64, String> {
        let mut sum = self.product()?;
        while let Some(operator) = self.next_of(&["+", "-"]) {
            let next = self.product()?;
            let result = if operator == "+" { sum.checked_add(next) } else { sum.checked_sub(next) };
            sum = result.ok_or("a number is too large")?;
        }
        Ok(sum)
    }

    fn product(&mut self) -> Result<i64, String> {
        let mut product = self.value()?;
        while let Some(operator) = self.next_of(&["*", "/", "%"]) {
            let next = self.value()?;
            let result = match operator.as_str() {
                "*" => product.checked_mul(next),
                "/" => product.checked_div(next),
                _ => product.checked_rem(next),
            };
            product = result.ok_or("a number is too large, or divided by 0")?;
        }
        Ok(product)
    }

    fn value(&mut self) -> Result<i64, String> {
        let Some((token, rest)) = self.tokens.split_first() else {
            return Err("a number or a directive is missing at the end of a condition".to_owned());
        };
        self.tokens = rest;
        if let Ok(number) = token.replace('_', "").parse() {
            return Ok(number);
        }
        self.settings.get(*token).copied().ok_or_else(|| format!("{token} has no number among this target's settings"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions() {
        let settings = BTreeMap::from([("ThreadsPerChild".to_owned(), 25), ("MaxRequestWorkers".to_owned(), 400)]);
        for (condition, expected) in [
            ("MaxRequestWorkers % ThreadsPerChild == 0", Ok(true)),
            ("MaxRequestWorkers<=16*ThreadsPerChild", Ok(true)),
            ("ThreadsPerChild * 2 + 1 > 1_00", Ok(false)),
            ("MaxRequestWorkers / ThreadsPerChild - 1 != 15", Ok(false)),
            ("1 < 2", Ok(true)),
            ("3 >= 3", Ok(true)),
            ("ServerLimit > 1", Err("ServerLimit has no number")),
            ("1 / 0 == 1", Err("divided by 0")),
            ("9223372036854775807 + 1 > 0", Err("too large")),
            ("ThreadsPerChild", Err("compares nothing")),
            ("1 < ", Err("missing at the end")),
            ("1 = 1", Err("= has no meaning")),
            ("1 < 2 3", Err("3 is one too many")),
            ("1 2", Err("2 is no comparison")),
            ("(1) < 2", Err("( has no meaning")),
        ] {
            match (holds(condition, &settings), expected) {
                (Ok(got), Ok(expected)) => assert_eq!(got, expected, "{condition}"),
                (Err(said), Err(part)) => assert!(said.contains(part), "{condition}: {said}"),
                (got, expected) => panic!("{condition}: {got:?}, expected {expected:?}"),
            }
        }
    }
}
