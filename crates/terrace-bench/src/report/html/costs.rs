//! What it cost: bytes written to the device, space, processor, memory. Medians over the rounds.
//!
//! Bars begin at 0; shorter is better. The line at 1x is what the data itself takes.

use super::numbers::{bytes, nanoseconds, or_none, times};
use super::svg::{Anchor, Svg, WIDTH};
use super::text::cut;
use super::view::{Cell, Row};
use crate::report::model::PhaseResult;

const LEFT: f64 = 84.0;
const RIGHT: f64 = WIDTH - 56.0;
const HEAD: f64 = 17.0;
const STEP: f64 = 15.0;
const GAP: f64 = 15.0;

/// A measure, and how it is shown.
struct Measure {
    name: &'static str,
    of: fn(&PhaseResult) -> Option<f64>,
    show: fn(f64) -> String,
    /// Whether it is a multiple of the data.
    is_multiple: bool,
}

static MEASURES: &[Measure] = &[
    Measure {
        name: "Written to the device, per byte put",
        of: |round| round.write_amplification,
        show: times,
        is_multiple: true,
    },
    Measure {
        name: "Space on the device, per byte of live data",
        of: |round| round.space_amplification,
        show: times,
        is_multiple: true,
    },
    Measure {
        name: "Processor time per operation, all threads",
        of: |round| Some(round.cpu_seconds? * 1e9 / round.ops as f64),
        show: nanoseconds,
        is_multiple: false,
    },
    Measure {
        name: "Peak memory",
        of: |round| round.peak_rss_bytes.map(|count| count as f64),
        show: bytes,
        is_multiple: false,
    },
];

/// The figure of one row; nothing if nothing of it was measured.
pub(super) fn figure(row: &Row<'_>) -> Option<String> {
    let mut svg = Svg::new(format_args!("cost-{}", row.info.row), format_args!("{}: costs", row.info.name));
    let mut y = 0.0;
    let mut says = Vec::new();
    for measure in MEASURES {
        if row.cells.iter().any(|cell| cell.median(measure.of).is_some()) {
            says.push(block(&mut svg, row, measure, y));
            y += HEAD + STEP * row.cells.len() as f64 + GAP;
        }
    }
    (!says.is_empty()).then(|| svg.finish(y - GAP + 4.0, &says.join(". ")))
}

/// One measure of every engine, from `top` downwards.
fn block(svg: &mut Svg, row: &Row<'_>, measure: &Measure, top: f64) -> String {
    let figure = |cell: &Cell<'_>| cell.median(measure.of).filter(|figure| *figure >= 0.0);
    let least_end = if measure.is_multiple { 1.0 } else { f64::MIN_POSITIVE };
    let end = row.cells.iter().filter_map(figure).fold(least_end, f64::max);
    let x = |figure: f64| LEFT + (RIGHT - LEFT) * figure / end;
    let first = top + HEAD;
    svg.text("name", Anchor::Start, (0.0, top + 11.0), measure.name);
    let mut says = Vec::new();
    for (place, cell) in row.cells.iter().enumerate() {
        let y = first + STEP * place as f64;
        let name = cell.engine.name();
        let shown = or_none(figure(cell), measure.show);
        svg.text("label", Anchor::End, (LEFT - 8.0, y + 11.0), cut(name, 13));
        if let Some(figure) = figure(cell) {
            svg.rect(&format!("bar e{}", cell.engine.style % 8), (LEFT, y + 2.0), (x(figure) - LEFT, 11.0));
        }
        svg.text("value", Anchor::Start, (figure(cell).map_or(LEFT, x) + 5.0, y + 11.0), &shown);
        says.push(format!("{name} {shown}"));
    }
    let bottom = first + STEP * row.cells.len() as f64;
    svg.line("base", (LEFT, first), (LEFT, bottom));
    if measure.is_multiple {
        svg.line("one", (x(1.0), first - 1.0), (x(1.0), bottom + 1.0));
        svg.text("tick", Anchor::Middle, (x(1.0), bottom + 10.0), "1×");
    }
    format!("{}: {}", measure.name, says.join(", "))
}
