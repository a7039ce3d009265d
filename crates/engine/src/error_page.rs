//! The page that tells what went wrong, in the words and the shape of Apache's `ap_send_error_response`, so that what
//! looks for them in an Apache's answers finds them in ours.

use std::borrow::Cow;

use manifold_http::Status;

use crate::request::Request;
use crate::site::{Signature, Site};

/// The media type of every page made here.
pub const CONTENT_TYPE: &str = "text/html; charset=iso-8859-1";

/// The page for an answer that has no body of its own.
pub fn page(request: &Request, status: Status, site: &Site) -> Vec<u8> {
    let line = status.line();
    // What is not registered goes under another name, and so does its heading.
    let heading = line.get(4..).unwrap_or_default();
    let text = text(request, status, site);
    let mut page = format!(
        "<!DOCTYPE HTML PUBLIC \"-//W3C//DTD HTML 4.01//EN\" \"http://www.w3.org/TR/html4/strict.dtd\">\n\
         <html><head>\n<title>{line}</title>\n</head><body>\n<h1>{heading}</h1>\n{text}"
    );
    sign(&mut page, request, site);
    page.push_str("</body></html>\n");
    page.into_bytes()
}

/// `ServerSignature`: who speaks, below a rule.
fn sign(page: &mut String, request: &Request, site: &Site) {
    if site.signature == Signature::Off {
        return;
    }
    let (host, port) = site.name.of(request);
    let host = escape(&host).into_owned();
    let server = &site.server;
    let admin = escape(site.admin.as_bytes());
    let host = match site.signature {
        Signature::EMail if admin.contains("://") => format!("<a href=\"{admin}\">{host}</a>"),
        Signature::EMail => format!("<a href=\"mailto:{admin}\">{host}</a>"),
        _ => host,
    };
    page.push_str(&format!("<hr>\n<address>{server} Server at {host} Port {port}</address>\n"));
}

/// What is said of a status (Apache's `get_canned_error_string`).
fn text(request: &Request, status: Status, site: &Site) -> Cow<'static, str> {
    let method = || escape(request.method_token());
    let location = || escape(&request.response.location);
    let said = match status {
        Status::MOVED_PERMANENTLY | Status::FOUND | Status::TEMPORARY_REDIRECT | Status::PERMANENT_REDIRECT => {
            format!("<p>The document has moved <a href=\"{}\">here</a>.</p>\n", location())
        }
        Status::SEE_OTHER => {
            format!("<p>The answer to your request is located <a href=\"{}\">here</a>.</p>\n", location())
        }
        Status::METHOD_NOT_ALLOWED => {
            format!("<p>The requested method {} is not allowed for this URL.</p>\n", method())
        }
        Status::LENGTH_REQUIRED => {
            format!("<p>A request of the requested method {} requires a valid Content-length.<br />\n</p>\n", method())
        }
        Status::REQUEST_ENTITY_TOO_LARGE => format!(
            "The requested resource does not allow request data with {} requests, or the amount of data provided in\n\
             the request exceeds the capacity limit.\n",
            method()
        ),
        Status::EXPECTATION_FAILED => format!(
            "<p>The expectation given in the Expect request-header\nfield could not be met by this server.\n\
             The client sent<pre>\n    Expect: {}\n</pre>\n</p><p>Only the 100-continue expectation is supported.</p>\n",
            escape(&request.expectation)
        ),
        Status::NOT_IMPLEMENTED => format!("<p>{} not supported for current URL.<br />\n</p>\n", method()),
        _ => match fixed_text(status) {
            Some(said) => return Cow::Borrowed(said),
            None => format!(
                "<p>The server encountered an internal error or\nmisconfiguration and was unable to complete\nyour request.</p>\n\
                 <p>Please contact the server administrator at \n {} to inform them of the time this error occurred,\n \
                 and the actions you performed just before this error.</p>\n\
                 <p>More information about this error may be available\nin the server error log.</p>\n",
                escape(site.admin.as_bytes())
            ),
        },
    };
    Cow::Owned(said)
}

