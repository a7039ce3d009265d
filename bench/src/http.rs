//! Scenarios of the parsers.

use std::hint::black_box;

use anyhow::{Context, Result};
use manifold_http::{Head, Limits, parse_response_head};

/// As load tools send it.
pub const SHORT: &[u8] = b"GET /page.html HTTP/1.1\r\nHost: 127.0.0.1:8080\r\n\r\n";

/// As a browser sends it.
pub const BROWSER: &[u8] = b"GET /page.html?from=home HTTP/1.1\r\n\
Host: www.example.org\r\n\
User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0\r\n\
Accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8\r\n\
Accept-Language: en-GB,en;q=0.7,de;q=0.3\r\n\
Accept-Encoding: gzip, deflate, br, zstd\r\n\
Referer: https://www.example.org/\r\n\
Connection: keep-alive\r\n\
Cookie: theme=dark; session=8d1f0c2e5b7a4f6d9e3c\r\n\
Upgrade-Insecure-Requests: 1\r\n\
Sec-Fetch-Dest: document\r\n\
Sec-Fetch-Mode: navigate\r\n\
Sec-Fetch-Site: same-origin\r\n\
Priority: u=0, i\r\n\r\n";

/// As our server answers it.
const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\n\
Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n\
Server: Manifold/0.1.0\r\n\
Last-Modified: Sat, 05 Nov 1994 10:00:00 GMT\r\n\
ETag: \"2c-5f0a\"\r\n\
Accept-Ranges: bytes\r\n\
Content-Length: 44\r\n\
Content-Type: text/html\r\n\r\n";

/// Parses a short request head.
pub fn request_head_short(rounds: u64) -> Result<u64> {
    request_heads(SHORT, rounds)
}

/// Parses a browser's request head.
pub fn request_head_browser(rounds: u64) -> Result<u64> {
    request_heads(BROWSER, rounds)
}

/// Parses a response head, as the load generator does.
pub fn response_head(rounds: u64) -> Result<u64> {
    let limits = Limits::default();
    let mut sum = 0;
    for _ in 0..rounds {
        let (length, _) = parse_response_head(black_box(ANSWER), false, &limits)?.context("the head is complete")?;
        sum += length as u64;
    }
    Ok(sum)
}

fn request_heads(bytes: &[u8], rounds: u64) -> Result<u64> {
    let mut head = Head::new();
    let limits = Limits::default();
    let mut sum = 0;
    for _ in 0..rounds {
        sum += head.parse(black_box(bytes), &limits)?.context("the head is complete")? as u64;
    }
    Ok(sum)
}
