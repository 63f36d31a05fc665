//! Comparison of two runs of the same workloads: which rows became faster or slower by more than
//! the noise.

use super::model::{ResultFile, Verdict};
use super::summary::{median, rates, verdict};
use super::table::{TextTable, format_rate, verdict_label};

/// Change of one row and engine that both runs measured.
#[derive(Clone, Debug, PartialEq)]
pub struct RateChange {
    /// Name of the row.
    pub name: String,
    /// Id of the engine.
    pub engine: String,
    /// Median operations per second in the first run.
    pub before: f64,
    /// Median operations per second in the second run.
    pub after: f64,
    /// Verdict on the change.
    pub verdict: Verdict,
}

/// Comparison of two runs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Comparison {
    /// Changes, in the order of the first run's rows.
    pub changes: Vec<RateChange>,
    /// Differences between the runs that make the comparison less reliable.
    pub warnings: Vec<String>,
}

/// Compares two runs. Rows are matched by name, and only if their workloads are equal.
pub fn compare(before: &ResultFile, after: &ResultFile) -> Comparison {
    let mut comparison =
        Comparison { warnings: environment_differences(before, after), ..Comparison::default() };
    for phase in &before.phases {
        let Some(other) = after.phases.iter().find(|other| other.name == phase.name) else {
            comparison.warnings.push(format!("{} is not in the second run", phase.name));
            continue;
        };
        if phase.workload != other.workload {
            comparison.warnings.push(format!("{} has a different workload in the second run", phase.name));
            continue;
        }
        for engine in before.engines.iter().filter(|engine| engine.present) {
            let old = rates(before, phase.row, &engine.id);
            let new = rates(after, other.row, &engine.id);
            let (Some(old_median), Some(new_median)) = (median(&old), median(&new)) else { continue };
            comparison.changes.push(RateChange {
                name: phase.name.clone(),
                engine: engine.id.clone(),
                before: old_median,
                after: new_median,
                verdict: verdict(&old, &new),
            });
        }
    }
    comparison
}

fn environment_differences(before: &ResultFile, after: &ResultFile) -> Vec<String> {
    let mut differences = Vec::new();
    let mut compare_field = |name: &str, before: &str, after: &str| {
        if before != after {
            differences.push(format!("{name}: {before} before, {after} after"));
        }
    };
    compare_field("settings", &before.settings, &after.settings);
    compare_field("processor", &before.machine.cpu, &after.machine.cpu);
    compare_field("cores", &before.machine.cores.to_string(), &after.machine.cores.to_string());
    compare_field("kernel", &before.machine.kernel, &after.machine.kernel);
    compare_field("file system", &before.machine.filesystem, &after.machine.filesystem);
    for (when, file) in [("before", before), ("after", after)] {
        if file.rounds < 2 {
            differences
                .push(format!("one round {when}: the spread is unknown, so every change counts as noise"));
        }
    }
    differences
}

impl Comparison {
    /// Returns whether any row became slower.
    pub fn has_slower_row(&self) -> bool {
        self.changes.iter().any(|change| change.verdict == Verdict::Slower)
    }

    /// Renders the comparison as a table.
    pub fn render(&self) -> String {
        let mut grid = TextTable::new(2, &["medians", "ops/s", "before", "after", "ratio", ""]);
        for change in &self.changes {
            let ratio = format!("{:.3}x", change.after / change.before);
            grid.push(vec![
                change.name.clone(),
                change.engine.clone(),
                format_rate(change.before),
                format_rate(change.after),
                ratio,
                verdict_label(change.verdict).to_owned(),
            ]);
        }
        let warnings = self.warnings.iter().map(|warning| format!("Note: {warning}.\n"));
        warnings.collect::<String>() + &grid.text()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::model::{EngineInfo, FORMAT, PhaseInfo, PhaseResult};

    /// A result file with one row `r` of the engine `e`, whose rounds have these rates.
    fn file(rates: &[f64]) -> ResultFile {
        let results = rates.iter().zip(0..).map(|(rate, round)| PhaseResult {
            engine: "e".into(),
            round,
            ops_per_second: *rate,
            ..PhaseResult::default()
        });
        ResultFile {
            format: FORMAT,
            rounds: rates.len() as u32,
            engines: vec![EngineInfo { id: "e".into(), present: true, ..EngineInfo::default() }],
            phases: vec![PhaseInfo { name: "r".into(), ..PhaseInfo::default() }],
            results: results.collect(),
            ..ResultFile::default()
        }
    }

    #[track_caller]
    fn check(before: &ResultFile, after: &ResultFile, expect: &[&str]) {
        let text = compare(before, after).render();
        let lines = text.lines().filter(|line| !line.contains("ops/s"));
        let lines: Vec<String> =
            lines.map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
        assert_eq!(lines, expect);
    }

    #[test]
    fn verdicts() {
        let base = file(&[100.0, 101.0, 102.0]);
        check(&base, &file(&[110.0, 111.0, 112.0]), &["r e 101 111 1.099x faster"]);
        check(&base, &file(&[90.0, 91.0, 90.5]), &["r e 101 90.5 0.896x slower"]);
        check(&base, &file(&[100.0, 102.0, 104.0]), &["r e 101 102 1.010x noise"]);
        assert!(compare(&base, &file(&[90.0, 91.0, 90.5])).has_slower_row());
        assert!(!compare(&base, &file(&[110.0, 111.0, 112.0])).has_slower_row());
    }

    #[test]
    fn single_round_is_inconclusive() {
        let note = "Note: one round after: the spread is unknown, so every change counts as noise.";
        check(&file(&[100.0, 100.0]), &file(&[200.0]), &[note, "r e 100 200 2.000x noise"]);
    }

    #[test]
    fn different_workloads_are_not_compared() {
        let mut other = file(&[100.0, 100.0]);
        other.phases[0].workload.num += 1;
        other.machine.kernel = "Linux 7".into();
        let notes =
            ["Note: kernel: before, Linux 7 after.", "Note: r has a different workload in the second run."];
        check(&file(&[100.0, 100.0]), &other, &notes);
    }
}
