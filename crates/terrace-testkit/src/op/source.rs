//! Where random operations come from: a table of kinds with weights.

use super::{Harm, Op, Range, Slot, Step, Upheaval, Value, Write};
use crate::rng::Rng;
use crate::settings::Order;

/// What the operations of a run are like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// The order of keys; prefixes are only used bytewise.
    pub order: Order,
    /// How many ordinary keys there are.
    pub keys: u64,
    /// The shortest ordinary value, in bytes.
    pub value_min: u64,
    /// The longest ordinary value, in bytes.
    pub value_max: u64,
    /// What stock LevelDB lacks: bounds, prefixes, zstd.
    pub own: bool,
    /// Things that happen to a whole database in memory.
    pub upheavals: bool,
    /// One write in this many is a sync; 0 for none.
    pub sync_one_in: u64,
    /// Snapshots and merges of ranges come often: many versions of each key, in tables that are merged apart.
    pub strata: bool,
}

impl Shape {
    /// A random one.
    pub fn draw(rng: &mut Rng) -> Shape {
        Shape {
            order: rng.pick(&[Order::Bytewise, Order::Bytewise, Order::Reverse, Order::Shortlex]),
            keys: rng.pick(&[10, 100, 1_000, 5_000]),
            value_min: 0,
            value_max: rng.pick(&[100, 1_000, 4_000]),
            own: true,
            upheavals: false,
            sync_one_in: 50,
            strata: false,
        }
    }
}

/// An endless list of operations.
#[derive(Debug)]
pub struct Source {
    rng: Rng,
    shape: Shape,
}

/// Weight and maker of each kind of operation.
type Row = (u64, fn(&mut Source) -> Op);

static KINDS: &[Row] = &[
    (300, Source::put),
    (80, Source::delete),
    (40, Source::batch),
    (150, Source::get),
    (15, Source::get_many),
    (1, Source::scan),
    (10, Source::take),
    (5, |s| Op::Release { slot: s.slot() }),
    (15, Source::open),
    (350, Source::step),
    (5, |s| Op::Close { slot: s.slot() }),
    (4, |_| Op::Flush),
    (1, Source::compact),
    (1, Source::erase),
    (1, Source::reopen),
    (5, Source::size),
    (2, Source::property),
];

/// How rare an upheaval is where there are any.
const UPHEAVAL_ONE_IN: u64 = 1_000;

/// How often a snapshot is taken or a range merged besides, where there are to be strata.
const STRATUM_ONE_IN: u64 = 25;

