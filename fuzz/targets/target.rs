//! Request targets, read in every way that options ask for: a decoded path is safe to join to a folder, and decoding a
//! decoded path's escaped form gives the path back.
#![no_main]

use libfuzzer_sys::fuzz_target;
use manifold_http::{EncodedSlashes, PathOptions, Target, decode_target};

fuzz_target!(|target: &[u8]| {
    for encoded_slashes in [EncodedSlashes::Refuse, EncodedSlashes::Decode, EncodedSlashes::Keep] {
        for merge_slashes in [true, false] {
            check(target, &PathOptions { encoded_slashes, merge_slashes });
        }
    }
});

fn check(target: &[u8], options: &PathOptions) {
    let mut path = b"left over".to_vec();
    match decode_target(target, options, &mut path) {
        Err(error) => assert!(matches!(error.status().0, 400 | 404)),
        Ok(Target::Asterisk) => assert!(target == b"*" && path.is_empty()),
        Ok(Target::Origin { query, authority }) => {
            assert!(path.starts_with(b"/") && !path.contains(&0));
            assert!(!options.merge_slashes || !path.windows(2).any(|pair| pair == b"//"));
            assert!(path.split(|&b| b == b'/').all(|segment| segment != b"." && segment != b".."));
            assert!(path.len() <= target.len() + 1);
            for range in [query, authority].into_iter().flatten() {
                assert!(target.get(range).is_some());
            }
            let mut again = Vec::new();
            assert!(decode_target(&escape(&path), options, &mut again).is_ok());
            assert_eq!(again, path);
        }
    }
}

fn escape(path: &[u8]) -> Vec<u8> {
    path.iter().flat_map(|&b| if b == b'/' { vec![b] } else { format!("%{b:02x}").into_bytes() }).collect()
}
