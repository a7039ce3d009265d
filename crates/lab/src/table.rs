//! Tables of plain text: columns as wide as their widest cell, words to the left and numbers to the right.

/// The lines of a table; rows may be shorter than `head`. A column is one of words if a cell in it begins with a letter.
pub fn lines(head: &[&str], rows: &[Vec<String>]) -> String {
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count());
        cells.chain([head[column].chars().count()]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..head.len()).map(width).collect();
    let is_words = |column: usize| {
        let mut cells = rows.iter().filter_map(|row| row.get(column));
        column == 0 || cells.any(|cell| cell.starts_with(char::is_alphabetic))
    };
    let words: Vec<bool> = (0..head.len()).map(is_words).collect();
    let line = |cells: &mut dyn Iterator<Item = &str>| {
        let mut text = String::new();
        for (column, cell) in cells.take(widths.len()).enumerate() {
            let gap = " ".repeat(widths[column] - cell.chars().count());
            if column > 0 {
                text.push_str("  ");
            }
            text.push_str(&if words[column] { format!("{cell}{gap}") } else { format!("{gap}{cell}") });
        }
        format!("{}\n", text.trim_end())
    };
    let mut text = line(&mut head.iter().copied());
    for row in rows {
        text.push_str(&line(&mut row.iter().map(String::as_str)));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned() {
        let rows =
            [vec!["a".to_owned(), "1".to_owned(), "µs".to_owned()], vec!["long name".to_owned(), "12345".to_owned()]];
        let expected = "name       count  unit\n\
                        a              1  µs\n\
                        long name  12345\n";
        assert_eq!(lines(&["name", "count", "unit"], &rows), expected);
        assert_eq!(lines(&["only"], &[]), "only\n");
        let rows = [vec!["a".to_owned(), "word".to_owned()], vec!["b".to_owned(), "-".to_owned()]];
        assert_eq!(lines(&["x", "verdict"], &rows), "x  verdict\na  word\nb  -\n");
    }
}