static UPHEAVALS: &[Upheaval] = &[
    Upheaval::Kill,
    Upheaval::Kill,
    Upheaval::PowerCut,
    Upheaval::PowerCut,
    Upheaval::PowerCut,
    Upheaval::PowerCut,
    Upheaval::Repair(Harm::Nothing),
    Upheaval::Repair(Harm::Current),
    Upheaval::Repair(Harm::Manifest),
    Upheaval::Destroy,
    Upheaval::Copy,
    Upheaval::Copy,
    Upheaval::Verify,
    Upheaval::ReadOnly,
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

/// True if every LevelDB knows this one of the properties that a [`Source`] asks for.
pub(crate) fn is_property(name: &str) -> bool {
    !matches!(name, "leveldb.num-files-at-level7" | "leveldb.nothing")
}

impl Iterator for Source {
    type Item = Op;

    fn next(&mut self) -> Option<Op> {
        if self.shape.upheavals && self.rng.one_in(UPHEAVAL_ONE_IN) {
            return Some(Op::Upheaval(self.rng.pick(UPHEAVALS)));
        }
        if self.shape.strata && self.rng.one_in(STRATUM_ONE_IN) {
            return Some(if self.rng.one_in(3) { self.compact() } else { self.take() });
        }
        let all: u64 = KINDS.iter().map(|(weight, _)| weight).sum();
        let mut left = self.rng.below(all);
        for (weight, make) in KINDS {
            match left.checked_sub(*weight) {
                Some(rest) => left = rest,
                None => return Some(make(self)),
            }
        }
        None
    }
}

impl Source {
    /// The operations of `shape` that `seed` stands for.
    pub fn new(seed: u64, shape: Shape) -> Source {
        Source { rng: Rng::new(seed), shape }
    }

    /// Mostly ordinary keys in groups of a common prefix; some that are empty, or all zeros and ones, or that begin
    /// with one another.
    fn key(&mut self) -> Vec<u8> {
        match self.rng.below(50) {
            0 => (0..self.rng.below(5)).map(|_| self.rng.pick(&[0x00, b'k', 0xfe, 0xff])).collect(),
            1 => vec![b'k'; self.rng.below(20) as usize],
            _ => ordinary_key(self.rng.below(self.shape.keys)),
        }
    }

    fn maybe_key(&mut self) -> Option<Vec<u8>> {
        if self.rng.one_in(3) { None } else { Some(self.key()) }
    }

    fn value(&mut self) -> Value {
        // Now and then one that no block, and at times no write buffer, can hold.
        let len = match self.rng.below(2_000) {
            0 => self.rng.skewed(100_000),
            1 if self.rng.one_in(4) => 1 << 20,
            _ => self.shape.value_min + self.rng.skewed(self.shape.value_max - self.shape.value_min),
        };
        Value { len: len as u32, seed: self.rng.next_u64() as u32 }
    }

    fn slot(&mut self) -> Slot {
        self.rng.below(4) as Slot
    }

    fn maybe_slot(&mut self) -> Option<Slot> {
        if self.rng.one_in(3) { Some(self.slot()) } else { None }
    }

    fn sync(&mut self) -> bool {
        self.shape.sync_one_in > 0 && self.rng.one_in(self.shape.sync_one_in)
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
        Op::Get { key: self.key(), at: self.maybe_slot() }
    }

    fn get_many(&mut self) -> Op {
        let count = self.rng.below(200).min(self.shape.keys);
        Op::GetMany { first: self.rng.below(self.shape.keys - count + 1), count, at: self.maybe_slot() }
    }

    fn scan(&mut self) -> Op {
        Op::Scan { at: self.maybe_slot() }
    }

    fn take(&mut self) -> Op {
        Op::Take { slot: self.slot() }
    }

    fn open(&mut self) -> Op {
        Op::Open { slot: self.slot(), at: self.maybe_slot(), range: self.range() }
    }

    fn range(&mut self) -> Range {
        if !self.shape.own || self.rng.one_in(2) {
            return Range::default();
        }
        let prefix = self.shape.order == Order::Bytewise && self.rng.one_in(4);
        Range { lower: self.maybe_key(), upper: self.maybe_key(), prefix: prefix.then(|| self.prefix()) }
    }

    fn prefix(&mut self) -> Vec<u8> {
        let mut prefix = self.key();
        prefix.truncate(self.rng.below(5) as usize);
        prefix
    }

    /// Mostly walks in one direction; turns often enough to meet every state of a merge.
    fn step(&mut self) -> Op {
        let step = match self.rng.below(20) {
            0 => Step::First,
            1 => Step::Last,
            2..=4 => Step::Seek(self.key()),
            5..=12 => Step::Next,
            _ => Step::Prev,
        };
        Op::Step { slot: self.slot(), step }
    }

    fn compact(&mut self) -> Op {
        Op::Compact { begin: self.maybe_key(), end: self.maybe_key() }
    }

    /// Mostly of a part, for what is gone is no longer there to be tried.
    fn erase(&mut self) -> Op {
        let (begin, end) = if self.rng.one_in(8) {
            (self.maybe_key(), self.maybe_key())
        } else {
            let (first, count) = (self.rng.below(self.shape.keys), self.rng.skewed(self.shape.keys));
            (Some(ordinary_key(first)), Some(ordinary_key(first + count)))
        };
        Op::Erase { begin, end }
    }

    fn reopen(&mut self) -> Op {
        if self.rng.one_in(2) { Op::Reopen } else { Op::ReopenWith { seed: self.rng.next_u64() } }
    }

    fn size(&mut self) -> Op {
        Op::Size { begin: self.key(), end: self.key() }
    }

    fn property(&mut self) -> Op {
        Op::Property { name: self.rng.pick(PROPERTIES) }
    }
}

/// The ordinary key of a number, as `k3/000010`. By hand: a run draws millions.
pub fn ordinary_key(n: u64) -> Vec<u8> {
    let mut key = *b"k0/000000";
    key[1] += (n % 7) as u8;
    let mut rest = n;
    for digit in key[3..].iter_mut().rev() {
        *digit += (rest % 10) as u8;
        rest /= 10;
    }
    key.to_vec()
}
