//! The request head: a strict parser that indexes the bytes where they lie.
//!
//! The rules are those of Apache's `HttpProtocolOptions Strict`; those of `Unsafe` are in [`unsafe_mode`]. Where we are
//! stricter still, it is in what could be read in two ways: a folded field line (obs-fold) is refused with 400, which RFC 9112 section 5.2 allows,
//! where Apache joins it to the line before; so is `Transfer-Encoding` beside `Content-Length`. Each difference is
//! listed, with its reason, in `tests/apache.rs`.
//!
//! The parser works from left to right and decides on the first byte that cannot be right, so its answer does not
//! depend on how the bytes arrived. Checks on a whole field are made at its line end, those on the whole head at the
//! empty line.

use crate::digest::Digest;
use crate::limits::HEAD_MAX;
use crate::scan::{is_plain_target, target_end, token_end, value_end};
use crate::{BLANK_LINES_MAX, BodyLength, Conditions, HeadError, Limits, Method, Methods, Strictness, Version};

mod unsafe_mode;
mod usual;

/// An index into the bytes of one request head. It holds offsets and no bytes, so a connection keeps one and parses
/// every request with it: nothing is allocated once the list of fields has grown to what the clients send.
///
/// The accessors want the same bytes that were parsed; with others their answers mean nothing, but they do not panic.
/// Before the first successful parse they describe an empty GET.
#[derive(Clone, Debug)]
pub struct Head {
    progress: Progress,
    /// Where the line lies that is looked at next; everything before is parsed.
    at: usize,
    blank_lines: usize,
    line_start: u32,
    method_end: u32,
    target: u32,
    target_end: u32,
    line_end: u32,
    plain_target: bool,
    method: Method,
    version: Version,
    fields: Vec<Field>,
    /// Values that were sent in several lines, joined; only [`Strictness::Unsafe`] has such.
    joined: Vec<u8>,
    digest: Digest,
}

/// Where in a head the parser stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    RequestLine,
    Fields,
    /// Ended well or badly: the next parse is a new one.
    Over,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Field {
    name: u32,
    name_end: u32,
    value: u32,
    value_end: u32,
}

/// Set in [`Field::value`] where the value is in [`Head::joined`] rather than among the bytes of the head, whose number
/// is far from this bit.
const JOINED: u32 = 1 << 31;

impl Default for Head {
    fn default() -> Head {
        Head {
            progress: Progress::RequestLine,
            at: 0,
            blank_lines: 0,
            line_start: 0,
            method_end: 0,
            target: 0,
            target_end: 0,
            line_end: 0,
            plain_target: false,
            method: Method::Get,
            version: Version::Http10,
            fields: Vec::new(),
            joined: Vec::new(),
            digest: Digest::default(),
        }
    }
}

impl Head {
    /// An index that has seen nothing yet.
    pub fn new() -> Head {
        Head::default()
    }

    /// Parses the head at the start of `bytes`.
    ///
    /// `Ok(None)`: the head is incomplete, more bytes are needed; never once `bytes` has [`Limits::head_max`] bytes.
    /// `Ok(Some(n))`: the head is `bytes[..n]`, empty lines before it and the empty line after it included.
    ///
    /// # Errors
    /// [`HeadError`] as soon as the bytes seen cannot become a valid head.
    pub fn parse(&mut self, bytes: &[u8], limits: &Limits) -> Result<Option<usize>, HeadError> {
        self.clear();
        self.parse_more(bytes, limits)
    }

    /// As [`Head::parse`], but after an `Ok(None)` goes on at the first line that was incomplete. `bytes` must then
    /// begin with the bytes given before. This keeps a head that trickles in from being parsed anew each time.
    ///
    /// # Errors
    /// As [`Head::parse`].
    pub fn parse_more(&mut self, bytes: &[u8], limits: &Limits) -> Result<Option<usize>, HeadError> {
        if self.progress == Progress::Over {
            self.clear();
        }
        let result = self.advance(bytes, limits);
        match result {
            Ok(None) if bytes.len() >= limits.head_max() => {
                self.progress = Progress::Over;
                Err(HeadError::HeadTooLarge)
            }
            Ok(None) => Ok(None),
            decided => {
                self.progress = Progress::Over;
                decided
            }
        }
    }

