//! Fields as a field block has them that knows nothing of the connection: indexed where the static table has them, literal otherwise,
//! never added to the dynamic table and never in the Huffman code (RFC 7541, sections 6.1 and 6.2.2).

use super::static_table::FIELDS;

/// Adds a field to a block. The name is to be in lower case (RFC 9113, section 8.2.1).
pub fn encode_field(block: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    let place = |found: Option<usize>| found.map(|place| place + 1);
    if let Some(index) =
        place(FIELDS.iter().position(|field| field.0.as_bytes() == name && field.1.as_bytes() == value))
    {
        return integer(block, 0x80, 7, index);
    }
    match place(FIELDS.iter().position(|field| field.0.as_bytes() == name)) {
        Some(index) => integer(block, 0, 4, index),
        None => {
            integer(block, 0, 4, 0);
            string(block, name);
        }
    }
    string(block, value);
}

fn string(block: &mut Vec<u8>, text: &[u8]) {
    integer(block, 0, 7, text.len());
    block.extend_from_slice(text);
}

/// A number in the last `bits` of a byte whose others are `first`, and as many more bytes as it takes (section 5.1).
fn integer(block: &mut Vec<u8>, first: u8, bits: u32, number: usize) {
    let prefix = (1usize << bits) - 1;
    if number < prefix {
        return block.push(first | number as u8);
    }
    block.push(first | prefix as u8);
    let mut rest = number - prefix;
    while rest >= 0x80 {
        block.push(0x80 | (rest & 0x7f) as u8);
        rest >>= 7;
    }
    block.push(rest as u8);
}

#[cfg(test)]
mod tests {
    use super::super::Decoder;
    use super::*;

    #[test]
    fn fields_come_back_and_leave_no_trace() {
        let long = "v".repeat(5000);
        let fields: [(&str, &str); 6] = [
            (":method", "GET"),
            (":path", "/a?b"),
            (":authority", "h:81"),
            ("user-agent", "x"),
            ("x-own", &long),
            ("empty", ""),
        ];
        let mut block = Vec::new();
        fields.iter().for_each(|(name, value)| encode_field(&mut block, name.as_bytes(), value.as_bytes()));
        let mut decoder = Decoder::new(0);
        for _ in 0..2 {
            let mut got = Vec::new();
            let field = |name: &[u8], value: &[u8]| got.push((name.to_vec(), value.to_vec()));
            decoder.decode(&block, field).expect("a block");
            let expected = fields.map(|(name, value)| (name.as_bytes().to_vec(), value.as_bytes().to_vec()));
            assert_eq!(got, expected);
        }
    }

    #[test]
    fn the_shortest_form_is_chosen() {
        let check = |name: &str, value: &str, expected: &[u8]| {
            let mut block = Vec::new();
            encode_field(&mut block, name.as_bytes(), value.as_bytes());
            assert_eq!(block, expected, "{name}: {value}");
        };
        check(":method", "GET", &[0x82]);
        check(":method", "HEAD", b"\x02\x04HEAD");
        check("user-agent", "m", b"\x0f\x2b\x01m");
        check("a", "b", b"\x00\x01a\x01b");
    }
}
