//! Generates random operations from a table of kinds with weights.

use super::{IteratorBounds, IteratorMove, LifecycleOp, MissingFile, Op, Slot, ValueSpec, Write};
use crate::rng::Rng;
use crate::settings::ComparatorKind;

/// Order in which a run draws ordinary keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyPattern {
    /// Any key at any time.
    Random,
    /// Most keys of each group in ascending order, so that flushes have several tables.
    Ascending,
    /// Nearly all keys from a few neighbours of one group, until a flush. So tables have narrow
    /// ranges, and a flush often lies between the inputs of a compaction.
    Windows,
}

/// Parameters of the operations of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WorkloadParams {
    /// Order of keys. Prefixes are used only with bytewise order.
    pub comparator: ComparatorKind,
    /// Number of ordinary keys.
    pub keys: u64,
    /// Minimum length of an ordinary value, in bytes.
    pub value_min: u64,
    /// Maximum length of an ordinary value, in bytes.
    pub value_max: u64,
    /// True to use features that stock LevelDB lacks: bounds, prefixes, zstd.
    pub terrace_only_features: bool,
    /// True to include lifecycle events of a database in memory.
    pub lifecycle_ops: bool,
    /// One write of this many is synced; 0 for none.
    pub sync_one_in: u64,
    /// True to include frequent snapshots and manual compactions of ranges. Keys then have many
    /// versions, in tables that are compacted separately.
    pub many_versions: bool,
    /// Order of the ordinary keys.
    pub key_pattern: KeyPattern,
}

impl WorkloadParams {
    /// Draws random parameters.
    pub fn draw(rng: &mut Rng) -> WorkloadParams {
        WorkloadParams {
            comparator: rng.pick(&[
                ComparatorKind::Bytewise,
                ComparatorKind::Bytewise,
                ComparatorKind::Reverse,
                ComparatorKind::Shortlex,
            ]),
            keys: rng.pick(&[10, 100, 1_000, 5_000]),
            value_min: 0,
            value_max: rng.pick(&[100, 1_000, 4_000]),
            terrace_only_features: true,
            lifecycle_ops: false,
            sync_one_in: 50,
            many_versions: false,
            key_pattern: KeyPattern::Random,
        }
    }
}

/// Endless sequence of random operations.
#[derive(Debug)]
pub struct OpGenerator {
    rng: Rng,
    params: WorkloadParams,
    /// Number of ascending keys so far.
    ascending_keys: u64,
    /// Number of the first key of the window.
    window_start: u64,
}

/// Weight and constructor of a kind of operation.
type WeightedOp = (u64, fn(&mut OpGenerator) -> Op);

static WEIGHTED_OPS: &[WeightedOp] = &[
    (300, OpGenerator::put),
    (80, OpGenerator::delete),
    (40, OpGenerator::batch),
    (150, OpGenerator::get),
    (15, OpGenerator::multi_get),
    (1, OpGenerator::scan),
    (10, OpGenerator::take_snapshot),
    (5, |s| Op::ReleaseSnapshot { slot: s.slot() }),
    (15, OpGenerator::open_iterator),
    (350, OpGenerator::move_iterator),
    (5, |s| Op::CloseIterator { slot: s.slot() }),
    (4, |_| Op::Flush),
    (1, OpGenerator::compact_range),
    (1, OpGenerator::delete_range),
    (2, OpGenerator::ingest),
    (1, OpGenerator::bulk_load),
    (1, OpGenerator::reopen),
    (5, OpGenerator::approximate_size),
    (2, OpGenerator::property),
];

/// One operation of this many is a lifecycle event, if they are enabled.
const LIFECYCLE_OP_ONE_IN: u64 = 1_000;

/// One operation of this many is an additional snapshot or range compaction, if `many_versions` is
/// set.
const SNAPSHOT_OR_COMPACTION_ONE_IN: u64 = 25;

/// One operation of this many is a flush that ends the window of [`KeyPattern::Windows`].
const WINDOW_MOVE_ONE_IN: u64 = 100;

/// Ratio of the keys that windows may have to the ordinary ones.
const NEW_KEYS_FACTOR: u64 = 50;

/// One key of this many lies anywhere in spite of [`KeyPattern::Windows`].
const KEY_OUTSIDE_WINDOW_ONE_IN: u64 = 1_000;

/// Number of keys beyond the ordinary ones that ingests use.
const INGESTED_KEYS: u64 = 2_000;

/// Number of groups of numbered keys with a common prefix.
const KEY_GROUPS: u64 = 7;

static LIFECYCLE_OPS: &[LifecycleOp] = &[
    LifecycleOp::Kill,
    LifecycleOp::Kill,
    LifecycleOp::PowerCut,
    LifecycleOp::PowerCut,
    LifecycleOp::PowerCut,
    LifecycleOp::PowerCut,
    LifecycleOp::Repair(MissingFile::None),
    LifecycleOp::Repair(MissingFile::Current),
    LifecycleOp::Repair(MissingFile::Manifest),
    LifecycleOp::Destroy,
    LifecycleOp::Copy,
    LifecycleOp::Copy,
    LifecycleOp::Verify,
    LifecycleOp::ReadOnly,
];