    /// Forgets what was parsed, but keeps the memory, and what was learnt of hosts.
    pub fn clear(&mut self) {
        self.progress = Progress::RequestLine;
        self.at = 0;
        self.blank_lines = 0;
        self.line_start = 0;
        self.method_end = 0;
        self.target = 0;
        self.target_end = 0;
        self.line_end = 0;
        self.plain_target = false;
        self.method = Method::Get;
        self.version = Version::Http10;
        self.fields.clear();
        self.joined.clear();
        self.digest.clear();
    }

    /// The method; [`Method::Other`] for a token that is none of the known ones.
    pub fn method(&self) -> Method {
        self.method
    }

    /// The method as sent.
    pub fn method_token<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        slice(bytes, self.line_start, self.method_end)
    }

    /// The request target as sent; see [`crate::decode_target`].
    pub fn target<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        slice(bytes, self.target, self.target_end)
    }

    /// Whether the target is a path that stands for itself: [`crate::decode_target`] would change nothing of it, and find no query
    /// and no authority. Where this is false it may be so all the same.
    #[inline]
    pub fn target_is_plain(&self) -> bool {
        self.plain_target
    }

    /// The whole request line without its line end, as logs show it (`%r`).
    pub fn request_line<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        slice(bytes, self.line_start, self.line_end)
    }

    /// The protocol version of the request.
    pub fn version(&self) -> Version {
        self.version
    }

    /// The value of the first field called `name` in any case, without white space at its ends.
    pub fn field<'a>(&'a self, bytes: &'a [u8], name: &str) -> Option<&'a [u8]> {
        let name = name.as_bytes();
        self.fields
            .iter()
            .filter(|field| (field.name_end - field.name) as usize == name.len())
            .find(|field| slice(bytes, field.name, field.name_end).eq_ignore_ascii_case(name))
            .map(|field| self.value(bytes, field))
    }

    /// All fields in order: name as sent, value without white space at its ends.
    pub fn fields<'a>(&'a self, bytes: &'a [u8]) -> impl Iterator<Item = (&'a [u8], &'a [u8])> + 'a {
        self.fields.iter().map(|field| (slice(bytes, field.name, field.name_end), self.value(bytes, field)))
    }

    /// Whether [`Head::conditions`] has any.
    #[inline]
    pub fn is_conditional(&self) -> bool {
        self.digest.conditional
    }

    /// The fields that make the request conditional or partial; `None` where it has none of them, which costs nothing
    /// to know.
    pub fn conditions<'a>(&'a self, bytes: &'a [u8]) -> Option<Conditions<'a>> {
        if !self.digest.conditional {
            return None;
        }
        let mut conditions = Conditions::default();
        for (name, value) in self.fields(bytes) {
            conditions.add(name, value);
        }
        Some(conditions)
    }

    /// The value of `Host`, a host and an optional port. There is one in every HTTP/1.1 head.
    pub fn host<'a>(&self, bytes: &'a [u8]) -> Option<&'a [u8]> {
        let field = self.fields.get(self.digest.host? as usize)?;
        Some(slice(bytes, field.value, field.value_end))
    }

    /// How the end of the request body is found.
    pub fn body(&self) -> BodyLength {
        self.digest.body()
    }

    /// Whether version and `Connection` field ask for the connection to stay open: in 1.1 unless `close` is named, in
    /// 1.0 only where `keep-alive` is and `close` is not.
    pub fn keep_alive(&self) -> bool {
        self.digest.keep_alive(self.version)
    }

    /// Whether `Connection: keep-alive` was named, by a client of either version; a 1.0 client wants to be told the
    /// same in the response.
    pub fn keep_alive_asked(&self) -> bool {
        self.digest.keep_alive_asked()
    }

    /// Whether the client waits for `100 Continue` before it sends the body; never in HTTP/1.0.
    pub fn expects_continue(&self) -> bool {
        self.digest.expects_continue()
    }

    /// The value of a field of this head.
    fn value<'a>(&'a self, bytes: &'a [u8], field: &Field) -> &'a [u8] {
        if field.value & JOINED != 0 {
            return slice(&self.joined, field.value ^ JOINED, field.value_end);
        }
        slice(bytes, field.value, field.value_end)
    }

    fn advance(&mut self, bytes: &[u8], limits: &Limits) -> Result<Option<usize>, HeadError> {
        // A head that is only complete beyond the bound is too large however it arrives; offsets stay within 32 bits.
        let bytes = &bytes[..bytes.len().min(HEAD_MAX)];
        if limits.protocol.strictness == Strictness::Unsafe {
            return self.advance_unsafe(bytes, limits);
        }
        if self.progress == Progress::RequestLine {
            if !self.skip_blank_lines(bytes)? || self.request_line_at(bytes, limits)?.is_none() {
                return Ok(None);
            }
            if self.version == Version::Http09 {
                return Ok(Some(self.at));
            }
            self.progress = Progress::Fields;
        }
        self.fields_at(bytes, limits)
    }

    /// Skips empty lines before the request line; a bare LF counts as one here. False: more bytes are needed.
    fn skip_blank_lines(&mut self, bytes: &[u8]) -> Result<bool, HeadError> {
        loop {
            let end = match bytes.get(self.at) {
                None => return Ok(false),
                Some(b'\n') => self.at + 1,
                Some(b'\r') => match line_end(bytes, self.at)? {
                    Some(end) => end,
                    None => return Ok(false),
                },
                Some(_) => return Ok(true),
            };
            if self.blank_lines == BLANK_LINES_MAX {
                return Err(HeadError::BlankLines);
            }
            self.blank_lines += 1;
            self.at = end;
        }
    }

    /// Parses the request line at `self.at`. `None`: more bytes are needed.
    fn request_line_at(&mut self, bytes: &[u8], limits: &Limits) -> Result<Option<()>, HeadError> {
        let start = self.at;
        let Some(target_end) = usual::request_line(bytes, start, limits.request_line) else {
            return self.unusual_request_line_at(bytes, limits);
        };
        let target = start + "GET ".len();
        let end = target_end + " HTTP/1.1".len();
        self.line_start = start as u32;
        self.method_end = (start + "GET".len()) as u32;
        self.target = target as u32;
        self.target_end = target_end as u32;
        self.line_end = end as u32;
        self.plain_target = is_plain_target(bytes, target..target_end);
        self.method = Method::Get;
        self.version = Version::Http11;
        self.at = end + "\r\n".len();
        Ok(Some(()))
    }

    fn unusual_request_line_at(&mut self, bytes: &[u8], limits: &Limits) -> Result<Option<()>, HeadError> {
        let start = self.at;
        let line = Line::new(bytes, start, limits.request_line, HeadError::RequestLineTooLong);

        // Most requests are GETs, and four bytes are compared faster than they are looked up.
        let is_get = line.window[start..].starts_with(b"GET ");
        let method_end = if is_get { start + 3 } else { token_end(line.window, start) };
        let Some(&after) = line.window.get(method_end) else { return line.short() };
        if after != b' ' || method_end == start {
            return Err(match after {
                b'\r' | b'\n' if method_end > start => HeadError::TargetMissing,
                _ => HeadError::Method,
            });
        }

        let target = method_end + 1;
        let target_end = target_end(line.window, target);
        let Some(&after) = line.window.get(target_end) else { return line.short() };
        let (version, end) = if after == b' ' && target_end > target {
            let Some(version) = version_at(&line.window[target_end + 1..])? else { return line.short() };
            (version, target_end + 1 + VERSION_LENGTH)
        } else {
            // Only GET was there before HTTP/1.0.
            match after {
                _ if target_end == target => return Err(HeadError::Target),
                b'\r' if is_get && limits.protocol.allow_http09 => (Version::Http09, target_end),
                b'\n' if is_get && limits.protocol.allow_http09 => return Err(HeadError::BareLf),
                b'\r' | b'\n' => return Err(HeadError::SimpleRequest),
                _ => return Err(HeadError::Target),
            }
        };
        let Some(next) = line.next(end, HeadError::VersionMalformed)? else { return Ok(None) };

        self.line_start = start as u32;
        self.method_end = method_end as u32;
        self.target = target as u32;
        self.target_end = target_end as u32;
        self.line_end = end as u32;
        self.plain_target = is_plain_target(bytes, target..target_end);
        self.method = if is_get { Method::Get } else { method_of(&bytes[start..method_end], limits)? };
        self.version = version;
        self.at = next;
        Ok(Some(()))
    }

    /// Parses field lines from `self.at` up to the empty line, and returns where that ends. `None`: more bytes are
    /// needed.
    fn fields_at(&mut self, bytes: &[u8], limits: &Limits) -> Result<Option<usize>, HeadError> {
        if self.fields.is_empty() {
            self.take_known_host(bytes, limits);
        }
        let fields_max = limits.fields_max();
        let mut at = self.at;
        loop {
            if bytes[at..].starts_with(b"\r\n") {
                self.digest.finish(self.version)?;
                return Ok(Some(at + 2));
            }
            let (field, next) = match usual::field_line(bytes, at, limits.field_size) {
                Some(line) if self.fields.len() < fields_max => line,
                _ => match self.unusual_field_line(bytes, at, limits)? {
                    Some(line) => line,
                    None => return Ok(None),
                },
            };
            let name = &bytes[at..field.name_end as usize];
            if Digest::may_concern(name) {
                let value = &bytes[field.value as usize..field.value_end as usize];
                let index = self.fields.len() as u32;
                self.digest.field(self.version, name, value, index)?;
            }
            self.fields.push(field);
            at = next;
            self.at = at;
        }
    }

    /// Takes the first field, if it names a host that is known from heads before.
    #[inline]
    fn take_known_host(&mut self, bytes: &[u8], limits: &Limits) {
        if let Some((value, end)) = self.digest.known_host(&bytes[self.at..], limits.field_size) {
            let [name, name_end, value, value_end] =
                [0, "Host".len(), value, end].map(|place| (self.at + place) as u32);
            self.fields.push(Field { name, name_end, value, value_end });
            self.at += end + "\r\n".len();
        }
    }

    /// Parses the field line at `start`, and tells where the next line begins. `None`: more bytes are needed.
    #[cold]
    fn unusual_field_line(
        &self,
        bytes: &[u8],
        start: usize,
        limits: &Limits,
    ) -> Result<Option<(Field, usize)>, HeadError> {
        match bytes.get(start) {
            None => Ok(None),
            // An empty line, of which the end is not there.
            Some(b'\r') => line_end(bytes, start).map(|_| None),
            Some(b'\n') => Err(HeadError::BareLf),
            Some(b' ' | b'\t') => Err(HeadError::ObsFold),
            Some(_) if self.fields.len() >= limits.fields_max() => Err(HeadError::TooManyFields),
            Some(_) => field_line(bytes, start, limits),
        }
    }
}

