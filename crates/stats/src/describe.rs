//! Describing one sample: quantiles and means. NaN never enters: the laboratory drops a figure it could not measure.

/// The `p`-quantile of the values, `p` in 0 to 1, by linear interpolation between order statistics: type 7 of Hyndman
/// and Fan, "Sample Quantiles in Statistical Packages", The American Statistician 50 (1996). `None` without values.
pub fn quantile(values: &[f64], p: f64) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    quantile_sorted(&sorted, p)
}

/// The middle value, or the mean of the two middle ones. `None` without values.
pub fn median(values: &[f64]) -> Option<f64> {
    quantile(values, 0.5)
}

/// The `n`-th root of the product: the mean for figures that compare as ratios (a concurrency of 10 and one of 1000
/// then weigh the same). `None` without values or with a value that is not above 0.
pub fn geometric_mean(values: &[f64]) -> Option<f64> {
    if values.is_empty() || values.iter().any(|&v| v.is_nan() || v <= 0.0) {
        return None;
    }
    Some((values.iter().map(|v| v.ln()).sum::<f64>() / values.len() as f64).exp())
}

/// [`quantile`] of values that are in ascending order already.
pub(crate) fn quantile_sorted(sorted: &[f64], p: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    let position = p.clamp(0.0, 1.0) * last as f64;
    let below = position.floor();
    let low = sorted[below as usize];
    let high = sorted[(below as usize + 1).min(last)];
    Some(low + (position - below) * (high - low))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values of R's `quantile(x, p, type = 7)`, worked out by hand: position (n - 1) p from 0.
    #[test]
    fn quantiles() {
        let ten = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0];
        for (values, p, expected) in [
            (&ten[..], 0.0, 1.0),
            (&ten, 0.25, 3.25),
            (&ten, 0.5, 5.5),
            (&ten, 0.9, 9.1),
            (&ten, 1.0, 10.0),
            (&[3.0, 1.0, 2.0], 0.5, 2.0),
            (&[3.0, 1.0, 2.0], 0.75, 2.5),
            (&[42.0], 0.99, 42.0),
        ] {
            let got = quantile(values, p).expect("there are values");
            assert!((got - expected).abs() < 1e-12, "{p} of {values:?}: {got}, expected {expected}");
        }
        assert_eq!(quantile(&[], 0.5), None);
        assert_eq!(median(&[4.0, 1.0, 3.0, 2.0]), Some(2.5));
    }

    #[test]
    fn geometric_means() {
        assert!((geometric_mean(&[1.0, 10.0, 100.0]).expect("values") - 10.0).abs() < 1e-9);
        assert!((geometric_mean(&[2.0, 8.0]).expect("values") - 4.0).abs() < 1e-12);
        assert_eq!(geometric_mean(&[]), None);
        assert_eq!(geometric_mean(&[1.0, 0.0]), None);
        assert_eq!(geometric_mean(&[1.0, f64::NAN]), None);
    }
}
