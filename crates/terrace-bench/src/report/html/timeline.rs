//! Throughput over time: a strip for each engine, on one time axis, in windows of 100 ms.
//!
//! ```text
//!   Terrace                       1.6 M/s, slowest 100 ms 91 % of it
//!   |####|                                        each strip has its own height scale, as the
//!                                                 figure says: its own fastest window;
//!   LevelDB                       184 k/s, slowest 100 ms 1 % of it; the dashes are its mean
//!   |###_##########__###########_#######|
//!        ^         ^^           ^                 stalls: less than a tenth of the mean
//!   0 s      1 s      2 s      3 s
//! ```
//!
//! The strip shows the round with the median rate; the slowest window is that of all rounds. If a
//! run has more windows than the figure has columns, each column shows its fastest window in a pale
//! colour and its slowest in full, so that no stall is averaged away.

use super::log_axis::round_step;
use super::report_view::{Cell, Row};
use super::svg::{Anchor, Path, Svg, WIDTH, classes};
use super::text::truncate;
use crate::report::model::PhaseResult;
use crate::report::number_format::{percent, rate, seconds};

const WINDOW_SECONDS: f64 = 0.1;
const MAX_COLUMNS: usize = 340;
/// Number of tooltip regions across the figure.
const POINTER_REGIONS: usize = 60;
const HEAD: f64 = 17.0;
const STRIP: f64 = 45.0;
const GAP: f64 = 10.0;
/// Statement below each figure with several strips.
const OWN_SCALES: &str = "Each strip has its own height scale: compare rates, not heights.";
/// A window with less than this share of the mean is a stall.
const STALL_SHARE: f64 = 0.1;

/// One window, or the windows of one column.
struct WindowColumn {
    from: f64,
    to: f64,
    min: f64,
    max: f64,
}

/// Figure of one row; `None` if no engine has windows.
pub(super) fn figure(row: &Row<'_>) -> Option<String> {
    Some(draw(row, true)?.0)
}

/// Figure without tooltips, for documents, and its height.
pub(super) fn picture(row: &Row<'_>) -> Option<(String, f64)> {
    draw(row, false)
}

