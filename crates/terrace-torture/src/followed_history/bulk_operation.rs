//! Operations of a writer that change many keys without a record in the WAL for each of them.
//!
//! ```text
//!   period    1        2              3             4                            5 ..
//!   change    ingest   delete slots   bulk load     delete the first and half    ingest ..
//!                                                   of the third
//! ```
//!
//! The writer executes one after each [`BULK_PERIOD`] writes. A later write is never visible
//! without it. Its entries appear all at once, and a deletion of a range key by key.

use terrace_testkit::rng::splitmix;

use super::{SLOTS, slot_key, value};

/// Number of writes from one operation to the next.
pub const BULK_PERIOD: u64 = 701;

/// Number of entries that an operation adds.
const ENTRIES: u64 = 60;

/// Number of slots that an operation deletes.
const DELETED_SLOTS: u64 = 100;

/// Entry: a key and its value.
pub type Entry = (Vec<u8>, Vec<u8>);

/// Operation that changes many keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BulkOperation {
    /// Ingests these sorted entries. No other operation has their keys.
    Ingest(Vec<Entry>),
    /// Loads these entries. No other operation has their keys.
    BulkLoad(Vec<Entry>),
    /// Deletes a range of keys.
    DeleteRange {
        /// First key.
        begin: Vec<u8>,
        /// End of the range, without this key.
        end: Vec<u8>,
        /// Keys of the range that may exist.
        keys: Vec<Vec<u8>>,
    },
}

impl BulkOperation {
    /// Returns the operation between write number `write` and the next one.
    pub fn after(write: u64) -> Option<BulkOperation> {
        if write == 0 || !write.is_multiple_of(BULK_PERIOD) {
            return None;
        }
        let period = write / BULK_PERIOD;
        Some(match period % 4 {
            1 => BulkOperation::Ingest(entries(period)),
            2 => delete_slots(period),
            3 => BulkOperation::BulkLoad(entries(period)),
            _ => delete_entries(period),
        })
    }

    /// Returns a key whose presence shows that the entries were added.
    pub fn added_key(&self) -> Option<&[u8]> {
        match self {
            BulkOperation::Ingest(entries) | BulkOperation::BulkLoad(entries) => Some(&entries[0].0),
            BulkOperation::DeleteRange { .. } => None,
        }
    }
}

fn key(period: u64, index: u64) -> Vec<u8> {
    format!("bulk{period:08}-{index:03}").into_bytes()
}

fn entries(period: u64) -> Vec<Entry> {
    (0..ENTRIES).map(|index| (key(period, index), value((period << 32) + index))).collect()
}

fn delete_slots(period: u64) -> BulkOperation {
    let mut state = period;
    let first = splitmix(&mut state) % (SLOTS - DELETED_SLOTS);
    let slots = first..first + DELETED_SLOTS;
    BulkOperation::DeleteRange {
        begin: slot_key(slots.start),
        end: slot_key(slots.end),
        keys: slots.map(slot_key).collect(),
    }
}

/// Deletes the entries of the ingest, half of those of the bulk load, and the other half of the
/// bulk load before.
fn delete_entries(period: u64) -> BulkOperation {
    let half = ENTRIES / 2;
    let earlier =
        period.checked_sub(5).into_iter().flat_map(|earlier| (half..ENTRIES).map(move |i| key(earlier, i)));
    let ingested = (0..ENTRIES).map(|index| key(period - 3, index));
    let loaded = (0..half).map(|index| key(period - 1, index));
    BulkOperation::DeleteRange {
        begin: key(0, 0),
        end: key(period - 1, half),
        keys: earlier.chain(ingested).chain(loaded).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_of_eight_periods() {
        let texts: Vec<String> = (1..=8)
            .map(|period| match BulkOperation::after(period * BULK_PERIOD).unwrap() {
                BulkOperation::Ingest(entries) => format!("ingest {}", entries.len()),
                BulkOperation::BulkLoad(entries) => format!("load {}", entries.len()),
                BulkOperation::DeleteRange { keys, begin, end } => {
                    assert!(keys.iter().all(|key| (&begin..&end).contains(&key)));
                    format!("delete {}", keys.len())
                }
            })
            .collect();
        let expected =
            "ingest 60, delete 100, load 60, delete 90, ingest 60, delete 100, load 60, delete 120";
        assert_eq!(texts.join(", "), expected);
        assert_eq!(BulkOperation::after(0), None);
        assert_eq!(BulkOperation::after(BULK_PERIOD + 1), None);
    }
}
