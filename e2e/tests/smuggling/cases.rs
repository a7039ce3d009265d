//! The cases: what is sent, whether its framing is ambiguous, and what each server makes of it.
//!
//! An outcome is the status of each answer in order, `body` for one without a head, `marker` for that to the request
//! behind the case; then `close` or `open`, whether the last of them ends the connection. `open` without the marker means
//! that the server took the marker for a part of the case, or waited for more; `nothing`, that it said nothing at all.
//!
//! Apache is httpd 2.4.71 and nginx is 1.22.1, both with their defaults.

use Sent::{Chunked, Fields, Repeated, Whole};

/// Cases of one kind.
pub struct Group {
    pub title: &'static str,
    pub about: &'static str,
    pub cases: &'static [Case],
}

/// One case.
pub struct Case {
    pub name: &'static str,
    pub sent: Sent,
    /// Can be understood in two ways: it must be refused and the connection closed.
    pub ambiguous: bool,
    pub manifold: &'static str,
    pub apache: &'static str,
    pub nginx: &'static str,
    /// What the standard says, and what we make of it.
    pub why: &'static str,
    /// Why another server differs from us; empty where none does.
    pub differs: &'static str,
}

/// What becomes of a case in `HttpProtocolOptions Unsafe`, where that changes something.
pub struct UnsafeCase {
    pub name: &'static str,
    pub manifold: &'static str,
    pub apache: &'static str,
}

