//! One panel for each other engine: the speed of the first engine relative to it, row by row.
//!
//! ```text
//!                    LevelDB faster | Terrace faster
//!   fillseq                         |=========|-|      7.2x
//!   fillsync                        |[]                within noise
//!   readseq               |-|=======|                  1.9x slower
//!                    2x             1x       2x    5x
//! ```
//!
//! The axis is logarithmic and the same in every panel, so twice as fast and half as fast are
//! equally long. A bar has the colour of the winner; a bar within the noise is hollow. The whisker
//! extends from the slowest to the fastest round.

use super::log_axis::LogAxis;
use super::report_view::{Engine, ReportView, Row};
use super::svg::{Anchor, Svg, WIDTH};
use super::text::{escape, plural, truncate};
use crate::report::model::{Ratio, Verdict};
use crate::report::number_format::times;

const LEFT: f64 = 100.0;
const RIGHT: f64 = 288.0;
const TOP: f64 = 22.0;
const STEP: f64 = 20.0;

/// All panels; empty without another engine.
pub(super) fn section(view: &ReportView<'_>) -> String {
    let Some(first) = view.base_engine() else { return String::new() };
    let compared: Vec<_> =
        view.other_engines().iter().map(|engine| (*engine, view.ratios_to_base(*engine))).collect();
    let all =
        || compared.iter().flat_map(|(_, rows)| rows.iter().map(|(_, ratio)| SpeedFactor::from_ratio(ratio)));
    if all().next().is_none() {
        return String::new();
    }
    let range = range(all());
    let panels: String = compared.iter().map(|(engine, _)| panel(view, first, *engine, range)).collect();
    let name = escape(first.name());
    format!(
        "<section id=\"ratios\"><h2>Relative speed</h2>\n<p>{name} against each other engine: the ratio of \
         their median rates. A bar points to the winner and has its colour; a hollow bar is \
         within the noise. Whiskers extend over the ratios of matching rounds. The axis is logarithmic.</p>\n\
         <div class=\"grid\">{panels}</div></section>"
    )
}

/// Speed of the first engine relative to another. The file's ratios are the inverse.
struct SpeedFactor {
    of_medians: f64,
    min: f64,
    max: f64,
    verdict: Verdict,
}

impl SpeedFactor {
    fn from_ratio(ratio: &Ratio) -> SpeedFactor {
        SpeedFactor {
            of_medians: 1.0 / ratio.of_medians,
            min: 1.0 / ratio.max,
            max: 1.0 / ratio.min,
            verdict: ratio.verdict,
        }
    }

    fn is_slower(&self) -> bool {
        self.verdict == Verdict::Faster
    }

    fn describe(&self) -> String {
        match self.verdict {
            Verdict::WithinNoise => "within noise".to_owned(),
            _ if self.is_slower() => format!("{} slower", times(1.0 / self.of_medians)),
            _ => times(self.of_medians),
        }
    }
}

/// Range that contains every whisker, 1, and a factor of 1.5 to both sides.
fn range(all: impl Iterator<Item = SpeedFactor>) -> (f64, f64) {
    let (least, most) = all.fold((1.0_f64 / 1.5, 1.5_f64), |(least, most), factor| {
        (least.min(factor.min), most.max(factor.max))
    });
    (least / 1.05, most * 1.05)
}

fn panel(view: &ReportView<'_>, first: Engine<'_>, other: Engine<'_>, range: (f64, f64)) -> String {
    let rows = view.ratios_to_base(other);
    let title = format!("{} against {}", first.name(), other.name());
    let mut svg = Svg::new(format_args!("ratio-{}", other.style), &title);
    let axis = LogAxis::new(range, (LEFT, RIGHT));
    let bottom = TOP + STEP * view.rows.len() as f64 + 4.0;
    grid(&mut svg, &axis, bottom);
    side_labels(&mut svg, &axis, first, other);
    for (place, row) in view.rows.iter().enumerate() {
        let y = TOP + STEP * (place as f64 + 0.5) + 2.0;
        svg.text("label", Anchor::End, (LEFT - 8.0, y + 4.0), truncate(&row.info.name, 16));
        match row.cell(other).and_then(|cell| cell.ratio()) {
            Some(ratio) => bar(&mut svg, &axis, y, row, (first, other), &SpeedFactor::from_ratio(ratio)),
            None => svg.text("value faint", Anchor::End, (WIDTH, y + 4.0), "not compared"),
        }
    }
    let figure = svg.finish(bottom + 16.0, &describe_panel(&rows));
    format!(
        "<figure><figcaption>{}{}</figcaption>{figure}</figure>",
        heading(other, &rows),
        win_loss_count(&rows)
    )
}

