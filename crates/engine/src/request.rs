//! A request and its answer while the phases work on them. Requests are recycled: in the steady state none of their
//! buffers is allocated.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::ops::{Deref, DerefMut, Range};
use std::sync::Arc;

use manifold_http::ByteRange;
use manifold_http::Head;
use manifold_http::Method;
use manifold_http::Status;

pub use crate::resource::{Content, Representation, Resource};
use crate::transport::{Job, Turn};

/// One request, from its head to its answer.
#[derive(Debug)]
pub struct Request {
    /// The bytes of the head, as received.
    pub bytes: Vec<u8>,
    /// The index into them.
    pub head: Head,
    /// Whether the head was refused; then `bytes` is the request line alone, for the log, and `head` is blank.
    refused: bool,
    /// What stood in an `Expect` field that cannot be met; the answer says so.
    pub expectation: Vec<u8>,
    /// Host and optional port of an absolute-form target, as a range of the request target.
    pub authority: Option<Range<usize>>,
    /// The body, where the answer repeats it (`TraceEnable extended`); any other is dropped as it comes.
    pub body: Vec<u8>,
    /// Bytes of the body as they were received, chunked or not.
    pub body_received: u64,
    /// The client.
    pub peer: SocketAddr,
    /// When the head was complete.
    pub turn: Turn,
    /// Decoded and normalised path of the URL; starts with `/`.
    pub path: Vec<u8>,
    /// The query, as a range of the request target.
    pub query: Option<Range<usize>>,
    /// File name that `TranslateName` made of the path.
    pub filename: Vec<u8>,
    /// What stands under that name.
    pub found: Found,
    /// Media type, where it is another than the one of the file that is sent.
    pub content_type: Option<Arc<str>>,
    /// Name of the handler that shall answer (`SetHandler`), set before or in `Fixups`. A handler of that name acts, others
    /// decline; a name that no handler knows leaves the request to the default handler.
    pub handler: Option<Arc<str>>,
    /// Whether hooks may wait for a disk. Where not, one that would have to says
    /// [`Outcome::Later`](crate::phases::Outcome::Later).
    pub may_wait: bool,
    /// The call that fetches what the hook lacks; see there.
    pub later: Option<Job>,
    /// The ranges of a resource that are sent, where there are several.
    pub ranges: Vec<ByteRange>,
    /// The answer in the making.
    pub response: Response,
}

/// What `MapToStorage` found under a file name.
#[derive(Clone, Debug, Default)]
pub enum Found {
    /// Nothing was looked up, or nothing is there.
    #[default]
    Nothing,
    /// A directory.
    Directory,
    /// A regular file.
    File(Arc<Resource>),
}

/// An answer in the making; the engine adds `Date`, `Server`, `Content-Length` and the connection's fields.
#[derive(Debug)]
pub struct Response {
    /// Status; 200 unless a hook says otherwise.
    pub status: Status,
    /// Complete field lines, each ended by CRLF.
    pub fields: Vec<u8>,
    /// Where a redirection leads; empty where there is none.
    pub location: Vec<u8>,
    /// The whole head as it was sent, where a log asks for it ([`Phases::needs_head`](crate::phases::Phases::needs_head)).
    pub head: Vec<u8>,
    /// What follows the head.
    pub body: Body,
}

/// The body of an answer.
#[derive(Debug, Default)]
pub enum Body {
    /// No bytes.
    #[default]
    Empty,
    /// Bytes made for this answer.
    Bytes(Vec<u8>),
    /// A resource as a whole.
    Resource(Arc<Resource>),
    /// One range of a resource.
    Part(Arc<Resource>, ByteRange),
    /// Several ranges of a resource, those of [`Request::ranges`].
    Parts(Arc<Resource>),
    /// Nothing of a resource but the fields that describe it.
    Fields(Arc<Resource>),
}

impl Body {
    /// The resource whose fields the answer has, if it is one's.
    pub fn resource(&self) -> Option<&Resource> {
        match self {
            Body::Empty | Body::Bytes(_) => None,
            Body::Resource(resource) | Body::Part(resource, _) | Body::Parts(resource) | Body::Fields(resource) => {
                Some(resource)
            }
        }
    }
}

impl Request {
    /// Value of the first field called `name`.
    pub fn field(&self, name: &str) -> Option<&[u8]> {
        self.head.field(&self.bytes, name)
    }

    /// Method.
    pub fn method(&self) -> Method {
        match self.refused {
            true if self.bytes.starts_with(b"HEAD ") => Method::Head,
            _ => self.head.method(),
        }
    }

    /// Whether it is a GET or HEAD of a file's path that stands for itself: nothing in it to be decoded, no query, and no directory
    /// whose index would have to be chosen.
    #[inline]
    pub fn is_plain(&self) -> bool {
        let gets = matches!(self.head.method(), Method::Get | Method::Head);
        gets && self.head.target_is_plain() && !self.path.ends_with(b"/")
    }

    /// The method as sent, or what stands in its place.
    pub fn method_token(&self) -> &[u8] {
        match self.refused {
            true => self.bytes.split(|&byte| byte == b' ').next().unwrap_or_default(),
            false => self.head.method_token(&self.bytes),
        }
    }

