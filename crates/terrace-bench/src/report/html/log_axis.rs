//! Positions of values on an axis.

/// A logarithmic axis.
pub(super) struct LogAxis {
    min: f64,
    max: f64,
    from: f64,
    to: f64,
}

impl LogAxis {
    /// Maps `least` to `from` and `most` to `to`. Both values are above 0, and they differ.
    pub(super) fn new((least, most): (f64, f64), (from, to): (f64, f64)) -> LogAxis {
        debug_assert!(0.0 < least && least < most, "{least} to {most} is no range for a logarithm");
        LogAxis { min: least, max: most, from, to }
    }

    /// Position of `x`; values outside the range are at the edge.
    pub(super) fn position(&self, x: f64) -> f64 {
        let share = (x.clamp(self.min, self.max) / self.min).ln() / self.ratio().ln();
        self.from + share * (self.to - self.from)
    }

    /// Ratio of the largest to the smallest value.
    pub(super) fn ratio(&self) -> f64 {
        self.max / self.min
    }

    /// All powers of ten in the range.
    pub(super) fn decades(&self) -> Vec<f64> {
        self.ticks(&[1.0])
    }

    /// Powers of ten multiplied by each of `steps`, as far as they are in the range.
    pub(super) fn ticks(&self, steps: &[f64]) -> Vec<f64> {
        let first = self.min.log10().floor() as i32;
        let last = self.max.log10().ceil() as i32;
        let all = (first..=last).flat_map(|power| steps.iter().map(move |step| step * 10f64.powi(power)));
        // A rounded power may be slightly outside the range.
        all.filter(|tick| *tick >= self.min * 0.999_999 && *tick <= self.max * 1.000_001).collect()
    }
}

/// Round step that gives at most `most` ticks up to `end`.
pub(super) fn round_step(end: f64, most: usize) -> f64 {
    let rough = end / most.max(1) as f64;
    if rough.is_nan() || rough <= 0.0 || rough.is_infinite() {
        return 1.0;
    }
    let power = 10f64.powf(rough.log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0];
    steps.into_iter().map(|step| step * power).find(|step| *step >= rough * 0.999_999).unwrap_or(rough)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logarithm() {
        let log = LogAxis::new((1.0, 100.0), (0.0, 50.0));
        assert_eq!([log.position(1.0), log.position(10.0), log.position(100.0)], [0.0, 25.0, 50.0]);
        assert_eq!([log.position(0.0), log.position(1e9)], [0.0, 50.0]);
        assert_eq!(log.decades(), [1.0, 10.0, 100.0]);
    }

    #[test]
    fn finer_ticks() {
        let log = LogAxis::new((0.4, 6.0), (0.0, 1.0));
        assert_eq!(log.ticks(&[1.0, 2.0, 5.0]), [0.5, 1.0, 2.0, 5.0]);
    }

    #[test]
    fn round_steps() {
        assert_eq!([round_step(7.3, 6), round_step(60.0, 6), round_step(0.9, 6)], [2.0, 10.0, 0.2]);
        assert_eq!([round_step(0.0, 6), round_step(f64::NAN, 6), round_step(f64::INFINITY, 6)], [1.0; 3]);
    }
}