fn draw(row: &Row<'_>, with_tooltips: bool) -> Option<(String, f64)> {
    let runs: Vec<(&Cell<'_>, &PhaseResult)> =
        row.cells.iter().filter_map(|cell| Some((cell, round_with_windows(cell.median_round()?)?))).collect();
    let end = runs.iter().map(|(_, round)| round.seconds).fold(0.0, f64::max);
    if runs.is_empty() {
        return None;
    }
    let title = format!("{}: throughput over time", row.info.name);
    let mut svg = Svg::new(format_args!("time-{}", row.info.row), title);
    let bottom = (HEAD + STRIP + GAP) * runs.len() as f64 - GAP;
    time_axis(&mut svg, end, bottom);
    if runs.len() > 1 {
        svg.text("tick", Anchor::Start, (0.0, bottom + 26.0), OWN_SCALES);
    }
    let mut descriptions = Vec::new();
    for (place, (cell, round)) in runs.iter().enumerate() {
        let top = (HEAD + STRIP + GAP) * place as f64;
        descriptions.push(strip(&mut svg, cell, round, top, end));
    }
    if with_tooltips {
        pointer_regions(&mut svg, &runs, end, bottom);
    }
    let height = bottom + if runs.len() > 1 { 31.0 } else { 18.0 };
    Some((svg.finish(height, &descriptions.join("; ")), height))
}

/// Returns `round` if its windows contain operations.
fn round_with_windows(round: &PhaseResult) -> Option<&PhaseResult> {
    let timed = round.seconds.is_finite() && round.seconds > 0.0;
    (timed && round.windows_100ms.iter().any(|ops| *ops > 0)).then_some(round)
}

fn time_axis(svg: &mut Svg, end: f64, bottom: f64) {
    let step = round_step(end, 6);
    for tick in 0..=6 {
        let time = step * f64::from(tick);
        let x = WIDTH * time / end;
        if x > WIDTH {
            break;
        }
        let (anchor, shown) = match tick {
            0 => (Anchor::Start, "0".to_owned()),
            _ if x > WIDTH - 14.0 => (Anchor::End, instant(time, end)),
            _ => (Anchor::Middle, instant(time, end)),
        };
        svg.line("rule", (x, HEAD), (x, bottom));
        svg.text("tick", anchor, (x, bottom + 13.0), shown);
    }
}

/// Formats a tick of the time axis. All ticks of a figure have the unit of its end.
fn instant(time: f64, end: f64) -> String {
    let (unit, scale) = match end {
        end if end < 0.001 => ("µs", 1e6),
        end if end < 1.0 => ("ms", 1e3),
        _ => ("s", 1.0),
    };
    format!("{} {unit}", (time * scale * 1000.0).round() / 1000.0)
}

/// Draws one engine's strip, and describes it in words.
fn strip(svg: &mut Svg, cell: &Cell<'_>, round: &PhaseResult, top: f64, end: f64) -> String {
    let style = cell.engine.style;
    let strip_top = top + HEAD;
    let base = strip_top + STRIP;
    let columns = columns(round);
    let most = columns.iter().map(|column| column.max).fold(f64::MIN_POSITIVE, f64::max);
    let x = |time: f64| WIDTH * (time / end).min(1.0);
    let y = |rate: f64| base - (base - strip_top) * rate / most;

    svg.path(&format!("peak {}", classes(style)), &outline(&columns, base, x, |column| y(column.max)));
    svg.path(&format!("low {}", classes(style)), &outline(&columns, base, x, |column| y(column.min)));
    svg.line("base", (0.0, base), (WIDTH, base));
    let mean = round.ops as f64 / round.seconds;
    svg.line("mean", (0.0, y(mean)), (x(round.seconds), y(mean)));
    for stall in columns.iter().filter(|column| column.min < mean * STALL_SHARE) {
        svg.rect("stall", (x(stall.from), base + 1.0), ((x(stall.to) - x(stall.from)).max(1.5), 4.0));
    }
    svg.marker(style, (5.0, top + 8.0));
    svg.text("name", Anchor::Start, (13.0, top + 12.0), truncate(cell.engine.name(), 18));
    let figures = strip_text(cell, mean);
    svg.text("value", Anchor::End, (WIDTH, top + 12.0), &figures);
    format!("{} {figures}", cell.engine.name())
}

fn strip_text(cell: &Cell<'_>, mean: f64) -> String {
    match cell.min(|round| round.slowest_100ms_to_mean) {
        Some(slowest) => format!("{}, slowest 100 ms {} of it", rate(mean), percent(slowest)),
        None => {
            format!("{} in {}", rate(mean), seconds(cell.median(|round| Some(round.seconds)).unwrap_or(0.0)))
        }
    }
}

/// The windows as rates, in at most `MAX_COLUMNS` columns.
fn columns(round: &PhaseResult) -> Vec<WindowColumn> {
    let windows = &round.windows_100ms;
    let each = windows.len().div_ceil(MAX_COLUMNS).max(1);
    let parts = windows.chunks(each).enumerate();
    parts.filter_map(|(place, ops)| column(round, place * each, ops)).collect()
}

/// Column of the windows from number `from` on, which contain `ops` operations each; `None` if no
/// window has a rate.
fn column(round: &PhaseResult, from: usize, ops: &[u64]) -> Option<WindowColumn> {
    let rates = (from..).zip(ops).filter_map(|(window, ops)| window_rate(round, window, *ops));
    let (least, most) = rates.fold((f64::INFINITY, 0.0), |(a, b), rate| (rate.min(a), rate.max(b)));
    let to = (from + ops.len()) as f64 * WINDOW_SECONDS;
    (least <= most).then_some(WindowColumn {
        from: from as f64 * WINDOW_SECONDS,
        to: to.min(round.seconds),
        min: least,
        max: most,
    })
}

/// Rate of a window. The last window ends with the phase; if it is too short, it has no rate.
fn window_rate(round: &PhaseResult, window: usize, ops: u64) -> Option<f64> {
    let left = round.seconds - window as f64 * WINDOW_SECONDS;
    let length = left.min(WINDOW_SECONDS);
    let whole_phase = window == 0 && length > 0.0;
    (whole_phase || length > WINDOW_SECONDS / 4.0).then(|| ops as f64 / length)
}

/// Outline of the steps, from the base line and back.
fn outline(
    columns: &[WindowColumn],
    base: f64,
    x: impl Fn(f64) -> f64,
    y: impl Fn(&WindowColumn) -> f64,
) -> Path {
    let mut path = Path::default();
    let (Some(first), Some(last)) = (columns.first(), columns.last()) else { return path };
    path.move_to((x(first.from), base));
    for column in columns {
        path.line_to((x(column.from), y(column))).line_to((x(column.to), y(column)));
    }
    path.line_to((x(last.to), base)).close();
    path
}

/// Tooltips: the time, and the rate of every engine that still runs.
fn pointer_regions(svg: &mut Svg, runs: &[(&Cell<'_>, &PhaseResult)], end: f64, bottom: f64) {
    let all: Vec<Vec<WindowColumn>> = runs.iter().map(|(_, round)| columns(round)).collect();
    let longest = all.iter().map(Vec::len).max().unwrap_or(0);
    let places = longest.clamp(1, POINTER_REGIONS);
    let width = WIDTH / places as f64;
    for place in 0..places {
        let time = end * (place as f64 + 0.5) / places as f64;
        let mut tip = format!("at {}", seconds(time));
        for ((cell, _), columns) in runs.iter().zip(&all) {
            let now = columns.iter().find(|column| column.from <= time && time < column.to);
            let shown = now.map_or_else(|| "done".to_owned(), column_text);
            tip += &format!("\n{}: {shown}", cell.engine.name());
        }
        svg.pointer_region("curve", (place as f64 * width, 0.0), (width, bottom), &tip);
    }
}

fn column_text(column: &WindowColumn) -> String {
    match (rate(column.min), rate(column.max)) {
        (least, most) if least == most => most,
        (least, most) => format!("{least} to {most}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round(seconds: f64, windows: &[u64]) -> PhaseResult {
        let ops = windows.iter().sum();
        PhaseResult { seconds, ops, windows_100ms: windows.to_vec(), ..PhaseResult::default() }
    }

    #[test]
    fn short_last_window() {
        let columns = columns(&round(0.25, &[100, 10, 50]));
        let rates: Vec<f64> = columns.iter().map(|column| column.max.round()).collect();
        assert_eq!(
            rates,
            [1000.0, 100.0, 1000.0],
            "half a window with half the operations is as fast as a whole"
        );
    }

    #[test]
    fn very_short_last_window() {
        assert_eq!(columns(&round(0.101, &[100, 9])).len(), 1, "1 ms is too short");
        assert_eq!(columns(&round(0.001, &[9])).len(), 1, "unless it is the whole phase");
    }

    #[test]
    fn one_stall_in_many_windows() {
        let mut windows = vec![100; 5000];
        windows[4321] = 0;
        let columns = columns(&round(500.0, &windows));
        assert!(columns.len() <= MAX_COLUMNS);
        assert_eq!(columns.iter().filter(|column| column.min == 0.0).count(), 1);
        assert!(columns.iter().all(|column| column.max.round() == 1000.0));
    }
}
