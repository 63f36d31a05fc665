//! View of a result file by row and engine.

use std::collections::BTreeMap;

use crate::report::model::{EngineInfo, PhaseInfo, PhaseResult, Ratio, ResultFile, Summary};
use crate::report::summary::median;

/// A run, by rows.
pub(super) struct ReportView<'a> {
    pub(super) file: &'a ResultFile,
    /// Engines that took part. Ratios refer to the first.
    pub(super) engines: Vec<Engine<'a>>,
    pub(super) rows: Vec<Row<'a>>,
}

/// An engine that took part.
#[derive(Clone, Copy)]
pub(super) struct Engine<'a> {
    pub(super) info: &'a EngineInfo,
    /// Index in the file, which determines colour, dash and marker.
    pub(super) style: usize,
}

/// A row, with a cell for each engine that took part.
pub(super) struct Row<'a> {
    pub(super) info: &'a PhaseInfo,
    pub(super) cells: Vec<Cell<'a>>,
}

/// Results of one engine for one row.
pub(super) struct Cell<'a> {
    pub(super) engine: Engine<'a>,
    pub(super) summary: Option<&'a Summary>,
    /// Rounds with measurements.
    pub(super) rounds: Vec<&'a PhaseResult>,
    /// Rounds that failed, each with its reason.
    pub(super) failed: Vec<&'a PhaseResult>,
}

impl<'a> ReportView<'a> {
    pub(super) fn new(file: &'a ResultFile) -> ReportView<'a> {
        let all = file.engines.iter().enumerate().map(|(style, info)| Engine { info, style });
        let engines: Vec<Engine<'a>> = all.filter(|engine| engine.info.present).collect();
        let rows = file.phases.iter().map(|info| Row::new(file, info, &engines)).collect();
        ReportView { file, engines, rows }
    }

    /// Engine with which all others are compared.
    pub(super) fn base_engine(&self) -> Option<Engine<'a>> {
        self.engines.first().copied()
    }

    /// All engines except the base engine.
    pub(super) fn other_engines(&self) -> &[Engine<'a>] {
        self.engines.get(1..).unwrap_or_default()
    }

    /// Rows in which `engine` was compared with the first, and their ratios.
    pub(super) fn ratios_to_base(&self, engine: Engine<'_>) -> Vec<(&Row<'a>, &'a Ratio)> {
        self.rows.iter().filter_map(|row| Some((row, row.cell(engine)?.ratio()?))).collect()
    }
}

impl<'a> Engine<'a> {
    /// Name for people, or the id if there is none.
    pub(super) fn name(&self) -> &'a str {
        if self.info.name.is_empty() { &self.info.id } else { &self.info.name }
    }
}

