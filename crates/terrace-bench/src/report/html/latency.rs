//! Latencies: the median, the 99th percentile, the 99.9th percentile, and beyond.
//!
//! ```text
//!   10 ms |                                  /+
//!    1 ms |                    ______/------/        up: longer, tenfold each step
//!   10 us |      ______.------/   ____.---.--+
//!    1 us |-----/_______.--------/                   right: rarer, tenfold each step
//!         0 %      90 %      99 %     99.9 %
//! ```
//!
//! A curve shows all rounds together. Its last point is the longest operation, at the share of one
//! operation.

use super::log_axis::LogAxis;
use super::report_view::{Cell, Row};
use super::svg::{Anchor, Path, Svg, WIDTH, classes};
use super::text::truncate;
use crate::report::number_format::{count, nanoseconds, or_none};

const LEFT: f64 = 46.0;
const RIGHT: f64 = WIDTH - 8.0;
const HEIGHT: f64 = 216.0;
const LINE: f64 = 15.0;

/// Percentiles with a tick, a marker and a tooltip.
static PERCENTILES: &[(f64, &str)] = &[
    (0.5, "50 %"),
    (0.9, "90 %"),
    (0.99, "99 %"),
    (0.999, "99.9 %"),
    (0.9999, "99.99 %"),
    (0.999_99, "99.999 %"),
    (0.999_999, "99.9999 %"),
    (0.999_999_9, "99.99999 %"),
];

/// Latency curve of one engine.
struct Curve<'a> {
    cell: &'a Cell<'a>,
    /// Upper bound in ns, and number of operations up to it.
    steps: Vec<(f64, u64)>,
    operations: u64,
}

/// Figure of one row; `None` if no engine has a histogram.
pub(super) fn figure(row: &Row<'_>) -> Option<String> {
    let curves: Vec<Curve<'_>> = row.cells.iter().filter_map(curve).collect();
    let nines = curves.iter().map(|curve| nines_of_max(curve.operations)).fold(2.0, f64::max);
    let range = latency_range(&curves)?;
    let legend = LINE * curves.len().div_ceil(3) as f64;
    let top = legend + 8.0;
    let bottom = legend + 8.0 + HEIGHT;
    let across = |nine: f64| LEFT + (RIGHT - LEFT) * (nine / nines).min(1.0);
    let up = LogAxis::new(range, (bottom, top));

    let title = format!("{}: latencies", row.info.name);
    let mut svg = Svg::new(format_args!("latency-{}", row.info.row), title);
    names(&mut svg, &curves);
    for tick in up.decades() {
        svg.line("rule", (LEFT, up.position(tick)), (RIGHT, up.position(tick)));
        svg.text("tick", Anchor::End, (LEFT - 5.0, up.position(tick) + 3.5), nanoseconds(tick));
    }
    percentile_axis(&mut svg, nines, across, (top, bottom));
    for curve in &curves {
        draw_curve(&mut svg, curve, across, &up);
    }
    pointer_regions(&mut svg, &curves, nines, across, (top, bottom));
    let descriptions: Vec<String> = curves.iter().map(describe_curve).collect();
    Some(svg.finish(bottom + 18.0, &descriptions.join("; ")))
}

fn curve<'a>(cell: &'a Cell<'a>) -> Option<Curve<'a>> {
    let mut operations = 0u64;
    let mut steps = Vec::new();
    for (upper, count) in cell.histogram() {
        operations = operations.saturating_add(count);
        // An operation never takes 0 ns; a coarse clock gets its smallest step.
        steps.push((upper.max(1) as f64, operations));
    }
    (operations > 0).then_some(Curve { cell, steps, operations })
}

impl Curve<'_> {
    /// Latency that `share` of the operations did not exceed.
    fn percentile(&self, share: f64) -> Option<f64> {
        let rank = (share * self.operations as f64).ceil() as u64;
        self.steps.iter().find(|(_, up_to)| *up_to >= rank).map(|(upper, _)| *upper)
    }
}

/// Position of a share on the axis: 0 for 0 %, 1 for 90 %, 2 for 99 %.
fn nines(share: f64) -> f64 {
    -(1.0 - share).log10()
}

/// Position of the longest of `operations` on the axis.
fn nines_of_max(operations: u64) -> f64 {
    (operations.max(1) as f64).log10()
}