static PROPERTIES: &[&str] = &[
    "leveldb.num-files-at-level0",
    "leveldb.num-files-at-level6",
    "leveldb.num-files-at-level7",
    "leveldb.stats",
    "leveldb.sstables",
    "leveldb.approximate-memory-usage",
    "leveldb.nothing",
];

/// Returns true if every LevelDB knows this property of [`PROPERTIES`].
pub(crate) fn is_known_property(name: &str) -> bool {
    !matches!(name, "leveldb.num-files-at-level7" | "leveldb.nothing")
}

impl Iterator for OpGenerator {
    type Item = Op;

    fn next(&mut self) -> Option<Op> {
        if self.params.lifecycle_ops && self.rng.one_in(LIFECYCLE_OP_ONE_IN) {
            return Some(Op::Lifecycle(self.rng.pick(LIFECYCLE_OPS)));
        }
        if self.params.key_pattern == KeyPattern::Windows && self.rng.one_in(WINDOW_MOVE_ONE_IN) {
            self.move_window();
            return Some(Op::Flush);
        }
        if self.params.many_versions && self.rng.one_in(SNAPSHOT_OR_COMPACTION_ONE_IN) {
            return Some(if self.rng.one_in(3) { self.compact_range() } else { self.take_snapshot() });
        }
        let total: u64 = WEIGHTED_OPS.iter().map(|(weight, _)| weight).sum();
        let mut left = self.rng.below(total);
        for (weight, make) in WEIGHTED_OPS {
            match left.checked_sub(*weight) {
                Some(rest) => left = rest,
                None => return Some(make(self)),
            }
        }
        None
    }
}

impl OpGenerator {
    /// Creates the operations of a seed.
    pub fn new(seed: u64, params: WorkloadParams) -> OpGenerator {
        OpGenerator { rng: Rng::new(seed), params, ascending_keys: 0, window_start: 0 }
    }

    /// Draws mostly ordinary keys in groups with a common prefix. A few keys are empty, consist of
    /// extreme bytes, or are prefixes of each other.
    fn key(&mut self) -> Vec<u8> {
        if self.params.key_pattern == KeyPattern::Windows && !self.rng.one_in(KEY_OUTSIDE_WINDOW_ONE_IN) {
            return self.key_in_window();
        }
        match self.rng.below(50) {
            0 => (0..self.rng.below(5)).map(|_| self.rng.pick(&[0x00, b'k', 0xfe, 0xff])).collect(),
            1 => vec![b'k'; self.rng.below(20) as usize],
            2 if self.params.terrace_only_features => numbered_key(self.ingested_key()),
            3..40 if self.params.key_pattern == KeyPattern::Ascending => {
                self.ascending_keys += 1;
                numbered_key(self.ascending_keys % self.params.keys)
            }
            _ => numbered_key(self.rng.below(self.params.keys)),
        }
    }

    fn key_in_window(&mut self) -> Vec<u8> {
        let keys_in_window = (self.params.keys / KEY_GROUPS / 10).max(1);
        numbered_key(self.window_start + KEY_GROUPS * self.rng.below(keys_in_window))
    }

    /// Moves the window. Half of the windows have keys that no other window has written.
    fn move_window(&mut self) {
        let keys = self.params.keys;
        let range = if self.rng.one_in(2) { keys } else { keys * NEW_KEYS_FACTOR };
        self.window_start = self.rng.below(range);
    }

    fn maybe_key(&mut self) -> Option<Vec<u8>> {
        if self.rng.one_in(3) { None } else { Some(self.key()) }
    }

    fn value(&mut self) -> ValueSpec {
        // A few values exceed the block size, and some exceed the write buffer.
        let len = match self.rng.below(2_000) {
            0 => self.rng.skewed(100_000),
            1 if self.rng.one_in(4) => 1 << 20,
            _ => self.params.value_min + self.rng.skewed(self.params.value_max - self.params.value_min),
        };
        ValueSpec { len: len as u32, seed: self.rng.next_u64() as u32 }
    }

    fn slot(&mut self) -> Slot {
        self.rng.below(4) as Slot
    }

    fn maybe_slot(&mut self) -> Option<Slot> {
        if self.rng.one_in(3) { Some(self.slot()) } else { None }
    }

    fn sync(&mut self) -> bool {
        self.params.sync_one_in > 0 && self.rng.one_in(self.params.sync_one_in)
    }

    fn put(&mut self) -> Op {
        Op::Put { key: self.key(), value: self.value(), sync: self.sync() }
    }

    fn delete(&mut self) -> Op {
        Op::Delete { key: self.key(), sync: self.sync() }
    }

