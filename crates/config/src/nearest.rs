//! The known name that a misspelt one most likely meant.

/// The one of `names` that is fewest typing errors away from `name`, if that is few enough to be likely.
pub(crate) fn nearest<'a>(name: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    // The distance takes time and memory in proportion to both lengths; no directive is this long.
    if name.len() > 64 {
        return None;
    }
    let wanted = name.to_ascii_lowercase();
    let distance = |known: &str| strsim::osa_distance(&wanted, &known.to_ascii_lowercase());
    let (distance, nearest) = names.map(|known| (distance(known), known)).min()?;
    (distance <= name.chars().count() / 3).then_some(nearest)
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[track_caller]
    fn check(name: &str, expected: Option<&str>) {
        let names = ["Listen", "ServerName", "ServerRoot", "KeepAlive", "KeepAliveTimeout", "Timeout"];
        assert_eq!(nearest(name, names.into_iter()), expected, "{name}");
    }

    #[test]
    fn the_likely_one_is_found() {
        check("Lisetn", Some("Listen"));
        check("servername", Some("ServerName"));
        check("KeepAliveTimeut", Some("KeepAliveTimeout"));
        check("Timeou", Some("Timeout"));
        check("X", None);
        check("Something", None);
        check(&"Listen".repeat(1_000), None);
    }
}
