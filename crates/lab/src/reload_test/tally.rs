//! What became of each request, told apart exactly: the classes, their order in every table, and how one is found.

use nix::errno::Errno;
use serde::Serialize;

/// Why a request was not answered rightly. The order is that of the table.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Loss {
    /// Nobody listened (ECONNREFUSED).
    Refused,
    /// The connection was reset (ECONNRESET, EPIPE) during or before its first request.
    ResetFresh,
    /// The connection was reset during a later request.
    ResetReused,
    /// The server closed without a byte of an answer to the connection's first request.
    ClosedFresh,
    /// The server closed without a byte of an answer to a later request.
    ClosedReused,
    /// The answer ended before its stated end.
    CutShort,
    /// No complete answer came in time.
    TimedOut,
    /// Another status, length or content than that of the page, or no HTTP at all.
    Wrong,
}

impl Loss {
    /// Each with the words of the table's row.
    pub const ALL: [(Loss, &str); 8] = [
        (Loss::Refused, "refused"),
        (Loss::ResetFresh, "reset, fresh connection"),
        (Loss::ResetReused, "reset, kept connection"),
        (Loss::ClosedFresh, "closed without an answer, fresh connection"),
        (Loss::ClosedReused, "closed without an answer, kept connection"),
        (Loss::CutShort, "answer cut short"),
        (Loss::TimedOut, "timed out"),
        (Loss::Wrong, "wrong answer"),
    ];

    /// The words of the table's row.
    pub fn words(self) -> &'static str {
        Loss::ALL[self as usize].1
    }
}

/// What the client saw last on a connection whose request has no complete answer.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Seen {
    /// A system call failed.
    Error(Errno),
    /// The stream ended.
    End,
    /// The time was up.
    Deadline,
    /// The answer is complete or cannot go on, and is not the page.
    NotThePage,
}

/// The class of a request that failed. `received` are the bytes of its answer so far.
///
/// # Errors
/// The error itself, where it is the client's machine that failed and not the server (no ports, no descriptors, no memory).
pub fn classify(fresh: bool, received: u64, seen: Seen) -> Result<Loss, Errno> {
    Ok(match seen {
        Seen::Deadline | Seen::Error(Errno::ETIMEDOUT) => Loss::TimedOut,
        Seen::NotThePage => Loss::Wrong,
        Seen::Error(Errno::ECONNREFUSED) => Loss::Refused,
        // Part of an answer came: how the rest was lost matters less than that it was.
        Seen::End | Seen::Error(Errno::ECONNRESET | Errno::EPIPE) if received > 0 => Loss::CutShort,
        Seen::End if fresh => Loss::ClosedFresh,
        Seen::End => Loss::ClosedReused,
        Seen::Error(Errno::ECONNRESET | Errno::EPIPE | Errno::ECONNABORTED | Errno::ENOTCONN) if fresh => {
            Loss::ResetFresh
        }
        Seen::Error(Errno::ECONNRESET | Errno::EPIPE | Errno::ECONNABORTED | Errno::ENOTCONN) => Loss::ResetReused,
        Seen::Error(error) => return Err(error),
    })
}

/// Counts of one kind of client.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize)]
pub struct Counts {
    /// Requests that were answered with the page.
    pub answered: u64,
    /// Those among them on a connection that carried an answer before.
    pub answered_reused: u64,
    /// Connections that ended as HTTP has it: with `Connection: close` in the last answer.
    pub ended_by_answer: u64,
    /// Requests lost, by class, in the order of [`Loss::ALL`].
    pub lost: [u64; Loss::ALL.len()],
    /// Lost requests whose connection the server had visibly closed before they were sent: a client that looks before it
    /// sends would have been spared on this machine, and not across a network.
    pub lost_after_close: u64,
}

impl Counts {
    /// Counts a loss.
    pub fn lose(&mut self, loss: Loss, after_close: bool) {
        self.lost[loss as usize] += 1;
        self.lost_after_close += u64::from(after_close);
    }

    /// Requests lost, of all classes.
    pub fn lost(&self) -> u64 {
        self.lost.iter().sum()
    }

    /// Requests lost of one class.
    pub fn of(&self, loss: Loss) -> u64 {
        self.lost[loss as usize]
    }

    /// Both together.
    pub fn plus(&self, other: &Counts) -> Counts {
        Counts {
            answered: self.answered + other.answered,
            answered_reused: self.answered_reused + other.answered_reused,
            ended_by_answer: self.ended_by_answer + other.ended_by_answer,
            lost: std::array::from_fn(|i| self.lost[i] + other.lost[i]),
            lost_after_close: self.lost_after_close + other.lost_after_close,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes() {
        let error = Seen::Error;
        for (fresh, received, seen, expected) in [
            (true, 0, error(Errno::ECONNREFUSED), Ok(Loss::Refused)),
            (true, 0, error(Errno::ECONNRESET), Ok(Loss::ResetFresh)),
            (true, 0, error(Errno::EPIPE), Ok(Loss::ResetFresh)),
            (false, 0, error(Errno::ECONNRESET), Ok(Loss::ResetReused)),
            (false, 0, error(Errno::EPIPE), Ok(Loss::ResetReused)),
            (false, 7, error(Errno::ECONNRESET), Ok(Loss::CutShort)),
            (true, 0, Seen::End, Ok(Loss::ClosedFresh)),
            (false, 0, Seen::End, Ok(Loss::ClosedReused)),
            (true, 1, Seen::End, Ok(Loss::CutShort)),
            (true, 0, Seen::Deadline, Ok(Loss::TimedOut)),
            (false, 9, Seen::Deadline, Ok(Loss::TimedOut)),
            (true, 0, error(Errno::ETIMEDOUT), Ok(Loss::TimedOut)),
            (true, 99, Seen::NotThePage, Ok(Loss::Wrong)),
            (true, 0, error(Errno::EADDRNOTAVAIL), Err(Errno::EADDRNOTAVAIL)),
            (true, 0, error(Errno::EMFILE), Err(Errno::EMFILE)),
        ] {
            assert_eq!(classify(fresh, received, seen), expected, "{fresh} {received} {seen:?}");
        }
    }

    #[test]
    fn the_table_is_in_the_order_of_the_classes() {
        for (index, (loss, words)) in Loss::ALL.into_iter().enumerate() {
            assert_eq!((loss as usize, loss.words()), (index, words));
        }
    }

    #[test]
    fn counts_add_up() {
        let mut one = Counts { answered: 5, ..Counts::default() };
        one.lose(Loss::Refused, false);
        one.lose(Loss::ClosedReused, true);
        let both = one.plus(&one);
        assert_eq!((both.answered, both.lost(), both.of(Loss::ClosedReused), both.lost_after_close), (10, 4, 2, 2));
    }
}
