//! Subcompactions: a compaction split by key range, so that several threads share it.
//!
//! ```text
//!   inputs           |--:--:--:--|   |--:--:--|      level 1: smallest keys of tables, and some
//!                    |---:----:----:----:----:---|   level 2   separators of their blocks
//!   subcompactions   [        )[         )[      ]   about the same number of bytes in each
//! ```
//!
//! A subcompaction contains all versions of its user keys. So the result does not depend on the
//! split.

use super::compaction_job::CompactionContext;
use super::compaction_plan::{Compaction, Subcompaction};
use crate::error::Result;
use crate::version::total_size;

use terrace_format::key;

/// Number of separators per table that the split considers. More separators give more even shares.
const SEPARATORS_PER_TABLE: usize = 16;

/// True in tests that explore thread schedules: their tables are tiny, so subcompactions must be
/// too.
const ALLOW_TINY_SUBCOMPACTIONS: bool = cfg!(feature = "shuttle");

/// Splits `compaction` into at most `max_count` subcompactions that cover all keys, in key order.
/// Each has about the size of one table or more.
pub(crate) fn split_into_subcompactions(
    compaction: &Compaction,
    context: &CompactionContext<'_>,
    max_count: usize,
) -> Result<Vec<Subcompaction>> {
    let inputs: Vec<_> = compaction.input_files().cloned().collect();
    let min_size = if ALLOW_TINY_SUBCOMPACTIONS { 1 } else { compaction.limits.target_file_size.max(1) };
    let count = (total_size(&inputs) / min_size).min(max_count as u64);
    let mut samples = Vec::new();
    if count > 1 {
        for file in &inputs {
            let table = context.table_cache.find_table(file.table_ref())?;
            let first = std::iter::once(file.smallest.user_key());
            let keys: Vec<_> =
                first.chain(table.sample_separators(SEPARATORS_PER_TABLE).map(key::user_key)).collect();
            let weight = file.size / keys.len() as u64;
            samples.extend(keys.into_iter().map(|key| (key.to_vec(), weight)));
        }
    }
    let comparator = context.version.comparator.user_comparator();
    samples.sort_by(|(a, _), (b, _)| comparator.compare(a, b));
    samples.dedup_by(|(b, weight_of_b), (a, weight)| {
        let is_same_key = comparator.compare(a, b).is_eq();
        if is_same_key {
            *weight += *weight_of_b;
        }
        is_same_key
    });
    Ok(split_at_even_shares(samples, count))
}

/// Splits at the keys of the sorted `samples` that divide their weight into `count` even shares.
fn split_at_even_shares(samples: Vec<(Vec<u8>, u64)>, count: u64) -> Vec<Subcompaction> {
    let total: u64 = samples.iter().map(|(_, weight)| weight).sum();
    let mut subcompactions = vec![Subcompaction::default()];
    let mut before = 0;
    for (key, weight) in samples {
        let len = subcompactions.len() as u64;
        if len < count
            && before >= total / count * len
            && let Some(last) = subcompactions.last_mut()
        {
            last.end = Some(key.clone());
            subcompactions.push(Subcompaction { begin: Some(key), end: None });
        }
        before += weight;
    }
    subcompactions
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(samples: &[(&str, u64)], count: u64, expect: &str) {
        let samples = samples.iter().map(|(key, weight)| (key.as_bytes().to_vec(), *weight)).collect();
        let show = |key: &Option<Vec<u8>>| key.as_deref().unwrap_or_default().escape_ascii().to_string();
        let ranges: Vec<_> = split_at_even_shares(samples, count)
            .iter()
            .map(|range| format!("{}..{}", show(&range.begin), show(&range.end)))
            .collect();
        assert_eq!(ranges.join(" "), expect);
    }

    #[test]
    fn splits_into_even_shares() {
        let eight: Vec<_> = ["a", "b", "c", "d", "e", "f", "g", "h"].map(|key| (key, 10)).to_vec();
        check(&eight, 1, "..");
        check(&eight, 2, "..e e..");
        check(&eight, 4, "..c c..e e..g g..");
        check(&[("a", 70), ("b", 10), ("c", 10), ("d", 10)], 2, "..b b..");
    }

    #[test]
    fn fewer_subcompactions_without_split_keys() {
        check(&[], 3, "..");
        check(&[("a", 10), ("b", 90)], 4, "..");
        check(&[("a", 90), ("b", 10)], 4, "..b b..");
    }
}
