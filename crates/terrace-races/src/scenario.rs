//! Who does what: a few actors with a few actions each, drawn from a seed.

use terrace_env::mem::{PROFILES, Profile};
use terrace_testkit::rng::Rng;

use crate::judge::{Key, Value};

/// How large a scenario is.
#[derive(Debug, Clone, Copy)]
pub struct Scale {
    /// Actors, at least and at most.
    pub actors: (u64, u64),
    /// Actions of each, at least and at most.
    pub actions: (u64, u64),
    /// Keys, at most.
    pub keys: u64,
    /// True if some scenarios are played on the machine's own files.
    pub files: bool,
}

/// Few enough steps that a schedule in a thousand is a rare one.
pub const SMALL: Scale = Scale { actors: (2, 4), actions: (2, 6), keys: 3, files: false };
/// Long enough that real threads meet.
pub const LARGE: Scale = Scale { actors: (2, 8), actions: (10, 40), keys: 4, files: true };

/// What is played.
#[derive(Debug)]
pub struct Scenario {
    /// How many keys there are.
    pub keys: usize,
    /// What is done before the actors begin.
    pub before: Vec<Action>,
    /// The actions of each actor, in their order.
    pub actors: Vec<Vec<Action>>,
    /// True if whoever ends last closes the database; otherwise it is closed when all have ended.
    pub last_closes: bool,
    /// Bits of a Bloom filter for each key; 0 for none.
    pub bloom_bits: usize,
    /// Go on with the log of the last run.
    pub reuse_logs: bool,
    /// The machine's own files, not those in memory.
    pub files: bool,
}

/// Something that an actor does.
#[derive(Debug, Clone)]
pub enum Action {
    /// A batch: these keys get these values, or lose theirs.
    Write {
        /// Each key once.
        values: Vec<(Key, Value)>,
        /// The length of a value.
        length: usize,
        /// On the medium when it returns.
        sync: bool,
    },
    /// Look one key up.
    Get(Key),
    /// Walk over everything.
    Scan {
        /// From the last key to the first.
        backward: bool,
    },
    /// Take a snapshot, and keep it until the next is taken.
    Take,
    /// Read the snapshot that is kept, key by key and by walking: it must be as it was.
    Look,
    /// Make an iterator, and keep it until the next is made.
    Open,
    /// Walk with the iterator that is kept: it must show what it would have at first.
    Walk {
        /// From the last key to the first.
        backward: bool,
    },
    /// Turn what is in memory into a table.
    Flush,
    /// Merge everything, or what lies from one key to another.
    Compact(Option<(Key, Key)>),
    /// Remove what lies from one key up to another, which is not part of it.
    Erase(Key, Key),
    /// Ask for the database's properties.
    Ask,
    /// See what a power cut at this moment would leave.
    PowerCut {
        /// What it would take.
        profile: &'static Profile,
        /// Makes the choices that the profile leaves.
        seed: u64,
    },
}

/// Two values of this length fill a memtable.
const LONG: usize = 40_000;

struct Draw {
    rng: Rng,
    keys: u64,
    next_value: u32,
    files: bool,
}

impl Scenario {
    /// The scenario that `seed` stands for.
    pub fn draw(seed: u64, scale: &Scale) -> Scenario {
        let mut rng = Rng::new(seed);
        let keys = 1 + rng.below(scale.keys);
        let files = scale.files && rng.one_in(4);
        let mut draw = Draw { rng, keys, next_value: 1, files };
        let before = draw.before();
        let actors = match draw.rng.below(3) {
            0 => draw.around_a_moment(),
            _ => (0..draw.between(scale.actors)).map(|_| draw.actor(scale)).collect(),
        };
        Scenario {
            keys: keys as usize,
            before,
            actors,
            last_closes: draw.rng.one_in(2),
            bloom_bits: draw.rng.pick(&[0, 10]),
            reuse_logs: draw.rng.one_in(4),
            files,
        }
    }
}

impl Draw {
    fn between(&mut self, (least, most): (u64, u64)) -> u64 {
        least + self.rng.below(most - least + 1)
    }

    /// Something in tables and memory that merges and snapshots can meet.
    fn before(&mut self) -> Vec<Action> {
        let mut actions = Vec::new();
        for _ in 0..self.rng.below(3) {
            actions.push(self.write());
            if self.rng.one_in(2) {
                actions.push(Action::Flush);
            }
        }
        actions
    }

    fn actor(&mut self, scale: &Scale) -> Vec<Action> {
        let count = self.between(scale.actions);
        // Some only write, some only read, some see to tables, and most do anything.
        let kinds: &[u64] = match self.rng.below(6) {
            0 => &[0, 1, 2],
            1 => &[3, 4, 5, 6, 7, 8],
            2 => &[9, 10, 11],
            _ => &[0, 1, 2, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11],
        };
        (0..count).map(|_| self.action(kinds)).collect()
    }

    /// Somebody takes a moment and looks at it later, while others write and merge: few steps, so that a schedule which
    /// puts all of it into a narrow place is not too rare.
    fn around_a_moment(&mut self) -> Vec<Vec<Action>> {
        let holder = match self.rng.below(3) {
            0 => vec![Action::Open, Action::Walk { backward: false }],
            _ => vec![Action::Take, Action::Look],
        };
        let writer = (0..self.between((1, 3))).map(|_| self.write()).collect();
        let mut merger = vec![if self.rng.one_in(4) { self.erase() } else { self.compact() }];
        if self.rng.one_in(2) {
            merger.push(Action::Flush);
        }
        vec![holder, writer, merger]
    }

    fn action(&mut self, kinds: &[u64]) -> Action {
        match self.rng.pick(kinds) {
            0..3 => self.write(),
            3 => Action::Get(self.key()),
            4 => Action::Scan { backward: self.rng.one_in(2) },
            5 => Action::Take,
            6 => Action::Look,
            7 => Action::Open,
            8 => Action::Walk { backward: self.rng.one_in(2) },
            9 => Action::Flush,
            10 => self.compact(),
            // Rarely: to the judge each is many writes.
            11 if self.rng.one_in(4) => self.erase(),
            _ if self.files || self.rng.one_in(3) => Action::Ask,
            _ => Action::PowerCut { profile: self.rng.pick(&CUTS), seed: self.rng.next_u64() },
        }
    }

    fn write(&mut self) -> Action {
        let first = self.key();
        let mut values = vec![(first, self.value())];
        if self.rng.one_in(2) {
            for key in (0..self.keys as usize).filter(|key| *key != first) {
                let value = self.value();
                values.push((key, value));
            }
        }
        let length = if self.rng.one_in(5) { LONG } else { 8 };
        Action::Write { values, length, sync: self.rng.one_in(3) }
    }

    fn compact(&mut self) -> Action {
        let (a, b) = (self.key(), self.key());
        Action::Compact(self.rng.one_in(3).then_some((a.min(b), a.max(b))))
    }

    fn erase(&mut self) -> Action {
        let first = self.key();
        Action::Erase(first, first + 1 + self.key())
    }

    fn key(&mut self) -> Key {
        self.rng.below(self.keys) as usize
    }

    /// A value that there was not yet, or none.
    fn value(&mut self) -> Value {
        self.next_value += 1;
        (!self.rng.one_in(5)).then_some(self.next_value)
    }
}

/// The cuts after which everything that was acknowledged as synced must be there.
static CUTS: [&Profile; 6] =
    [&PROFILES[0], &PROFILES[1], &PROFILES[2], &PROFILES[3], &PROFILES[4], &PROFILES[5]];
