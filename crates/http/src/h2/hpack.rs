//! Field blocks taken apart (RFC 7541).

use std::fmt;

use super::dynamic_table::{COPIES_MAX, Table};
use super::huffman;
use super::static_table::FIELDS;

/// Bytes of all fields of a block at most, counted as SETTINGS_MAX_HEADER_LIST_SIZE does (RFC 9113, section 6.5.2).
pub const LIST_BYTES_MAX: usize = 64 * 1024;
/// What a field counts besides its bytes.
const FIELD_OVERHEAD: usize = 32;

/// Why a field block cannot be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldError {
    /// It ends in the middle of a field.
    Truncated,
    /// It names an entry that no table has.
    Index,
    /// A number is beyond any use.
    Number,
    /// A string is no string of the Huffman code.
    Huffman,
    /// The table is to be larger than was allowed, or that is said behind a field.
    TableSize,
    /// The fields are longer than [`LIST_BYTES_MAX`].
    TooLong,
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            FieldError::Truncated => "a field block ends in the middle of a field",
            FieldError::Index => "a field block names an entry that is in no table",
            FieldError::Number => "a field block has a number that is too large",
            FieldError::Huffman => "a field block has a string that is none of the Huffman code",
            FieldError::TableSize => "a field block makes the dynamic table larger than allowed",
            FieldError::TooLong => "a field block has more than 64 KiB of fields",
        })
    }
}

impl std::error::Error for FieldError {}

/// What one direction of a connection remembers of its field blocks.
#[derive(Debug)]
pub struct Decoder {
    table: Table,
    /// The size of the table that our settings allow.
    size_max: usize,
    /// The field being read.
    text: Vec<u8>,
    last: Last,
}

/// The last block, and what the same bytes would mean once more.
#[derive(Debug, Default)]
struct Last {
    block: Vec<u8>,
    /// So many fields were added to the table; `None`: it means something else now.
    inserted: Option<usize>,
}

/// What a block did, as far as it matters for meaning the same again.
#[derive(Default)]
struct Traits {
    inserted: usize,
    uses_table: bool,
    resizes: bool,
}

impl Decoder {
    /// For a peer that was allowed a dynamic table of this size (SETTINGS_HEADER_TABLE_SIZE; 4,096 where nothing is said).
    pub fn new(size_max: usize) -> Decoder {
        Decoder { table: Table::new(size_max), size_max, text: Vec::new(), last: Last::default() }
    }

    /// Takes a block apart, and tells each field's name and value in order.
    ///
    /// # Errors
    /// [`FieldError`], after which the tables of both sides may differ: the connection is of no use any more.
    pub fn decode(&mut self, block: &[u8], mut field: impl FnMut(&[u8], &[u8])) -> Result<(), FieldError> {
        self.last.inserted = None;
        let mut traits = Traits::default();
        let (mut rest, mut length) = (block, 0);
        let mut fields = 0;
        while let [first, ..] = *rest {
            let size = match first {
                0x80.. => {
                    let index = integer(&mut rest, 7)?;
                    traits.uses_table |= index > FIELDS.len();
                    let (name, value) = entry(&self.table, index)?;
                    field(name, value);
                    name.len() + value.len()
                }
                0x20..=0x3f if fields > 0 => return Err(FieldError::TableSize),
                0x20..=0x3f => {
                    let size = integer(&mut rest, 5)?;
                    if size > self.size_max {
                        return Err(FieldError::TableSize);
                    }
                    self.table.resize(size);
                    traits.resizes = true;
                    continue;
                }
                _ => {
                    let inserts = first & 0x40 != 0;
                    let index = integer(&mut rest, if inserts { 6 } else { 4 })?;
                    traits.uses_table |= index > FIELDS.len();
                    let name = self.literal(&mut rest, index)?;
                    field(&self.text[..name], &self.text[name..]);
                    if inserts {
                        traits.inserted += 1;
                        self.table.insert(&self.text, name);
                    }
                    self.text.len()
                }
            };
            fields += 1;
            length += size + FIELD_OVERHEAD;
            if length > LIST_BYTES_MAX {
                return Err(FieldError::TooLong);
            }
        }
        self.remember(block, &traits);
        Ok(())
    }