/// Range of full decades that contains every latency.
fn latency_range(curves: &[Curve<'_>]) -> Option<(f64, f64)> {
    let least = curves.iter().filter_map(|curve| curve.steps.first()).map(|step| step.0);
    let most = curves.iter().filter_map(|curve| curve.steps.last()).map(|step| step.0);
    let from = least.min_by(f64::total_cmp)?.log10().floor();
    let to = most.max_by(f64::total_cmp)?.log10().ceil();
    Some((10f64.powf(from), 10f64.powf(to.max(from + 1.0))))
}

fn names(svg: &mut Svg, curves: &[Curve<'_>]) {
    for (place, curve) in curves.iter().enumerate() {
        let x = WIDTH / 3.0 * (place % 3) as f64;
        let y = LINE * (place / 3) as f64 + 8.0;
        let style = curve.cell.engine.style;
        svg.line(&format!("curve {}", classes(style)), (x, y), (x + 22.0, y));
        svg.marker(style, (x + 11.0, y));
        svg.text("name", Anchor::Start, (x + 27.0, y + 4.0), truncate(curve.cell.engine.name(), 14));
    }
}

fn percentile_axis(svg: &mut Svg, nines_shown: f64, across: impl Fn(f64) -> f64, (top, bottom): (f64, f64)) {
    svg.text("tick", Anchor::Start, (LEFT, bottom + 13.0), "0 %");
    let mut last = LEFT + 20.0;
    for (share, label) in PERCENTILES.iter().filter(|(share, _)| nines(*share) <= nines_shown + 0.01) {
        let x = across(nines(*share));
        svg.line("rule", (x, top), (x, bottom));
        let half = 2.9 * label.chars().count() as f64;
        if x - half > last + 3.0 {
            let x = x.min(WIDTH - half);
            svg.text("tick", Anchor::Middle, (x, bottom + 13.0), label);
            last = x + half;
        }
    }
}

fn draw_curve(svg: &mut Svg, curve: &Curve<'_>, across: impl Fn(f64) -> f64, up: &LogAxis) {
    let mut path = Path::default();
    let mut pen = (LEFT, curve.steps.first().map_or(LEFT, |step| up.position(step.0)));
    path.move_to(pen);
    for (upper, up_to) in &curve.steps {
        let share = *up_to as f64 / curve.operations as f64;
        let nine = if *up_to < curve.operations { nines(share) } else { nines_of_max(curve.operations) };
        let to = (across(nine), up.position(*upper));
        let is_last = *up_to == curve.operations;
        if is_last || (to.0 - pen.0).abs() + (to.1 - pen.1).abs() >= 1.0 {
            // A step: every operation of a bucket counts with the bucket's upper bound.
            path.line_to((pen.0, to.1)).line_to(to);
            pen = to;
        }
    }
    let style = curve.cell.engine.style;
    svg.path(&format!("curve {}", classes(style)), &path);
    let marked = PERCENTILES.iter().filter(|(share, _)| nines(*share) < nines_of_max(curve.operations));
    for (share, _) in marked {
        if let Some(ns) = curve.percentile(*share) {
            svg.marker(style, (across(nines(*share)), up.position(ns)));
        }
    }
    svg.marker(style, pen);
}

/// Tooltips around each percentile.
fn pointer_regions(
    svg: &mut Svg,
    curves: &[Curve<'_>],
    nines_shown: f64,
    across: impl Fn(f64) -> f64,
    (top, bottom): (f64, f64),
) {
    let places: Vec<_> =
        PERCENTILES.iter().filter(|(share, _)| nines(*share) <= nines_shown + 0.01).collect();
    for (place, (share, label)) in places.iter().enumerate() {
        let x = across(nines(*share));
        // The region extends to the right as far as to the left.
        let before = place.checked_sub(1).map_or(0.0, |before| nines(places[before].0));
        let half = (x - across(before)) / 2.0;
        let mut tip = format!("{label} took at most");
        for curve in curves {
            tip += &format!(
                "\n{}: {}",
                curve.cell.engine.name(),
                or_none(curve.percentile(*share), nanoseconds)
            );
        }
        svg.pointer_region("curve", (x - half, top), (half * 2.0, bottom - top), &tip);
    }
}

fn describe_curve(curve: &Curve<'_>) -> String {
    let at = |share| or_none(curve.percentile(share), nanoseconds);
    let operations = count(curve.operations);
    let name = curve.cell.engine.name();
    format!("{name}: half of {operations} took at most {}, 99 % {}, 99.9 % {}", at(0.5), at(0.99), at(0.999))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_of_a_histogram() {
        let cell = crate::report::html::report_view::tests::cell(&[(10, 50), (20, 49), (900, 1)]);
        let curve = curve(&cell).unwrap();
        assert_eq!(
            [0.5, 0.51, 0.99, 1.0].map(|share| curve.percentile(share)),
            [10.0, 20.0, 20.0, 900.0].map(Some)
        );
    }

    #[test]
    fn coarse_clock() {
        let cell = crate::report::html::report_view::tests::cell(&[(0, 5)]);
        assert_eq!(latency_range(&[curve(&cell).unwrap()]), Some((1.0, 10.0)));
    }

    #[test]
    fn empty_histogram() {
        assert!(curve(&crate::report::html::report_view::tests::cell(&[(10, 0)])).is_none());
    }
}