    fn write(&mut self) -> Write {
        if self.rng.one_in(4) {
            Write::Delete { key: self.key() }
        } else {
            Write::Put { key: self.key(), value: self.value() }
        }
    }

    fn batch(&mut self) -> Op {
        let writes = (0..self.rng.skewed(20)).map(|_| self.write()).collect();
        Op::Batch { writes, sync: self.sync() }
    }

    fn get(&mut self) -> Op {
        Op::Get { key: self.key(), snapshot: self.maybe_slot() }
    }

    fn multi_get(&mut self) -> Op {
        let count = self.rng.below(200).min(self.params.keys);
        Op::MultiGet {
            first: self.rng.below(self.params.keys - count + 1),
            count,
            snapshot: self.maybe_slot(),
        }
    }

    fn scan(&mut self) -> Op {
        Op::Scan { snapshot: self.maybe_slot() }
    }

    fn take_snapshot(&mut self) -> Op {
        Op::TakeSnapshot { slot: self.slot() }
    }

    fn open_iterator(&mut self) -> Op {
        Op::OpenIterator { slot: self.slot(), snapshot: self.maybe_slot(), range: self.iterator_bounds() }
    }

    fn iterator_bounds(&mut self) -> IteratorBounds {
        if !self.params.terrace_only_features || self.rng.one_in(2) {
            return IteratorBounds::default();
        }
        let prefix = self.params.comparator == ComparatorKind::Bytewise && self.rng.one_in(4);
        IteratorBounds {
            lower: self.maybe_key(),
            upper: self.maybe_key(),
            prefix: prefix.then(|| self.prefix()),
        }
    }

    fn prefix(&mut self) -> Vec<u8> {
        let mut prefix = self.key();
        prefix.truncate(self.rng.below(5) as usize);
        prefix
    }

    /// Draws mostly steps in both directions, so that merging iterators change direction often.
    fn move_iterator(&mut self) -> Op {
        let movement = match self.rng.below(20) {
            0 => IteratorMove::SeekToFirst,
            1 => IteratorMove::SeekToLast,
            2..=4 => IteratorMove::Seek(self.key()),
            5..=12 => IteratorMove::Next,
            _ => IteratorMove::Prev,
        };
        Op::MoveIterator { slot: self.slot(), movement }
    }

    fn compact_range(&mut self) -> Op {
        Op::CompactRange { begin: self.maybe_key(), end: self.maybe_key() }
    }

    /// Deletes mostly a part of the keys, because a deletion of all leaves nothing to test.
    fn delete_range(&mut self) -> Op {
        if self.rng.one_in(8) {
            Op::DeleteRange { begin: self.maybe_key(), end: self.maybe_key() }
        } else {
            let first = self.rng.below(self.params.keys);
            let count = self.rng.skewed(self.params.keys);
            Op::DeleteRange { begin: Some(numbered_key(first)), end: Some(numbered_key(first + count)) }
        }
    }

    /// Number of a key that few other operations use, so that its range is often free.
    fn ingested_key(&mut self) -> u64 {
        self.params.keys + self.rng.below(INGESTED_KEYS)
    }

    /// Ingests neighbouring keys, mostly of those that few other operations use.
    fn ingest(&mut self) -> Op {
        if !self.params.terrace_only_features {
            return self.put();
        }
        let first = if self.rng.one_in(8) { self.rng.below(self.params.keys) } else { self.ingested_key() };
        let count = 1 + self.rng.skewed(20);
        // Neighbours have the same first letters.
        let entries = (0..count).map(|n| (numbered_key(first + KEY_GROUPS * n), self.value()));
        Op::Ingest { entries: entries.collect() }
    }

    fn bulk_load(&mut self) -> Op {
        if !self.params.terrace_only_features {
            return self.put();
        }
        let is_new = self.rng.one_in(2);
        let entries = (0..self.rng.skewed(100)).map(|_| {
            let key = if is_new { numbered_key(self.ingested_key()) } else { self.key() };
            (key, self.value())
        });
        Op::BulkLoad { entries: entries.collect() }
    }

    fn reopen(&mut self) -> Op {
        if self.rng.one_in(2) { Op::Reopen } else { Op::ReopenWith { seed: self.rng.next_u64() } }
    }

    fn approximate_size(&mut self) -> Op {
        Op::ApproximateSize { begin: self.key(), end: self.key() }
    }

    fn property(&mut self) -> Op {
        Op::Property { name: self.rng.pick(PROPERTIES) }
    }
}

/// Returns the ordinary key of a number, such as `k3/000010`. It avoids `format!` because a run
/// draws millions of keys.
pub fn numbered_key(n: u64) -> Vec<u8> {
    let mut key = *b"k0/000000";
    key[1] += (n % KEY_GROUPS) as u8;
    let mut rest = n;
    for digit in key[3..].iter_mut().rev() {
        *digit += (rest % 10) as u8;
        rest /= 10;
    }
    key.to_vec()
}
