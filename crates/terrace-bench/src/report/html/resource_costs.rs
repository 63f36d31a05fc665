//! Costs: bytes written to storage, space, processor time, memory. Medians over the rounds.
//!
//! Bars begin at 0; shorter is better. The line at 1x is the size of the data itself.

use super::report_view::{Cell, Row};
use super::svg::{Anchor, Svg, WIDTH};
use super::text::truncate;
use crate::report::model::PhaseResult;
use crate::report::number_format::{bytes, nanoseconds, or_none, times};

const LEFT: f64 = 84.0;
const RIGHT: f64 = WIDTH - 56.0;
const HEAD: f64 = 17.0;
const STEP: f64 = 15.0;
const GAP: f64 = 15.0;

/// A measure, and its format.
struct CostMeasure {
    name: &'static str,
    value: fn(&PhaseResult) -> Option<f64>,
    format: fn(f64) -> String,
    /// Whether the measure is a multiple of the data size.
    is_multiple: bool,
}

static MEASURES: &[CostMeasure] = &[
    CostMeasure {
        name: "Bytes written to storage, per byte put",
        value: |round| round.write_amplification,
        format: times,
        is_multiple: true,
    },
    CostMeasure {
        name: "Disk space, per byte of live data",
        value: |round| round.space_amplification,
        format: times,
        is_multiple: true,
    },
    CostMeasure {
        name: "Processor time per operation, all threads",
        value: |round| Some(round.cpu_seconds? * 1e9 / round.ops as f64),
        format: nanoseconds,
        is_multiple: false,
    },
    CostMeasure {
        name: "Peak memory",
        value: |round| round.peak_rss_bytes.map(|count| count as f64),
        format: bytes,
        is_multiple: false,
    },
];

/// Figure of one row; `None` without measurements.
pub(super) fn figure(row: &Row<'_>) -> Option<String> {
    let mut svg = Svg::new(format_args!("cost-{}", row.info.row), format_args!("{}: costs", row.info.name));
    let mut y = 0.0;
    let mut descriptions = Vec::new();
    for measure in MEASURES {
        if row.cells.iter().any(|cell| cell.median(measure.value).is_some()) {
            descriptions.push(measure_chart(&mut svg, row, measure, y));
            y += HEAD + STEP * row.cells.len() as f64 + GAP;
        }
    }
    (!descriptions.is_empty()).then(|| svg.finish(y - GAP + 4.0, &descriptions.join(". ")))
}

/// Draws one measure of every engine, from `top` downwards.
fn measure_chart(svg: &mut Svg, row: &Row<'_>, measure: &CostMeasure, top: f64) -> String {
    let figure = |cell: &Cell<'_>| cell.median(measure.value).filter(|figure| *figure >= 0.0);
    let least_end = if measure.is_multiple { 1.0 } else { f64::MIN_POSITIVE };
    let end = row.cells.iter().filter_map(figure).fold(least_end, f64::max);
    let x = |figure: f64| LEFT + (RIGHT - LEFT) * figure / end;
    let first = top + HEAD;
    svg.text("name", Anchor::Start, (0.0, top + 11.0), measure.name);
    let mut descriptions = Vec::new();
    for (place, cell) in row.cells.iter().enumerate() {
        let y = first + STEP * place as f64;
        let name = cell.engine.name();
        let shown = or_none(figure(cell), measure.format);
        svg.text("label", Anchor::End, (LEFT - 8.0, y + 11.0), truncate(name, 13));
        if let Some(figure) = figure(cell) {
            svg.rect(&format!("bar e{}", cell.engine.style % 8), (LEFT, y + 2.0), (x(figure) - LEFT, 11.0));
        }
        svg.text("value", Anchor::Start, (figure(cell).map_or(LEFT, x) + 5.0, y + 11.0), &shown);
        descriptions.push(format!("{name} {shown}"));
    }
    let bottom = first + STEP * row.cells.len() as f64;
    svg.line("base", (LEFT, first), (LEFT, bottom));
    if measure.is_multiple {
        svg.line("one", (x(1.0), first - 1.0), (x(1.0), bottom + 1.0));
        svg.text("tick", Anchor::Middle, (x(1.0), bottom + 10.0), "1×");
    }
    format!("{}: {}", measure.name, descriptions.join(", "))
}
