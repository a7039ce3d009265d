//! The request head as `HttpProtocolOptions Unsafe` takes it: lenient as Apache is then, a line at a time.
//!
//! What decides where a request ends stays strict, which Apache's Unsafe mode is not in all of it: Host, Content-Length,
//! Transfer-Encoding, Connection and Expect may not be folded, names have no control bytes, and bodies are read as in
//! Strict mode.

use super::{Field, Head, JOINED, Progress, VERSION_LENGTH, method_of, slice, version_at};
use crate::chars::trim_ows;
use crate::digest::Digest;
use crate::scan::target_end;
use crate::{HeadError, Limits, Version};

impl Head {
    /// As the strict parser's, on the same terms.
    #[cold]
    pub(super) fn advance_unsafe(&mut self, bytes: &[u8], limits: &Limits) -> Result<Option<usize>, HeadError> {
        // Folded lines take more bytes than the value that comes of them, so that the single limits do not bound a head.
        let bytes = &bytes[..bytes.len().min(limits.head_max())];
        if self.progress == Progress::RequestLine {
            if !self.skip_blank_lines(bytes)? {
                return Ok(None);
            }
            let too_long = HeadError::RequestLineTooLong;
            let Some(line) = line(&bytes[self.at..], limits.request_line, too_long)? else { return Ok(None) };
            self.unsafe_request_line(line.text, limits)?;
            self.at += line.next;
            if self.version == Version::Http09 {
                return Ok(Some(self.at));
            }
            self.progress = Progress::Fields;
        }
        loop {
            let Some(line) = line(&bytes[self.at..], limits.field_size, HeadError::FieldTooLong)? else {
                return Ok(None);
            };
            match line.text {
                [] => {
                    self.digest.finish(self.version)?;
                    return Ok(Some(self.at + line.next));
                }
                [b' ' | b'\t', ..] => self.join(bytes, line.text, limits)?,
                text => self.unsafe_field(text, limits)?,
            }
            self.at += line.next;
        }
    }

    /// Takes a request line apart: three words, or two in HTTP/0.9, with spaces between them.
    fn unsafe_request_line(&mut self, text: &[u8], limits: &Limits) -> Result<(), HeadError> {
        let spaces = |from: usize| text[from..].iter().take_while(|&&b| b == b' ').count();

        let method_end = target_end(text, 0);
        match text.get(method_end) {
            None => return Err(HeadError::TargetMissing),
            Some(b' ') if method_end > 0 => {}
            Some(_) => return Err(HeadError::Method),
        }
        let target = method_end + spaces(method_end);
        let target_end = target_end(text, target);
        match text.get(target_end) {
            None if target_end == target => return Err(HeadError::TargetMissing),
            None | Some(b' ') if target_end > target => {}
            _ => return Err(HeadError::Target),
        }
        let version = &text[target_end + spaces(target_end)..];
        let version = match version.split_first_chunk::<VERSION_LENGTH>() {
            None if version.is_empty() && limits.protocol.allow_http09 => Version::Http09,
            None if version.is_empty() => return Err(HeadError::SimpleRequest),
            Some((version, rest)) if rest.iter().all(|&b| b == b' ') => {
                let mut version = *version;
                version[..4].make_ascii_uppercase();
                version_at(&version)?.ok_or(HeadError::VersionMalformed)?
            }
            _ => return Err(HeadError::VersionMalformed),
        };

        self.line_start = self.at as u32;
        self.method_end = (self.at + method_end) as u32;
        self.target = (self.at + target) as u32;
        self.target_end = (self.at + target_end) as u32;
        self.line_end = (self.at + text.len()) as u32;
        self.method = method_of(&text[..method_end], limits)?;
        self.version = version;
        Ok(())
    }

    fn unsafe_field(&mut self, text: &[u8], limits: &Limits) -> Result<(), HeadError> {
        if self.fields.len() >= limits.fields_max() {
            return Err(HeadError::TooManyFields);
        }
        let name_end = target_end(text, 0);
        let name_end = memchr::memchr(b':', &text[..name_end]).ok_or(match text.get(name_end) {
            Some(b' ' | b'\t') => HeadError::SpaceBeforeColon,
            _ => HeadError::FieldName,
        })?;
        if name_end == 0 {
            return Err(HeadError::FieldName);
        }
        let value = &text[name_end + 1..];
        is_unsafe_value(value)?;
        let value_start = name_end + 1 + value.iter().take_while(|b| matches!(b, b' ' | b'\t')).count();
        let value = trim_ows(value);
        if Digest::may_concern(&text[..name_end]) {
            self.digest.field(self.version, &text[..name_end], value, self.fields.len() as u32)?;
        }
        self.fields.push(Field {
            name: self.at as u32,
            name_end: (self.at + name_end) as u32,
            value: (self.at + value_start) as u32,
            value_end: (self.at + value_start + value.len()) as u32,
        });
        Ok(())
    }

    /// Joins a folded line to the value before it, with a space in between (RFC 9112 section 5.2).
    fn join(&mut self, bytes: &[u8], text: &[u8], limits: &Limits) -> Result<(), HeadError> {
        is_unsafe_value(text)?;
        let Some(field) = self.fields.last_mut() else { return Err(HeadError::ObsFold) };
        if Digest::frames(slice(bytes, field.name, field.name_end)) {
            return Err(HeadError::ObsFold);
        }
        if field.value & JOINED == 0 {
            let start = self.joined.len() as u32;
            self.joined.extend_from_slice(slice(bytes, field.value, field.value_end));
            field.value = start | JOINED;
        }
        let value = field.value ^ JOINED;
        let more = trim_ows(text);
        if !more.is_empty() {
            if self.joined.len() > value as usize {
                self.joined.push(b' ');
            }
            self.joined.extend_from_slice(more);
        }
        field.value_end = self.joined.len() as u32;
        let length = (field.name_end - field.name) + 1 + (field.value_end - value);
        if length as usize > limits.field_size { Err(HeadError::FieldTooLong) } else { Ok(()) }
    }
}

/// One line that is there to its end.
struct UnsafeLine<'a> {
    /// The line without CRLF or LF.
    text: &'a [u8],
    /// Where the next line begins.
    next: usize,
}

/// The line at the start of `rest`; `None`: more bytes are needed.
fn line(rest: &[u8], limit: usize, too_long: HeadError) -> Result<Option<UnsafeLine<'_>>, HeadError> {
    let window = &rest[..rest.len().min(limit.saturating_add(2))];
    let Some(end) = memchr::memchr(b'\n', window) else {
        return if window.len() > limit.saturating_add(1) { Err(too_long) } else { Ok(None) };
    };
    let text = &window[..end];
    let text = text.strip_suffix(b"\r").unwrap_or(text);
    if text.len() > limit { Err(too_long) } else { Ok(Some(UnsafeLine { text, next: end + 1 })) }
}

/// What may stand in a value: everything but NUL and what some take for the end of a line.
fn is_unsafe_value(value: &[u8]) -> Result<(), HeadError> {
    let bad = value.iter().any(|b| matches!(b, 0 | b'\r' | 0x0b | 0x0c));
    if bad { Err(HeadError::FieldValue) } else { Ok(()) }
}
