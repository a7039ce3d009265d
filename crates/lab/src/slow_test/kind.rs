//! The ways in which a client can be slow, as data: what each sends first, and what it does once a second from then on.

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

/// A kind of slow client.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Half a request head, then a byte of it a second
    SlowHead,
    /// A POST whose body comes at a byte a second
    SlowBody,
    /// Asks for 20 MB and reads 4 kB a second (the server's sendfile is on)
    SlowRead,
    /// The same with the server's sendfile off
    SlowReadNosendfile,
    /// Got an answer, keeps the connection and says nothing more
    Idle,
    /// Connects and says nothing
    Silent,
    /// Is refused, and goes on sending after the server has closed
    Linger,
}

/// What a kind does once a second.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Habit {
    /// Sends one byte.
    Sends,
    /// Reads a little, and never else.
    Reads,
    /// Nothing.
    Waits,
}

/// The path of the page normal requests ask for.
pub const PAGE: &str = "/index.html";
/// The path of the large file.
pub const LARGE: &str = "/large.bin";
/// Bytes of the large file.
pub const LARGE_BYTES: usize = 20_000_000;

impl Kind {
    /// All of them, in the order of the table.
    pub const ALL: [Kind; 7] = [
        Kind::SlowHead,
        Kind::SlowBody,
        Kind::SlowRead,
        Kind::SlowReadNosendfile,
        Kind::Idle,
        Kind::Silent,
        Kind::Linger,
    ];

    /// Its name on the command line and in the table.
    pub fn name(self) -> &'static str {
        match self {
            Kind::SlowHead => "slow-head",
            Kind::SlowBody => "slow-body",
            Kind::SlowRead => "slow-read",
            Kind::SlowReadNosendfile => "slow-read-nosendfile",
            Kind::Idle => "idle",
            Kind::Silent => "silent",
            Kind::Linger => "linger",
        }
    }

    /// What it sends when the connection stands.
    pub fn greeting(self) -> String {
        let host = "Host: 127.0.0.1\r\n";
        match self {
            Kind::SlowHead => format!("GET {PAGE} HTTP/1.1\r\n{host}X-Slow: "),
            Kind::SlowBody => format!("POST {PAGE} HTTP/1.1\r\n{host}Content-Length: 100000\r\n\r\n"),
            Kind::SlowRead | Kind::SlowReadNosendfile => format!("GET {LARGE} HTTP/1.1\r\n{host}\r\n"),
            Kind::Idle => format!("GET {PAGE} HTTP/1.1\r\n{host}\r\n"),
            Kind::Silent => String::new(),
            // A field without a colon is refused, and more follows already: the server must linger, or its answer is lost.
            Kind::Linger => format!("GET {PAGE} HTTP/1.1\r\n{host}No colon\r\n\r\nand more"),
        }
    }

    /// What it does once a second.
    pub fn habit(self) -> Habit {
        match self {
            Kind::SlowHead | Kind::SlowBody | Kind::Linger => Habit::Sends,
            Kind::SlowRead | Kind::SlowReadNosendfile => Habit::Reads,
            Kind::Idle | Kind::Silent => Habit::Waits,
        }
    }

    /// Whether it has arrived only with an answer, and not with its connection.
    pub fn waits_for_answer(self) -> bool {
        matches!(self, Kind::Idle | Kind::Linger)
    }

    /// Whether it goes on after the server has closed its side.
    pub fn outstays(self) -> bool {
        self == Kind::Linger
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_command_line() {
        for kind in Kind::ALL {
            assert_eq!(kind.to_possible_value().expect("not skipped").get_name(), kind.name());
            assert_eq!(serde_json::to_string(&kind).expect("JSON"), format!("\"{}\"", kind.name()));
        }
    }

    #[test]
    fn a_greeting_is_finished_or_not_as_its_kind_has_it() {
        for kind in Kind::ALL {
            let whole = kind.greeting().contains("\r\n\r\n");
            assert_eq!(whole, !matches!(kind, Kind::SlowHead | Kind::Silent), "{kind:?}");
        }
    }
}
