//! What an error of the system says, as ab and siege write it: without its number.

use std::io;

/// `No such file or directory`.
pub fn plain(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or(&text).to_owned()
}
