//! What a client reads: answers taken apart by their own heads, with the strictness of somebody who has to find where the
//! next one begins.

use crate::conversation::Conversation;

/// What a client is told that waits before it sends a body.
pub const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// One answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// All of it.
    pub bytes: Vec<u8>,
    pub status: u16,
    /// Whether it says that the connection ends with it.
    pub closes: bool,
    pub body: Vec<u8>,
}

/// Reads every answer. Invitations to go on (100) are left out: whether one is sent depends on what has arrived.
///
/// # Errors
/// What is wrong with them.
pub fn read(said: &[u8], conversation: &Conversation) -> Result<Vec<Answer>, String> {
    let (answers, rest) = read_first(said, conversation);
    if rest.is_empty() { Ok(answers) } else { Err(format!("{} bytes follow that are no answer", rest.len())) }
}

/// Reads as many whole answers as there are, and gives what is left.
pub fn read_first(said: &[u8], conversation: &Conversation) -> (Vec<Answer>, Vec<u8>) {
    let (mut answers, mut rest) = (Vec::new(), said);
    loop {
        while let Some(behind) = rest.strip_prefix(CONTINUE) {
            rest = behind;
        }
        let Some((answer, behind)) = read_one(rest, conversation.is_head(answers.len())) else {
            return (answers, rest.to_vec());
        };
        answers.push(answer);
        rest = behind;
    }
}

fn read_one(said: &[u8], to_head: bool) -> Option<(Answer, &[u8])> {
    let end = said.windows(4).position(|window| window == b"\r\n\r\n")? + 4;
    let head = std::str::from_utf8(&said[..end]).ok()?;
    let field = |name: &str| {
        let mut values = head.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
        // A field that comes twice is understood differently by different readers.
        let value = values.next();
        values.next().is_none().then_some(value).flatten()
    };
    let status = head.strip_prefix("HTTP/1.1 ")?.split(' ').next()?.parse().ok()?;
    // 408 has a body where the method was not known yet.
    let without_body = status == 304 || to_head && (status != 408 || said.len() == end);
    let length = if without_body { 0 } else { field("Content-Length")?.parse().ok()? };
    let bytes = said.get(..end + length)?;
    let closes = field("Connection") == Some("close");
    let answer = Answer { bytes: bytes.to_vec(), status, closes, body: bytes[end..].to_vec() };
    Some((answer, &said[end + length..]))
}