/// Parses the field line at `start`, where there is a byte, and tells where the next line begins. `None`: more bytes are needed.
#[inline]
fn field_line(bytes: &[u8], start: usize, limits: &Limits) -> Result<Option<(Field, usize)>, HeadError> {
    let line = Line::new(bytes, start, limits.field_size, HeadError::FieldTooLong);

    let name_end = token_end(line.window, start);
    match line.window.get(name_end) {
        None => return line.short(),
        Some(b':') if name_end > start => {}
        Some(b' ' | b'\t') => return Err(HeadError::SpaceBeforeColon),
        Some(_) => return Err(HeadError::FieldName),
    }

    let mut value = name_end + 1;
    while let Some(b' ' | b'\t') = line.window.get(value) {
        value += 1;
    }
    let end = value_end(line.window, value);
    let Some(next) = line.next(end, HeadError::FieldValue)? else { return Ok(None) };

    let mut value_end = end;
    while value_end > value && matches!(bytes[value_end - 1], b' ' | b'\t') {
        value_end -= 1;
    }
    let [name, name_end, value, value_end] = [start, name_end, value, value_end].map(|at| at as u32);
    Ok(Some((Field { name, name_end, value, value_end }, next)))
}

/// One line under its limit.
struct Line<'a> {
    bytes: &'a [u8],
    /// Ends where the line must have ended at the latest.
    window: &'a [u8],
    /// Whether it ends there rather than where the bytes do.
    full: bool,
    too_long: HeadError,
}

