//! Chart of the levels of a database.
//!
//! ```text
//!   level  files      size
//!       0      2   3.1 MiB  ##==                      AD/Canillo/Canillo .. ZW/Harare/Harare
//!       1      -         -
//!       2     11  20.9 MiB  ##==##==##==##==##==##=   AD/Canillo/Canillo .. ZW/Midlands/Gweru
//! ```
//!
//! Key ranges that need more space take it from the bars. [`crate::key_range`] formats them.
//!
//! All bars share one scale: the bar of the largest level fills its column. Shades alternate
//! between files if each file has at least [`MIN_CELLS_PER_FILE`]. Levels below the last level that
//! has a file are not drawn.

use std::io::{self, Write};

use terrace::{Comparator, LevelInfo};

use crate::key_range::KeyRangeText;
use crate::terminal::{Colour, Style};
use crate::units;

/// Width of the columns before the bars.
const LABEL_COLUMNS: usize = "  level  files       size  ".len();

/// Minimum width of a file at which its shade is visible.
const MIN_CELLS_PER_FILE: usize = 2;

/// Minimum width of the bars if key ranges need space.
const MIN_BAR_COLUMNS: usize = 10;

/// Draws `levels`, whose keys are ordered by `comparator`.
pub(crate) fn draw(
    out: &mut impl Write,
    levels: &[LevelInfo],
    comparator: &dyn Comparator,
    style: &Style,
) -> io::Result<()> {
    writeln!(out, "{}", style.paint(Colour::Dim, "  level  files       size"))?;
    let drawn = levels.iter().rposition(|level| !level.files.is_empty()).map_or(1, |last| last + 1);
    let largest = levels.iter().map(level_bytes).max().unwrap_or(0);
    let columns = style.width.saturating_sub(LABEL_COLUMNS);
    let ranges = levels.iter().filter_map(|level| smallest_and_largest(level, comparator));
    let range_columns =
        ranges.map(|(smallest, largest)| KeyRangeText::new(smallest, largest).columns()).max();
    let half = columns / 2;
    let left = columns.saturating_sub(2 + range_columns.unwrap_or(0));
    let width = left.clamp(MIN_BAR_COLUMNS.min(half), half);
    for level in levels.iter().take(drawn) {
        writeln!(out, "{}", level_line(level, comparator, largest, width, style).trim_end())?;
    }
    Ok(())
}

/// Total size of the files of all `levels`.
pub(crate) fn total_bytes(levels: &[LevelInfo]) -> u64 {
    levels.iter().map(level_bytes).fold(0, u64::saturating_add)
}

/// Total size of the files of a level.
pub(crate) fn level_bytes(level: &LevelInfo) -> u64 {
    level.files.iter().fold(0, |bytes, file| bytes.saturating_add(file.size))
}

fn level_line(
    level: &LevelInfo,
    comparator: &dyn Comparator,
    largest: u64,
    width: usize,
    style: &Style,
) -> String {
    if level.files.is_empty() {
        return format!("  {:>5}  {:>5}  {:>9}", level.level, "-", "-");
    }
    let cells = bar(level, largest, width, style.unicode);
    let empty = " ".repeat(width.saturating_sub(cells.chars().count()));
    let key_columns = style.width.saturating_sub(LABEL_COLUMNS + width + 2);
    let labels = format!(
        "  {:>5}  {:>5}  {:>9}",
        level.level,
        units::count(level.files.len() as u64),
        units::size(level_bytes(level))
    );
    format!(
        "{labels}  {}{empty}  {}",
        style.paint(Colour::Cyan, cells),
        key_range(level, comparator, key_columns, style.unicode)
    )
}

/// Bar of a level that has files; at least one cell.
fn bar(level: &LevelInfo, largest: u64, width: usize, unicode: bool) -> String {
    let total = level_bytes(level);
    let cells = scale(total, largest, width).max(1);
    let shades = if unicode { ['█', '▓'] } else { ['#', '='] };
    let files_visible = level.files.len() * MIN_CELLS_PER_FILE <= cells;
    let mut bar = String::new();
    let mut drawn = 0;
    let mut bytes = 0u64;
    for (i, file) in level.files.iter().enumerate() {
        bytes = bytes.saturating_add(file.size);
        let end = if files_visible { scale(bytes, total, cells) } else { cells };
        bar.extend((drawn..end).map(|_| shades[i % 2]));
        drawn = drawn.max(end);
    }
    bar
}

