//! Summaries of rounds, and verdicts on differences.
//!
//! A difference is significant only if the rounds of the two engines do not overlap, and if their
//! medians differ by more than the spread of either. Anything smaller is noise. A single round has
//! no known spread, so it is always noise. The rule is strict so that a second run confirms the
//! verdict.

use super::model::{PhaseResult, Ratio, ResultFile, Summary, Verdict};

/// Median of a list in any order; `None` if the list is empty.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let upper = *sorted.get(sorted.len() / 2)?;
    let lower = sorted[(sorted.len() - 1) / 2];
    Some((lower + upper) / 2.0)
}

fn min_max(values: &[f64]) -> Option<(f64, f64)> {
    let min = values.iter().copied().min_by(f64::total_cmp)?;
    let max = values.iter().copied().max_by(f64::total_cmp)?;
    Some((min, max))
}

/// Compares `rates` with `base`, considering the noise.
pub fn verdict(base: &[f64], rates: &[f64]) -> Verdict {
    if base.len() < 2 || rates.len() < 2 {
        return Verdict::WithinNoise;
    }
    let median_and_range = |values: &[f64]| Some((median(values)?, min_max(values)?));
    let (Some((base_median, base)), Some((rate_median, rates))) =
        (median_and_range(base), median_and_range(rates))
    else {
        return Verdict::WithinNoise;
    };
    // The spread is a factor, so that twice as fast and half as fast count the same.
    let spread = (base.1 / base.0).max(rates.1 / rates.0);
    let factor = rate_median / base_median;
    if rates.0 > base.1 && factor > spread {
        Verdict::Faster
    } else if rates.1 < base.0 && 1.0 / factor > spread {
        Verdict::Slower
    } else {
        Verdict::WithinNoise
    }
}

/// Successful results of an engine for a row, in the order of rounds.
pub fn valid_results<'a>(file: &'a ResultFile, row: usize, engine: &str) -> Vec<&'a PhaseResult> {
    let valid = file.results.iter().filter(|r| r.row == row && r.engine == engine && r.error.is_empty());
    valid.collect()
}

/// Rates of the successful results of an engine for a row.
pub fn rates(file: &ResultFile, row: usize, engine: &str) -> Vec<f64> {
    valid_results(file, row, engine).iter().map(|result| result.ops_per_second).collect()
}

/// Summarises every row for each available engine. A row with an error in any round has no rates.
pub fn summarise(file: &ResultFile) -> Vec<Summary> {
    let present: Vec<&str> = file.engines.iter().filter(|e| e.present).map(|e| e.id.as_str()).collect();
    let rows = file.phases.iter().flat_map(|phase| present.iter().map(|engine| (phase.row, *engine)));
    rows.map(|(row, engine)| summary(file, row, engine, present[0])).collect()
}

fn summary(file: &ResultFile, row: usize, engine: &str, first: &str) -> Summary {
    let failed =
        |engine: &str| file.results.iter().any(|r| r.row == row && r.engine == engine && !r.error.is_empty());
    let own = if failed(engine) { Vec::new() } else { rates(file, row, engine) };
    let base = if failed(first) { Vec::new() } else { rates(file, row, first) };
    Summary {
        row,
        engine: engine.to_owned(),
        median_ops_per_second: median(&own),
        spread: min_max(&own),
        ratio_to_first: if engine == first { None } else { ratio(&base, &own) },
    }
}

/// Ratio of the medians, so that it is the quotient of the two rates that a report shows beside it.
/// It lies between the smallest and the largest ratio of matching rounds.
fn ratio(base: &[f64], rates: &[f64]) -> Option<Ratio> {
    let ratios: Vec<f64> = rates.iter().zip(base).map(|(rate, base)| rate / base).collect();
    let (min, max) = min_max(&ratios)?;
    Some(Ratio { of_medians: median(rates)? / median(base)?, min, max, verdict: verdict(base, rates) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
    }

    /// Regression: rates of 609,794 and 797,004 stood beside a ratio of 0.44, the median of the
    /// rounds' ratios.
    #[test]
    fn ratio_is_the_quotient_of_the_medians() {
        let base = [1_386_000.0, 797_004.0, 700_000.0];
        let rates = [609_794.0, 350_000.0, 720_000.0];
        let ratio = ratio(&base, &rates).expect("both have rounds");
        assert_eq!(ratio.of_medians, 609_794.0 / 797_004.0);
        assert!(ratio.min < 0.44 && ratio.max > 1.0, "{ratio:?}");
    }

    #[test]
    fn verdicts() {
        use Verdict::{Faster, Slower, WithinNoise};
        for (base, rates, expect) in [
            (&[100.0, 101.0, 102.0][..], &[110.0, 111.0, 112.0][..], Faster),
            (&[110.0, 111.0, 112.0], &[100.0, 101.0, 102.0], Slower),
            (&[100.0, 101.0, 102.0], &[101.0, 102.0, 103.0], WithinNoise),
            // The rounds do not overlap, but one spread is wider than the distance of the medians.
            (&[100.0, 110.0, 120.0], &[121.0, 122.0, 123.0], WithinNoise),
            (&[100.0], &[200.0], WithinNoise),
            (&[100.0, 100.0], &[], WithinNoise),
            (&[0.0, 0.0], &[0.0, 0.0], WithinNoise),
        ] {
            assert_eq!(verdict(base, rates), expect, "{base:?} {rates:?}");
        }
    }
}
