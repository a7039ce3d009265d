//! A histogram of durations that takes memory only for the durations that occur.
//!
//! Its places are those of HdrHistogram with three significant digits, and it is written and read as one ([`Histogram::hdr`]); but that
//! library's takes 229 KiB from the start, and a run has a dozen of them: more than wrk needs for all it does. Durations of a run lie close
//! together, so a few pieces of 8 KiB hold them.

use hdrhistogram::Histogram as Hdr;

/// Significant digits: a percentile is off by less than 0.1 %.
pub const SIGNIFICANT_DIGITS: u8 = 3;
/// Durations beyond this are recorded as this, in microseconds: a day.
pub const MOST_US: u64 = 86_400_000_000;

/// Places in a piece. Each power of two above twice as many microseconds has one piece, so a place is at most a 1,024th wide.
const PLACES: usize = 1 << PIECE_BITS;
const PIECE_BITS: u32 = 10;
/// Pieces up to the longest duration.
const PIECES: usize = place(MOST_US).0 + 1;

/// Counts of durations in microseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Histogram {
    pieces: [Option<Box<[u64; PLACES]>>; PIECES],
    len: u64,
}

/// Where this many microseconds are counted: piece and place.
const fn place(us: u64) -> (usize, usize) {
    // Below 2,048 each microsecond has its place; above, each power of two has 1,024.
    let shift = (us | (PLACES as u64)).ilog2() - PIECE_BITS;
    let at = (us >> shift) as usize;
    (shift as usize + at / PLACES, at % PLACES)
}

/// The least and the most microseconds that are counted there.
fn range(piece: usize, at: usize) -> (u64, u64) {
    let shift = piece.saturating_sub(1);
    let top = if piece == 0 { 0 } else { PLACES };
    let least = ((top + at) as u64) << shift;
    (least, least + (1 << shift) - 1)
}

impl Histogram {
    /// Adds one of this many microseconds.
    #[inline]
    pub fn record(&mut self, us: u64) {
        self.record_n(us, 1);
    }

    /// Adds so many.
    #[inline]
    pub fn record_n(&mut self, us: u64, count: u64) {
        let (piece, at) = place(us.min(MOST_US));
        match &mut self.pieces[piece] {
            Some(counts) => counts[at] = counts[at].saturating_add(count),
            none => first(none)[at] = count,
        }
        self.len = self.len.saturating_add(count);
    }

    /// How many there are.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Adds all of another.
    pub fn add(&mut self, other: &Histogram) {
        for (piece, theirs) in self.pieces.iter_mut().zip(&other.pieces) {
            let Some(theirs) = theirs else { continue };
            let ours = piece.get_or_insert_with(empty);
            ours.iter_mut().zip(theirs.iter()).for_each(|(ours, theirs)| *ours = ours.saturating_add(*theirs));
        }
        self.len = self.len.saturating_add(other.len);
    }

    /// None recorded, again; the memory stays.
    pub fn clear(&mut self) {
        self.pieces.iter_mut().flatten().for_each(|counts| counts.fill(0));
        self.len = 0;
    }

    /// What was recorded, ascending: the most microseconds that a place stands for, and how many.
    pub fn counts(&self) -> impl Iterator<Item = (u64, u64)> {
        self.places().map(|((_, most), count)| (most, count))
    }

    /// The microseconds that this part of all (0 to 1) did not exceed; 0 if there are none.
    pub fn value_at_quantile(&self, quantile: f64) -> u64 {
        let wanted = ((quantile.min(1.0) * self.len as f64).ceil() as u64).max(1);
        let mut passed = 0;
        let mut reached = self.places().skip_while(|(_, count)| {
            passed += count;
            passed < wanted
        });
        reached.next().map_or(0, |((least, most), _)| if quantile == 0.0 { least } else { most })
    }

    /// How many took at most as many microseconds, to the place.
    pub fn count_up_to(&self, us: u64) -> u64 {
        self.places().take_while(|((least, _), _)| *least <= us).map(|(_, count)| count).sum()
    }

    /// Standard deviation, microseconds; 0 if there are none.
    pub fn standard_deviation(&self) -> f64 {
        let middle = |(least, most): (u64, u64)| least.midpoint(most + 1) as f64;
        let mean = |of: &dyn Fn(f64) -> f64| {
            let sum: f64 = self.places().map(|(range, count)| of(middle(range)) * count as f64).sum();
            sum / self.len.max(1) as f64
        };
        let average = mean(&|us| us);
        mean(&|us| (us - average).powi(2)).sqrt()
    }

