//! How large a head may be: Apache's `LimitRequestLine`, `LimitRequestFieldSize` and `LimitRequestFields`.

/// Most empty lines skipped before a request line (RFC 9112 section 2.2 asks for at least one; Apache skips ten).
pub const BLANK_LINES_MAX: usize = 10;

/// Most header fields a head may have whatever [`Limits::fields`] says; the highest value Apache's directive takes.
pub const FIELDS_MAX: usize = 32_767;

/// The most bytes a head may take altogether, whatever the single limits are; more is 431.
pub const HEAD_MAX: usize = 16 << 20;

/// Bounds of one message head, in bytes without line ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Longest request line (`LimitRequestLine`, 8190): longer is 414.
    pub request_line: usize,
    /// Longest header field, name, colon and value (`LimitRequestFieldSize`, 8190): longer is 431.
    pub field_size: usize,
    /// Most header fields (`LimitRequestFields`, 100): more is 431. As in Apache, 0 sets no limit, which here means
    /// [`FIELDS_MAX`].
    pub fields: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { request_line: 8190, field_size: 8190, fields: 100 }
    }
}

impl Limits {
    /// The most bytes a head within these limits can take, line ends included, and never more than [`HEAD_MAX`]: the
    /// bound for a receive buffer. A parser that has seen this many bytes has either found the end of the head or an error.
    pub fn head_max(&self) -> usize {
        let fields = self.fields_max().saturating_mul(self.field_size.saturating_add(2));
        let line = self.request_line.saturating_add(2 * BLANK_LINES_MAX + 2 + 2);
        fields.saturating_add(line).min(HEAD_MAX)
    }

    /// `fields` with 0 resolved.
    pub(crate) fn fields_max(&self) -> usize {
        if self.fields == 0 { FIELDS_MAX } else { self.fields.min(FIELDS_MAX) }
    }
}

#[cfg(test)]
mod tests {
    use super::{FIELDS_MAX, HEAD_MAX, Limits};

    #[test]
    fn head_max_is_bounded_and_counts_line_ends() {
        let check = |request_line, field_size, fields, expected| {
            assert_eq!(Limits { request_line, field_size, fields }.head_max(), expected);
        };
        check(8190, 8190, 100, 8190 + 24 + 100 * 8192);
        check(10, 10, 1, 10 + 24 + 12);
        check(10, 10, 0, 10 + 24 + 12 * FIELDS_MAX);
        check(8190, 8190, 0, HEAD_MAX);
        check(usize::MAX, usize::MAX, usize::MAX, HEAD_MAX);
    }
}