/// The texts that say nothing of the request. `None`: the administrator is to be told.
fn fixed_text(status: Status) -> Option<&'static str> {
    Some(match status {
        Status::BAD_REQUEST => "<p>Your browser sent a request that this server could not understand.<br />\n</p>\n",
        Status::UNAUTHORIZED | Status::PROXY_AUTHENTICATION_REQUIRED => {
            "<p>This server could not verify that you\nare authorized to access the document\nrequested.  Either you \
             supplied the wrong\ncredentials (e.g., bad password), or your\nbrowser doesn't understand how to supply\n\
             the credentials required.</p>\n"
        }
        Status::FORBIDDEN => "<p>You don't have permission to access this resource.</p>\n",
        Status::NOT_FOUND => "<p>The requested URL was not found on this server.</p>\n",
        Status::NOT_ACCEPTABLE => {
            "<p>An appropriate representation of the requested resource could not be found on this server.</p>\n"
        }
        Status::REQUEST_TIMEOUT => "<p>Server timeout waiting for the HTTP request from the client.</p>\n",
        Status::GONE => {
            "<p>The requested resource is no longer available on this server and there is no forwarding address.\n\
             Please remove all references to this resource.</p>\n"
        }
        Status::PRECONDITION_FAILED => "<p>The precondition on the request for this URL evaluated to false.</p>\n",
        Status::REQUEST_URI_TOO_LONG => {
            "<p>The requested URL's length exceeds the capacity\nlimit for this server.<br />\n</p>\n"
        }
        Status::UNSUPPORTED_MEDIA_TYPE => {
            "<p>The supplied request data is not in a format\nacceptable for processing by this resource.</p>\n"
        }
        Status::RANGE_NOT_SATISFIABLE => {
            "<p>None of the range-specifier values in the Range\nrequest-header field overlap the current extent\n\
             of the selected resource.</p>\n"
        }
        Status::MISDIRECTED_REQUEST => {
            "<p>The client needs a new connection for this\nrequest as the requested host name does not match\n\
             the Server Name Indication (SNI) in use for this\nconnection.</p>\n"
        }
        Status::UNPROCESSABLE_ENTITY => {
            "<p>The server understands the media type of the\nrequest entity, but was unable to process the\n\
             contained instructions.</p>\n"
        }
        Status::TOO_MANY_REQUESTS => "<p>The user has sent too many requests\nin a given amount of time.</p>\n",
        Status::REQUEST_HEADER_FIELDS_TOO_LARGE => {
            "<p>The server refused this request because\nthe request header fields are too large.</p>\n"
        }
        Status::UNAVAILABLE_FOR_LEGAL_REASONS => {
            "<p>Access to this URL has been denied for legal reasons.<br />\n</p>\n"
        }
        Status::BAD_GATEWAY => {
            "<p>The proxy server received an invalid\nresponse from an upstream server.<br />\n</p>\n"
        }
        Status::SERVICE_UNAVAILABLE => {
            "<p>The server is temporarily unable to service your\nrequest due to maintenance downtime or capacity\n\
             problems. Please try again later.</p>\n"
        }
        Status::GATEWAY_TIMEOUT => {
            "<p>The gateway did not receive a timely response\nfrom the upstream server or application.</p>\n"
        }
        _ => return None,
    })
}

/// Text as it may stand in HTML. The page is ISO-8859-1, so bytes above ASCII are written as the characters they are there.
fn escape(text: &[u8]) -> Cow<'_, str> {
    let plain = |&byte: &u8| byte.is_ascii() && !matches!(byte, b'<' | b'>' | b'&' | b'"');
    match std::str::from_utf8(text) {
        Ok(same) if text.iter().all(plain) => return Cow::Borrowed(same),
        _ => {}
    }
    let mut out = String::with_capacity(text.len() + 16);
    for &byte in text {
        match byte {
            b'<' => out.push_str("&lt;"),
            b'>' => out.push_str("&gt;"),
            b'&' => out.push_str("&amp;"),
            b'"' => out.push_str("&quot;"),
            0..=0x7f => out.push(char::from(byte)),
            _ => out.push_str(&format!("&#{byte};")),
        }
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_client_sent_cannot_become_markup() {
        assert_eq!(escape(b"a b"), "a b");
        assert_eq!(escape(b"<a href=\"x\">&\xe9"), "&lt;a href=&quot;x&quot;&gt;&amp;&#233;");
    }
}
