//! The life of a request, written once for every process model: read the head, read the body, run the phases, answer.
//!
//! The engine returns to the MPM between requests, so that an idle connection is a [`Conn`] and a transport and nothing
//! else. Waiting is the transport's business; here it only looks like `.await`.

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::task::Poll;
use std::time::Instant;

use manifold_http::BodyDecoder;
use manifold_http::BodyLength;
use manifold_http::Method;
use manifold_http::Status;
use manifold_http::{HeadError, response_fields};

use crate::phases::Phase;
use crate::request::{Body, Pooled, Request};
use crate::site::Site;
use crate::transaction::{Ending, Transaction};
use crate::transport::{Activity, Host, Next, Transport};
use crate::{admit, representation, respond, trace};

/// What the engine remembers of a connection between requests.
#[derive(Clone, Copy, Debug)]
pub struct Conn {
    /// The client.
    pub peer: SocketAddr,
    /// Requests answered so far with the connection kept alive.
    pub kept_alive: u32,
    /// Bytes of those answers, and of the one being sent.
    pub sent: u64,
    /// Left because the client was too slow: lingering is over soon, or it would be slow there as well (Apache's note
    /// `short-lingering-close`).
    pub linger_briefly: bool,
}

impl Conn {
    /// A connection just accepted from `peer`.
    pub fn new(peer: SocketAddr) -> Conn {
        Conn { peer, kept_alive: 0, sent: 0, linger_briefly: false }
    }
}

/// Answers to pipelined requests are collected up to this many bytes before they are sent.
const PIPELINE_BYTES_MAX: u64 = 64 * 1024;
/// Calls that one request has made for it before its phases go on. What is cold even then is waited for where it is needed.
const JOBS_MAX: usize = 16;

/// Reads and answers requests until the connection is idle or done. Call it when the first byte of a request arrived or
/// is expected.
///
/// # Errors
/// The transport's error; the connection is to be closed without ceremony then.
pub async fn serve(io: &mut dyn Transport, conn: &mut Conn, site: &Site, host: &dyn Host) -> io::Result<Next> {
    let mut pooled = Pooled::take(conn.peer, host.turn());
    let request: &mut Request = &mut pooled;
    loop {
        host.reading(conn);
        // When the thread has last waited for something.
        let mut now = request.turn.now;
        let head = match take_head(io, site, request) {
            Some(head) => head,
            None => {
                let head = read_head(io, conn, site, host, request).await?;
                now = host.turn().now;
                head
            }
        };
        let mut checked = Ok(());
        let refused = match head {
            Head::Complete => {
                host.began(request);
                checked = admit::check(request, site);
                match checked {
                    // Answered early: the body stays unread, and the connection ends.
                    Err(status) if respond::drops_connection(status) => Some(status),
                    _ if request.head.body() == BodyLength::None => None,
                    _ => {
                        let refused = read_body(io, site, host, request).await;
                        now = host.turn().now;
                        refused?
                    }
                }
            }
            Head::Refused(status) => Some(status),
            Head::EndOfFile => return Ok(Next::Close),
        };
        host.activity(Activity::Handling);
        let kept = match refused {
            Some(status) => {
                respond::fill_in(request, status, site);
                false
            }
            None => {
                request.may_wait = host.may_wait();
                if let Err(phase) = answer(site, checked, request) {
                    Box::pin(go_on(site, host, phase, request)).await;
                    now = host.turn().now;
                }
                keep_alive(conn, site, host, request) && !respond::drops_connection(request.response.status)
            }
        };
        let fields = connection_fields(conn, site, request, kept);
        let sent = respond::enqueue(io.outgoing(), request, &fields, site);
        let pipelined = kept && !io.received().is_empty() && io.outgoing().len() < PIPELINE_BYTES_MAX;
        let flushed = if pipelined { Ok(()) } else { send(io, now + site.timeout, host, request).await };
        let ending = if kept { Ending::Kept } else { Ending::Closed };
        let ending = if flushed.is_ok() { ending } else { Ending::Aborted };
        account(io, site, host, conn, request, sent, ending);
        flushed?;
        if !kept {
            conn.linger_briefly = refused == Some(Status::REQUEST_TIMEOUT);
            return Ok(leave(request, refused, io.received().is_empty()));
        }
        conn.kept_alive += 1;
        if io.received().is_empty() {
            return Ok(Next::KeepAlive);
        }
        request.reset(conn.peer, host.turn());
    }
}

/// Counts an answer and logs it. Where sending has failed the rest of it stays queued.
#[inline]
fn account(
    io: &mut dyn Transport,
    site: &Site,
    host: &dyn Host,
    conn: &mut Conn,
    request: &Request,
    sent: respond::Sent,
    ending: Ending,
) {
    let unsent = if ending == Ending::Aborted { io.outgoing().len() } else { 0 };
    let sent = sent.without(unsent);
    conn.sent += sent.total;
    host.served(sent.total, request, conn);
    if site.phases.has_logs() {
        host.activity(Activity::Logging);
        site.phases.log_transaction(&Transaction { request, conn, sent, ending, host });
    }
}