/// What is sent.
pub enum Sent {
    /// All of it.
    Whole(&'static [u8]),
    /// Lines of fields for a GET of the page, and what follows its head.
    Fields(&'static [u8], &'static [u8]),
    /// The body of a GET of the page that is chunked.
    Chunked(&'static [u8]),
    /// All of it, with a piece that comes so many times.
    Repeated(&'static [u8], &'static [u8], usize, &'static [u8]),
}

/// The head that [`Fields`] and [`Chunked`] complete.
const HEAD: &[u8] = b"GET /page.html HTTP/1.1\r\nHost: h\r\n";

impl Sent {
    /// The bytes on the wire.
    pub fn bytes(&self) -> Vec<u8> {
        match self {
            Whole(bytes) => bytes.to_vec(),
            Fields(lines, body) => [HEAD, lines, b"\r\n\r\n", body].concat(),
            Chunked(body) => [HEAD, b"Transfer-Encoding: chunked\r\n\r\n", body].concat(),
            Repeated(before, piece, times, after) => [before, &piece.repeat(*times)[..], after].concat(),
        }
    }
}

const A: bool = true;
const C: bool = false;

const fn case(
    name: &'static str,
    sent: Sent,
    ambiguous: bool,
    [manifold, apache, nginx]: [&'static str; 3],
    why: &'static str,
    differs: &'static str,
) -> Case {
    Case { name, sent, ambiguous, manifold, apache, nginx, why, differs }
}

/// All of them.
#[rustfmt::skip]
pub const GROUPS: &[Group] = &[
    Group { title: "Line ends", about: "Servers that disagree on where a line ends can be made to disagree on what fields there are.", cases: LINE_ENDS },
    Group { title: "Folded lines", about: "A field that goes on in the next line (obs-fold) is one field to some and two to others.", cases: FOLDED_LINES },
    Group { title: "Names and colons", about: "A name that one server recognises and another does not hides a field from one of them.", cases: NAMES_AND_COLONS },
    Group { title: "Control bytes in values", about: "RFC 9110 section 5.5 calls values with CR, LF or NUL dangerous; other control bytes are invalid.", cases: CONTROL_BYTES_IN_VALUES },
    Group { title: "Content-Length", about: "RFC 9112 section 6.3: a length that is not one number is an error that cannot be recovered from.", cases: CONTENT_LENGTH },
    Group { title: "Transfer-Encoding", about: "RFC 9112 section 6.1: chunked comes last and once, or the length is unknown.", cases: TRANSFER_ENCODING },
    Group { title: "Chunk sizes", about: "RFC 9112 section 7.1: hexadecimal digits, an extension or none, CRLF; the data and CRLF behind it.", cases: CHUNK_SIZES },
    Group { title: "Chunk extensions", about: "RFC 9112 section 7.1.1: read past, with a bound, and by their grammar, because some read them to a bare LF.", cases: CHUNK_EXTENSIONS },
    Group { title: "Trailers", about: "RFC 9110 section 6.5.1: trailers are read past and never become fields of the request.", cases: TRAILERS },
    Group { title: "Early answers", about: "An answer before the body was read must not make the body a request.", cases: EARLY_ANSWERS },
    Group { title: "Expect", about: "RFC 9110 section 10.1.1: whoever answers before the body came must read it or close.", cases: EXPECT },
    Group { title: "Upgrade, CONNECT and TRACE", about: "What is not supported must not switch protocols half-way.", cases: UPGRADE_CONNECT_AND_TRACE },
    Group { title: "Request lines", about: "RFC 9112 section 3: three words, one space between them.", cases: REQUEST_LINES },
    Group { title: "Host", about: "RFC 9112 section 3.2: one valid Host in every 1.1 request, or 400.", cases: HOST },
    Group { title: "Connections", about: "What the client says of the connection decides whether the request behind is answered.", cases: CONNECTIONS },
];

#[rustfmt::skip]
const LINE_ENDS: &[Case] = &[
    case("LF after the request line", Whole(b"GET /page.html HTTP/1.1\nHost: h\r\n\r\n"), A, ["400 close", "400 close", "200 marker"], "RFC 9112 section 2.2: CRLF ends a line; LF alone may be taken, need not be", "nginx takes LF alone for a line end, which RFC 9112 section 2.2 lets it"),
    case("LF after a field", Fields(b"A: b\nC: d", b""), A, ["400 close", "400 close", "200 marker"], "RFC 9112 section 2.2", "nginx takes LF alone for a line end, which RFC 9112 section 2.2 lets it"),
    case("LF as the empty line", Whole(b"GET /page.html HTTP/1.1\r\nHost: h\r\n\n"), A, ["400 close", "400 close", "200 marker"], "RFC 9112 section 2.2", "nginx takes LF alone for a line end, which RFC 9112 section 2.2 lets it"),
    case("LF everywhere", Whole(b"GET /page.html HTTP/1.1\nHost: h\n\n"), A, ["400 close", "400 close", "200 marker"], "RFC 9112 section 2.2", "nginx takes LF alone for a line end, which RFC 9112 section 2.2 lets it"),
    case("LF before a hidden Content-Length", Fields(b"A: b\nContent-Length: 5", b"hello"), A, ["400 close", "400 close", "200 marker"], "RFC 9112 section 2.2", "nginx takes LF alone for a line end, which RFC 9112 section 2.2 lets it"),
    case("LF before a hidden Transfer-Encoding", Fields(b"A: b\nTransfer-Encoding: chunked", b"0\r\n\r\n"), A, ["400 close", "400 close", "200 marker"], "RFC 9112 section 2.2", "nginx takes LF alone for a line end, which RFC 9112 section 2.2 lets it"),
    case("CR after the request line", Whole(b"GET /page.html HTTP/1.1\rHost: h\r\n\r\n"), A, ["400 close", "400 close", "400 close"], "RFC 9112 section 2.2: CR alone is invalid", ""),
    case("CR in a value", Fields(b"A: b\rc", b""), A, ["400 close", "400 close", "400 close"], "RFC 9112 section 2.2: CR alone is invalid", ""),
    case("CR before a hidden Content-Length", Fields(b"A: b\rContent-Length: 5", b"hello"), A, ["400 close", "400 close", "400 close"], "RFC 9112 section 2.2: CR alone is invalid", ""),
    case("CR before a hidden Transfer-Encoding", Fields(b"A: b\rTransfer-Encoding: chunked", b"0\r\n\r\n"), A, ["400 close", "400 close", "400 close"], "RFC 9112 section 2.2: CR alone is invalid", ""),
    case("CR CR LF", Fields(b"A: b\r", b""), A, ["400 close", "400 close", "200 marker"], "RFC 9112 section 2.2: CR alone is invalid", "nginx takes the first CR for white space at the end of the value"),
    case("LF CR", Fields(b"A: b\n\rC: d", b""), A, ["400 close", "400 close", "400 close"], "RFC 9112 section 2.2", ""),
    case("CR as the empty line", Whole(b"GET /page.html HTTP/1.1\r\nHost: h\r\n\rX"), A, ["400 close", "400 close", "400 close"], "RFC 9112 section 2.2: CR alone is invalid", ""),
    case("CRLF before the request", Whole(b"\r\nGET /page.html HTTP/1.1\r\nHost: h\r\n\r\n"), C, ["200 marker", "200 marker", "200 marker"], "RFC 9112 section 2.2: at least one empty line before a request is to be ignored", ""),
    case("LF before the request", Whole(b"\nGET /page.html HTTP/1.1\r\nHost: h\r\n\r\n"), C, ["200 marker", "400 close", "200 marker"], "RFC 9112 section 2.2: an empty line before a request is to be ignored, and LF may end a line", "Apache wants CRLF for empty lines as well"),
    case("eleven empty lines before the request", Repeated(b"", b"\r\n", 11, b"GET /page.html HTTP/1.1\r\nHost: h\r\n\r\n"), A, ["400 close", "400 close", "200 marker"], "a bound on what is ignored", "nginx skips any number; Apache has the same bound"),
    case("CR before the request", Whole(b"\rGET /page.html HTTP/1.1\r\nHost: h\r\n\r\n"), A, ["400 close", "400 close", "200 marker"], "RFC 9112 section 2.2: CR alone is invalid", "nginx skips any CR and LF"),
    case("byte 0x85 in a value", Fields(b"A: b\x85Content-Length: 5", b""), C, ["200 marker", "200 marker", "200 marker"], "RFC 9110 section 5.5: bytes from 0x80 on mean nothing; NEL ends no line", ""),
    case("U+2028 in a value", Fields(b"A: b\xe2\x80\xa8Content-Length: 5", b""), C, ["200 marker", "200 marker", "200 marker"], "RFC 9110 section 5.5: a line separator of Unicode ends no line", ""),
];

#[rustfmt::skip]
const FOLDED_LINES: &[Case] = &[
    case("a folded field", Fields(b"A: b\r\n c", b""), A, ["400 close", "200 marker", "400 close"], "RFC 9112 section 5.2: reject with 400, or join", "Apache joins the lines, which RFC 9112 section 5.2 lets it"),
    case("folded by a tab", Fields(b"A: b\r\n\tc", b""), A, ["400 close", "200 marker", "400 close"], "RFC 9112 section 5.2", "Apache joins the lines, which RFC 9112 section 5.2 lets it"),
    case("a fold behind the request line", Whole(b"GET /page.html HTTP/1.1\r\n Host: h\r\n\r\n"), A, ["400 close", "400 close", "400 close"], "RFC 9112 section 2.2: no white space before the first field", ""),
    case("a fold that looks like Content-Length", Fields(b"A: b\r\n Content-Length: 5", b"hello"), A, ["400 close", "200 501 close", "400 close"], "RFC 9112 section 5.2", "Apache joins the lines, so that the body is the beginning of the next request, and refuses that"),
    case("a fold that looks like Transfer-Encoding", Fields(b"A: b\r\n\tTransfer-Encoding: chunked", b"0\r\n\r\n"), A, ["400 close", "200 400 close", "400 close"], "RFC 9112 section 5.2", "Apache joins the lines, so that the body is the beginning of the next request, and refuses that"),
    case("an empty fold behind Content-Length", Fields(b"Content-Length: 5\r\n ", b"hello"), A, ["400 close", "400 close", "400 close"], "RFC 9112 section 5.2", ""),
    case("Content-Length in the fold", Fields(b"Content-Length:\r\n 5", b"hello"), A, ["400 close", "200 marker", "400 close"], "RFC 9112 section 5.2", "Apache joins the lines, which RFC 9112 section 5.2 lets it"),
    case("Content-Length in two lines", Fields(b"Content-Length: 1\r\n 5", b"hello"), A, ["400 close", "400 close", "400 close"], "RFC 9112 section 5.2", ""),
    case("Transfer-Encoding in the fold", Fields(b"Transfer-Encoding:\r\n chunked", b"0\r\n\r\n"), A, ["400 close", "200 marker", "400 close"], "RFC 9112 section 5.2", "Apache joins the lines, which RFC 9112 section 5.2 lets it"),
    case("a fold behind Transfer-Encoding", Fields(b"Transfer-Encoding: chunked\r\n x", b"0\r\n\r\n"), A, ["400 close", "400 close", "400 close"], "RFC 9112 section 5.2", ""),
    case("chunked in the fold behind another coding", Fields(b"Transfer-Encoding: x,\r\n chunked", b"0\r\n\r\n"), A, ["400 close", "200 marker", "400 close"], "RFC 9112 section 5.2", "Apache joins the lines, which RFC 9112 section 5.2 lets it"),
    case("a folded Host", Whole(b"GET /page.html HTTP/1.1\r\nHost: h\r\n x\r\n\r\n"), A, ["400 close", "400 close", "400 close"], "RFC 9112 section 5.2", ""),
    case("a fold behind LF", Fields(b"A: b\n c", b""), A, ["400 close", "400 close", "400 close"], "RFC 9112 sections 2.2 and 5.2", ""),
];

#[rustfmt::skip]
const NAMES_AND_COLONS: &[Case] = &[
    case("space before the colon", Fields(b"A : b", b""), A, ["400 close", "400 close", "400 close"], "RFC 9112 section 5.1: 400", ""),
    case("Content-Length, space, colon", Fields(b"Content-Length : 5", b"hello"), A, ["400 close", "400 close", "400 close"], "RFC 9112 section 5.1: 400", ""),
    case("Transfer-Encoding, space, colon", Fields(b"Transfer-Encoding : chunked", b"0\r\n\r\n"), A, ["400 close", "400 close", "400 close"], "RFC 9112 section 5.1: 400", ""),
    case("Transfer-Encoding, tab, colon", Fields(b"Transfer-Encoding\t: chunked", b"0\r\n\r\n"), A, ["400 close", "400 close", "400 close"], "RFC 9112 section 5.1: 400", ""),
    case("Host, space, colon", Whole(b"GET /page.html HTTP/1.1\r\nHost : h\r\n\r\n"), A, ["400 close", "400 close", "400 close"], "RFC 9112 section 5.1: 400", ""),
    case("no space after the colon", Fields(b"Content-Length:5", b"hello"), C, ["200 marker", "200 marker", "200 marker"], "RFC 9112 section 5: white space is optional", ""),
    case("much space around a value", Fields(b"Content-Length: \t 5 \t", b"hello"), C, ["200 marker", "200 marker", "400 close"], "RFC 9110 section 5.5: white space around is not part of the value", "nginx takes no tab before a length"),
    case("space in a name", Fields(b"Content Length: 5", b"hello"), A, ["400 close", "400 close", "400 close"], "RFC 9110 section 5.1: a name is a token", ""),
    case("an empty name", Fields(b": b", b""), A, ["400 close", "400 close", "400 close"], "RFC 9110 section 5.1", ""),
    case("a colon alone", Fields(b":", b""), A, ["400 close", "400 close", "400 close"], "RFC 9110 section 5.1", ""),
    case("no colon", Fields(b"Content-Length 5", b"hello"), A, ["400 close", "400 close", "400 close"], "RFC 9112 section 5", ""),
    case("a word alone", Fields(b"A", b""), A, ["400 close", "400 close", "200 marker"], "RFC 9112 section 5", "nginx ignores lines that it does not understand"),
    case("NUL in a name", Fields(b"A\0: b", b""), A, ["400 close", "400 close", "400 close"], "RFC 9110 section 5.1", ""),
    case("NUL behind Content-Length", Fields(b"Content-Length\0: 5", b"hello"), A, ["400 close", "400 close", "400 close"], "RFC 9110 section 5.1", ""),
    case("control byte in a name", Fields(b"A\x01: b", b""), A, ["400 close", "400 close", "400 close"], "RFC 9110 section 5.1", ""),
    case("VT behind Transfer-Encoding", Fields(b"Transfer-Encoding\x0b: chunked", b"0\r\n\r\n"), A, ["400 close", "400 close", "400 close"], "RFC 9110 section 5.1", ""),
    case("VT before Transfer-Encoding", Fields(b"\x0bTransfer-Encoding: chunked", b"0\r\n\r\n"), A, ["400 close", "400 close", "400 close"], "RFC 9110 section 5.1", ""),
    case("DEL in a name", Fields(b"A\x7f: b", b""), A, ["400 close", "400 close", "400 close"], "RFC 9110 section 5.1", ""),
    case("parentheses in a name", Fields(b"A(b): c", b""), A, ["400 close", "400 close", "200 marker"], "RFC 9110 section 5.1", "nginx ignores fields with such names"),
    case("slash in a name", Fields(b"A/b: c", b""), A, ["400 close", "400 close", "200 marker"], "RFC 9110 section 5.1", "nginx ignores fields with such names"),
    case("quotes around a name", Fields(b"\"Content-Length\": 5", b"hello"), A, ["400 close", "400 close", "200 400 close"], "RFC 9110 section 5.1", "nginx ignores fields with such names, so that the body is the beginning of the next request"),
    case("a name that is not ASCII", Fields(b"\xc3\xa9: b", b""), A, ["400 close", "400 close", "200 marker"], "RFC 9110 section 5.1", "nginx ignores fields with such names"),
    case("byte order mark before a name", Fields(b"\xef\xbb\xbfContent-Length: 5", b"hello"), A, ["400 close", "400 close", "200 400 close"], "RFC 9110 section 5.1", "nginx ignores fields with such names, so that the body is the beginning of the next request"),
    case("two colons", Fields(b"A:: b", b""), C, ["200 marker", "200 marker", "200 marker"], "RFC 9112 section 5: the name ends at the first", ""),
    case("underscore for hyphen in Content-Length", Fields(b"Content_Length: 5", b""), C, ["200 marker", "200 marker", "200 marker"], "RFC 9110 section 5.1: another name, which says nothing of framing", ""),
    case("underscore for hyphen in Transfer-Encoding", Fields(b"Transfer_Encoding: chunked", b""), C, ["200 marker", "200 marker", "200 marker"], "RFC 9110 section 5.1: another name, which says nothing of framing", ""),
    case("a prefix before Transfer-Encoding", Fields(b"X-Transfer-Encoding: chunked", b""), C, ["200 marker", "200 marker", "200 marker"], "RFC 9110 section 5.1: another name", ""),
];

#[rustfmt::skip]
const CONTROL_BYTES_IN_VALUES: &[Case] = &[
    case("NUL in a value", Fields(b"A: b\0c", b""), A, ["400 close", "400 close", "400 close"], "RFC 9110 section 5.5: reject, or replace by a space", ""),
    case("SOH in a value", Fields(b"A: \x01", b""), A, ["400 close", "400 close", "200 marker"], "RFC 9110 section 5.5", "nginx looks for NUL, CR and LF only"),
    case("BS in a value", Fields(b"A: b\x08c", b""), A, ["400 close", "400 close", "200 marker"], "RFC 9110 section 5.5", "nginx looks for NUL, CR and LF only"),
    case("VT in a value", Fields(b"A: b\x0bc", b""), A, ["400 close", "400 close", "200 marker"], "RFC 9110 section 5.5", "nginx looks for NUL, CR and LF only"),
    case("FF in a value", Fields(b"A: b\x0cc", b""), A, ["400 close", "400 close", "200 marker"], "RFC 9110 section 5.5", "nginx looks for NUL, CR and LF only"),
    case("ESC in a value", Fields(b"A: \x1b[0m", b""), A, ["400 close", "400 close", "200 marker"], "RFC 9110 section 5.5", "nginx looks for NUL, CR and LF only"),
    case("DEL in a value", Fields(b"A: \x7f", b""), A, ["400 close", "400 close", "200 marker"], "RFC 9110 section 5.5", "nginx looks for NUL, CR and LF only"),
    case("NUL behind a length", Fields(b"Content-Length: 5\0", b"hello"), A, ["400 close", "400 close", "400 close"], "RFC 9110 section 8.6: digits only", ""),
    case("VT before chunked", Fields(b"Transfer-Encoding: \x0bchunked", b"0\r\n\r\n"), A, ["400 close", "400 close", "501 close"], "RFC 9112 section 7: a coding is a token", "nginx knows `chunked` alone and answers 501 to all else"),
    case("VT behind chunked", Fields(b"Transfer-Encoding: chunked\x0b", b"0\r\n\r\n"), A, ["400 close", "400 close", "501 close"], "RFC 9112 section 7: a coding is a token", "nginx knows `chunked` alone and answers 501 to all else"),
    case("NUL before chunked", Fields(b"Transfer-Encoding: \0chunked", b"0\r\n\r\n"), A, ["400 close", "400 close", "400 close"], "RFC 9112 section 7: a coding is a token", ""),
    case("byte order mark before a length", Fields(b"Content-Length: \xef\xbb\xbf5", b"hello"), A, ["400 close", "400 close", "400 close"], "RFC 9110 section 8.6: digits only", ""),
    case("tab in a value", Fields(b"A: b\tc", b""), C, ["200 marker", "200 marker", "200 marker"], "RFC 9110 section 5.5: white space within a value", ""),
    case("byte 0xe9 in a value", Fields(b"A: \xe9", b""), C, ["200 marker", "200 marker", "200 marker"], "RFC 9110 section 5.5: from 0x80 on anything may stand", ""),
];

#[rustfmt::skip]
const CONTENT_LENGTH: &[Case] = &[
    case("a length", Fields(b"Content-Length: 5", b"hello"), C, ["200 marker", "200 marker", "200 marker"], "RFC 9110 section 8.6", ""),
    case("length zero", Fields(b"Content-Length: 0", b""), C, ["200 marker", "200 marker", "200 marker"], "RFC 9110 section 8.6", ""),
    case("a leading zero", Fields(b"Content-Length: 05", b"hello"), C, ["200 marker", "200 marker", "200 marker"], "RFC 9110 section 8.6: 1*DIGIT", ""),
    case("thirty leading zeros", Repeated(b"GET /page.html HTTP/1.1\r\nHost: h\r\nContent-Length: ", b"0", 30, b"5\r\n\r\nhello"), C, ["200 marker", "200 marker", "200 marker"], "RFC 9110 section 8.6: 1*DIGIT", ""),
    case("the same length twice", Fields(b"Content-Length: 5\r\nContent-Length: 5", b"hello"), C, ["200 marker", "400 close", "400 close"], "RFC 9110 section 8.6: reject, or take as one", "They refuse equal lengths as well"),
    case("the same length in a list", Fields(b"Content-Length: 5, 5", b"hello"), C, ["200 marker", "400 close", "400 close"], "RFC 9110 section 8.6: reject, or take as one", "They refuse equal lengths as well"),
    case("two lengths", Fields(b"Content-Length: 5\r\nContent-Length: 6", b"hello"), A, ["400 close", "400 close", "400 close"], "RFC 9112 section 6.3", ""),
    case("two lengths, the other way", Fields(b"Content-Length: 6\r\nContent-Length: 5", b"hello"), A, ["400 close", "400 close", "400 close"], "RFC 9112 section 6.3", ""),
    case("two lengths in a list", Fields(b"Content-Length: 5, 6", b"hello"), A, ["400 close", "400 close", "400 close"], "RFC 9112 section 6.3", ""),
    case("zero and a length", Fields(b"Content-Length: 0\r\nContent-Length: 5", b"hello"), A, ["400 close", "400 close", "400 close"], "RFC 9112 section 6.3", ""),
    case("plus sign", Fields(b"Content-Length: +5", b"hello"), A, ["400 close", "400 close", "400 close"], "RFC 9110 section 8.6: digits only", ""),
    case("minus sign", Fields(b"Content-Length: -5", b"hello"), A, ["400 close", "400 close", "400 close"], "RFC 9110 section 8.6: digits only", ""),
    case("minus zero", Fields(b"Content-Length: -0", b""), A, ["400 close", "400 close", "400 close"], "RFC 9110 section 8.6: digits only", ""),
    case("hexadecimal", Fields(b"Content-Length: 0x5", b"hello"), A, ["400 close", "400 close", "400 close"], "RFC 9110 section 8.6: digits only", ""),
    case("a letter behind", Fields(b"Content-Length: 5x", b"hello"), A, ["400 close", "400 close", "400 close"], "RFC 9110 section 8.6: digits only", ""),
    case("a space within", Fields(b"Content-Length: 1 5", b"hello"), A, ["400 close", "400 close", "400 close"], "RFC 9110 section 8.6: digits only", ""),
    case("underscore within", Fields(b"Content-Length: 0_5", b"hello"), A, ["400 close", "400 close", "400 close"], "RFC 9110 section 8.6: digits only", ""),
    case("a fraction", Fields(b"Content-Length: 5.0", b"hello"), A, ["400 close", "400 close", "400 close"], "RFC 9110 section 8.6: digits only", ""),
    case("an exponent", Fields(b"Content-Length: 5e0", b"hello"), A, ["400 close", "400 close", "400 close"], "RFC 9110 section 8.6: digits only", ""),
    case("quotes", Fields(b"Content-Length: \"5\"", b"hello"), A, ["400 close", "400 close", "400 close"], "RFC 9110 section 8.6: digits only", ""),
    case("a semicolon behind", Fields(b"Content-Length: 5;", b"hello"), A, ["400 close", "400 close", "400 close"], "RFC 9110 section 8.6: digits only", ""),
    case("a comma behind", Fields(b"Content-Length: 5,", b"hello"), A, ["400 close", "400 close", "400 close"], "RFC 9110 section 8.6: digits only", ""),
    case("a comma before", Fields(b"Content-Length: ,5", b"hello"), A, ["400 close", "400 close", "400 close"], "RFC 9110 section 8.6: digits only", ""),
    case("an empty length", Fields(b"Content-Length:", b""), A, ["400 close", "400 close", "400 close"], "RFC 9110 section 8.6: digits only", ""),
    case("white space as length", Fields(b"Content-Length:  \t", b""), A, ["400 close", "400 close", "400 close"], "RFC 9110 section 8.6: digits only", ""),
    case("Arabic digits", Fields(b"Content-Length: \xd9\xa5", b"hello"), A, ["400 close", "400 close", "400 close"], "RFC 9110 section 8.6: digits only", ""),
    case("2^63", Fields(b"Content-Length: 9223372036854775808", b"hello"), A, ["413 close", "400 close", "400 close"], "RFC 9110 section 8.6: no overflow", "To them a number of more than 63 bits is none; to us it is too large a body"),
    case("2^64 + 5", Fields(b"Content-Length: 18446744073709551621", b"hello"), A, ["400 close", "400 close", "400 close"], "RFC 9110 section 8.6: no overflow", ""),
    case("2^32 + 5", Fields(b"Content-Length: 4294967301", b"hello"), A, ["413 close", "413 close", "413 close"], "beyond what a request may bring (413): it could wrap to 5 in 32 bits", ""),
    case("forty digits", Repeated(b"GET /page.html HTTP/1.1\r\nHost: h\r\nContent-Length: ", b"9", 40, b"\r\n\r\nhello"), A, ["400 close", "400 close", "400 close"], "RFC 9110 section 8.6: no overflow", ""),
    case("a length and less than that", Fields(b"Content-Length: 500", b"hello"), C, ["nothing", "400 close", "200 open"], "RFC 9112 section 8: the request behind is body", "We close without an answer when a client leaves within a body; Apache answers 400, and nginx has answered before it reads the body"),
    case("a length that Connection names", Fields(b"Connection: Content-Length\r\nContent-Length: 5", b"hello"), C, ["200 marker", "200 marker", "200 marker"], "RFC 9110 section 7.6.1: Connection does not undo framing", ""),
];

#[rustfmt::skip]
const TRANSFER_ENCODING: &[Case] = &[
    case("chunked", Fields(b"Transfer-Encoding: chunked", b"0\r\n\r\n"), C, ["200 marker", "200 marker", "200 marker"], "RFC 9112 section 7.1", ""),
    case("capitals", Fields(b"Transfer-Encoding: CHUNKED", b"0\r\n\r\n"), C, ["200 marker", "200 marker", "200 marker"], "RFC 9112 section 7: names of codings have no case", ""),
    case("white space around chunked", Fields(b"Transfer-Encoding: \t chunked \t", b"0\r\n\r\n"), C, ["200 marker", "200 marker", "501 close"], "RFC 9110 section 5.5", "nginx takes no tab before a coding"),
    case("name in small letters", Fields(b"transfer-encoding: chunked", b"0\r\n\r\n"), C, ["200 marker", "200 marker", "200 marker"], "RFC 9110 section 5.1: names have no case", ""),
    case("chunked twice in a list", Fields(b"Transfer-Encoding: chunked, chunked", b"0\r\n\r\n"), A, ["400 close", "200 marker", "501 close"], "RFC 9112 section 7.1: not more than once", "Apache looks at the end of the list only; nginx knows `chunked` alone and answers 501 to all else"),
    case("chunked twice in two lines", Fields(b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked", b"0\r\n\r\n"), A, ["400 close", "200 marker", "400 close"], "RFC 9112 section 7.1: not more than once", "Apache looks at the end of the list only"),
    case("identity", Fields(b"Transfer-Encoding: identity", b"0\r\n\r\n"), A, ["400 close", "400 close", "501 close"], "RFC 9112 section 7: withdrawn; the length is unknown", "nginx knows `chunked` alone and answers 501 to all else"),
    case("chunked, identity", Fields(b"Transfer-Encoding: chunked, identity", b"0\r\n\r\n"), A, ["400 close", "400 close", "501 close"], "RFC 9112 section 6.3: chunked is not last", "nginx knows `chunked` alone and answers 501 to all else"),
    case("identity, chunked", Fields(b"Transfer-Encoding: identity, chunked", b"0\r\n\r\n"), A, ["501 close", "200 marker", "501 close"], "RFC 9112 section 6.1: 501 for a coding not understood", "Apache takes what precedes `chunked` for a coding of the content"),
    case("gzip, chunked", Fields(b"Transfer-Encoding: gzip, chunked", b"0\r\n\r\n"), A, ["501 close", "200 marker", "501 close"], "RFC 9112 section 6.1: 501 for a coding not understood", "Apache takes what precedes `chunked` for a coding of the content"),
    case("chunked, gzip", Fields(b"Transfer-Encoding: chunked, gzip", b"0\r\n\r\n"), A, ["400 close", "400 close", "501 close"], "RFC 9112 section 6.3: chunked is not last", "nginx knows `chunked` alone and answers 501 to all else"),
    case("gzip", Fields(b"Transfer-Encoding: gzip", b"0\r\n\r\n"), A, ["400 close", "400 close", "501 close"], "RFC 9112 section 6.3: not chunked, the length is unknown", "nginx knows `chunked` alone and answers 501 to all else"),
    case("an unknown coding", Fields(b"Transfer-Encoding: cow", b"0\r\n\r\n"), A, ["400 close", "400 close", "501 close"], "RFC 9112 section 6.3: not chunked, the length is unknown", "nginx knows `chunked` alone and answers 501 to all else"),
    case("cow, chunked", Fields(b"Transfer-Encoding: cow, chunked", b"0\r\n\r\n"), A, ["501 close", "200 marker", "501 close"], "RFC 9112 section 6.1: 501 for a coding not understood", "Apache takes what precedes `chunked` for a coding of the content"),
    case("xchunked", Fields(b"Transfer-Encoding: xchunked", b"0\r\n\r\n"), A, ["400 close", "400 close", "501 close"], "RFC 9112 section 6.3: another coding", "nginx knows `chunked` alone and answers 501 to all else"),
    case("chunkedx", Fields(b"Transfer-Encoding: chunkedx", b"0\r\n\r\n"), A, ["400 close", "400 close", "501 close"], "RFC 9112 section 6.3: another coding", "nginx knows `chunked` alone and answers 501 to all else"),
    case("x chunked", Fields(b"Transfer-Encoding: x chunked", b"0\r\n\r\n"), A, ["400 close", "400 close", "501 close"], "RFC 9112 section 7: no list of codings", "nginx knows `chunked` alone and answers 501 to all else"),
    case("chunked x", Fields(b"Transfer-Encoding: chunked x", b"0\r\n\r\n"), A, ["400 close", "400 close", "501 close"], "RFC 9112 section 7: no list of codings", "nginx knows `chunked` alone and answers 501 to all else"),
    case("chunked with a parameter", Fields(b"Transfer-Encoding: chunked;a=b", b"0\r\n\r\n"), A, ["400 close", "400 close", "501 close"], "RFC 9112 section 7.1: chunked has no parameters", "nginx knows `chunked` alone and answers 501 to all else"),
    case("chunked and a semicolon", Fields(b"Transfer-Encoding: chunked;", b"0\r\n\r\n"), A, ["400 close", "400 close", "501 close"], "RFC 9112 section 7.1", "nginx knows `chunked` alone and answers 501 to all else"),
    case("chunked in quotes", Fields(b"Transfer-Encoding: \"chunked\"", b"0\r\n\r\n"), A, ["400 close", "400 close", "501 close"], "RFC 9112 section 7: a coding is a token", "nginx knows `chunked` alone and answers 501 to all else"),
    case("chunked in single quotes", Fields(b"Transfer-Encoding: 'chunked'", b"0\r\n\r\n"), A, ["400 close", "400 close", "501 close"], "RFC 9112 section 7: another coding", "nginx knows `chunked` alone and answers 501 to all else"),
    case("comma, chunked", Fields(b"Transfer-Encoding: ,chunked", b"0\r\n\r\n"), A, ["400 close", "200 marker", "501 close"], "RFC 9110 section 5.6.1: an empty member", "Apache looks at the end of the list only; nginx knows `chunked` alone and answers 501 to all else"),
    case("chunked, comma", Fields(b"Transfer-Encoding: chunked,", b"0\r\n\r\n"), A, ["400 close", "400 close", "501 close"], "RFC 9110 section 5.6.1: an empty member", "nginx knows `chunked` alone and answers 501 to all else"),
    case("chunked with a Kelvin sign", Fields(b"Transfer-Encoding: chun\xe2\x84\xaaed", b"0\r\n\r\n"), A, ["400 close", "400 close", "501 close"], "RFC 9112 section 7: a coding is a token", "nginx knows `chunked` alone and answers 501 to all else"),
    case("an empty Transfer-Encoding", Fields(b"Transfer-Encoding:", b"0\r\n\r\n"), A, ["400 close", "400 close", "501 close"], "RFC 9112 section 6.3", "nginx knows `chunked` alone and answers 501 to all else"),
    case("chunked, then identity", Fields(b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity", b"0\r\n\r\n"), A, ["400 close", "400 close", "400 close"], "RFC 9112 section 6.3: chunked is not last", ""),
    case("identity, then chunked", Fields(b"Transfer-Encoding: identity\r\nTransfer-Encoding: chunked", b"0\r\n\r\n"), A, ["501 close", "200 marker", "400 close"], "RFC 9112 section 6.1: 501 for a coding not understood", "Apache takes what precedes `chunked` for a coding of the content; nginx refuses a second field"),
    case("cow, then chunked", Fields(b"Transfer-Encoding: cow\r\nTransfer-Encoding: chunked", b"0\r\n\r\n"), A, ["501 close", "200 marker", "400 close"], "RFC 9112 section 6.1: 501 for a coding not understood", "Apache takes what precedes `chunked` for a coding of the content; nginx refuses a second field"),
    case("chunked, then cow, in another case", Fields(b"Transfer-Encoding: chunked\r\nTransfer-encoding: cow", b"0\r\n\r\n"), A, ["400 close", "400 close", "400 close"], "RFC 9112 section 6.3: chunked is not last", ""),
    case("chunked and a length", Fields(b"Transfer-Encoding: chunked\r\nContent-Length: 5", b"0\r\n\r\n"), A, ["400 close", "200 close", "400 close"], "RFC 9112 section 6.3: ought to be handled as an error", "Apache drops the length, goes by the coding, and closes after the answer"),
    case("a length and chunked", Fields(b"Content-Length: 5\r\nTransfer-Encoding: chunked", b"0\r\n\r\n"), A, ["400 close", "200 close", "400 close"], "RFC 9112 section 6.3: ought to be handled as an error", "Apache drops the length, goes by the coding, and closes after the answer"),
    case("chunked and length zero", Fields(b"Transfer-Encoding: chunked\r\nContent-Length: 0", b"0\r\n\r\n"), A, ["400 close", "200 close", "400 close"], "RFC 9112 section 6.3: ought to be handled as an error", "Apache drops the length, goes by the coding, and closes after the answer"),
    case("identity and a length", Fields(b"Transfer-Encoding: identity\r\nContent-Length: 5", b"hello"), A, ["400 close", "400 close", "501 close"], "RFC 9112 section 6.3: ought to be handled as an error", "nginx knows `chunked` alone and answers 501 to all else"),
    case("an unknown coding and a length", Fields(b"Transfer-Encoding: xchunked\r\nContent-Length: 5", b"hello"), A, ["400 close", "400 close", "501 close"], "RFC 9112 section 6.3: ought to be handled as an error", "nginx knows `chunked` alone and answers 501 to all else"),
    case("chunked in HTTP/1.0", Whole(b"GET /page.html HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"), A, ["400 close", "200 close", "400 close"], "RFC 9112 section 6.1: framing in 1.0 that must be taken for faulty", "Apache decodes it, and closes after the answer"),
    case("chunked and a length in HTTP/1.0", Whole(b"GET /page.html HTTP/1.0\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n"), A, ["400 close", "200 close", "400 close"], "RFC 9112 section 6.1: framing in 1.0 that must be taken for faulty", "Apache decodes it, and closes after the answer"),
    case("TE: chunked", Fields(b"TE: chunked", b""), C, ["200 marker", "200 marker", "200 marker"], "RFC 9110 section 10.1.4: says what the client takes, not what it sends", ""),
    case("Content-Encoding: chunked", Fields(b"Content-Encoding: chunked", b""), C, ["200 marker", "200 marker", "200 marker"], "RFC 9110 section 8.4: not a transfer coding", ""),
];

#[rustfmt::skip]
const CHUNK_SIZES: &[Case] = &[
    case("one chunk", Chunked(b"5\r\nhello\r\n0\r\n\r\n"), C, ["200 marker", "200 marker", "200 marker"], "RFC 9112 section 7.1", ""),
    case("two chunks", Chunked(b"3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n"), C, ["200 marker", "200 marker", "200 marker"], "RFC 9112 section 7.1", ""),
    case("capital digits", Chunked(b"A\r\nhellohello\r\n0\r\n\r\n"), C, ["200 marker", "200 marker", "200 marker"], "RFC 9112 section 7.1: hexadecimal in either case", ""),
    case("leading zeros", Chunked(b"0005\r\nhello\r\n0\r\n\r\n"), C, ["200 marker", "200 marker", "200 marker"], "RFC 9112 section 7.1: 1*HEXDIG", ""),
    case("three zeros for the last", Chunked(b"5\r\nhello\r\n000\r\n\r\n"), C, ["200 marker", "200 marker", "200 marker"], "RFC 9112 section 7.1: 1*(\"0\")", ""),
    case("seventeen digits", Chunked(b"00000000000000005\r\nhello\r\n0\r\n\r\n"), A, ["413 close", "200 marker", "200 marker"], "RFC 9112 section 7.1: guard against overflow; sixteen digits fit 64 bits", "They do not count leading zeros; we do, since a bound on digits is easier to trust than a sum that must not overflow"),
    case("a chunk of 2^64 + 5", Chunked(b"10000000000000005\r\nhello\r\n0\r\n\r\n"), A, ["413 close", "413 close", "400 close"], "RFC 9112 section 7.1: guard against overflow", "nginx calls it malformed rather than too large"),
    case("a chunk of 2^64 - 1", Chunked(b"ffffffffffffffff\r\nhello\r\n0\r\n\r\n"), C, ["nothing", "413 close", "400 close"], "the request behind is data", "To them a number of more than 63 bits is none; we would stop at LimitRequestBody, and close without an answer when the client leaves"),
    case("a chunk of 2^63", Chunked(b"8000000000000000\r\nhello\r\n0\r\n\r\n"), C, ["nothing", "413 close", "400 close"], "the request behind is data", "To them a number of more than 63 bits is none; we would stop at LimitRequestBody, and close without an answer when the client leaves"),
    case("0x before a size", Chunked(b"0x5\r\nhello\r\n0\r\n\r\n"), A, ["400 close", "400 close", "400 close"], "RFC 9112 section 7.1: digits only", ""),
    case("plus before a size", Chunked(b"+5\r\nhello\r\n0\r\n\r\n"), A, ["400 close", "400 close", "400 close"], "RFC 9112 section 7.1: digits only", ""),
    case("minus before a size", Chunked(b"-5\r\nhello\r\n0\r\n\r\n"), A, ["400 close", "400 close", "400 close"], "RFC 9112 section 7.1: digits only", ""),
    case("space before a size", Chunked(b" 5\r\nhello\r\n0\r\n\r\n"), A, ["400 close", "400 close", "400 close"], "RFC 9112 section 7.1: digits only", ""),
    case("space behind a size", Chunked(b"5 \r\nhello\r\n0\r\n\r\n"), A, ["400 close", "200 marker", "200 marker"], "RFC 9112 section 7.1: white space only before an extension", "They skip white space there"),
    case("tab behind a size", Chunked(b"5\t\r\nhello\r\n0\r\n\r\n"), A, ["400 close", "200 marker", "200 marker"], "RFC 9112 section 7.1: white space only before an extension", "They skip white space there"),
    case("VT behind a size", Chunked(b"5\x0b\r\nhello\r\n0\r\n\r\n"), A, ["400 close", "400 close", "400 close"], "RFC 9112 section 7.1", ""),
    case("NUL behind a size", Chunked(b"5\0\r\nhello\r\n0\r\n\r\n"), A, ["400 close", "400 close", "400 close"], "RFC 9112 section 7.1", ""),
    case("underscore within a size", Chunked(b"0_5\r\nhello\r\n0\r\n\r\n"), A, ["400 close", "400 close", "400 close"], "RFC 9112 section 7.1: digits only", ""),
    case("a letter behind a size", Chunked(b"5g\r\nhello\r\n0\r\n\r\n"), A, ["400 close", "400 close", "400 close"], "RFC 9112 section 7.1: digits only", ""),
    case("a comma behind a size", Chunked(b"5,\r\nhello\r\n0\r\n\r\n"), A, ["400 close", "400 close", "400 close"], "RFC 9112 section 7.1: digits only", ""),
    case("no size", Chunked(b"\r\nhello\r\n0\r\n\r\n"), A, ["400 close", "400 close", "400 close"], "RFC 9112 section 7.1: at least one digit", ""),
    case("an extension without a size", Chunked(b";a\r\nhello\r\n0\r\n\r\n"), A, ["400 close", "400 close", "400 close"], "RFC 9112 section 7.1: at least one digit", ""),
    case("LF behind a size", Chunked(b"5\nhello\r\n0\r\n\r\n"), A, ["400 close", "400 close", "200 marker"], "RFC 9112 section 2.2: LF for CRLF is for heads alone", "nginx takes LF for CRLF in chunked bodies"),
    case("CR behind a size", Chunked(b"5\rhello\r\n0\r\n\r\n"), A, ["400 close", "400 close", "400 close"], "RFC 9112 section 7.1", ""),
    case("CR CR LF behind a size", Chunked(b"5\r\r\nhello\r\n0\r\n\r\n"), A, ["400 close", "400 close", "400 close"], "RFC 9112 section 7.1", ""),
    case("more data than said", Chunked(b"3\r\nhello\r\n0\r\n\r\n"), A, ["400 close", "400 close", "400 close"], "RFC 9112 section 7.1", ""),
    case("no line end behind data", Chunked(b"5\r\nhello0\r\n\r\n"), A, ["400 close", "400 close", "400 close"], "RFC 9112 section 7.1", ""),
    case("LF behind data", Chunked(b"5\r\nhello\n0\r\n\r\n"), A, ["400 close", "400 close", "200 marker"], "RFC 9112 section 7.1", "nginx takes LF for CRLF in chunked bodies"),
    case("CR behind data", Chunked(b"5\r\nhello\r0\r\n\r\n"), A, ["400 close", "400 close", "400 close"], "RFC 9112 section 7.1", ""),
    case("LF LF at the end", Chunked(b"5\r\nhello\r\n0\n\n"), A, ["400 close", "400 close", "200 marker"], "RFC 9112 section 7.1", "nginx takes LF for CRLF in chunked bodies"),
    case("LF as the last line", Chunked(b"5\r\nhello\r\n0\r\n\n"), A, ["400 close", "400 close", "200 marker"], "RFC 9112 section 7.1", "nginx takes LF for CRLF in chunked bodies"),
    case("CR as the last line", Chunked(b"5\r\nhello\r\n0\r\n\rX"), A, ["400 close", "400 close", "400 close"], "RFC 9112 section 7.1", ""),
    case("no last chunk", Chunked(b"5\r\nhello\r\n"), A, ["400 close", "400 close", "400 close"], "RFC 9112 section 8: the request behind is no size", ""),
    case("less data than said", Chunked(b"500\r\nhello"), C, ["nothing", "400 close", "200 open"], "RFC 9112 section 8: the request behind is data", "We close without an answer when a client leaves within a body; Apache answers 400, and nginx has answered before it reads the body"),
];

#[rustfmt::skip]
const CHUNK_EXTENSIONS: &[Case] = &[
    case("a name", Chunked(b"5;a\r\nhello\r\n0\r\n\r\n"), C, ["200 marker", "200 marker", "200 marker"], "RFC 9112 section 7.1.1", ""),
    case("a name and a value", Chunked(b"5;a=b\r\nhello\r\n0\r\n\r\n"), C, ["200 marker", "200 marker", "200 marker"], "RFC 9112 section 7.1.1", ""),
    case("a quoted value", Chunked(b"5;a=\"b; c\"\r\nhello\r\n0\r\n\r\n"), C, ["200 marker", "200 marker", "200 marker"], "RFC 9112 section 7.1.1", ""),
    case("white space in an extension", Chunked(b"5 ; a = b\r\nhello\r\n0\r\n\r\n"), C, ["200 marker", "200 marker", "200 marker"], "RFC 9112 section 7.1.1: bad white space, to be read past", ""),
    case("a quoted pair", Chunked(b"5;a=\"\\\"\"\r\nhello\r\n0\r\n\r\n"), C, ["200 marker", "200 marker", "200 marker"], "RFC 9110 section 5.6.4", ""),
    case("an extension of the last chunk", Chunked(b"5\r\nhello\r\n0;a=b\r\n\r\n"), C, ["200 marker", "200 marker", "200 marker"], "RFC 9112 section 7.1.1", ""),
    case("a semicolon alone", Chunked(b"5;\r\nhello\r\n0\r\n\r\n"), A, ["400 close", "200 marker", "200 marker"], "RFC 9112 section 7.1.1: a name must follow", "They read past extensions without looking at their grammar"),
    case("an empty name of an extension", Chunked(b"5;=b\r\nhello\r\n0\r\n\r\n"), A, ["400 close", "200 marker", "200 marker"], "RFC 9112 section 7.1.1", "They read past extensions without looking at their grammar"),
    case("an empty value", Chunked(b"5;a=\r\nhello\r\n0\r\n\r\n"), A, ["400 close", "200 marker", "200 marker"], "RFC 9112 section 7.1.1", "They read past extensions without looking at their grammar"),
    case("LF in an extension", Chunked(b"5;a\nhello\r\n0\r\n\r\n"), A, ["400 close", "400 close", "200 marker"], "RFC 9112 section 7.1.1: used where one ends the line and the other does not", "nginx reads past everything up to LF"),
    case("LF behind a semicolon", Chunked(b"5;\nhello\r\n0\r\n\r\n"), A, ["400 close", "400 close", "200 marker"], "RFC 9112 section 7.1.1", "nginx reads past everything up to LF"),
    case("CR in an extension", Chunked(b"5;a\rb\r\nhello\r\n0\r\n\r\n"), A, ["400 close", "400 close", "400 close"], "RFC 9112 section 7.1.1", ""),
    case("CRLF in a quoted value", Chunked(b"5;a=\"\r\n\"\r\nhello\r\n0\r\n\r\n"), A, ["400 close", "400 close", "400 close"], "RFC 9110 section 5.6.4: no line ends in quotes", ""),
    case("a quote that does not end", Chunked(b"5;a=\"b\r\nhello\r\n0\r\n\r\n"), A, ["400 close", "200 marker", "200 marker"], "RFC 9110 section 5.6.4", "They read past extensions without looking at their grammar"),
    case("NUL in an extension", Chunked(b"5;a\0\r\nhello\r\n0\r\n\r\n"), A, ["400 close", "400 close", "200 marker"], "RFC 9112 section 7.1.1", "nginx reads past everything up to LF"),
    case("two words in an extension", Chunked(b"5;a b\r\nhello\r\n0\r\n\r\n"), A, ["400 close", "200 marker", "200 marker"], "RFC 9112 section 7.1.1", "They read past extensions without looking at their grammar"),
    case("an extension that is not ASCII", Chunked(b"5;\xe9\r\nhello\r\n0\r\n\r\n"), A, ["400 close", "200 marker", "200 marker"], "RFC 9112 section 7.1.1: a name is a token", "They read past extensions without looking at their grammar"),
    case("20 KB of extension", Repeated(b"GET /page.html HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n5;", b"a", 20000, b"\r\nhello\r\n0\r\n\r\n"), A, ["400 close", "413 close", "200 marker"], "RFC 9112 section 7.1.1: a bound (16 KB a body)", "Apache ends it at 8 KB and calls it too large; nginx has no bound"),
];

#[rustfmt::skip]
const TRAILERS: &[Case] = &[
    case("a trailer", Chunked(b"5\r\nhello\r\n0\r\nA: b\r\n\r\n"), C, ["200 marker", "200 marker", "200 marker"], "RFC 9112 section 7.1.2", ""),
    case("Content-Length as trailer", Chunked(b"5\r\nhello\r\n0\r\nContent-Length: 50\r\n\r\n"), C, ["200 marker", "200 marker", "200 marker"], "RFC 9110 section 6.5.1: of no effect", ""),
    case("Transfer-Encoding as trailer", Chunked(b"5\r\nhello\r\n0\r\nTransfer-Encoding: chunked\r\n\r\n"), C, ["200 marker", "200 marker", "200 marker"], "RFC 9110 section 6.5.1: of no effect", ""),
    case("Host as trailer", Chunked(b"5\r\nhello\r\n0\r\nHost: other\r\n\r\n"), C, ["200 marker", "200 marker", "200 marker"], "RFC 9110 section 6.5.1: of no effect", ""),
    case("Connection as trailer", Chunked(b"5\r\nhello\r\n0\r\nConnection: close\r\n\r\n"), C, ["200 marker", "200 marker", "200 marker"], "RFC 9110 section 6.5.1: of no effect", ""),
    case("space before the colon of a trailer", Chunked(b"5\r\nhello\r\n0\r\nA : b\r\n\r\n"), A, ["400 close", "400 close", "200 marker"], "RFC 9112 section 5.1", "nginx reads past everything up to an empty line"),
    case("an empty name of a trailer", Chunked(b"5\r\nhello\r\n0\r\n: b\r\n\r\n"), A, ["400 close", "400 close", "200 marker"], "RFC 9110 section 5.1", "nginx reads past everything up to an empty line"),
    case("no colon in a trailer", Chunked(b"5\r\nhello\r\n0\r\nA\r\n\r\n"), A, ["400 close", "400 close", "200 marker"], "RFC 9112 section 5", "nginx reads past everything up to an empty line"),
    case("a folded trailer", Chunked(b"5\r\nhello\r\n0\r\nA: b\r\n c\r\n\r\n"), A, ["400 close", "200 marker", "200 marker"], "RFC 9112 section 5.2", "Apache joins the lines; nginx reads past everything up to an empty line"),
    case("white space before the first trailer", Chunked(b"5\r\nhello\r\n0\r\n A: b\r\n\r\n"), A, ["400 close", "400 close", "200 marker"], "RFC 9112 section 5.2", "nginx reads past everything up to an empty line"),
    case("LF behind a trailer", Chunked(b"5\r\nhello\r\n0\r\nA: b\nC: d\r\n\r\n"), A, ["400 close", "400 close", "200 marker"], "RFC 9112 section 2.2", "nginx reads past everything up to an empty line"),
    case("CR in a trailer", Chunked(b"5\r\nhello\r\n0\r\nA: b\rc\r\n\r\n"), A, ["400 close", "400 close", "400 close"], "RFC 9112 section 2.2: CR alone is invalid", ""),
    case("NUL in a trailer", Chunked(b"5\r\nhello\r\n0\r\nA: b\0\r\n\r\n"), A, ["400 close", "400 close", "200 marker"], "RFC 9110 section 5.5", "nginx reads past everything up to an empty line"),
    case("101 trailers", Repeated(b"GET /page.html HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n", b"A: b\r\n", 101, b"\r\n"), A, ["400 close", "400 close", "200 marker"], "a bound", "nginx reads past everything up to an empty line"),
    case("17 KB of trailers", Repeated(b"GET /page.html HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nA: ", b"b", 17000, b"\r\n\r\n"), A, ["400 close", "400 close", "200 marker"], "a bound", "nginx reads past everything up to an empty line"),
];

#[rustfmt::skip]
const EARLY_ANSWERS: &[Case] = &[
    case("not found, with a request as body", Whole(b"POST /none HTTP/1.1\r\nHost: h\r\nContent-Length: 39\r\n\r\nGET /page.html HTTP/1.1\r\nHost: evil\r\n\r\n"), C, ["404 marker", "404 marker", "404 marker"], "the body is read past, then the request behind", ""),
    case("not found, with a request in a chunk", Whole(b"POST /none HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n27\r\nGET /page.html HTTP/1.1\r\nHost: evil\r\n\r\n\r\n0\r\n\r\n"), C, ["404 marker", "404 marker", "404 marker"], "the body is read past, then the request behind", ""),
    case("a method that the file does not know", Whole(b"DELETE /page.html HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello"), C, ["405 marker", "405 marker", "405 marker"], "the body is read past", ""),
    case("a method that nobody knows", Whole(b"BREW /page.html HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello"), C, ["501 close", "501 close", "405 marker"], "RFC 9110 section 9.1: 501; the body is read past", "nginx has 405 for every method that is not meant for files"),
    case("a bad path with a body", Whole(b"GET /%zz HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello"), C, ["400 close", "400 close", "400 close"], "the path is bad, framing is not", ""),
    case("a path above the root with a body", Whole(b"GET /../page.html HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello"), C, ["400 close", "400 close", "400 close"], "the path is bad, framing is not", ""),
    case("a body that is too large", Fields(b"Content-Length: 5000000000", b"hello"), A, ["413 close", "413 close", "413 close"], "413 and the end: it is not worth reading", ""),
    case("a second chunk that is bad", Chunked(b"5\r\nhello\r\nx\r\n\r\n"), A, ["400 close", "400 close", "400 close"], "an answer and the end", ""),
    case("a body that is bad, to nothing", Whole(b"POST /none HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n\r\n"), A, ["400 close", "400 close", "404 close"], "an answer and the end", "nginx has answered before it reads the body, and closes then"),
    case("a long field", Repeated(b"GET /page.html HTTP/1.1\r\nHost: h\r\nA: ", b"a", 9000, b"\r\n\r\n"), A, ["431 close", "400 close", "400 close"], "RFC 9110 section 5.4: 431, and the end", "They say 400; RFC 6585 has 431 for it"),
    case("101 fields", Repeated(b"GET /page.html HTTP/1.1\r\nHost: h\r\n", b"A: b\r\n", 101, b"\r\n"), A, ["431 close", "400 close", "200 marker"], "RFC 9110 section 5.4: 431, and the end", "Apache says 400; nginx has no bound but that of its buffers"),
    case("a long request line", Repeated(b"GET /", b"a", 9000, b" HTTP/1.1\r\nHost: h\r\n\r\n"), A, ["414 close", "414 close", "414 close"], "RFC 9112 section 3: 414, and the end", ""),
];

#[rustfmt::skip]
const EXPECT: &[Case] = &[
    case("100-continue with the body behind", Fields(b"Expect: 100-continue\r\nContent-Length: 5", b"hello"), C, ["200 marker", "100 200 marker", "100 200 marker"], "the body is there already", "They invite a body that is already there, which does no harm"),
    case("100-continue and nothing announced", Fields(b"Expect: 100-continue", b""), C, ["200 marker", "200 close", "100 200 marker"], "there is no body", "Apache does not trust such a client with another request; nginx invites a body that does not come"),
    case("100-Continue in capitals", Fields(b"Expect: 100-Continue\r\nContent-Length: 5", b"hello"), C, ["200 marker", "100 200 marker", "100 200 marker"], "values of Expect have no case", "They invite a body that is already there, which does no harm"),
    case("100-continue in chunks", Fields(b"Expect: 100-continue\r\nTransfer-Encoding: chunked", b"0\r\n\r\n"), C, ["200 marker", "100 200 marker", "100 200 marker"], "the body is there already", "They invite a body that is already there, which does no harm"),
    case("100-continue twice", Fields(b"Expect: 100-continue\r\nExpect: 100-continue\r\nContent-Length: 5", b"hello"), C, ["200 marker", "417 open", "400 close"], "the same as once", "Apache takes `100-continue, 100-continue` for another expectation; nginx refuses a second field"),
    case("another expectation with a body", Fields(b"Expect: x\r\nContent-Length: 5", b"hello"), A, ["417 close", "417 open", "200 marker"], "417, and the end: the body may come or not", "Apache answers 417 and waits for the body; nginx ignores other expectations"),
    case("100-continue and another", Fields(b"Expect: 100-continue, x\r\nContent-Length: 5", b"hello"), A, ["417 close", "417 open", "200 marker"], "417, and the end: the body may come or not", "Apache answers 417 and waits for the body; nginx ignores other expectations"),
    case("100-continue in HTTP/1.0", Whole(b"GET /page.html HTTP/1.0\r\nConnection: keep-alive\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\nhello"), C, ["200 marker", "200 close", "200 marker"], "to be ignored in 1.0", "Apache does not trust such a client with another request"),
    case("100-continue, not found", Whole(b"POST /none HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\nhello"), C, ["404 marker", "100 404 marker", "404 marker"], "the body is read past", "Apache invites a body that is already there"),
];

#[rustfmt::skip]
const UPGRADE_CONNECT_AND_TRACE: &[Case] = &[
    case("upgrade to h2c", Fields(b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA", b""), C, ["200 marker", "200 marker", "200 marker"], "RFC 9110 section 7.8: may be ignored", ""),
    case("upgrade to h2c with a body", Fields(b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA\r\nContent-Length: 5", b"hello"), C, ["200 marker", "200 marker", "200 marker"], "RFC 9110 section 7.8: may be ignored", ""),
    case("upgrade to websocket", Fields(b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", b""), C, ["200 marker", "200 marker", "200 marker"], "RFC 9110 section 7.8: may be ignored", ""),
    case("upgrade to TLS", Fields(b"Connection: Upgrade\r\nUpgrade: TLS/1.2", b""), C, ["200 marker", "200 marker", "200 marker"], "RFC 9110 section 7.8: may be ignored", ""),
    case("the preface of HTTP/2", Whole(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), A, ["505 close", "400 close", "400 close"], "RFC 9110 section 15.6.6: 505", "They take it for a malformed request"),
    case("CONNECT", Whole(b"CONNECT h:80 HTTP/1.1\r\nHost: h:80\r\n\r\n"), C, ["405 marker", "405 marker", "400 close"], "RFC 9110 section 9.3.6: this is no proxy", "nginx takes no target without a slash"),
    case("CONNECT with a length", Whole(b"CONNECT h:80 HTTP/1.1\r\nHost: h:80\r\nContent-Length: 5\r\n\r\nhello"), C, ["405 marker", "405 marker", "400 close"], "RFC 9110 section 9.3.6: this is no proxy", "nginx takes no target without a slash"),
    case("CONNECT with a path", Whole(b"CONNECT /page.html HTTP/1.1\r\nHost: h\r\n\r\n"), C, ["400 close", "400 close", "405 close"], "RFC 9110 section 9.3.6: this is no proxy", "nginx has 405 for every method that is not meant for files"),
    case("TRACE", Whole(b"TRACE /page.html HTTP/1.1\r\nHost: h\r\n\r\n"), C, ["200 marker", "200 marker", "405 close"], "RFC 9110 section 9.3.8", "nginx has no TRACE, and closes after 405 here"),
    case("TRACE with a body", Whole(b"TRACE /page.html HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello"), C, ["413 close", "413 close", "405 close"], "RFC 9110 section 9.3.8: no content in a TRACE", "nginx has no TRACE, and closes after 405 here"),
    case("OPTIONS *", Whole(b"OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n"), C, ["200 marker", "200 marker", "400 close"], "RFC 9110 section 9.3.7", "nginx takes no target without a slash"),
    case("GET *", Whole(b"GET * HTTP/1.1\r\nHost: h\r\n\r\n"), C, ["400 close", "400 close", "400 close"], "RFC 9112 section 3.2.4: for OPTIONS alone", ""),
];

#[rustfmt::skip]
const REQUEST_LINES: &[Case] = &[
    case("tabs for spaces", Whole(b"GET\t/page.html\tHTTP/1.1\r\nHost: h\r\n\r\n"), A, ["400 close", "400 close", "400 close"], "RFC 9112 section 3: reading by white space is lenient, and risky", ""),
    case("two spaces before the target", Whole(b"GET  /page.html HTTP/1.1\r\nHost: h\r\n\r\n"), A, ["400 close", "400 close", "200 marker"], "RFC 9112 section 3", "nginx skips spaces between the words"),
    case("two spaces before the version", Whole(b"GET /page.html  HTTP/1.1\r\nHost: h\r\n\r\n"), A, ["400 close", "400 close", "200 marker"], "RFC 9112 section 3", "nginx skips spaces between the words"),
    case("space behind the version", Whole(b"GET /page.html HTTP/1.1 \r\nHost: h\r\n\r\n"), A, ["400 close", "400 close", "200 marker"], "RFC 9112 section 3", "nginx skips spaces between the words"),
    case("space before the method", Whole(b" GET /page.html HTTP/1.1\r\nHost: h\r\n\r\n"), A, ["400 close", "400 close", "400 close"], "RFC 9112 section 3", ""),
    case("space in the target", Whole(b"GET /page.html?a b HTTP/1.1\r\nHost: h\r\n\r\n"), A, ["400 close", "400 close", "400 close"], "RFC 9112 section 3.2: no white space in a target", ""),
    case("VT before the version", Whole(b"GET /page.html\x0bHTTP/1.1\r\nHost: h\r\n\r\n"), A, ["400 close", "400 close", "400 close"], "RFC 9112 section 3", ""),
    case("a word too many", Whole(b"GET /page.html HTTP/1.1 HTTP/1.1\r\nHost: h\r\n\r\n"), A, ["400 close", "400 close", "400 close"], "RFC 9112 section 3", ""),
    case("version in small letters", Whole(b"GET /page.html http/1.1\r\nHost: h\r\n\r\n"), A, ["400 close", "400 close", "400 close"], "RFC 9112 section 2.3: the name has a case", ""),
    case("method in small letters", Whole(b"get /page.html HTTP/1.1\r\nHost: h\r\n\r\n"), C, ["501 close", "501 close", "400 close"], "RFC 9110 section 9.1: methods have a case; 501", "nginx takes capitals only"),
    case("a method that is no token", Whole(b"G@T /page.html HTTP/1.1\r\nHost: h\r\n\r\n"), A, ["400 close", "400 close", "400 close"], "RFC 9110 section 9.1", ""),
    case("NUL in the method", Whole(b"GE\0T /page.html HTTP/1.1\r\nHost: h\r\n\r\n"), A, ["400 close", "400 close", "400 close"], "RFC 9110 section 9.1", ""),
    case("version 1.2", Whole(b"GET /page.html HTTP/1.2\r\nHost: h\r\n\r\n"), C, ["200 marker", "200 marker", "200 marker"], "RFC 9110 section 2.5: as the highest minor version known", ""),
    case("version 1.10", Whole(b"GET /page.html HTTP/1.10\r\nHost: h\r\n\r\n"), A, ["400 close", "400 close", "200 marker"], "RFC 9112 section 2.3: one digit", "nginx takes several digits"),
    case("version 01.1", Whole(b"GET /page.html HTTP/01.1\r\nHost: h\r\n\r\n"), A, ["400 close", "400 close", "400 close"], "RFC 9112 section 2.3: one digit", ""),
    case("version 1", Whole(b"GET /page.html HTTP/1\r\nHost: h\r\n\r\n"), A, ["400 close", "400 close", "400 close"], "RFC 9112 section 2.3", ""),
    case("version 1.", Whole(b"GET /page.html HTTP/1.\r\nHost: h\r\n\r\n"), A, ["400 close", "400 close", "400 close"], "RFC 9112 section 2.3", ""),
    case("version 2.0", Whole(b"GET /page.html HTTP/2.0\r\nHost: h\r\n\r\n"), A, ["505 close", "200 marker", "505 close"], "RFC 9110 section 15.6.6: 505", "Apache serves it as if it were 1.1"),
    case("version 0.9", Whole(b"GET /page.html HTTP/0.9\r\nHost: h\r\n\r\n"), A, ["505 close", "400 close", "400 close"], "RFC 9110 section 15.6.6: 505", "They take it for a malformed request"),
    case("another protocol", Whole(b"GET /page.html ICY/1.1\r\nHost: h\r\n\r\n"), A, ["400 close", "400 close", "400 close"], "RFC 9112 section 2.3", ""),
    case("no version", Whole(b"GET /page.html\r\n"), C, ["body", "body", "body"], "HTTP/0.9, which Apache allows by default: the body, and the end", ""),
    case("no version, with fields", Whole(b"GET /page.html\r\nHost: h\r\n\r\n"), C, ["body", "body", "body"], "HTTP/0.9: what follows is not read", ""),
    case("no version, and a space", Whole(b"GET /page.html \r\n"), A, ["400 close", "body", "body"], "RFC 9112 section 3", "They ignore the space"),
    case("no version, POST", Whole(b"POST /page.html\r\n"), A, ["400 close", "400 close", "body"], "HTTP/0.9 has GET alone", "nginx answers any method"),
    case("no target", Whole(b"GET\r\n\r\n"), A, ["400 close", "400 close", "400 close"], "RFC 9112 section 3", ""),
    case("NUL in the target", Whole(b"GET /page.html\0 HTTP/1.1\r\nHost: h\r\n\r\n"), A, ["400 close", "400 close", "400 close"], "RFC 9112 section 3.2", ""),
    case("control byte in the target", Whole(b"GET /page.html\x01 HTTP/1.1\r\nHost: h\r\n\r\n"), A, ["400 close", "400 close", "400 close"], "RFC 9112 section 3.2", ""),
    case("DEL in the target", Whole(b"GET /page.html\x7f HTTP/1.1\r\nHost: h\r\n\r\n"), A, ["400 close", "400 close", "400 close"], "RFC 9112 section 3.2", ""),
    case("bytes that are not ASCII", Whole(b"GET /page.html?\xe9 HTTP/1.1\r\nHost: h\r\n\r\n"), C, ["200 marker", "200 marker", "200 marker"], "RFC 9112 section 3.2 forbids them; Apache lets them pass", ""),
    case("a fragment", Whole(b"GET /page.html#f HTTP/1.1\r\nHost: h\r\n\r\n"), C, ["400 close", "400 close", "200 marker"], "RFC 9110 section 4.2.5: stays with the client", "nginx cuts the fragment off"),
    case("%00", Whole(b"GET /page.html%00 HTTP/1.1\r\nHost: h\r\n\r\n"), C, ["404 marker", "404 marker", "400 close"], "404 as in Apache", "nginx says 400, and closes"),
    case("%2f", Whole(b"GET /%2fpage.html HTTP/1.1\r\nHost: h\r\n\r\n"), C, ["404 marker", "404 marker", "200 marker"], "404 as in Apache: AllowEncodedSlashes Off", "nginx decodes it to a slash, as `AllowEncodedSlashes On` does"),
    case("backslash", Whole(b"GET \\page.html HTTP/1.1\r\nHost: h\r\n\r\n"), C, ["400 close", "400 close", "400 close"], "RFC 9112 section 3.2: no form of a target", ""),
    case("no slash", Whole(b"GET page.html HTTP/1.1\r\nHost: h\r\n\r\n"), C, ["400 close", "400 close", "400 close"], "RFC 9112 section 3.2: no form of a target", ""),
    case("two slashes", Whole(b"GET //page.html HTTP/1.1\r\nHost: h\r\n\r\n"), C, ["200 marker", "200 marker", "200 marker"], "MergeSlashes On", ""),
    case("absolute-form", Whole(b"GET http://h/page.html HTTP/1.1\r\nHost: h\r\n\r\n"), C, ["200 marker", "200 marker", "200 marker"], "RFC 9112 section 3.2.2", ""),
    case("absolute-form, another Host", Whole(b"GET http://h/page.html HTTP/1.1\r\nHost: other\r\n\r\n"), C, ["200 marker", "200 marker", "200 marker"], "RFC 9112 section 3.2.2: Host is ignored", ""),
    case("absolute-form, no Host", Whole(b"GET http://h/page.html HTTP/1.1\r\n\r\n"), A, ["400 close", "400 close", "400 close"], "RFC 9112 section 3.2: 400 without Host", ""),
    case("absolute-form, bad Host", Whole(b"GET http://h/page.html HTTP/1.1\r\nHost: a b\r\n\r\n"), A, ["400 close", "200 marker", "400 close"], "RFC 9112 section 3.2: 400 for a bad Host", "Apache replaces the Host by that of the target without looking at it"),
    case("absolute-form with user information", Whole(b"GET http://u@h/page.html HTTP/1.1\r\nHost: h\r\n\r\n"), C, ["400 close", "400 close", "400 close"], "RFC 9110 section 4.2.4: error in an untrusted source", ""),
    case("absolute-form without a host", Whole(b"GET http:///page.html HTTP/1.1\r\nHost: h\r\n\r\n"), C, ["400 close", "200 marker", "400 close"], "RFC 9110 section 4.2.1: reject an empty host", "Apache goes by the Host"),
    case("absolute-form, bad port", Whole(b"GET http://h:x/page.html HTTP/1.1\r\nHost: h\r\n\r\n"), C, ["400 close", "400 close", "400 close"], "RFC 9110 section 4.2", ""),
    case("absolute-form of another scheme", Whole(b"GET ftp://h/page.html HTTP/1.1\r\nHost: h\r\n\r\n"), C, ["400 close", "400 close", "200 marker"], "RFC 9110 section 7.4: misdirected", "nginx takes any scheme"),
    case("a scheme and one slash", Whole(b"GET http:/page.html HTTP/1.1\r\nHost: h\r\n\r\n"), C, ["400 close", "200 marker", "400 close"], "RFC 9112 section 3.2", "Apache reads a path from it"),
];

#[rustfmt::skip]
const HOST: &[Case] = &[
    case("no Host", Whole(b"GET /page.html HTTP/1.1\r\n\r\n"), A, ["400 close", "400 close", "400 close"], "RFC 9112 section 3.2", ""),
    case("no Host in HTTP/1.0", Whole(b"GET /page.html HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"), C, ["200 marker", "200 marker", "200 marker"], "RFC 9112 section 3.2: for 1.1 alone", ""),
    case("Host twice, the same", Whole(b"GET /page.html HTTP/1.1\r\nHost: h\r\nHost: h\r\n\r\n"), A, ["400 close", "400 close", "400 close"], "RFC 9112 section 3.2", ""),
    case("Host twice, different", Whole(b"GET /page.html HTTP/1.1\r\nHost: h\r\nHost: other\r\n\r\n"), A, ["400 close", "400 close", "400 close"], "RFC 9112 section 3.2", ""),
    case("an empty Host", Whole(b"GET /page.html HTTP/1.1\r\nHost:\r\n\r\n"), A, ["400 close", "400 close", "400 close"], "RFC 9110 section 4.2.1: http has a host", ""),
    case("a list of hosts", Whole(b"GET /page.html HTTP/1.1\r\nHost: h, other\r\n\r\n"), A, ["400 close", "400 close", "400 close"], "RFC 9112 section 3.2", ""),
    case("Host with a path", Whole(b"GET /page.html HTTP/1.1\r\nHost: h/x\r\n\r\n"), A, ["400 close", "400 close", "400 close"], "RFC 9112 section 3.2", ""),
    case("Host with user information", Whole(b"GET /page.html HTTP/1.1\r\nHost: u@h\r\n\r\n"), A, ["400 close", "400 close", "200 marker"], "RFC 9112 section 3.2", "nginx looks for slashes, dots and bytes that no name has, and for little else"),
    case("Host with two ports", Whole(b"GET /page.html HTTP/1.1\r\nHost: h:80:80\r\n\r\n"), A, ["400 close", "400 close", "200 marker"], "RFC 9112 section 3.2", "nginx looks for slashes, dots and bytes that no name has, and for little else"),
    case("Host with port 0", Whole(b"GET /page.html HTTP/1.1\r\nHost: h:0\r\n\r\n"), A, ["400 close", "400 close", "200 marker"], "RFC 9112 section 3.2", "nginx looks for slashes, dots and bytes that no name has, and for little else"),
    case("Host with a port that is none", Whole(b"GET /page.html HTTP/1.1\r\nHost: h:x\r\n\r\n"), A, ["400 close", "400 close", "200 marker"], "RFC 9112 section 3.2", "nginx looks for slashes, dots and bytes that no name has, and for little else"),
    case("Host with a space", Whole(b"GET /page.html HTTP/1.1\r\nHost: h x\r\n\r\n"), A, ["400 close", "400 close", "400 close"], "RFC 9112 section 3.2", ""),
    case("Host with an escape", Whole(b"GET /page.html HTTP/1.1\r\nHost: h%20\r\n\r\n"), A, ["400 close", "400 close", "200 marker"], "RFC 9112 section 3.2; narrower than RFC 3986, as Apache", "nginx looks for slashes, dots and bytes that no name has, and for little else"),
    case("Host that is not ASCII", Whole(b"GET /page.html HTTP/1.1\r\nHost: \xc3\xa9\r\n\r\n"), A, ["400 close", "400 close", "200 marker"], "RFC 9112 section 3.2", "nginx looks for slashes, dots and bytes that no name has, and for little else"),
    case("Host with two dots", Whole(b"GET /page.html HTTP/1.1\r\nHost: a..b\r\n\r\n"), A, ["400 close", "400 close", "400 close"], "RFC 9112 section 3.2; leads out of a folder named by it", ""),
    case("Host with a backslash", Whole(b"GET /page.html HTTP/1.1\r\nHost: h\\x\r\n\r\n"), A, ["400 close", "400 close", "200 marker"], "RFC 9112 section 3.2", "nginx looks for slashes, dots and bytes that no name has, and for little else"),
    case("an IPv6 address that does not end", Whole(b"GET /page.html HTTP/1.1\r\nHost: [::1\r\n\r\n"), A, ["400 close", "400 close", "200 marker"], "RFC 9112 section 3.2", "nginx looks for slashes, dots and bytes that no name has, and for little else"),
    case("an IPv6 address", Whole(b"GET /page.html HTTP/1.1\r\nHost: [::1]:80\r\n\r\n"), C, ["200 marker", "200 marker", "200 marker"], "RFC 9112 section 3.2", ""),
];

#[rustfmt::skip]
const CONNECTIONS: &[Case] = &[
    case("Connection: close", Fields(b"Connection: close", b""), C, ["200 close", "200 close", "200 close"], "RFC 9112 section 9.6: the request behind is not answered", ""),
    case("Connection: close, keep-alive", Fields(b"Connection: close, keep-alive", b""), C, ["200 close", "200 close", "200 close"], "RFC 9112 section 9.3: close wins", ""),
    case("Connection: keep-alive, close", Fields(b"Connection: keep-alive\r\nConnection: close", b""), C, ["200 close", "200 close", "200 close"], "RFC 9112 section 9.3: close wins", ""),
    case("Connection: CLOSE", Fields(b"Connection: CLOSE", b""), C, ["200 close", "200 close", "200 close"], "RFC 9110 section 7.6.1: no case", ""),
    case("Connection: closed", Fields(b"Connection: closed", b""), C, ["200 marker", "200 marker", "200 close"], "RFC 9110 section 7.6.1: another option", "nginx finds `close` in it"),
    case("Connection: x close", Fields(b"Connection: x close", b""), C, ["200 marker", "200 close", "200 close"], "RFC 9110 section 7.6.1: no option", "They find the word `close` in it"),
    case("Proxy-Connection: close", Fields(b"Proxy-Connection: close", b""), C, ["200 marker", "200 marker", "200 marker"], "of no effect", ""),
    case("HTTP/1.0", Whole(b"GET /page.html HTTP/1.0\r\n\r\n"), C, ["200 close", "200 close", "200 close"], "RFC 9112 section 9.3: closes", ""),
    case("HTTP/1.0 with keep-alive", Whole(b"GET /page.html HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"), C, ["200 marker", "200 marker", "200 marker"], "RFC 9112 section 9.3: stays", ""),
    case("HTTP/1.0 with keep-alive and a body", Whole(b"GET /page.html HTTP/1.0\r\nConnection: keep-alive\r\nContent-Length: 5\r\n\r\nhello"), C, ["200 marker", "200 marker", "200 marker"], "RFC 9112 section 9.3: stays", ""),
];

/// The cases that Unsafe mode changes, with Manifold or with Apache.
#[rustfmt::skip]
pub const UNSAFE: &[UnsafeCase] = &[
    UnsafeCase { name: "LF after the request line", manifold: "200 marker", apache: "200 marker" },
    UnsafeCase { name: "LF after a field", manifold: "200 marker", apache: "200 marker" },
    UnsafeCase { name: "LF as the empty line", manifold: "200 marker", apache: "200 marker" },
    UnsafeCase { name: "LF everywhere", manifold: "200 marker", apache: "200 marker" },
    UnsafeCase { name: "LF before a hidden Content-Length", manifold: "200 marker", apache: "200 marker" },
    UnsafeCase { name: "LF before a hidden Transfer-Encoding", manifold: "200 marker", apache: "200 marker" },
    UnsafeCase { name: "LF before the request", manifold: "200 marker", apache: "200 marker" },
    UnsafeCase { name: "a folded field", manifold: "200 marker", apache: "200 marker" },
    UnsafeCase { name: "folded by a tab", manifold: "200 marker", apache: "200 marker" },
    UnsafeCase { name: "a fold that looks like Content-Length", manifold: "200 501 close", apache: "200 501 close" },
    UnsafeCase { name: "a fold that looks like Transfer-Encoding", manifold: "200 400 close", apache: "200 400 close" },
    UnsafeCase { name: "a folded Host", manifold: "400 close", apache: "200 marker" },
    UnsafeCase { name: "a fold behind LF", manifold: "200 marker", apache: "200 marker" },
    UnsafeCase { name: "control byte in a name", manifold: "400 close", apache: "200 marker" },
    UnsafeCase { name: "DEL in a name", manifold: "400 close", apache: "200 marker" },
    UnsafeCase { name: "parentheses in a name", manifold: "200 marker", apache: "200 marker" },
    UnsafeCase { name: "slash in a name", manifold: "200 marker", apache: "200 marker" },
    UnsafeCase { name: "quotes around a name", manifold: "200 501 close", apache: "200 501 close" },
    UnsafeCase { name: "a name that is not ASCII", manifold: "200 marker", apache: "200 marker" },
    UnsafeCase { name: "byte order mark before a name", manifold: "200 501 close", apache: "200 501 close" },
    UnsafeCase { name: "SOH in a value", manifold: "200 marker", apache: "200 marker" },
    UnsafeCase { name: "BS in a value", manifold: "200 marker", apache: "200 marker" },
    UnsafeCase { name: "ESC in a value", manifold: "200 marker", apache: "200 marker" },
    UnsafeCase { name: "DEL in a value", manifold: "200 marker", apache: "200 marker" },
    UnsafeCase { name: "LF behind a size", manifold: "400 close", apache: "200 marker" },
    UnsafeCase { name: "LF behind data", manifold: "400 close", apache: "200 marker" },
    UnsafeCase { name: "LF LF at the end", manifold: "400 close", apache: "200 marker" },
    UnsafeCase { name: "LF as the last line", manifold: "400 close", apache: "200 marker" },
    UnsafeCase { name: "LF in an extension", manifold: "400 close", apache: "200 marker" },
    UnsafeCase { name: "LF behind a semicolon", manifold: "400 close", apache: "200 marker" },
    UnsafeCase { name: "LF behind a trailer", manifold: "400 close", apache: "200 marker" },
    UnsafeCase { name: "two spaces before the target", manifold: "200 marker", apache: "200 marker" },
    UnsafeCase { name: "two spaces before the version", manifold: "200 marker", apache: "200 marker" },
    UnsafeCase { name: "space behind the version", manifold: "200 marker", apache: "200 marker" },
    UnsafeCase { name: "version in small letters", manifold: "200 marker", apache: "200 marker" },
    UnsafeCase { name: "a method that is no token", manifold: "501 close", apache: "501 close" },
    UnsafeCase { name: "no version, and a space", manifold: "body", apache: "body" },
    UnsafeCase { name: "no version, POST", manifold: "body", apache: "body" },
    UnsafeCase { name: "a fragment", manifold: "400 close", apache: "200 marker" },
    UnsafeCase { name: "absolute-form with user information", manifold: "400 close", apache: "200 marker" },
    UnsafeCase { name: "Host twice, the same", manifold: "400 close", apache: "200 marker" },
    UnsafeCase { name: "Host twice, different", manifold: "400 close", apache: "200 marker" },
    UnsafeCase { name: "a list of hosts", manifold: "400 close", apache: "200 marker" },
    UnsafeCase { name: "Host with user information", manifold: "400 close", apache: "200 marker" },
    UnsafeCase { name: "Host with two ports", manifold: "400 close", apache: "200 marker" },
    UnsafeCase { name: "Host with a port that is none", manifold: "400 close", apache: "200 marker" },
    UnsafeCase { name: "Host with a space", manifold: "400 close", apache: "200 marker" },
    UnsafeCase { name: "Host with an escape", manifold: "400 close", apache: "200 marker" },
    UnsafeCase { name: "Host that is not ASCII", manifold: "400 close", apache: "200 marker" },
];