    /// As HdrHistogram's library has it, to be written in its formats.
    pub fn hdr(&self) -> Hdr<u64> {
        let mut hdr = Hdr::new_with_bounds(1, MOST_US, SIGNIFICANT_DIGITS)
            .expect("the bounds are constants within the library's limits");
        self.places().for_each(|((least, _), count)| hdr.saturating_record_n(least, count));
        hdr
    }

    /// What was written so; `None` if some of it is longer than a day.
    pub fn of_hdr(hdr: &Hdr<u64>) -> Option<Histogram> {
        let mut histogram = Histogram::default();
        for step in hdr.iter_recorded() {
            let us = hdr.lowest_equivalent(step.value_iterated_to());
            if us > MOST_US {
                return None;
            }
            histogram.record_n(us, step.count_at_value());
        }
        Some(histogram)
    }

    /// Places with something in them, ascending: what they stand for, and how many.
    fn places(&self) -> impl Iterator<Item = ((u64, u64), u64)> {
        let pieces = self.pieces.iter().enumerate().filter_map(|(piece, counts)| Some((piece, counts.as_ref()?)));
        let places =
            pieces.flat_map(|(piece, counts)| counts.iter().enumerate().map(move |(at, count)| (piece, at, *count)));
        places.filter(|(.., count)| *count > 0).map(|(piece, at, count)| (range(piece, at), count))
    }
}

#[cold]
fn first(piece: &mut Option<Box<[u64; PLACES]>>) -> &mut [u64; PLACES] {
    piece.insert(empty())
}

fn empty() -> Box<[u64; PLACES]> {
    Box::new([0; PLACES])
}

#[cfg(test)]
mod tests {
    use manifold_stats::Rng;

    use super::*;

    /// The library's, and ours, of the same durations.
    fn both(durations: impl Iterator<Item = u64>) -> (Hdr<u64>, Histogram) {
        let mut hdr = Histogram::default().hdr();
        let mut ours = Histogram::default();
        for us in durations {
            hdr.saturating_record(us.min(MOST_US));
            ours.record(us);
        }
        (hdr, ours)
    }

    fn check(what: &str, durations: &[u64]) {
        let (hdr, ours) = both(durations.iter().copied());
        assert_eq!(ours.len(), hdr.len(), "{what}");
        assert!(ours.hdr().iter_recorded().eq(hdr.iter_recorded()), "{what}");
        assert_eq!(Histogram::of_hdr(&hdr).as_ref(), Some(&ours), "{what}");
        let theirs = hdr.iter_recorded().map(|step| (step.value_iterated_to(), step.count_at_value()));
        assert!(ours.counts().eq(theirs.filter(|(_, count)| *count > 0)), "{what}");
        for quantile in [0.0, 0.001, 0.25, 0.5, 0.9, 0.99, 0.999_99, 1.0] {
            assert_eq!(ours.value_at_quantile(quantile), hdr.value_at_quantile(quantile), "{what}: {quantile}");
        }
        for us in durations.iter().flat_map(|us| [us / 2, *us, us.saturating_add(1)]).map(|us| us.min(MOST_US)) {
            assert_eq!(ours.count_up_to(us), hdr.count_between(0, us), "{what}: up to {us}");
        }
        let (deviation, theirs) = (ours.standard_deviation(), hdr.stdev());
        assert!((deviation - theirs).abs() <= 1e-9 * theirs.max(1.0), "{what}: {deviation} {theirs}");
    }

    #[test]
    fn it_is_hdr_histograms_to_the_last_count() {
        check("none", &[]);
        check("edges", &[0, 1, 1023, 1024, 1025, 2047, 2048, 2049, 4095, 4096, 65_535, 65_536]);
        check("beyond a day", &[MOST_US - 1, MOST_US, MOST_US + 1, u64::MAX]);
        let mut rng = Rng::new(7);
        let anywhere: Vec<u64> = (0..3000)
            .map(|_| {
                let most = 1 << rng.below(37);
                rng.below(most) as u64
            })
            .collect();
        check("anywhere", &anywhere);
    }

    #[test]
    fn others_are_added_and_all_is_forgotten() {
        let mut rng = Rng::new(8);
        let durations: Vec<u64> = (0..2000).map(|_| rng.below(5_000_000) as u64).collect();
        let (_, whole) = both(durations.iter().copied());
        let (_, mut sum) = both(durations[..700].iter().copied());
        sum.add(&both(durations[700..].iter().copied()).1);
        assert_eq!(sum, whole);
        sum.clear();
        assert!(sum.is_empty() && sum.counts().next().is_none());
        sum.add(&whole);
        assert_eq!(sum, whole);
    }

    #[test]
    fn memory_is_only_taken_for_what_occurs() {
        let (_, ours) = both((0..100_000).map(|n| 50 + n % 1000));
        assert_eq!(ours.pieces.iter().flatten().count(), 2);
    }
}