    /// Whether `block` has the bytes of the last one and means the same: then it has been taken in, and its fields are those told last.
    ///
    /// Servers repeat the head of an answer to the byte, and comparing it costs a tenth of decoding it.
    #[inline]
    pub fn repeats(&mut self, block: &[u8]) -> bool {
        let Some(inserted) = self.last.inserted else { return false };
        if self.last.block != block {
            return false;
        }
        if inserted > 0 {
            self.table.insert_again(inserted);
        }
        true
    }

    fn remember(&mut self, block: &[u8], traits: &Traits) {
        let Traits { inserted, uses_table, resizes } = *traits;
        // What it found in the table has moved if it added something. What it added is copied, so it must be there still.
        let same = !resizes && (inserted == 0 || !uses_table && inserted <= self.table.len().min(COPIES_MAX));
        if same {
            self.last.block.clear();
            self.last.block.extend_from_slice(block);
            self.last.inserted = Some(inserted);
        }
    }

    /// Reads a literal field into `text`, its name from an entry or from the block; returns the name's length.
    fn literal(&mut self, rest: &mut &[u8], index: usize) -> Result<usize, FieldError> {
        self.text.clear();
        if index == 0 {
            string(rest, &mut self.text)?;
        } else {
            let (name, _) = entry(&self.table, index)?;
            self.text.extend_from_slice(name);
        }
        let name = self.text.len();
        string(rest, &mut self.text)?;
        Ok(name)
    }
}

/// An entry of either table.
fn entry(table: &Table, index: usize) -> Result<(&[u8], &[u8]), FieldError> {
    let place = index.checked_sub(1).ok_or(FieldError::Index)?;
    match FIELDS.get(place) {
        Some((name, value)) => Ok((name.as_bytes(), value.as_bytes())),
        None => table.get(place - FIELDS.len()).ok_or(FieldError::Index),
    }
}

/// A number whose first bits are the last `bits` of the first byte (section 5.1).
fn integer(rest: &mut &[u8], bits: u32) -> Result<usize, FieldError> {
    let (first, mut tail) = rest.split_first().ok_or(FieldError::Truncated)?;
    let prefix = (1 << bits) - 1;
    let mut number = usize::from(first & prefix);
    if number == usize::from(prefix) {
        // Four more bytes say up to 2^28, which is beyond any table and any string.
        for place in 0.. {
            if place == 4 {
                return Err(FieldError::Number);
            }
            let (byte, after) = tail.split_first().ok_or(FieldError::Truncated)?;
            tail = after;
            number += usize::from(byte & 0x7f) << (7 * place);
            if byte & 0x80 == 0 {
                break;
            }
        }
    }
    *rest = tail;
    Ok(number)
}

