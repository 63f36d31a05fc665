//! Where one merge may be cut, so that several threads do it.
//!
//! ```text
//!   inputs     |--:--:--:--|   |--:--:--|      level 1: tables, whose begins are looked at, and some ends of blocks
//!              |---:----:----:----:----:---|   level 2
//!   slices     [        )[         )[      ]   about the same number of bytes in each
//! ```
//!
//! A slice has all versions of its user keys, so what becomes of them does not depend on where the others end.

use super::{Compaction, CompactionContext};
use crate::error::Result;
use crate::version::total_size;

use terrace_format::key;

/// The user keys from `begin`, up to and without `end`.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Subcompaction {
    pub(crate) begin: Option<Vec<u8>>,
    pub(crate) end: Option<Vec<u8>>,
}

/// Ends of blocks that are looked at in each table. Slices are as even as these are dense.
const SEPARATORS_PER_TABLE: usize = 16;

/// Where schedules are explored tables are tiny, and slices must be, too.
const ALLOW_TINY_SUBCOMPACTIONS: bool = cfg!(feature = "shuttle");

/// At most `most` slices of `job`, in their order, that have all of its keys. None is smaller than about a table.
pub(crate) fn split_into_subcompactions(
    job: &Compaction,
    environment: &CompactionContext<'_>,
    most: usize,
) -> Result<Vec<Subcompaction>> {
    let inputs: Vec<_> = job.input_files().cloned().collect();
    let least = if ALLOW_TINY_SUBCOMPACTIONS { 1 } else { job.limits.target_file_size.max(1) };
    let count = (total_size(&inputs) / least).min(most as u64);
    let mut samples = Vec::new();
    if count > 1 {
        for file in &inputs {
            let table = environment.table_cache.find_table(file.table_ref())?;
            let first = std::iter::once(file.smallest.user_key());
            let keys: Vec<_> =
                first.chain(table.sample_separators(SEPARATORS_PER_TABLE).map(key::user_key)).collect();
            let weight = file.size / keys.len() as u64;
            samples.extend(keys.into_iter().map(|key| (key.to_vec(), weight)));
        }
    }
    let user = environment.version.comparator.user_comparator();
    samples.sort_by(|(a, _), (b, _)| user.compare(a, b));
    samples.dedup_by(|(b, more), (a, weight)| {
        let same = user.compare(a, b).is_eq();
        *weight += if same { *more } else { 0 };
        same
    });
    Ok(split_at_even_shares(samples, count))
}

/// Cuts at those of the sorted `samples` that part their weight into `count` even shares.
fn split_at_even_shares(samples: Vec<(Vec<u8>, u64)>, count: u64) -> Vec<Subcompaction> {
    let total: u64 = samples.iter().map(|(_, weight)| weight).sum();
    let mut slices = vec![Subcompaction::default()];
    let mut before = 0;
    for (key, weight) in samples {
        let made = slices.len() as u64;
        if let Some(last) = slices.last_mut().filter(|_| made < count && before >= total / count * made) {
            last.end = Some(key.clone());
            slices.push(Subcompaction { begin: Some(key), end: None });
        }
        before += weight;
    }
    slices
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(samples: &[(&str, u64)], count: u64, expect: &str) {
        let samples = samples.iter().map(|(key, weight)| (key.as_bytes().to_vec(), *weight)).collect();
        let show = |key: &Option<Vec<u8>>| key.as_deref().unwrap_or_default().escape_ascii().to_string();
        let slices: Vec<_> = split_at_even_shares(samples, count)
            .iter()
            .map(|slice| format!("{}..{}", show(&slice.begin), show(&slice.end)))
            .collect();
        assert_eq!(slices.join(" "), expect);
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
