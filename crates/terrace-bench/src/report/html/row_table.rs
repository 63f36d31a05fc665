//! Table of the numbers of one row: the data of its figures, and further measures.

use super::report_view::{Cell, Row};
use super::svg::icon;
use super::text::escape;
use crate::report::model::PhaseResult;
use crate::report::number_format::{bytes, nanoseconds, or_none, percent, rate, seconds, times};

/// A column.
struct Column {
    head: &'static str,
    value: fn(&PhaseResult) -> Option<f64>,
    aggregate: Aggregate,
    format: fn(f64) -> String,
}

/// Aggregation of the rounds to one number.
enum Aggregate {
    Median,
    Least,
    Greatest,
}

const fn column(
    head: &'static str,
    aggregate: Aggregate,
    format: fn(f64) -> String,
    value: fn(&PhaseResult) -> Option<f64>,
) -> Column {
    Column { head, value, aggregate, format }
}

static COLUMNS: &[Column] = &[
    column("Rate", Aggregate::Median, rate, |round| Some(round.ops_per_second)),
    column("p50", Aggregate::Median, nanoseconds, |round| Some(round.latency_ns.p50 as f64)),
    column("p90", Aggregate::Median, nanoseconds, |round| Some(round.latency_ns.p90 as f64)),
    column("p99", Aggregate::Median, nanoseconds, |round| Some(round.latency_ns.p99 as f64)),
    column("p99.9", Aggregate::Median, nanoseconds, |round| Some(round.latency_ns.p99_9 as f64)),
    column("p99.99", Aggregate::Median, nanoseconds, |round| Some(round.latency_ns.p99_99 as f64)),
    column("Longest", Aggregate::Greatest, nanoseconds, |round| Some(round.latency_ns.max as f64)),
    column("Slowest 1 s", Aggregate::Least, percent, |round| round.slowest_1s_to_mean),
    column("Slowest 100 ms", Aggregate::Least, percent, |round| round.slowest_100ms_to_mean),
    column("Processor", Aggregate::Median, seconds, |round| round.cpu_seconds),
    column("Peak memory", Aggregate::Greatest, bytes, |round| round.peak_rss_bytes.map(|count| count as f64)),
    column("Written", Aggregate::Median, bytes, |round| round.device_bytes_written.map(|count| count as f64)),
    column("Write amp.", Aggregate::Median, times, |round| round.write_amplification),
    column("Space", Aggregate::Median, bytes, |round| round.space_bytes.map(|count| count as f64)),
    column("Space amp.", Aggregate::Median, times, |round| round.space_amplification),
    column("Quiet after", Aggregate::Median, seconds, |round| round.quiet_seconds),
];

/// Table of one row, without columns that are empty for all engines.
pub(super) fn table(row: &Row<'_>) -> String {
    let columns: Vec<&Column> =
        COLUMNS.iter().filter(|column| row.cells.iter().any(|cell| column.figure(cell).is_some())).collect();
    let heads: String =
        columns.iter().map(|column| format!("<th scope=\"col\">{}</th>", column.head)).collect();
    let lines: String = row.cells.iter().map(|cell| line(cell, &columns)).collect();
    let label = escape(&row.info.name);
    format!(
        "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{label} in figures\"><table class=\"figures\"><thead><tr><th scope=\"col\">Engine</th>{heads}</tr></thead>\
         <tbody>{lines}</tbody></table></div>"
    )
}

impl Column {
    fn figure(&self, cell: &Cell<'_>) -> Option<f64> {
        match self.aggregate {
            Aggregate::Median => cell.median(self.value),
            Aggregate::Least => cell.min(self.value),
            Aggregate::Greatest => cell.max(self.value),
        }
    }
}

fn line(cell: &Cell<'_>, columns: &[&Column]) -> String {
    let figures: String = columns
        .iter()
        .map(|column| format!("<td>{}</td>", or_none(column.figure(cell), column.format)))
        .collect();
    let name = escape(cell.engine.name());
    format!("<tr><th scope=\"row\">{}{name}</th>{figures}</tr>", icon(cell.engine.style))
}