/// A string (section 5.2), added to `out`.
fn string(rest: &mut &[u8], out: &mut Vec<u8>) -> Result<(), FieldError> {
    let huffman = rest.first().ok_or(FieldError::Truncated)? & 0x80 != 0;
    let length = integer(rest, 7)?;
    let (bytes, after) = rest.split_at_checked(length).ok_or(FieldError::Truncated)?;
    *rest = after;
    if huffman {
        return if huffman::decode(bytes, out) { Ok(()) } else { Err(FieldError::Huffman) };
    }
    out.extend_from_slice(bytes);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(hex: &str) -> Vec<u8> {
        let digits: Vec<u8> = hex.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
        let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
        digits.chunks(2).map(byte).collect()
    }

    fn decode(decoder: &mut Decoder, block: &[u8]) -> Result<String, FieldError> {
        let mut text = String::new();
        decoder.decode(block, |name, value| {
            text += &format!("{}: {}\n", String::from_utf8_lossy(name), String::from_utf8_lossy(value));
        })?;
        Ok(text)
    }

    /// The table as the RFC's examples show it.
    fn table(decoder: &Decoder) -> String {
        let shown = |index| {
            let (name, value) = decoder.table.get(index).unwrap();
            format!("{}: {}\n", String::from_utf8_lossy(name), String::from_utf8_lossy(value))
        };
        (0..decoder.table.len()).map(shown).collect()
    }

    /// Blocks of one connection, each with its fields and the table after it.
    fn check(size: usize, blocks: &[(&str, &str, &str)]) {
        let mut decoder = Decoder::new(size);
        for (block, fields, after) in blocks {
            assert_eq!(decode(&mut decoder, &bytes(block)).as_deref(), Ok(*fields), "{block}");
            assert_eq!(table(&decoder), *after, "{block}");
        }
    }

    #[test]
    fn appendix_c2_single_fields() {
        let field = "custom-key: custom-header\n";
        check(4096, &[("400a 6375 7374 6f6d 2d6b 6579 0d63 7573 746f 6d2d 6865 6164 6572", field, field)]);
        check(4096, &[("040c 2f73 616d 706c 652f 7061 7468", ":path: /sample/path\n", "")]);
        check(4096, &[("1008 7061 7373 776f 7264 0673 6563 7265 74", "password: secret\n", "")]);
        check(4096, &[("82", ":method: GET\n", "")]);
    }

    const FIRST: &str = ":method: GET\n:scheme: http\n:path: /\n:authority: www.example.com\n";
    const SECOND: &str =
        ":method: GET\n:scheme: http\n:path: /\n:authority: www.example.com\ncache-control: no-cache\n";
    const THIRD: &str =
        ":method: GET\n:scheme: https\n:path: /index.html\n:authority: www.example.com\ncustom-key: custom-value\n";
    const TABLES: [&str; 3] = [
        ":authority: www.example.com\n",
        "cache-control: no-cache\n:authority: www.example.com\n",
        "custom-key: custom-value\ncache-control: no-cache\n:authority: www.example.com\n",
    ];

    #[test]
    fn appendix_c3_requests() {
        check(
            4096,
            &[
                ("8286 8441 0f77 7777 2e65 7861 6d70 6c65 2e63 6f6d", FIRST, TABLES[0]),
                ("8286 84be 5808 6e6f 2d63 6163 6865", SECOND, TABLES[1]),
                ("8287 85bf 400a 6375 7374 6f6d 2d6b 6579 0c63 7573 746f 6d2d 7661 6c75 65", THIRD, TABLES[2]),
            ],
        );
    }

    #[test]
    fn appendix_c4_requests_in_huffman_code() {
        check(
            4096,
            &[
                ("8286 8441 8cf1 e3c2 e5f2 3a6b a0ab 90f4 ff", FIRST, TABLES[0]),
                ("8286 84be 5886 a8eb 1064 9cbf", SECOND, TABLES[1]),
                ("8287 85bf 4088 25a8 49e9 5ba9 7d7f 8925 a849 e95b b8e8 b4bf", THIRD, TABLES[2]),
            ],
        );
    }

    const ANSWERS: [&str; 3] = [
        ":status: 302\ncache-control: private\ndate: Mon, 21 Oct 2013 20:13:21 GMT\nlocation: https://www.example.com\n",
        ":status: 307\ncache-control: private\ndate: Mon, 21 Oct 2013 20:13:21 GMT\nlocation: https://www.example.com\n",
        ":status: 200\ncache-control: private\ndate: Mon, 21 Oct 2013 20:13:22 GMT\nlocation: https://www.example.com\n\
         content-encoding: gzip\nset-cookie: foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1\n",
    ];
    const ANSWER_TABLES: [&str; 3] = [
        "location: https://www.example.com\ndate: Mon, 21 Oct 2013 20:13:21 GMT\ncache-control: private\n:status: 302\n",
        ":status: 307\nlocation: https://www.example.com\ndate: Mon, 21 Oct 2013 20:13:21 GMT\ncache-control: private\n",
        "set-cookie: foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1\ncontent-encoding: gzip\n\
         date: Mon, 21 Oct 2013 20:13:22 GMT\n",
    ];

    #[test]
    fn appendix_c5_answers_with_a_small_table() {
        check(
            256,
            &[
                (
                    "4803 3330 3258 0770 7269 7661 7465 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133 2032 303a 3133 \
                     3a32 3120 474d 546e 1768 7474 7073 3a2f 2f77 7777 2e65 7861 6d70 6c65 2e63 6f6d",
                    ANSWERS[0],
                    ANSWER_TABLES[0],
                ),
                ("4803 3330 37c1 c0bf", ANSWERS[1], ANSWER_TABLES[1]),
                (
                    "88c1 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133 2032 303a 3133 3a32 3220 474d 54c0 5a04 677a \
                     6970 7738 666f 6f3d 4153 444a 4b48 514b 425a 584f 5157 454f 5049 5541 5851 5745 4f49 553b 206d \
                     6178 2d61 6765 3d33 3630 303b 2076 6572 7369 6f6e 3d31",
                    ANSWERS[2],
                    ANSWER_TABLES[2],
                ),
            ],
        );
    }

    #[test]
    fn appendix_c6_answers_with_a_small_table_in_huffman_code() {
        check(
            256,
            &[
                (
                    "4882 6402 5885 aec3 771a 4b61 96d0 7abe 9410 54d4 44a8 2005 9504 0b81 66e0 82a6 2d1b ff6e 919d \
                     29ad 1718 63c7 8f0b 97c8 e9ae 82ae 43d3",
                    ANSWERS[0],
                    ANSWER_TABLES[0],
                ),
                ("4883 640e ffc1 c0bf", ANSWERS[1], ANSWER_TABLES[1]),
                (
                    "88c1 6196 d07a be94 1054 d444 a820 0595 040b 8166 e084 a62d 1bff c05a 839b d9ab 77ad 94e7 821d \
                     d7f2 e6c7 b335 dfdf cd5b 3960 d5af 2708 7f36 72c1 ab27 0fb5 291f 9587 3160 65c0 03ed 4ee5 b106 \
                     3d50 07",
                    ANSWERS[2],
                    ANSWER_TABLES[2],
                ),
            ],
        );
    }

    #[test]
    fn wrong_blocks_are_refused() {
        for (block, expected) in [
            ("80", FieldError::Index),
            ("be", FieldError::Index),
            ("7f00 0161", FieldError::Index),
            ("40", FieldError::Truncated),
            ("0005 6162", FieldError::Truncated),
            ("ff", FieldError::Truncated),
            ("ff80 8080 8001", FieldError::Number),
            ("0081 00 00", FieldError::Huffman),
            ("3fe2 1f", FieldError::TableSize),
            ("8220", FieldError::TableSize),
        ] {
            assert_eq!(decode(&mut Decoder::new(4096), &bytes(block)), Err(expected), "{block}");
        }
        // A few bytes that stand for many.
        let mut decoder = Decoder::new(4096);
        let mut block = bytes("4001 61 7f 810e");
        block.extend([b'x'; 1920]);
        block.extend([0xbe; 100]);
        assert_eq!(decode(&mut decoder, &block), Err(FieldError::TooLong));
    }

    /// What is known again is what would have been decoded again.
    #[test]
    fn a_block_repeats_only_while_it_means_the_same() {
        let check = |what: &str, blocks: &[(&str, bool)], size: usize| {
            let (mut quick, mut plain) = (Decoder::new(size), Decoder::new(size));
            let mut last = String::new();
            for (place, (block, repeats)) in blocks.iter().enumerate() {
                let block = bytes(block);
                let expected = decode(&mut plain, &block).unwrap();
                assert_eq!(quick.repeats(&block), *repeats, "{what}: block {place}");
                if !repeats {
                    last = decode(&mut quick, &block).unwrap();
                }
                assert_eq!(last, expected, "{what}: block {place}");
                assert_eq!(table(&quick), table(&plain), "{what}: block {place}");
            }
        };
        let literal = "8840 0161 0162";
        check("static and literals", &[("88", false), ("88", true), ("89", false), ("88", false)], 4096);
        check("it adds the same again", &[(literal, false), (literal, true), (literal, true)], 4096);
        check("it adds more than there is room for", &[(literal, false), (literal, true), (literal, true)], 40);
        check("it adds what is too large", &[(literal, false), (literal, false)], 30);
        let with_index = "be40 0161 0162";
        check("the index moves", &[(literal, false), (with_index, false), (with_index, false)], 4096);
        check("the index stays", &[(literal, false), ("be", false), ("be", true), (literal, false)], 4096);
        check("the table shrinks", &[(literal, false), ("2088", false), ("2088", false)], 4096);
    }
}