/// How reading a head ended.
enum Head {
    Complete,
    Refused(Status),
    EndOfFile,
}

/// Takes a head that has been received, or refuses it as soon as it is known to be bad. `None`: more of it has to come.
#[inline]
fn take_head(io: &mut dyn Transport, site: &Site, request: &mut Request) -> Option<Head> {
    let received = io.received();
    match request.head.parse_more(received, &site.limits) {
        Ok(Some(length)) => {
            request.bytes.extend_from_slice(&received[..length]);
            io.consume(length);
            Some(Head::Complete)
        }
        Ok(None) => None,
        Err(error) => Some(refuse_head(received, request, error)),
    }
}

#[cold]
fn refuse_head(received: &[u8], request: &mut Request, error: HeadError) -> Head {
    log::debug!(target: "core", "[client {}] AH00566: request failed: {error}", request.peer);
    request.refuse(manifold_http::request_line_of(received));
    if error == HeadError::Expectation {
        let unmet = |(name, value): &(&[u8], &[u8])| {
            name.eq_ignore_ascii_case(b"Expect") && !value.eq_ignore_ascii_case(b"100-continue")
        };
        let expectation = response_fields(received).find(unmet);
        request.expectation.extend_from_slice(expectation.map_or(&[], |(_, value)| value));
    }
    Head::Refused(error.status())
}

/// Reads until a head is complete or known to be bad. A client that sends part of a head and then nothing, or too slowly
/// (`RequestReadTimeout`), gets 408; one that sends nothing at all is left without a word, as are heads that end in the middle.
async fn read_head(
    io: &mut dyn Transport,
    conn: &Conn,
    site: &Site,
    host: &dyn Host,
    request: &mut Request,
) -> io::Result<Head> {
    let start = request.turn.now;
    let mut now = start;
    loop {
        if !io.outgoing().is_empty() {
            flush(io, site, host, request.peer).await?;
        }
        let arrived = io.received().len() as u64;
        let by = match arrived {
            0 => now + site.first_byte_timeout(),
            _ => site.read_timeouts.header.next_byte_by(start, arrived, now, site.timeout),
        };
        match io.fill(now, by).await {
            Ok(0) => return Ok(Head::EndOfFile),
            Ok(_) => {
                let turn = host.turn();
                now = turn.now;
                // It may be another thread that goes on.
                host.reading(conn);
                match take_head(io, site, request) {
                    Some(Head::Complete) => {
                        request.turn = turn;
                        return Ok(Head::Complete);
                    }
                    Some(refused) => return Ok(refused),
                    None => {}
                }
            }
            Err(error) if error.kind() == io::ErrorKind::TimedOut && arrived > 0 => {
                if site.read_timeouts.header.is_on() {
                    too_slow(request, "header");
                }
                request.refuse(manifold_http::request_line_of(io.received()));
                return Ok(Head::Refused(Status::REQUEST_TIMEOUT));
            }
            Err(error) if error.kind() == io::ErrorKind::TimedOut => return Ok(Head::EndOfFile),
            Err(error) => return Err(error),
        }
    }
}

/// Reads the request body and discards it, as Apache's default handler does, but for one that comes back; gives the status to
/// refuse it with.
async fn read_body(
    io: &mut dyn Transport,
    site: &Site,
    host: &dyn Host,
    request: &mut Request,
) -> io::Result<Option<Status>> {
    let length = request.head.body();
    let comes_back = request.method() == Method::Trace;
    let limit = if comes_back { trace::BODY_MAX.min(site.limit_request_body) } else { site.limit_request_body };
    match length {
        BodyLength::Length(bytes) if bytes > limit => {
            return Ok(Some(Status::REQUEST_ENTITY_TOO_LARGE));
        }
        BodyLength::None | BodyLength::Length(_) | BodyLength::Chunked => {}
    }
    if request.head.expects_continue() && io.received().is_empty() {
        io.outgoing().tail().extend_from_slice(b"HTTP/1.1 100 Continue\r\n\r\n");
        flush(io, site, host, request.peer).await?;
    }
    let mut decoder = BodyDecoder::new(length);
    let mut discarded = 0;
    loop {
        let step = match decoder.decode(io.received()) {
            Ok(step) => step,
            Err(error) => return Ok(Some(error.status())),
        };
        discarded += step.payload.len() as u64;
        request.body_received += step.consumed as u64;
        if comes_back && discarded <= limit {
            request.body.extend_from_slice(&io.received()[step.payload]);
        }
        io.consume(step.consumed);
        if discarded > limit {
            return Ok(Some(Status::REQUEST_ENTITY_TOO_LARGE));
        }
        if step.done {
            return Ok(None);
        }
        if step.consumed == 0 {
            let now = host.turn().now;
            let by = site.read_timeouts.body.next_byte_by(request.turn.now, request.body_received, now, site.timeout);
            host.activity(Activity::ReadingBody);
            match io.fill(now, by).await {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                // It may be another thread that goes on.
                Ok(_) => host.began(request),
                Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                    if site.read_timeouts.body.is_on() {
                        too_slow(request, "body");
                    }
                    return Ok(Some(Status::REQUEST_TIMEOUT));
                }
                Err(error) => return Err(error),
            }
        }
    }
}

