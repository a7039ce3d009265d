//! `mod_authz_host`: clients by their address (`Require ip`, `Require local`).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A range of addresses, as `Require ip` names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subnet {
    /// Of IPv4: its bits under the mask. The mask need not be of one piece, as in Apache.
    V4 {
        /// The address; what the mask leaves out is 0.
        network: u32,
        /// The mask.
        mask: u32,
    },
    /// Of IPv6.
    V6 {
        /// The address; what the mask leaves out is 0.
        network: u128,
        /// The mask.
        mask: u128,
    },
}

impl Subnet {
    /// Reads an address, `10.1` for all that begin so, `10.1.0.0/16`, `10.1.0.0/255.255.0.0` or `2001:db8::/32`.
    ///
    /// # Errors
    /// In Apache's words.
    pub fn parse(text: &str) -> Result<Subnet, String> {
        let wrong = |what: &str| Err(format!("ip address '{text}' appears to be invalid{what}"));
        let (address, mask) = match text.split_once('/') {
            Some((address, mask)) => (address, Some(mask)),
            None => (text, None),
        };
        let like_v4 = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
        if !address.contains(':') && !like_v4(address) {
            return wrong("");
        }
        let abbreviated = if mask.is_none() { beginning(address) } else { None };
        let subnet = match (abbreviated, address.parse()) {
            (Some(subnet), _) => Some(subnet),
            (None, Ok(IpAddr::V4(address))) => {
                mask_v4(mask).map(|mask| Subnet::V4 { network: address.to_bits() & mask, mask })
            }
            (None, Ok(IpAddr::V6(address))) if address.to_ipv4_mapped().is_none() => {
                mask_v6(mask).map(|mask| Subnet::V6 { network: address.to_bits() & mask, mask })
            }
            (None, _) => return wrong(": The specified IP address is invalid."),
        };
        subnet.map_or_else(|| wrong(": The specified network mask is invalid."), Ok)
    }

    /// Whether an address is in it.
    pub fn contains(&self, address: IpAddr) -> bool {
        match (*self, address) {
            (Subnet::V4 { network, mask }, IpAddr::V4(address)) => address.to_bits() & mask == network,
            (Subnet::V6 { network, mask }, IpAddr::V6(address)) => address.to_bits() & mask == network,
            _ => false,
        }
    }
}

/// `10`, `10.1` or `10.1.2`, with or without a dot at the end.
fn beginning(text: &str) -> Option<Subnet> {
    let octets = text.strip_suffix('.').unwrap_or(text).split('.');
    let (mut network, mut count) = (0u32, 0);
    for octet in octets {
        network = network << 8 | octet.parse::<u32>().ok().filter(|octet| *octet <= 255)?;
        count += 1;
        if count > 3 {
            return None;
        }
    }
    let left_out = 32 - 8 * count;
    Some(Subnet::V4 { network: network << left_out, mask: u32::MAX << left_out })
}

fn mask_v4(mask: Option<&str>) -> Option<u32> {
    let Some(text) = mask else { return Some(u32::MAX) };
    match text.parse() {
        Ok(bits @ 1..=32u32) => Some(u32::MAX << (32 - bits)),
        Ok(_) => None,
        Err(_) => text.parse::<Ipv4Addr>().ok().map(Ipv4Addr::to_bits),
    }
}

fn mask_v6(mask: Option<&str>) -> Option<u128> {
    let Some(text) = mask else { return Some(u128::MAX) };
    text.parse().ok().filter(|bits| (1..=128u32).contains(bits)).map(|bits| u128::MAX << (128 - bits))
}

/// Whether a client is on this machine by its address: 127.0.0.0/8 or ::1.
pub(crate) fn is_local(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_loopback(),
        IpAddr::V6(address) => address == Ipv6Addr::LOCALHOST,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_in_their_ranges() {
        let check = |range: &str, inside: &[&str], outside: &[&str]| {
            let subnet = Subnet::parse(range).unwrap();
            for (addresses, expected) in [(inside, true), (outside, false)] {
                for address in addresses {
                    assert_eq!(subnet.contains(address.parse().unwrap()), expected, "{range} and {address}");
                }
            }
        };
        check("10.1.2.3", &["10.1.2.3"], &["10.1.2.4", "::1", "::ffff:10.1.2.3"]);
        check("10", &["10.0.0.0", "10.255.255.255"], &["11.0.0.0", "9.255.255.255"]);
        check("10.1", &["10.1.0.1"], &["10.2.0.1"]);
        check("10.1.2.", &["10.1.2.200"], &["10.1.3.200"]);
        check("10.1.0.0/16", &["10.1.255.1"], &["10.2.0.0"]);
        check("10.1.2.3/8", &["10.200.0.1"], &["11.1.2.3"]);
        check("10.1.0.0/255.255.0.0", &["10.1.255.1"], &["10.2.0.0"]);
        check("10.0.3.0/255.0.255.0", &["10.7.3.9"], &["10.7.4.9"]);
        check("192.0.2.1/32", &["192.0.2.1"], &["192.0.2.2"]);
        check("128.0.0.0/1", &["255.0.0.1"], &["127.0.0.1"]);
        check("2001:db8::/32", &["2001:db8:ffff::1"], &["2001:db9::1", "32.1.13.184"]);
        check("::1", &["::1"], &["::2"]);
        check("8000::/1", &["ffff::"], &["7fff::"]);
        check("::1/128", &["::1"], &["::"]);
    }

    #[test]
    fn what_is_no_range_is_refused_in_apaches_words() {
        let check = |text: &str, why: &str| {
            assert_eq!(Subnet::parse(text), Err(format!("ip address '{text}' appears to be invalid{why}")));
        };
        for text in ["a", "", "/16", "example.org", "10.1.2.x", "-1"] {
            check(text, "");
        }
        for text in
            ["256.1.1.1", "256", "10..1", "10.1.2.3.4", "10.1/16", ".", "a::b::c", "fe80:", "::ffff:127.0.0.1", "::x"]
        {
            check(text, ": The specified IP address is invalid.");
        }
        for text in
            ["10.1.2.3/33", "10.0.0.0/0", "10.0.0.0/", "10.0.0.0/x", "10.0.0.0/8x", "::1/129", "::1/255.0.0.0", "::/0"]
        {
            check(text, ": The specified network mask is invalid.");
        }
    }
}
