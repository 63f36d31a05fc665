//! The result as text for a terminal: one line for each row and engine.

use std::fmt::Write;

use super::model::{PhaseInfo, PhaseResult, ResultFile, Settings, Summary, Verdict};
use super::summary::{median, valid_results};

/// Columns of text. The first two are aligned to the left, the others to the right.
pub(super) struct TextTable {
    rows: Vec<Vec<String>>,
}

impl TextTable {
    pub(super) fn new(titles: &[&str]) -> TextTable {
        TextTable { rows: vec![titles.iter().map(|title| (*title).to_owned()).collect()] }
    }

    pub(super) fn push(&mut self, row: Vec<String>) {
        self.rows.push(row);
    }

    pub(super) fn text(&self) -> String {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| {
            self.rows.iter().filter_map(move |row| row.get(column)).map(|t| t.chars().count())
        };
        let widths: Vec<usize> = (0..columns).map(|column| width(column).max().unwrap_or(0)).collect();
        let mut text = String::new();
        for row in &self.rows {
            let mut line = String::new();
            for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
                // Writing to a `String` never fails.
                let _ = match column {
                    0 => write!(line, "{cell:<width$}"),
                    1 => write!(line, "  {cell:<width$}"),
                    _ => write!(line, "  {cell:>width$}"),
                };
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }
}

/// Renders the header, the table and the failures.
pub fn render(file: &ResultFile) -> String {
    let mut text = header(file);
    text.push('\n');
    text.push_str(&results_table(file));
    for result in file.results.iter().filter(|result| !result.error.is_empty()) {
        let name = file.phases.get(result.row).map_or("", |phase| phase.name.as_str());
        let _ = writeln!(
            text,
            "FAILED  {} in {name}, round {}: {}",
            result.engine,
            result.round + 1,
            result.error
        );
    }
    text
}

fn header(file: &ResultFile) -> String {
    let machine = &file.machine;
    let mut text = format!(
        "{}, scale {}, {} on {} ({}), {} cores, {}, {}\n",
        file.suite,
        file.scale,
        plural(u64::from(file.rounds), "round"),
        machine.filesystem,
        machine.cpu,
        machine.cores,
        format_bytes(machine.memory_bytes as f64),
        machine.kernel,
    );
    let settings = match file.settings.as_str() {
        "same" => "the same for all",
        _ => "each engine's own defaults",
    };
    let _ = writeln!(
        text,
        "Settings: {settings}. No warm-up: each round runs in a new process with an empty directory."
    );
    if let Some(bytes) = file.memory_bytes {
        let _ = writeln!(
            text,
            "Memory: {} for each process, the system's cache of its files included.",
            format_bytes(bytes as f64)
        );
    }
    for engine in &file.engines {
        let description = if engine.present {
            format!("{} {}, {}", engine.name, engine.version, engine.how)
        } else {
            "not available".into()
        };
        let description = description.replace(" ,", ",");
        let note = if engine.note.is_empty() { String::new() } else { format!(": {}", engine.note) };
        let settings = if engine.present { settings_text(&engine.settings) } else { String::new() };
        let _ = writeln!(text, "  {:<10}  {description}{settings}{note}", engine.id);
    }
    text
}

/// Describes the settings that an engine received; empty if there are none.
fn settings_text(settings: &Settings) -> String {
    let bytes =
        |name: &str, bytes: Option<u64>| bytes.map(|bytes| format!("{name} {}", format_bytes(bytes as f64)));
    let parts = [
        bytes("write buffer", settings.write_buffer_bytes),
        bytes("cache", settings.cache_bytes),
        settings.filter_bits.map(|bits| format!("filter {bits} bits")),
        settings.compression.as_ref().map(|name| format!("compression {name}")),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    if parts.is_empty() { String::new() } else { format!(" ({})", parts.join(", ")) }
}

const TITLES: &[&str] = &[
    "",
    "",
    "ops/s",
    "to first",
    "",
    "p50",
    "p99",
    "p99.9",
    "max",
    "slowest 0.1 s",
    "cpu s",
    "memory",
    "w-amp",
    "space",
];

fn results_table(file: &ResultFile) -> String {
    let mut grid = TextTable::new(TITLES);
    for phase in &file.phases {
        let rows = file.summary.iter().filter(|summary| summary.row == phase.row);
        for (index, summary) in rows.enumerate() {
            grid.push(line(file, phase, summary, index == 0));
        }
    }
    grid.text()
}

fn line(file: &ResultFile, phase: &PhaseInfo, summary: &Summary, first: bool) -> Vec<String> {
    let rounds = match summary.median_ops_per_second {
        Some(_) => valid_results(file, phase.row, &summary.engine),
        None => Vec::new(),
    };
    let median_text = |get: &dyn Fn(&PhaseResult) -> Option<f64>, show: fn(f64) -> String| {
        let values: Vec<f64> = rounds.iter().filter_map(|result| get(result)).collect();
        median(&values).map_or_else(|| "-".to_owned(), show)
    };
    let ns = |get: fn(&PhaseResult) -> u64| median_text(&|result| Some(get(result) as f64), format_duration);
    let (ratio, verdict) = match &summary.ratio_to_first {
        Some(ratio) => (format!("{:.2}x", ratio.median), verdict_label(ratio.verdict)),
        None => (String::new(), ""),
    };
    vec![
        if first { phase.name.clone() } else { String::new() },
        summary.engine.clone(),
        summary.median_ops_per_second.map_or_else(|| "-".to_owned(), format_rate),
        ratio,
        verdict.to_owned(),
        ns(|result| result.latency_ns.p50),
        ns(|result| result.latency_ns.p99),
        ns(|result| result.latency_ns.p99_9),
        ns(|result| result.latency_ns.max),
        median_text(&|result| result.slowest_100ms_to_mean, |share| format!("{share:.2}")),
        median_text(&|result| result.cpu_seconds, |seconds| format!("{seconds:.2}")),
        median_text(&|result| result.peak_rss_bytes.map(|bytes| bytes as f64), format_bytes),
        median_text(&|result| result.write_amplification, |factor| format!("{factor:.1}")),
        median_text(&|result| result.space_amplification, |factor| format!("{factor:.2}")),
    ]
}

pub(super) fn verdict_label(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Faster => "faster",
        Verdict::Slower => "slower",
        Verdict::WithinNoise => "noise",
    }
}

/// Formats a rate as `1,234,567`, or with a decimal below 100.
pub(super) fn format_rate(value: f64) -> String {
    if value < 100.0 {
        return format!("{value:.1}");
    }
    let digits = format!("{value:.0}");
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

fn plural(n: u64, noun: &str) -> String {
    if n == 1 { format!("1 {noun}") } else { format!("{n} {noun}s") }
}

/// Formats a duration with three digits and a fitting unit.
fn format_duration(ns: f64) -> String {
    let units = [(1e9, "s"), (1e6, "ms"), (1e3, "us")];
    match units.iter().find(|(unit, _)| ns >= *unit) {
        Some((unit, name)) => format!("{} {name}", three_digits(ns / unit)),
        None => format!("{ns:.0} ns"),
    }
}

fn three_digits(value: f64) -> String {
    let decimals = if value < 10.0 { 2 } else { usize::from(value < 100.0) };
    format!("{value:.decimals$}")
}

/// Formats `8388608` as `8.00 MiB`.
fn format_bytes(bytes: f64) -> String {
    let units = [(1u64 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    match units.iter().find(|(unit, _)| bytes >= *unit as f64) {
        Some((unit, name)) => format!("{} {name}", three_digits(bytes / *unit as f64)),
        None => format!("{bytes:.0} B"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::model::{EngineInfo, Latency, Ratio};

    #[test]
    fn numbers() {
        assert_eq!([0.5, 99.0, 100.0, 1_234_567.8].map(format_rate), ["0.5", "99.0", "100", "1,234,568"]);
        assert_eq!(
            [7.0, 1234.0, 45_600_000.0, 2e9].map(format_duration),
            ["7 ns", "1.23 us", "45.6 ms", "2.00 s"]
        );
        assert_eq!([12.0, 8_388_608.0].map(format_bytes), ["12 B", "8.00 MiB"]);
    }

    #[test]
    fn one_line_per_engine() {
        let result = |engine: &str, error: &str| PhaseResult {
            engine: engine.into(),
            ops_per_second: 1000.0,
            latency_ns: Latency { p50: 1000, max: 2_000_000, ..Latency::default() },
            error: error.into(),
            ..PhaseResult::default()
        };
        let info = |id: &str, present| EngineInfo { id: id.into(), present, ..EngineInfo::default() };
        let mut file = ResultFile {
            phases: vec![PhaseInfo { name: "fillseq".into(), ..PhaseInfo::default() }],
            engines: vec![info("a", true), info("b", true), info("c", false)],
            results: vec![result("a", ""), result("b", "no space")],
            ..ResultFile::default()
        };
        file.summary = super::super::summary::summarise(&file);
        let text = render(&file);
        for part in [
            "fillseq a 1,000 1.00 us 0 ns 0 ns 2.00 ms - - - - -",
            "b - - - - -",
            "c not available",
            "FAILED b in fillseq, round 1: no space",
        ] {
            let normalised =
                text.lines().map(|l| l.split_whitespace().collect::<Vec<_>>().join(" ")).collect::<Vec<_>>();
            assert!(normalised.iter().any(|line| line.starts_with(part)), "no {part:?} in\n{text}");
        }
    }

    #[test]
    fn ratio_is_shown_with_its_verdict() {
        let ratio = Ratio { median: 1.234, min: 1.2, max: 1.3, verdict: Verdict::Faster };
        let summary = Summary { ratio_to_first: Some(ratio), ..Summary::default() };
        let cells = line(&ResultFile::default(), &PhaseInfo::default(), &summary, true);
        assert_eq!(cells[3..5], ["1.23x", "faster"]);
    }
}