/// Converts `part` of `whole` to a number of cells out of `width`, rounded.
fn scale(part: u64, whole: u64, width: usize) -> usize {
    (part as f64 / whole.max(1) as f64 * width as f64).round() as usize
}

/// Smallest and largest key of a level, in `columns`.
fn key_range(level: &LevelInfo, comparator: &dyn Comparator, columns: usize, unicode: bool) -> String {
    smallest_and_largest(level, comparator).map_or_else(String::new, |(smallest, largest)| {
        KeyRangeText::new(smallest, largest).fit(columns, if unicode { "…" } else { "~" })
    })
}

/// The files of level 0 are not in key order.
fn smallest_and_largest<'a>(
    level: &'a LevelInfo,
    comparator: &dyn Comparator,
) -> Option<(&'a [u8], &'a [u8])> {
    let smallest = level.files.iter().map(|file| &file.smallest).min_by(|a, b| comparator.compare(a, b));
    let largest = level.files.iter().map(|file| &file.largest).max_by(|a, b| comparator.compare(a, b));
    Some((smallest?, largest?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use terrace::TableInfo;

    fn level(level: usize, files: &[(u64, &str, &str)]) -> LevelInfo {
        let files = files.iter().zip(0..).map(|((size, smallest, largest), number)| {
            TableInfo::new(number, *size, smallest.as_bytes().to_vec(), largest.as_bytes().to_vec())
        });
        LevelInfo { level, files: files.collect() }
    }

    #[track_caller]
    fn check(levels: &[LevelInfo], expect: &[&str]) {
        let mut out = Vec::new();
        draw(&mut out, levels, &terrace::Bytewise, &Style::PLAIN).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert_eq!(text.lines().skip(1).collect::<Vec<_>>(), expect, "\n{text}");
    }

    #[test]
    fn empty_database() {
        check(&[level(0, &[]), level(1, &[])], &["      0      -          -"]);
    }

    #[test]
    fn gap_between_levels() {
        check(
            &[level(0, &[(100, "a", "m")]), level(1, &[]), level(2, &[(1000, "a", "f"), (1000, "g", "z")])],
            &[
                "      0      1      100 B  #                           a .. m",
                "      1      -          -",
                "      2      2    2.0 KiB  #############=============  a .. z",
            ],
        );
    }

    #[test]
    fn unordered_files_of_level_0() {
        let files = [(1, "m", "z"), (1, "a", "f")];
        check(&[level(0, &files)], &["      0      2        2 B  #############=============  a .. z"]);
    }

    #[test]
    fn tiny_and_large_level() {
        let lines = [
            "      0      1        1 B  #                           a .. b",
            "      1      1    1.0 MiB  ##########################  a .. b",
        ];
        check(&[level(0, &[(1, "a", "b")]), level(1, &[(1 << 20, "a", "b")])], &lines);
    }

    #[test]
    fn more_files_than_cells() {
        let files = vec![(10, "k", "k"); 500];
        check(&[level(0, &files)], &["      0    500    4.9 KiB  ##########################  k .. k"]);
    }

    #[test]
    fn terminal_too_narrow_for_keys() {
        let narrow = Style { width: 40, ..Style::PLAIN };
        let mut out = Vec::new();
        draw(&mut out, &[level(0, &[(100, "apple", "zebra")])], &terrace::Bytewise, &narrow).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert_eq!(text.lines().next_back(), Some("      0      1      100 B  ######"));
    }

    #[test]
    fn long_keys_take_space_from_the_bars() {
        check(
            &[level(0, &[(1, "customers/0017/orders", "suppliers/0029")])],
            &["      0      1        1 B  ############  customers/0017/orders .. suppliers/0029"],
        );
    }

    #[test]
    fn long_keys_with_a_common_prefix() {
        let smallest = "customers/Europe/Switzerland/Zurich/000017";
        let largest = "customers/Europe/Switzerland/Zurich/000921";
        check(
            &[level(0, &[(1, smallest, largest)])],
            &["      0      1        1 B  ##########  customers/Europe/Switzerland~{017 .. 921}"],
        );
    }
}