impl<'a> Line<'a> {
    #[inline]
    fn new(bytes: &'a [u8], start: usize, limit: usize, too_long: HeadError) -> Line<'a> {
        // The line may have `limit` bytes, and its CR one place after them.
        let window = bytes.get(..=start.saturating_add(limit));
        Line { bytes, window: window.unwrap_or(bytes), full: window.is_some(), too_long }
    }

    /// Where the next line begins, if this one ends at `end`, where a byte stands that is not of it. With anything else there than
    /// CRLF the line is `wrong`.
    #[inline]
    fn next(&self, end: usize, wrong: HeadError) -> Result<Option<usize>, HeadError> {
        match self.window.get(end) {
            Some(b'\r') => line_end(self.bytes, end),
            Some(b'\n') => Err(HeadError::BareLf),
            Some(_) => Err(wrong),
            None => self.short(),
        }
    }

    /// The window ended before the line did: what that means.
    #[cold]
    fn short<T>(&self) -> Result<Option<T>, HeadError> {
        if self.full { Err(self.too_long) } else { Ok(None) }
    }
}

/// Where the next line starts, for a line that ends with the CR at `cr`; `None` if the byte after it is not there yet.
#[inline]
fn line_end(bytes: &[u8], cr: usize) -> Result<Option<usize>, HeadError> {
    match bytes.get(cr + 1) {
        Some(b'\n') => Ok(Some(cr + 2)),
        Some(_) => Err(HeadError::BareCr),
        None => Ok(None),
    }
}

/// The method a token names, if such methods are to be let in.
fn method_of(token: &[u8], limits: &Limits) -> Result<Method, HeadError> {
    match Method::of_token(token) {
        Method::Other if limits.protocol.methods == Methods::Registered => Err(HeadError::MethodUnregistered),
        method => Ok(method),
    }
}

const VERSION_LENGTH: usize = b"HTTP/1.1".len();

/// The version at the start of `rest`; `None` if that ends within what may become one.
#[inline]
fn version_at(rest: &[u8]) -> Result<Option<Version>, HeadError> {
    const HTTP11: u64 = u64::from_ne_bytes(*b"HTTP/1.1");
    const HTTP10: u64 = u64::from_ne_bytes(*b"HTTP/1.0");
    // As numbers, since arrays are compared byte by byte.
    match rest.first_chunk::<VERSION_LENGTH>().map(|version| u64::from_ne_bytes(*version)) {
        Some(HTTP11) => Ok(Some(Version::Http11)),
        Some(HTTP10) => Ok(Some(Version::Http10)),
        _ => unusual_version(rest),
    }
}

fn unusual_version(rest: &[u8]) -> Result<Option<Version>, HeadError> {
    for (i, &b) in rest.iter().take(VERSION_LENGTH).enumerate() {
        let fits = match i {
            5 | 7 => b.is_ascii_digit(),
            6 => b == b'.',
            _ => b == b"HTTP/"[i],
        };
        if !fits {
            return Err(HeadError::VersionMalformed);
        }
    }
    match rest {
        [_, _, _, _, _, b'1', _, _, ..] => Ok(Some(Version::Http11)),
        [_, _, _, _, _, _, _, _, ..] => Err(HeadError::VersionUnsupported),
        _ => Ok(None),
    }
}

#[inline]
fn slice(bytes: &[u8], start: u32, end: u32) -> &[u8] {
    bytes.get(start as usize..end as usize).unwrap_or_default()
}

/// The request line of a head that could not be parsed, for the log: the first line that is not empty, up to its
/// line end or 8190 bytes, whatever is in it.
pub fn request_line_of(bytes: &[u8]) -> &[u8] {
    const LENGTH_MAX: usize = 8190;
    let is_line_end = |b: &u8| matches!(b, b'\r' | b'\n');
    let start = bytes.iter().take(2 * BLANK_LINES_MAX).take_while(|b| is_line_end(b)).count();
    let line = &bytes[start..];
    let line = &line[..line.len().min(LENGTH_MAX)];
    &line[..line.iter().position(is_line_end).unwrap_or(line.len())]
}
