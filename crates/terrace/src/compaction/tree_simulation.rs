//! A tree without data, for simulations of the pickers: its tables have sizes and key ranges.
//!
//! Keys are drawn evenly from a fixed number of keys. The tables of a sorted run are evenly filled,
//! so the sizes tell how many keys two runs have in common.

use std::path::Path;

use terrace_format::comparator::bytewise;
use terrace_format::key::{InternalComparator, InternalKey, SequenceNumber, ValueType};
use terrace_format::version_edit::{NewFile, VersionEdit};

use super::compaction_plan::Compaction;
use crate::version::{VersionSet, total_size};

/// Number of positions in the key range of the tree.
const POSITIONS: f64 = 1e9;

/// Tree of simulated tables.
pub(crate) struct SimulatedTree {
    pub(crate) set: VersionSet,
    /// Number of different keys.
    keys: f64,
    next_number: u64,
    sequence: SequenceNumber,
}

/// Result of a simulated compaction. A move reads and writes nothing.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct SimulatedCompaction {
    pub(crate) bytes_read: u64,
    pub(crate) bytes_written: u64,
}

impl SimulatedTree {
    /// Bytes of an entry of a 10-byte key and a 16-byte value in a table.
    pub(crate) const BYTES_PER_ENTRY: f64 = 28.0;

    pub(crate) fn new(keys: f64) -> SimulatedTree {
        let set = VersionSet::empty(InternalComparator::new(bytewise()));
        SimulatedTree { set, keys, next_number: 1, sequence: 1 }
    }

    /// Adds a table of `puts` random puts to level 0. Returns its size in bytes.
    pub(crate) fn flush(&mut self, puts: f64) -> u64 {
        self.sequence += 1;
        let size = (distinct_keys(self.keys, puts) * SimulatedTree::BYTES_PER_ENTRY) as u64;
        let mut edit = VersionEdit::default();
        edit.new_files.push((0, self.new_table(size, 0.0, 1.0)));
        self.apply(&edit);
        size
    }

    /// Replaces the inputs of `compaction` by its output.
    pub(crate) fn compact(&mut self, compaction: &Compaction) -> SimulatedCompaction {
        let mut edit = compaction.version_edit();
        edit.compact_pointers.clear();
        let output_level = compaction.output_level();
        if compaction.is_trivial_move() {
            let moved = compaction.input_files().map(|file| (output_level, file.to_new_file()));
            edit.new_files.extend(moved);
            self.apply(&edit);
            return SimulatedCompaction::default();
        }
        let (low, high) = range(compaction);
        let bytes_written = self.output_bytes(compaction);
        let count = bytes_written.div_ceil(compaction.limits.target_file_size);
        for n in 0..count {
            let at = |n| low + (high - low) * n as f64 / count as f64;
            let table = self.new_table(bytes_written / count, at(n), at(n + 1) - 10.0 / POSITIONS);
            edit.new_files.push((output_level, table));
        }
        self.apply(&edit);
        let bytes_read = compaction.input_files().map(|file| file.size).sum();
        SimulatedCompaction { bytes_read, bytes_written }
    }

    /// Bytes of all tables.
    pub(crate) fn table_bytes(&self) -> u64 {
        self.set.version.levels.iter().map(total_size).sum()
    }

    /// Returns the bytes of the newest versions in the inputs.
    pub(crate) fn output_bytes(&self, compaction: &Compaction) -> u64 {
        let (low, high) = range(compaction);
        let runs = compaction.inputs.iter().flat_map(|(level, files)| {
            let files = files.iter().map(|file| file.size as f64 / SimulatedTree::BYTES_PER_ENTRY);
            if *level == 0 { files.collect() } else { vec![files.sum()] }
        });
        let keys = self.keys * (high - low).max(1.0 / POSITIONS);
        (distinct_keys_of_runs(keys, runs) * SimulatedTree::BYTES_PER_ENTRY) as u64
    }

    /// Number of sorted runs: tables of level 0, and other levels with tables.
    pub(crate) fn sorted_runs(&self) -> usize {
        let levels = &self.set.version.levels;
        levels[0].len() + levels[1..].iter().filter(|files| !files.is_empty()).count()
    }

    fn new_table(&mut self, size: u64, low: f64, high: f64) -> NewFile {
        let key = |part: f64| {
            let user_key = ((part * POSITIONS) as u64).to_be_bytes();
            InternalKey::new(&user_key, self.sequence, ValueType::Value)
        };
        self.next_number += 1;
        NewFile { number: self.next_number, size, smallest: key(low), largest: key(high) }
    }

    fn apply(&mut self, edit: &VersionEdit) {
        // The pickers choose tables of this version, so the edit fits it.
        self.set = self.set.apply_edit(edit, Path::new("MANIFEST-000001")).unwrap();
    }
}

/// Returns the number of different keys of random puts among `keys` keys.
fn distinct_keys(keys: f64, puts: f64) -> f64 {
    if keys.is_infinite() { puts } else { keys * -(-puts / keys).exp_m1() }
}

/// Returns the number of different keys of sorted runs with these numbers of entries.
fn distinct_keys_of_runs(keys: f64, runs: impl Iterator<Item = f64>) -> f64 {
    if keys.is_infinite() {
        return runs.sum();
    }
    keys * (1.0 - runs.map(|entries| 1.0 - (entries / keys).min(1.0)).product::<f64>())
}

/// Part of the key range that the inputs of a compaction have.
fn range(compaction: &Compaction) -> (f64, f64) {
    let smallest = compaction.input_files().map(|file| position(&file.smallest));
    let largest = compaction.input_files().map(|file| position(&file.largest));
    (smallest.fold(1.0, f64::min), largest.fold(0.0, f64::max))
}

/// Position of a key in the key range, from 0 to 1.
fn position(key: &InternalKey) -> f64 {
    // `new_table` makes all keys, of eight bytes.
    u64::from_be_bytes(key.user_key().try_into().unwrap()) as f64 / POSITIONS
}
