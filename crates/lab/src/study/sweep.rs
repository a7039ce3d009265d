//! Numbers as experiment files write them: one, a list, or a sweep such as `"100..1000 step 100"`.

use serde::Deserialize;

/// No sweep has more numbers.
const NUMBERS_MAX: u64 = 1000;

/// Numbers as they were written.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(untagged, expecting = "a number, a list of numbers or a sweep as \"100..1000 step 100\" is needed")]
pub enum Numbers {
    /// One.
    One(u64),
    /// A list.
    Many(Vec<u64>),
    /// A sweep, or a word that its place gives a meaning.
    Text(String),
}

impl Numbers {
    /// The numbers, in the order written.
    ///
    /// # Errors
    /// A sentence: what is wrong with a sweep, a number outside 1 to `most`, or an empty list.
    pub fn resolve(&self, most: u64) -> Result<Vec<u64>, String> {
        let numbers = match self {
            Numbers::One(number) => vec![*number],
            Numbers::Many(numbers) => numbers.clone(),
            Numbers::Text(text) => sweep(text)?,
        };
        match numbers.iter().find(|number| !(1..=most).contains(*number)) {
            Some(number) => Err(format!("{number}: a number from 1 to {most} is needed")),
            None if numbers.is_empty() => Err("the list is empty".to_owned()),
            None => Ok(numbers),
        }
    }
}

/// `A..B step C`: A, A + C, A + 2 C and so on, B at most; without a step, doubling.
fn sweep(text: &str) -> Result<Vec<u64>, String> {
    let wrong =
        || format!("\"{text}\" is no sweep; one is written as \"100..1000 step 100\", or \"1..1024\" for doubling");
    let (range, step) = match text.split_once(" step ") {
        Some((range, step)) => (range, Some(number(step).ok_or_else(wrong)?)),
        None => (text, None),
    };
    let (first, last) = range.split_once("..").ok_or_else(wrong)?;
    let (first, last) = (number(first).ok_or_else(wrong)?, number(last).ok_or_else(wrong)?);
    if first == 0 || first > last || step == Some(0) {
        return Err(format!("\"{text}\": a sweep goes up from 1 or more, by steps of 1 or more"));
    }
    let next = |&number: &u64| match step {
        Some(step) => number.checked_add(step),
        None => number.checked_mul(2),
    };
    let numbers: Vec<u64> = std::iter::successors(Some(first), next)
        .take_while(|&number| number <= last)
        .take(NUMBERS_MAX as usize + 1)
        .collect();
    if numbers.len() as u64 > NUMBERS_MAX {
        return Err(format!("\"{text}\" has more than {NUMBERS_MAX} numbers; give a larger step"));
    }
    Ok(numbers)
}

fn number(text: &str) -> Option<u64> {
    text.trim().replace('_', "").parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(numbers: &Numbers, expected: Result<&[u64], &str>) {
        match (numbers.resolve(100_000), expected) {
            (Ok(got), Ok(expected)) => assert_eq!(got, expected, "{numbers:?}"),
            (Err(said), Err(part)) => assert!(said.contains(part), "{numbers:?}: {said}"),
            (got, expected) => panic!("{numbers:?}: {got:?}, expected {expected:?}"),
        }
    }

    #[test]
    fn numbers() {
        let text = |text: &str| Numbers::Text(text.to_owned());
        check(&Numbers::One(7), Ok(&[7]));
        check(&Numbers::Many(vec![5, 3]), Ok(&[5, 3]));
        check(&text("100..400 step 100"), Ok(&[100, 200, 300, 400]));
        check(&text("1_000..2000 step 700"), Ok(&[1000, 1700]));
        check(&text("1..9"), Ok(&[1, 2, 4, 8]));
        check(&Numbers::One(0), Err("0: a number from 1 to 100000"));
        check(&Numbers::Many(vec![]), Err("empty"));
        check(&text("5..1"), Err("goes up"));
        check(&text("0..9 step 1"), Err("goes up"));
        check(&text("1..9 step 0"), Err("goes up"));
        check(&text("many"), Err("is no sweep"));
        check(&text("1..2 step x"), Err("is no sweep"));
        check(&text("1..100000 step 1"), Err("more than 1000"));
        check(&text("1..18446744073709551615"), Err("1 to 100000"));
    }
}