    /// Host and optional port that the client asked for; those of an absolute-form override the `Host` field (RFC 9112
    /// section 3.2.2). `None` only in HTTP/1.0 and before.
    pub fn host(&self) -> Option<&[u8]> {
        match &self.authority {
            Some(range) => self.head.target(&self.bytes).get(range.clone()),
            None => self.head.host(&self.bytes),
        }
    }

    /// Media type of the answer: what a module said, or else what the file's name tells.
    pub fn media_type(&self) -> Option<&str> {
        let of_file = || self.response.body.resource().and_then(Resource::media_type).map(|name| &**name);
        self.content_type.as_deref().or_else(of_file)
    }

    /// Bytes that were received of it, head and body as they came.
    pub fn received(&self) -> u64 {
        self.bytes.len() as u64 + self.body_received
    }

    /// The request line as received.
    pub fn request_line(&self) -> &[u8] {
        if self.refused { &self.bytes } else { self.head.request_line(&self.bytes) }
    }

    /// Notes that the head was refused; what was taken for a request line is kept for the log.
    pub fn refuse(&mut self, line: &[u8]) {
        self.bytes.clear();
        self.bytes.extend_from_slice(line);
        self.head = Head::new();
        self.refused = true;
    }

    /// The query without its question mark.
    pub fn query(&self) -> Option<&[u8]> {
        self.head.target(&self.bytes).get(self.query.clone()?)
    }

    /// Forgets the request, keeping the buffers, for one of `peer` whose bytes are there or expected in `turn`.
    pub fn reset(&mut self, peer: SocketAddr, turn: Turn) {
        self.forget();
        self.peer = peer;
        self.turn = turn;
    }

    /// Forgets the request, and lets go of what it holds: an open file, a cached body.
    fn forget(&mut self) {
        self.bytes.clear();
        self.head.clear();
        self.refused = false;
        self.expectation.clear();
        self.authority = None;
        self.body.clear();
        self.body_received = 0;
        self.path.clear();
        self.query = None;
        self.filename.clear();
        self.found = Found::Nothing;
        self.content_type = None;
        self.handler = None;
        self.later = None;
        self.response.status = Status::OK;
        self.response.fields.clear();
        self.response.head.clear();
        self.response.location.clear();
        self.response.body = Body::Empty;
    }

    fn new(peer: SocketAddr, turn: Turn) -> Request {
        Request {
            bytes: Vec::new(),
            head: Head::new(),
            refused: false,
            expectation: Vec::new(),
            authority: None,
            body: Vec::new(),
            body_received: 0,
            peer,
            turn,
            path: Vec::new(),
            query: None,
            filename: Vec::new(),
            found: Found::Nothing,
            content_type: None,
            handler: None,
            may_wait: true,
            later: None,
            ranges: Vec::new(),
            response: Response {
                status: Status::OK,
                fields: Vec::new(),
                location: Vec::new(),
                head: Vec::new(),
                body: Body::Empty,
            },
        }
    }

    /// Bytes of the buffers that clients make grow; the others hold parts of these, or what the configuration says.
    fn capacity(&self) -> usize {
        self.bytes.capacity() + self.body.capacity() + self.ranges.capacity() * size_of::<ByteRange>()
    }
}

/// Requests a thread keeps for reuse; more are under way only when many clients are slow at the same time.
const POOL_MAX: usize = 64;
/// A request whose buffers grew beyond this is given back to the allocator.
const CAPACITY_MAX: usize = 32 * 1024;

thread_local! {
    #[expect(clippy::vec_box, reason = "a pooled request moves by its pointer, not by its several hundred bytes")]
    static POOL: RefCell<Vec<Box<Request>>> = const { RefCell::new(Vec::new()) };
}

/// A request taken from the thread's pool; returns there (that of the thread that drops it) when it is dropped.
#[derive(Debug)]
pub struct Pooled(Option<Box<Request>>);

impl Pooled {
    /// An empty request.
    pub fn take(peer: SocketAddr, turn: Turn) -> Pooled {
        let mut request = POOL.with_borrow_mut(Vec::pop).unwrap_or_else(|| Box::new(Request::new(peer, turn)));
        // It was forgotten when it came back.
        (request.peer, request.turn) = (peer, turn);
        Pooled(Some(request))
    }
}

impl Deref for Pooled {
    type Target = Request;

    fn deref(&self) -> &Request {
        self.0.as_ref().expect("only drop takes the request")
    }
}

impl DerefMut for Pooled {
    fn deref_mut(&mut self) -> &mut Request {
        self.0.as_mut().expect("only drop takes the request")
    }
}

impl Drop for Pooled {
    fn drop(&mut self) {
        let Some(mut request) = self.0.take() else { return };
        request.forget();
        if request.capacity() <= CAPACITY_MAX {
            // At the end of a thread its pool may be gone already; then the request is simply freed.
            let _pool_is_gone = POOL.try_with(|pool| {
                let mut pool = pool.borrow_mut();
                if pool.len() < POOL_MAX {
                    pool.push(request);
                }
            });
        }
    }
}