/// Runs the phases, unless the answer's status is known already; afterwards `request.response` is the answer, whatever its
/// status. Otherwise gives the phase that needs what only a disk can tell.
#[inline]
fn answer(site: &Site, checked: Result<(), Status>, request: &mut Request) -> Result<(), Phase> {
    let status = match checked {
        Ok(()) if request.method() == Method::Trace => {
            trace::echo(request);
            return Ok(());
        }
        Ok(()) => site.phases.answer(request)?,
        Err(status) => status,
    };
    complete(site, request, status);
    Ok(())
}

/// Has the disk asked, and the phases repeated from the one that needs it, until there is an answer.
async fn go_on(site: &Site, host: &dyn Host, phase: Phase, request: &mut Request) {
    let mut phase = phase;
    for jobs in 1.. {
        if let Some(job) = request.later.take() {
            host.offload(job).await;
        }
        // The thread may have worked for others meanwhile.
        host.began(request);
        host.activity(Activity::Handling);
        request.may_wait = jobs >= JOBS_MAX;
        match site.phases.go_on(phase, request) {
            Ok(status) => return complete(site, request, status),
            Err(again) => phase = again,
        }
    }
}

/// Makes an answer of a status without one, and of a whole file what the client asked for of it.
#[inline]
fn complete(site: &Site, request: &mut Request, status: Status) {
    if status != request.response.status || matches!(request.response.body, Body::Empty) {
        respond::fill_in(request, status, site);
    } else {
        representation::select(request, site);
    }
}

/// Whether the connection may carry another request.
fn keep_alive(conn: &Conn, site: &Site, host: &dyn Host, request: &Request) -> bool {
    let below_limit = site.max_keep_alive_requests == 0 || conn.kept_alive < site.max_keep_alive_requests;
    site.keep_alive && below_limit && request.head.keep_alive() && !host.draining()
}

/// The fields that tell the client about the connection, as Apache's `ap_set_keepalive` words them.
fn connection_fields(conn: &Conn, site: &Site, request: &Request, kept: bool) -> respond::Connection {
    if !kept {
        return respond::Connection::Close;
    }
    if !request.head.keep_alive_asked() {
        return respond::Connection::Implied;
    }
    let left = site.max_keep_alive_requests.saturating_sub(conn.kept_alive);
    let max = (site.max_keep_alive_requests > 0).then_some(left);
    respond::Connection::KeepAlive { timeout: site.keep_alive_timeout, max }
}

/// Lingering is needed where the client may still be sending: after a refused request, or when we close a connection
/// that the client wanted to keep. A client that asked to close and has nothing more under way gets a plain close.
fn leave(request: &Request, refused: Option<Status>, nothing_received: bool) -> Next {
    if refused.is_none() && nothing_received && !request.head.keep_alive() { Next::Close } else { Next::Linger }
}

/// Sends an answer. A thread that goes on with it after a wait tells whose it is.
fn send(
    io: &mut dyn Transport,
    by: Instant,
    host: &dyn Host,
    request: &Request,
) -> impl Future<Output = io::Result<()>> {
    host.activity(Activity::Writing);
    let mut waited = false;
    poll_fn(move |cx| {
        if waited {
            host.began(request);
            host.activity(Activity::Writing);
        }
        let outcome = io.poll_flush(cx, by);
        waited = outcome.is_pending();
        if let Poll::Ready(Err(error)) = &outcome {
            cut_short(request.peer, error);
        }
        outcome
    })
}

/// Logs that a stage has taken too long, as Apache words it.
fn too_slow(request: &Request, stage: &str) {
    log::debug!(target: "reqtimeout", "[client {}] AH01382: Request {stage} read timeout", request.peer);
}

async fn flush(io: &mut dyn Transport, site: &Site, host: &dyn Host, peer: SocketAddr) -> io::Result<()> {
    let flushed = io.flush(host.turn().now + site.timeout).await;
    flushed.inspect_err(|error| cut_short(peer, error))
}

/// Logs that an answer ends before the length it announced, and with it its connection, where the client is not the cause.
#[cold]
fn cut_short(peer: SocketAddr, error: &io::Error) {
    if error.kind() == io::ErrorKind::UnexpectedEof {
        log::error!(target: "core", "[client {peer}] {error}: its connection is closed within the answer");
    }
}
