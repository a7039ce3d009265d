//! Directives about listening sockets and the buffers of connections.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use manifold_config::{ArgShape, Call, Diagnostic, Spanned};

use super::{INT, Row, number, row};
use crate::generation::ListenAddress;

pub(super) const LISTEN: Row = row(
    "Listen",
    ArgShape::RawArgs,
    "",
    "A port number or a numeric IP address and a port number, and an optional protocol.",
    |server, call| {
        let address = listen_address(call)?;
        server.listen.push(Spanned { value: address, span: call.span });
        Ok(())
    },
);

pub(super) const LISTEN_BACKLOG_ROW: Row = row(
    "ListenBacklog",
    ArgShape::Take1,
    "511",
    "Connections that may wait to be accepted; the system has a bound of its own.",
    |server, call| {
        let backlog = call.integer(0, INT)?;
        if backlog < 1 {
            return Err(call.error_at(0, "ListenBacklog must be > 0"));
        }
        server.backlog = i32::try_from(backlog).ok();
        Ok(())
    },
);

pub(super) const SEND_BUFFER_SIZE: Row = row(
    "SendBufferSize",
    ArgShape::Take1,
    "0",
    "Bytes of each connection's send buffer; 0 leaves it to the system.",
    |server, call| {
        server.send_buffer = buffer_size(call)?;
        Ok(())
    },
);

pub(super) const RECEIVE_BUFFER_SIZE: Row = row(
    "ReceiveBufferSize",
    ArgShape::Take1,
    "0",
    "Bytes of each connection's receive buffer; 0 leaves it to the system.",
    |server, call| {
        server.receive_buffer = buffer_size(call)?;
        Ok(())
    },
);

pub(super) const LISTEN_CORES_BUCKETS_RATIO: Row = row(
    "ListenCoresBucketsRatio",
    ArgShape::Take1,
    "off",
    "For each so many cores there is a set of listening sockets of its own, and the system spreads connections over them.",
    |server, call| {
        let ratio = number(call)?;
        if ratio.is_some_and(|ratio| ratio.value < 1) {
            return Err(call.error_at(0, "ListenCoresBucketsRatio must be > 0").help("leave it out to switch it off"));
        }
        server.limits.listen_cores_buckets_ratio = ratio;
        Ok(())
    },
);

pub(super) const LISTEN_TCP_DEFER_ACCEPT: Row = row(
    "ListenTCPDeferAccept",
    ArgShape::Take1,
    "30",
    "Seconds that the system keeps a connection to itself until the client has sent something.",
    |server, call| {
        let seconds = call.integer(0, INT)?;
        if seconds < 1 {
            return Err(call.error_at(0, "ListenTCPDeferAccept must be > 0"));
        }
        server.defer_accept = Some(Duration::from_secs(seconds.unsigned_abs()));
        Ok(())
    },
);

fn buffer_size(call: &Call<'_>) -> Result<Option<usize>, Diagnostic> {
    let bytes = call.integer(0, INT)?;
    if bytes != 0 && bytes < 512 {
        return Err(call.error_at(0, format!("{} must be >= 512 bytes, or 0 for system default.", call.name)));
    }
    Ok(usize::try_from(bytes).ok().filter(|bytes| *bytes > 0))
}

/// `[address:]port [protocol]`; an IPv6 address stands in brackets, `*` is every address.
fn listen_address(call: &Call<'_>) -> Result<ListenAddress, Diagnostic> {
    if call.args.is_empty() || call.args.len() > 2 {
        return Err(call.error("Listen requires 1 or 2 arguments."));
    }
    if call.args.len() == 2 && !call.text(1).eq_ignore_ascii_case("http") {
        let message = format!("Listen: the protocol '{}' is not supported by this version", call.text(1));
        return Err(call.error_at(1, message).help("leave it out, or write 'http'"));
    }
    let text = call.text(0);
    let (address, port) = match text.rsplit_once(':') {
        Some((address, port)) if !port.contains(']') => (Some(address), port),
        _ => (None, text),
    };
    if port.is_empty() || !port.bytes().all(|byte| byte.is_ascii_digit()) {
        let error = call.error_at(0, "Port must be specified");
        return Err(error.help("write 'Listen 8080', 'Listen 127.0.0.1:8080' or 'Listen [::1]:8080'"));
    }
    let invalid = || call.error_at(0, "Invalid address or port");
    let port = port.parse().map_err(|_| invalid().label("a port is a number up to 65535"))?;
    let Some(address) = address.filter(|address| *address != "*") else { return Ok(ListenAddress::Any(port)) };
    let bare = match address.strip_prefix('[') {
        Some(rest) => rest.strip_suffix(']').ok_or_else(|| invalid().label("']' is missing"))?,
        None if address.contains(':') => {
            return Err(invalid()
                .label("an IPv6 address belongs in brackets")
                .help(format!("write '[{address}]:{port}'")));
        }
        None => address,
    };
    let ip: IpAddr = bare.parse().map_err(|_| invalid().label("not an IP address").help("names are not looked up"))?;
    Ok(ListenAddress::At(SocketAddr::new(ip, port)))
}