fn grid(svg: &mut Svg, axis: &LogAxis, bottom: f64) {
    let mut last = f64::NEG_INFINITY;
    let steps: &[f64] = if axis.ratio() > 60.0 { &[1.0] } else { &[1.0, 2.0, 5.0] };
    for tick in axis.ticks(steps) {
        let x = axis.position(tick);
        let one = (tick - 1.0).abs() < 0.001;
        svg.line(if one { "one" } else { "rule" }, (x, TOP), (x, bottom));
        // Ticks are a factor of 2 to 2.5 apart, so their labels collide only in very wide ranges.
        if x - last > 24.0 {
            svg.text("tick", Anchor::Middle, (x, bottom + 12.0), times_label(tick));
            last = x;
        }
    }
}

/// Formats `1/5×` to `1×` to `5×`.
fn times_label(tick: f64) -> String {
    if tick < 0.999 { format!("1/{:.0}×", 1.0 / tick) } else { format!("{tick:.0}×") }
}

/// Labels the sides with the names of the engines.
fn side_labels(svg: &mut Svg, axis: &LogAxis, first: Engine<'_>, other: Engine<'_>) {
    let one = axis.position(1.0);
    svg.text("side", Anchor::End, (one - 6.0, 13.0), format_args!("◂ {}", truncate(other.name(), 14)));
    svg.text(
        "side",
        Anchor::Start,
        (one + 6.0, 13.0),
        format_args!("{} faster ▸", truncate(first.name(), 14)),
    );
}

fn bar(
    svg: &mut Svg,
    axis: &LogAxis,
    y: f64,
    row: &Row<'_>,
    engines: (Engine<'_>, Engine<'_>),
    factor: &SpeedFactor,
) {
    let (first, other) = engines;
    let one = axis.position(1.0);
    let end = axis.position(factor.of_medians);
    let winner = if factor.of_medians < 1.0 { other } else { first };
    let class = match factor.verdict {
        Verdict::WithinNoise => "bar hollow".to_owned(),
        _ => format!("bar e{}", winner.style % 8),
    };
    svg.rect(&class, (one.min(end), y - 5.5), ((end - one).abs(), 11.0));
    svg.line("whisker", (axis.position(factor.min), y), (axis.position(factor.max), y));
    let class = if factor.is_slower() { "lost" } else { "value" };
    svg.text(class, Anchor::End, (WIDTH, y + 4.0), factor.describe());
    let tip = format!(
        "{}: {} / {} = {} (rounds {} to {})",
        row.info.name,
        first.name(),
        other.name(),
        times(factor.of_medians),
        times(factor.min),
        times(factor.max),
    );
    svg.pointer_region("bar", (0.0, y - STEP / 2.0), (WIDTH, STEP), &tip);
}

/// Heading with the geometric mean, the only mean that does not depend on which engine is the
/// numerator.
fn heading(other: Engine<'_>, rows: &[(&Row<'_>, &Ratio)]) -> String {
    let logarithms = rows.iter().map(|(_, ratio)| (1.0 / ratio.of_medians).ln());
    let mean = if rows.is_empty() { f64::NAN } else { (logarithms.sum::<f64>() / rows.len() as f64).exp() };
    let mean = crate::report::number_format::or_none(Some(mean), times);
    format!("<span class=\"big\">{mean}</span> <span class=\"vs\">against {}</span>", escape(other.name()))
}

fn win_loss_count(rows: &[(&Row<'_>, &Ratio)]) -> String {
    let of = |verdict| rows.iter().filter(|(_, ratio)| ratio.verdict == verdict).count();
    format!(
        "<span class=\"sub\">geometric mean of {}: {} slower, {} within noise, {} faster</span>",
        plural(rows.len(), "row", "rows"),
        of(Verdict::Faster),
        of(Verdict::WithinNoise),
        of(Verdict::Slower),
    )
}

fn describe_panel(rows: &[(&Row<'_>, &Ratio)]) -> String {
    let descriptions = rows
        .iter()
        .map(|(row, ratio)| format!("{} {}", row.info.name, SpeedFactor::from_ratio(ratio).describe()));
    descriptions.collect::<Vec<_>>().join(", ")
}
