//! The result as text for a terminal of 80 columns: a block for each row, a line for each engine.

use std::fmt::Write;

use super::model::{Latency, PhaseResult, ResultFile, Settings, Summary, Verdict};
use super::number_format::plain_ratio;
use super::summary::{median, valid_results};

/// Width of the terminal for which the text is made.
const WIDTH: usize = 80;

/// Columns of text, aligned to the right except the first ones.
pub(super) struct TextTable {
    /// Number of columns that are aligned to the left.
    left: usize,
    rows: Vec<Vec<String>>,
}

impl TextTable {
    pub(super) fn new(left: usize, titles: &[&str]) -> TextTable {
        TextTable { left, rows: vec![titles.iter().map(|title| (*title).to_owned()).collect()] }
    }

    pub(super) fn push(&mut self, row: Vec<String>) {
        self.rows.push(row);
    }

    /// Adds a line that contains only `text`, of any length.
    fn push_heading(&mut self, text: &str) {
        self.rows.push(vec![text.to_owned()]);
    }

    pub(super) fn text(&self) -> String {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| {
            let rows = self.rows.iter().filter(|row| row.len() > 1);
            rows.filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        let mut text = String::new();
        for row in &self.rows {
            let mut line = String::new();
            for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
                // Writing to a `String` never fails.
                let _ = match (column, column < self.left) {
                    (0, _) => write!(line, "{cell:<width$}"),
                    (_, true) => write!(line, "  {cell:<width$}"),
                    (_, false) => write!(line, "  {cell:>width$}"),
                };
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }
}

/// Breaks `text` between words into lines of at most 80 columns. Lines after the first are indented
/// by `indent` columns.
pub fn wrap(text: &str, indent: usize) -> String {
    let mut lines = String::new();
    let mut column = 0;
    // The first word includes the indentation of the text.
    let start = text.len() - text.trim_start().len();
    let first = text[start..].find(' ').map_or(text.len(), |end| start + end);
    let (first, rest) = text.split_at(first);
    for word in std::iter::once(first).chain(rest.split(' ').skip(1)) {
        let width = word.chars().count();
        if column > indent && column + 1 + width > WIDTH {
            let _ = write!(lines, "\n{:indent$}", "");
            column = indent;
        } else if column > 0 {
            lines.push(' ');
            column += 1;
        }
        lines.push_str(word);
        column += width;
    }
    lines + "\n"
}

/// Renders the header, the tables and the failures.
pub fn render(file: &ResultFile) -> String {
    let mut text = header(file);
    text.push('\n');
    text.push_str(&rates_table(file));
    text.push('\n');
    text.push_str(&further_table(file));
    text.push_str(&writers_table(file));
    for result in file.results.iter().filter(|result| !result.error.is_empty()) {
        let name = file.phases.get(result.row).map_or("", |phase| phase.name.as_str());
        let round = result.round + 1;
        let failure = format!("FAILED  {} in {name}, round {round}: {}", result.engine, result.error);
        text.push_str(&wrap(&failure, 8));
    }
    text
}

/// Warning that syncs have no meaning on the file system of the run, if that is so.
pub fn sync_warning(file: &ResultFile) -> Option<String> {
    let syncs = file.phases.iter().filter(|phase| phase.workload.sync || phase.workload.sync_every > 0);
    let names: Vec<&str> = syncs.map(|phase| phase.name.as_str()).collect();
    let in_memory = ["tmpfs", "ramfs"].contains(&file.machine.filesystem.as_str());
    (in_memory && !names.is_empty()).then(|| {
        let filesystem = &file.machine.filesystem;
        format!(
            "{filesystem} keeps files in memory: a sync does nothing, so {} means nothing.",
            names.join(", ")
        )
    })
}

fn header(file: &ResultFile) -> String {
    let machine = &file.machine;
    let mut text = wrap(
        &format!(
            "{}, scale {}, {} on {} ({}), {} cores, {}, {}",
            file.suite,
            file.scale,
            plural(u64::from(file.rounds), "round"),
            machine.filesystem,
            machine.cpu,
            machine.cores,
            format_bytes(machine.memory_bytes as f64),
            machine.kernel,
        ),
        0,
    );
    let mut present = file.engines.iter().filter(|engine| engine.present);
    let common = present.next().map(|engine| &engine.settings);
    let common = common.filter(|common| present.all(|engine| engine.settings == **common));
    let settings = match file.settings.as_str() {
        "same" => "the same for all",
        _ => "each engine's own defaults",
    };
    let settings = format!("{settings}{}", common.map_or_else(String::new, settings_text));
    text += &wrap(
        &format!(
            "Settings: {settings}. No warm-up: each round runs in a new process with an empty directory."
        ),
        0,
    );
    if let Some(bytes) = file.memory_bytes {
        let limit = format_bytes(bytes as f64);
        text +=
            &wrap(&format!("Memory: {limit} for each process, the system's cache of its files included."), 0);
    }
    for engine in &file.engines {
        let description = if engine.present {
            format!("{} {}, {}", engine.name, engine.version, engine.how)
        } else {
            "not available".into()
        };
        let description = description.replace(" ,", ",");
        let note = if engine.note.is_empty() { String::new() } else { format!(": {}", engine.note) };
        let differs = engine.present && common.is_none();
        let settings = if differs { settings_text(&engine.settings) } else { String::new() };
        text += &wrap(&format!("  {:<12}  {description}{settings}{note}", engine.id), 16);
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

/// Measurements of an engine for a row.
struct Cells<'a> {
    summary: &'a Summary,
    rounds: Vec<&'a PhaseResult>,
}

impl Cells<'_> {
    fn median(&self, get: impl Fn(&PhaseResult) -> Option<f64>, show: fn(f64) -> String) -> String {
        let values: Vec<f64> = self.rounds.iter().filter_map(|result| get(result)).collect();
        median(&values).map_or_else(|| "-".to_owned(), show)
    }

    fn duration(&self, get: fn(&PhaseResult) -> u64) -> String {
        self.median(|result| Some(get(result) as f64), format_duration)
    }
}

/// A table with a block for each row and a line of `cells` for each engine.
fn blocks(file: &ResultFile, titles: &[&str], cells: fn(&Cells<'_>) -> Vec<String>) -> String {
    let mut table = TextTable::new(1, titles);
    for phase in &file.phases {
        table.push_heading(&phase.name);
        for summary in file.summary.iter().filter(|summary| summary.row == phase.row) {
            let measured = summary.median_ops_per_second.is_some();
            let rounds = if measured { valid_results(file, phase.row, &summary.engine) } else { Vec::new() };
            let mut line = vec![format!("  {}", summary.engine)];
            line.extend(cells(&Cells { summary, rounds }));
            table.push(line);
        }
    }
    table.text()
}

fn rates_table(file: &ResultFile) -> String {
    let first = file.engines.iter().find(|engine| engine.present).map_or("", |engine| engine.id.as_str());
    let rule = format!("Operations per second. A ratio divides the two medians: engine / {first}.");
    wrap(&rule, 0) + &blocks(file, &["", "rate", "ratio", "p50", "p99"], rate_cells)
}

fn rate_cells(cells: &Cells<'_>) -> Vec<String> {
    let rate = cells.summary.median_ops_per_second;
    let ratio = cells.summary.ratio_to_first.as_ref();
    vec![
        rate.map_or_else(|| "-".to_owned(), |rate| format!("median {:>12}", format_rate(rate) + "/s")),
        ratio.map_or_else(String::new, |ratio| {
            format!("{} {:<6}", plain_ratio(ratio.of_medians), verdict_label(ratio.verdict))
        }),
        cells.duration(|result| result.latency_ns.p50),
        cells.duration(|result| result.latency_ns.p99),
    ]
}

fn further_table(file: &ResultFile) -> String {
    let rule = "Medians of other measures. slow: the slowest 0.1 s relative to the mean; written: bytes to \
                storage per byte put; space: bytes on disk per byte of live data.";
    let titles = ["", "p99.9", "longest", "slow", "cpu s", "memory", "written", "space"];
    wrap(rule, 0) + &blocks(file, &titles, further_cells)
}

fn further_cells(cells: &Cells<'_>) -> Vec<String> {
    vec![
        cells.duration(|result| result.latency_ns.p99_9),
        cells.duration(|result| result.latency_ns.max),
        cells.median(|result| result.slowest_100ms_to_mean, |share| format!("{share:.2}")),
        cells.median(|result| result.cpu_seconds, |seconds| format!("{seconds:.2}")),
        cells.median(|result| result.peak_rss_bytes.map(|bytes| bytes as f64), format_bytes),
        cells.median(|result| result.write_amplification, |factor| format!("{factor:.1}")),
        cells.median(|result| result.space_amplification, |factor| format!("{factor:.2}")),
    ]
}

/// Latencies of the concurrent writers; empty if no row has any.
fn writers_table(file: &ResultFile) -> String {
    let mut table = TextTable::new(1, &["", "p50", "p99", "longest"]);
    let mut is_empty = true;
    for phase in file.phases.iter().filter(|phase| phase.workload.writers > 0) {
        table.push_heading(&phase.name);
        for engine in file.summary.iter().filter(|summary| summary.row == phase.row) {
            let rounds = valid_results(file, phase.row, &engine.engine);
            let latencies = rounds.iter().filter_map(|result| result.writers_latency_ns.as_ref());
            let cell = |get: fn(&Latency) -> u64| {
                let values: Vec<f64> = latencies.clone().map(|latency| get(latency) as f64).collect();
                median(&values).map_or_else(|| "-".to_owned(), format_duration)
            };
            let name = format!("  {}", engine.engine);
            table.push(vec![name, cell(|l| l.p50), cell(|l| l.p99), cell(|l| l.max)]);
            is_empty = false;
        }
    }
    if is_empty {
        return String::new();
    }
    "\n".to_owned() + &wrap("Latencies of the concurrent writers.", 0) + &table.text()
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
    use crate::report::model::{EngineInfo, PhaseInfo};

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
            "fillseq",
            "a median 1,000/s 1.00 us 0 ns",
            "b - - -",
            "a 0 ns 2.00 ms - - - - -",
            "c not available",
            "FAILED b in fillseq, round 1: no space",
        ] {
            let normalised =
                text.lines().map(|l| l.split_whitespace().collect::<Vec<_>>().join(" ")).collect::<Vec<_>>();
            assert!(normalised.iter().any(|line| line.starts_with(part)), "no {part:?} in\n{text}");
        }
    }

    /// Result file with engines, a row and sizes as large as they get.
    fn wide() -> ResultFile {
        let result = |engine: &str, rate| PhaseResult {
            engine: engine.into(),
            ops_per_second: rate,
            latency_ns: Latency { p50: 999_999, p99: 9_999_999, p99_9: 99_999_999, ..Latency::default() },
            slowest_100ms_to_mean: Some(0.99),
            cpu_seconds: Some(1234.56),
            peak_rss_bytes: Some(999 << 20),
            write_amplification: Some(1000.0),
            space_amplification: Some(100.0),
            error: String::new(),
            ..PhaseResult::default()
        };
        let note = "a note that is as long as the notes of engines are, with every difference in it";
        let ids = ["terrace", "terrace-appended-2"];
        let engines = ids.map(|id| EngineInfo {
            id: id.into(),
            name: "Terrace (appended logs)".into(),
            how: "C API of /usr/lib/x86_64-linux-gnu/libleveldb.so.1.23.0".into(),
            present: true,
            note: note.into(),
            ..EngineInfo::default()
        });
        let mut file = ResultFile {
            phases: vec![PhaseInfo { name: "readreverse-compacted".into(), ..PhaseInfo::default() }],
            engines: engines.into(),
            results: vec![result(ids[0], 98_765.0), result(ids[1], 12_345_678.0)],
            ..ResultFile::default()
        };
        file.summary = super::super::summary::summarise(&file);
        file
    }

    #[test]
    fn text_fits_eighty_columns() {
        let text = render(&wide());
        assert!(text.lines().all(|line| line.chars().count() <= WIDTH), "{text}");
        assert!(text.lines().any(|line| line.chars().count() > WIDTH - 10), "nothing was wide:\n{text}");
    }

    #[test]
    fn wrapped_text() {
        let long = format!("  id  {} end", "word ".repeat(20).trim_end());
        assert!(wrap(&long, 6).lines().all(|line| line.len() <= WIDTH));
        assert_eq!(wrap(&long, 6).lines().nth(1), Some("      word word word word word end"));
        assert_eq!(wrap("  id  short", 6), "  id  short\n");
    }

    #[test]
    fn line_divides_its_own_figures() {
        let text = render(&wide());
        let line =
            text.lines().find(|line| line.starts_with("  terrace-appended-2  median")).expect("a line");
        assert!(line.contains("median 12,345,678/s  125.00x noise"), "{line}");
        assert!(text.contains("median     98,765/s"), "{text}");
    }

    #[test]
    fn syncs_on_a_file_system_in_memory() {
        let mut file = wide();
        file.machine.filesystem = "tmpfs".into();
        assert_eq!(sync_warning(&file), None);
        file.phases[0].workload.sync = true;
        let warning = sync_warning(&file).expect("the row syncs");
        assert!(
            warning.starts_with("tmpfs keeps files in memory") && warning.contains("readreverse-compacted")
        );
        file.machine.filesystem = "ext4".into();
        assert_eq!(sync_warning(&file), None);
    }
}
