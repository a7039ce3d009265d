//! The Huffman code of strings in field blocks (RFC 7541, section 5.2 and appendix B).
//!
//! The code is canonical: codes of one length follow each other in the order of their symbols, and longer ones follow shorter ones. So
//! the lengths say everything, and the tables are made of them when this is compiled.

/// The length in bits of each byte's code, and last that of the end of a string, which may not occur.
#[rustfmt::skip]
const LENGTHS: [u8; SYMBOLS] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 30, 28,
    28, 28, 28, 28, 28, 28, 28, 28, 6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6,
    5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10, 13, 6, 7, 7, 7, 7, 7, 7,
    7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6,
    15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5, 6, 7, 6, 5, 5, 6, 7, 7,
    7, 7, 7, 15, 11, 14, 13, 28, 20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23,
    24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24, 22, 21, 20, 22, 22, 23, 23, 21,
    23, 22, 22, 24, 21, 22, 23, 23, 21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23,
    26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25, 19, 21, 26, 27, 27, 26, 27, 24,
    21, 21, 26, 26, 28, 27, 27, 27, 20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23,
    26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26, 30,
];
/// Bytes, and the end of a string.
const SYMBOLS: usize = 257;
/// The longest code.
const LENGTH_MAX: usize = 30;
/// Codes up to this length, which nearly all of a string's are, are found by one look.
const SHORT: usize = 8;

/// Codes of one length: the first of them, how many there are, and the place of the first one's symbol in [`TABLES`]' `symbols`.
#[derive(Clone, Copy)]
struct Group {
    first: u32,
    count: u32,
    place: u32,
}

struct Tables {
    groups: [Group; LENGTH_MAX + 1],
    symbols: [u16; SYMBOLS],
    /// By the next eight bits: the symbol and its length; 0 where the code is longer.
    short: [(u8, u8); 1 << SHORT],
}

static TABLES: Tables = tables();

const fn tables() -> Tables {
    let mut groups = [Group { first: 0, count: 0, place: 0 }; LENGTH_MAX + 1];
    let mut symbols = [0; SYMBOLS];
    let mut short = [(0, 0); 1 << SHORT];
    let (mut code, mut place, mut length) = (0u32, 0, 1);
    while length <= LENGTH_MAX {
        code <<= 1;
        groups[length] = Group { first: code, count: 0, place: place as u32 };
        let mut symbol = 0;
        while symbol < SYMBOLS {
            if LENGTHS[symbol] as usize == length {
                symbols[place] = symbol as u16;
                if length <= SHORT {
                    let mut at = (code as usize) << (SHORT - length);
                    let end = at + (1 << (SHORT - length));
                    while at < end {
                        short[at] = (symbol as u8, length as u8);
                        at += 1;
                    }
                }
                code += 1;
                place += 1;
                groups[length].count += 1;
            }
            symbol += 1;
        }
        length += 1;
    }
    Tables { groups, symbols, short }
}

/// Decodes a string, adding it to `out`; `false`: it is no such string. Eight bits become two bytes at most.
#[must_use]
pub fn decode(encoded: &[u8], out: &mut Vec<u8>) -> bool {
    let mut rest = encoded.iter();
    // The next `bits` bits of the string, from the highest on; zeros follow.
    let (mut window, mut bits) = (0u64, 0u32);
    loop {
        while bits <= 56
            && let Some(byte) = rest.next()
        {
            window |= u64::from(*byte) << (56 - bits);
            bits += 8;
        }
        if bits == 0 {
            return true;
        }
        let found = match TABLES.short[(window >> (64 - SHORT)) as usize] {
            (_, 0) => long(window),
            short => Some(short),
        };
        match found {
            Some((symbol, length)) if u32::from(length) <= bits => {
                out.push(symbol);
                window <<= length;
                bits -= u32::from(length);
            }
            // The padding is shorter than a byte, and made of the first bits of the end of a string: ones.
            _ => return bits < 8 && window >> (64 - bits) == (1 << bits) - 1,
        }
    }
}

/// The byte whose code, longer than [`SHORT`], begins the window; `None`: none, as the end of a string is none.
fn long(window: u64) -> Option<(u8, u8)> {
    for length in SHORT + 1..=LENGTH_MAX {
        let code = (window >> (64 - length)) as u32;
        let group = TABLES.groups[length];
        if code.wrapping_sub(group.first) < group.count {
            let symbol = TABLES.symbols[(group.place + code - group.first) as usize];
            return Some((u8::try_from(symbol).ok()?, length as u8));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The code of a symbol, and its length.
    fn code(symbol: u16) -> (u32, usize) {
        let length = usize::from(LENGTHS[usize::from(symbol)]);
        let group = TABLES.groups[length];
        let symbols = &TABLES.symbols[group.place as usize..];
        (group.first + symbols.iter().position(|of| *of == symbol).expect("every symbol") as u32, length)
    }

    fn encode(symbols: impl IntoIterator<Item = u16>) -> Vec<u8> {
        let mut bits: Vec<bool> = Vec::new();
        for symbol in symbols {
            let (code, length) = code(symbol);
            bits.extend((0..length).rev().map(|bit| code >> bit & 1 == 1));
        }
        bits.chunks(8)
            .map(|byte| (0..8).fold(0, |sum, bit| sum << 1 | u8::from(byte.get(bit).copied().unwrap_or(true))))
            .collect()
    }

    #[test]
    fn codes_are_those_of_appendix_b() {
        for (symbol, expected, length) in [
            (0, 0x1ff8, 13),
            (u16::from(b' '), 0x14, 6),
            (u16::from(b'0'), 0x0, 5),
            (u16::from(b'&'), 0xf8, 8),
            (u16::from(b'Z'), 0xfd, 8),
            (u16::from(b'~'), 0x1ffd, 13),
            (128, 0xfffe6, 20),
            (203, 0x7ff_ffde, 27),
            (249, 0xfff_fffe, 28),
            (10, 0x3fff_fffc, 30),
            (256, 0x3fff_ffff, 30),
        ] {
            assert_eq!(code(symbol), (expected, length), "symbol {symbol}");
        }
    }

    #[test]
    fn strings_come_back() {
        let check = |text: &[u8]| {
            let encoded = encode(text.iter().copied().map(u16::from));
            let mut decoded = Vec::new();
            assert!(decode(&encoded, &mut decoded), "{text:?}");
            assert_eq!(decoded, text);
        };
        check(b"");
        check(b"www.example.com");
        check(b"Mon, 21 Oct 2013 20:13:21 GMT");
        let all: Vec<u8> = (0..=255).collect();
        check(&all);
        all.iter().for_each(|byte| check(&[*byte]));
        all.iter().for_each(|byte| check(&[b'a', *byte, *byte, b'X']));
    }

    #[test]
    fn what_is_no_string_is_refused() {
        for wrong in [
            // A whole byte of padding, also behind a symbol that ends with a byte; padding with a zero in it.
            &[0xff][..],
            &[0xf8, 0xff],
            &[0x00],
            &[0x1e],
            // The end of a string, in full.
            &[0xff, 0xff, 0xff, 0xff],
            // A long code that is cut off.
            &[0xff, 0xfe],
        ] {
            assert!(!decode(wrong, &mut Vec::new()), "{wrong:x?}");
        }
    }
}