impl<'a> Row<'a> {
    fn new(file: &'a ResultFile, info: &'a PhaseInfo, engines: &[Engine<'a>]) -> Row<'a> {
        Row { info, cells: engines.iter().map(|engine| Cell::new(file, info.row, *engine)).collect() }
    }

    pub(super) fn cell(&self, engine: Engine<'_>) -> Option<&Cell<'a>> {
        self.cells.iter().find(|cell| cell.engine.style == engine.style)
    }
}

impl<'a> Cell<'a> {
    fn new(file: &'a ResultFile, row: usize, engine: Engine<'a>) -> Cell<'a> {
        let id = &engine.info.id;
        let results = file.results.iter().filter(|result| result.row == row && result.engine == *id);
        let (rounds, failed) = results.partition(|result| result.error.is_empty());
        let summary = file.summary.iter().find(|sum| sum.row == row && sum.engine == *id);
        Cell { engine, summary, rounds, failed }
    }

    /// Median rate.
    pub(super) fn rate(&self) -> Option<f64> {
        positive_finite(self.summary?.median_ops_per_second?)
    }

    /// Ratio to the first engine, if all of its numbers are valid.
    pub(super) fn ratio(&self) -> Option<&'a Ratio> {
        let ratio = self.summary?.ratio_to_first.as_ref()?;
        [ratio.of_medians, ratio.min, ratio.max]
            .into_iter()
            .all(|x| positive_finite(x).is_some())
            .then_some(ratio)
    }

    /// Median of one measure over the rounds that have it.
    pub(super) fn median(&self, measure: impl Fn(&PhaseResult) -> Option<f64>) -> Option<f64> {
        median(&self.values(measure).collect::<Vec<_>>())
    }

    /// Minimum of one measure over the rounds.
    pub(super) fn min(&self, measure: impl Fn(&PhaseResult) -> Option<f64>) -> Option<f64> {
        self.values(measure).min_by(f64::total_cmp)
    }

    /// Maximum of one measure over the rounds.
    pub(super) fn max(&self, measure: impl Fn(&PhaseResult) -> Option<f64>) -> Option<f64> {
        self.values(measure).max_by(f64::total_cmp)
    }

    fn values(&self, measure: impl Fn(&PhaseResult) -> Option<f64>) -> impl Iterator<Item = f64> {
        self.rounds.iter().filter_map(move |round| measure(round)).filter(|x| x.is_finite())
    }

    /// Round with the median rate; the slower of the two middle rounds.
    pub(super) fn median_round(&self) -> Option<&'a PhaseResult> {
        let mut rounds = self.rounds.clone();
        rounds.sort_by(|a, b| a.ops_per_second.total_cmp(&b.ops_per_second));
        rounds.get(rounds.len().saturating_sub(1) / 2).copied()
    }

    /// Latency histogram of all rounds: upper bound in ns, count.
    pub(super) fn histogram(&self) -> BTreeMap<u64, u64> {
        let mut sum = BTreeMap::<u64, u64>::new();
        for (upper, count) in self.rounds.iter().flat_map(|round| &round.latency_ns.histogram) {
            let bucket = sum.entry(*upper).or_default();
            *bucket = bucket.saturating_add(*count);
        }
        sum
    }
}

/// Returns `x` if it has a finite logarithm.
pub(super) fn positive_finite(x: f64) -> Option<f64> {
    (x.is_finite() && x > 0.0).then_some(x)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::report::model::Latency;

    static ENGINE: std::sync::LazyLock<EngineInfo> =
        std::sync::LazyLock::new(|| EngineInfo { id: "a".into(), present: true, ..EngineInfo::default() });

    /// A cell of one round with this histogram.
    pub(in crate::report::html) fn cell(histogram: &[(u64, u64)]) -> Cell<'static> {
        cell_of(vec![PhaseResult {
            latency_ns: Latency { histogram: histogram.to_vec(), ..Latency::default() },
            ..PhaseResult::default()
        }])
    }

    fn cell_of(rounds: Vec<PhaseResult>) -> Cell<'static> {
        let engine = Engine { info: &ENGINE, style: 0 };
        Cell { engine, summary: None, rounds: rounds.leak().iter().collect(), failed: Vec::new() }
    }

    #[track_caller]
    fn check(rates: &[f64], median: Option<f64>, drawn: Option<f64>) {
        let round = |rate: &f64| PhaseResult { ops_per_second: *rate, ..PhaseResult::default() };
        let cell = cell_of(rates.iter().map(round).collect());
        assert_eq!(cell.median(|round| Some(round.ops_per_second)), median);
        assert_eq!(cell.median_round().map(|round| round.ops_per_second), drawn);
    }

    #[test]
    fn median_of_three() {
        check(&[3.0, 9.0, 5.0], Some(5.0), Some(5.0));
    }

    #[test]
    fn median_of_two() {
        check(&[8.0, 4.0], Some(6.0), Some(4.0));
    }

    #[test]
    fn no_round() {
        check(&[], None, None);
    }

    #[test]
    fn nan_is_ignored() {
        check(&[f64::NAN, 4.0], Some(4.0), Some(4.0));
    }
}
