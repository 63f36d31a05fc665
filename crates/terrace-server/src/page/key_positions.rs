//! Positions of keys in the picture of the levels, from 0 to 1.
//!
//! ```text
//!   boundary keys   a     f     m     t     z        of all tables, in key order
//!   weights           2     5     1     2            bytes of the tables over the part
//!   position        0    .2    .7    .8    1
//! ```
//!
//! Parts with equal amounts of data have equal widths, whatever the keys are.

use std::cmp::Ordering;

use terrace_format::comparator::Comparator;

use super::edit_log::TableRow;

/// Positions of the smallest and largest keys of tables, in the order of the tables.
pub(super) fn positions(tables: &[&TableRow], comparator: &dyn Comparator) -> Vec<(f64, f64)> {
    let mut bounds: Vec<&[u8]> = Vec::with_capacity(2 * tables.len());
    for table in tables {
        bounds.extend([&*table.smallest, &*table.largest]);
    }
    bounds.sort_unstable_by(|a, b| comparator.compare(a, b));
    bounds.dedup_by(|a, b| comparator.compare(a, b) == Ordering::Equal);
    let rank = |key: &[u8]| bounds.partition_point(|bound| comparator.compare(bound, key) == Ordering::Less);
    let ranks: Vec<(usize, usize)> =
        tables.iter().map(|table| (rank(&table.smallest), rank(&table.largest))).collect();
    let edges = edges(tables, &ranks, bounds.len());
    // A key is a part of its own, so that the table of one key has a width.
    ranks.iter().map(|(first, last)| (edges[2 * first], edges[2 * last + 1])).collect()
}

/// Begin of each part, and the end of the last one. Part 2n is the boundary key n, and part 2n + 1
/// are the keys between it and the next one.
fn edges(tables: &[&TableRow], ranks: &[(usize, usize)], keys: usize) -> Vec<f64> {
    let parts = 2 * keys;
    // Differences of the weights from part to part, so that a table over many parts takes two
    // steps.
    let mut differences = vec![0.0; parts + 1];
    for (table, (first, last)) in tables.iter().zip(ranks) {
        let begin = 2 * first;
        let end = (2 * last + 1).max(begin + 1);
        let weight = table.bytes as f64 / (end - begin) as f64;
        differences[begin] += weight;
        differences[end] -= weight;
    }
    let mut edges = Vec::with_capacity(parts + 1);
    let mut weight = 0.0;
    let mut sum = 0.0;
    for difference in &differences {
        edges.push(sum);
        weight += difference;
        sum += f64::max(weight, 0.0);
    }
    let total = if sum > 0.0 { sum } else { 1.0 };
    edges.iter().map(|edge| (edge / total).min(1.0)).collect()
}

#[cfg(test)]
mod tests {
    use terrace_format::comparator::bytewise;

    use super::*;

    fn table(smallest: &str, largest: &str, bytes: u64) -> TableRow {
        TableRow::new(0, terrace::TableInfo::new(0, bytes, smallest.into(), largest.into()), 0)
    }

    fn check(tables: &[TableRow], expected: &[(f64, f64)]) {
        let tables: Vec<&TableRow> = tables.iter().collect();
        let found = positions(&tables, &*bytewise());
        assert_eq!(found.len(), expected.len());
        for ((left, right), (expected_left, expected_right)) in found.iter().zip(expected) {
            let is_near = (left - expected_left).abs() < 1e-6 && (right - expected_right).abs() < 1e-6;
            assert!(is_near, "{found:?}");
        }
    }

    #[test]
    fn equal_data_has_equal_width() {
        check(&[], &[]);
        check(&[table("a", "z", 7)], &[(0.0, 1.0)]);
        check(
            &[table("a", "b", 10), table("c", "c", 10), table("d", "z", 20)],
            &[(0.0, 0.25), (0.25, 0.5), (0.5, 1.0)],
        );
        // The upper table covers both lower ones.
        check(
            &[table("a", "d", 0), table("a", "b", 10), table("c", "d", 30)],
            &[(0.0, 1.0), (0.0, 0.25), (0.25, 1.0)],
        );
    }

    #[test]
    fn many_tables_take_little_time() {
        let key = |number: usize| format!("{number:08}");
        let tables: Vec<TableRow> =
            (0..20_000).map(|number| table(&key(2 * number), &key(2 * number + 1), 1)).collect();
        let tables: Vec<&TableRow> = tables.iter().collect();
        let found = positions(&tables, &*bytewise());
        assert!(found.windows(2).all(|pair| pair[0].1 <= pair[1].0 + 1e-9));
        assert!((found[10_000].0 - 0.5).abs() < 1e-6);
    }
}
