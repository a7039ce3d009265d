//! A distribution as it stands in a report: complete, so that runs of several machines can be merged to the last count.

use std::io::Read;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use flate2::read::ZlibDecoder;
use hdrhistogram::Histogram as Hdr;
use hdrhistogram::serialization::{Deserializer, Serializer, V2DeflateSerializer};
use serde::{Deserialize, Serialize};

use crate::histogram::{Histogram, SIGNIFICANT_DIGITS};
use crate::latencies::Latencies;

/// An encoded histogram takes at most so many bytes once it is inflated: nine for each place of the longest.
const INFLATED_MAX: u64 = 512 * 1024;
/// What a compressed histogram begins with, and its length: "V2 compressed", and so the one inside.
const COMPRESSED_COOKIE: u32 = 0x1c84_9314;
/// Cookie, length, normalizing offset, digits, least, most, ratio.
const HEADER_BYTES: usize = 40;

/// Durations, complete.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Distribution {
    /// How many.
    pub count: u64,
    /// Shortest, nanoseconds.
    pub min_ns: u64,
    /// Longest, nanoseconds.
    pub max_ns: u64,
    /// All together, nanoseconds.
    pub sum_ns: u128,
    /// The histogram, microseconds with three significant digits, as HdrHistogram's libraries write it: V2, compressed, base64.
    pub hdr: String,
}

impl Distribution {
    /// Of these; `None` if there are none.
    pub fn of(latencies: &Latencies) -> Option<Distribution> {
        (latencies.count() > 0).then(|| Distribution {
            count: latencies.count(),
            min_ns: latencies.min,
            max_ns: latencies.max,
            sum_ns: latencies.sum,
            hdr: encode(&latencies.histogram),
        })
    }

    /// The durations again.
    ///
    /// # Errors
    /// A sentence, if this was not written by [`Distribution::of`].
    pub fn latencies(&self) -> Result<Latencies, String> {
        let histogram = decode(&self.hdr)?;
        if histogram.len() != self.count || self.count == 0 || self.min_ns > self.max_ns {
            return Err("a histogram does not hold what is said of it".to_owned());
        }
        Ok(Latencies { histogram, min: self.min_ns, max: self.max_ns, sum: self.sum_ns })
    }
}

/// A histogram as text.
pub fn encode(histogram: &Histogram) -> String {
    written(&histogram.hdr())
}

fn written(hdr: &Hdr<u64>) -> String {
    let mut bytes = Vec::new();
    V2DeflateSerializer::new()
        .serialize(hdr, &mut bytes)
        .expect("memory takes everything, and the histogram is far below the format's limits");
    BASE64.encode(bytes)
}

/// The histogram again.
///
/// # Errors
/// A sentence, if it is none of ours.
pub fn decode(text: &str) -> Result<Histogram, String> {
    let wrong = || "a histogram cannot be read".to_owned();
    let bytes = BASE64.decode(text).map_err(|_| wrong())?;
    let (head, deflated) = bytes.split_at_checked(8).ok_or_else(wrong)?;
    if head[..4] != COMPRESSED_COOKIE.to_be_bytes() {
        return Err(wrong());
    }
    let mut plain = Vec::new();
    ZlibDecoder::new(deflated).take(INFLATED_MAX).read_to_end(&mut plain).map_err(|_| wrong())?;
    // The library makes room for what the header says before it looks whether that is there.
    let field = |at: usize| plain.get(at..at + 4)?.try_into().ok().map(u32::from_be_bytes);
    let is_ours = field(4).is_some_and(|length| length as usize + HEADER_BYTES == plain.len())
        && field(12) == Some(u32::from(SIGNIFICANT_DIGITS));
    if !is_ours {
        return Err(wrong());
    }
    let hdr = Deserializer::new().deserialize(&mut plain.as_slice()).map_err(|_| wrong())?;
    Histogram::of_hdr(&hdr).ok_or_else(|| "a histogram holds more than a day".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some() -> Latencies {
        let mut latencies = Latencies::default();
        (0..50_000u64).for_each(|n| latencies.record((n * 7919) % 900_000_123));
        latencies.record(u64::MAX / 4);
        latencies
    }

    #[test]
    fn every_count_and_every_percentile_is_kept() {
        let latencies = some();
        let json = serde_json::to_string(&Distribution::of(&latencies)).unwrap();
        let back = serde_json::from_str::<Distribution>(&json).unwrap().latencies().unwrap();
        assert_eq!((back.min, back.max, back.sum), (latencies.min, latencies.max, latencies.sum));
        assert!(back.histogram == latencies.histogram);
        assert_eq!(Distribution::of(&Latencies::default()), None);
    }

    #[test]
    fn what_is_no_histogram_of_ours_is_an_error() {
        let good = Distribution::of(&some()).unwrap();
        let other = |digits, us| {
            let mut hdr = Hdr::<u64>::new(digits).unwrap();
            hdr.record(us).unwrap();
            written(&hdr)
        };
        let lying = {
            let mut plain = vec![0x1c, 0x84, 0x93, 0x13, 0xff, 0xff, 0xff, 0xff];
            plain.extend_from_slice(&[0; 32]);
            let mut bytes = COMPRESSED_COOKIE.to_be_bytes().to_vec();
            let mut deflated = Vec::new();
            flate2::read::ZlibEncoder::new(plain.as_slice(), flate2::Compression::fast())
                .read_to_end(&mut deflated)
                .unwrap();
            bytes.extend_from_slice(&(deflated.len() as u32).to_be_bytes());
            bytes.extend_from_slice(&deflated);
            BASE64.encode(bytes)
        };
        let half = good.hdr[..good.hdr.len() / 2 / 4 * 4].to_owned();
        for (count, hdr) in [
            (good.count + 1, good.hdr.clone()),
            (good.count, String::new()),
            (good.count, "no base64!".to_owned()),
            (good.count, half),
            (1, other(2, 5)),
            (1, other(3, u64::MAX / 2)),
            (1, lying),
        ] {
            let distribution = Distribution { count, hdr: hdr.clone(), ..good.clone() };
            assert!(distribution.latencies().is_err(), "{hdr}");
        }
    }
}
