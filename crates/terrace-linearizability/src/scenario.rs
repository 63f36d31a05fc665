//! Who does what: a few actors with a few actions each, drawn from a seed.

use terrace_env::mem::{POWER_LOSS_PROFILES, PowerLossProfile};
use terrace_testkit::rng::Rng;

use crate::checker::{Key, Value};

/// How large a scenario is.
#[derive(Debug, Clone, Copy)]
pub struct ScenarioSize {
    /// Actors, at least and at most.
    pub clients: (u64, u64),
    /// Actions of each, at least and at most.
    pub actions_per_client: (u64, u64),
    /// Keys, at most.
    pub keys: u64,
    /// True if some scenarios are played on the machine's own files.
    pub may_use_real_files: bool,
}

/// Few enough steps that a schedule in a thousand is a rare one.
pub const SMALL_SCENARIO: ScenarioSize =
    ScenarioSize { clients: (2, 4), actions_per_client: (2, 6), keys: 3, may_use_real_files: false };
/// Long enough that real threads meet.
pub const LARGE_SCENARIO: ScenarioSize =
    ScenarioSize { clients: (2, 8), actions_per_client: (10, 40), keys: 4, may_use_real_files: true };

/// What is played.
#[derive(Debug)]
pub struct Scenario {
    /// How many keys there are.
    pub key_count: usize,
    /// What is done before the actors begin.
    pub setup: Vec<Action>,
    /// The actions of each actor, in their order.
    pub clients: Vec<Vec<Action>>,
    /// True if whoever ends last closes the database; otherwise it is closed when all have ended.
    pub last_client_closes: bool,
    /// Bits of a Bloom filter for each key; 0 for none.
    pub bloom_bits: usize,
    /// Go on with the log of the last run.
    pub reuse_logs: bool,
    /// The machine's own files, not those in memory.
    pub on_real_files: bool,
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
    TakeSnapshot,
    /// Read the snapshot that is kept, key by key and by walking: it must be as it was.
    ReadSnapshot,
    /// Make an iterator, and keep it until the next is made.
    OpenIterator,
    /// Walk with the iterator that is kept: it must show what it would have at first.
    RescanIterator {
        /// From the last key to the first.
        backward: bool,
    },
    /// Turn what is in memory into a table.
    Flush,
    /// Merge everything, or what lies from one key to another.
    CompactRange(Option<(Key, Key)>),
    /// Remove what lies from one key up to another, which is not part of it.
    DeleteRange(Key, Key),
    /// Ask for the database's properties.
    ReadProperties,
    /// See what a power cut at this moment would leave.
    PowerCut {
        /// What it would take.
        profile: &'static PowerLossProfile,
        /// Makes the choices that the profile leaves.
        seed: u64,
    },
}

/// Two values of this length fill a memtable.
const LARGE_VALUE_LEN: usize = 40_000;

struct ScenarioGenerator {
    rng: Rng,
    keys: u64,
    next_value: u32,
    on_real_files: bool,
}

impl Scenario {
    /// The scenario that `seed` stands for.
    pub fn draw(seed: u64, scale: &ScenarioSize) -> Scenario {
        let mut rng = Rng::new(seed);
        let keys = 1 + rng.below(scale.keys);
        let files = scale.may_use_real_files && rng.one_in(4);
        let mut draw = ScenarioGenerator { rng, keys, next_value: 1, on_real_files: files };
        let before = draw.setup_actions();
        let actors = match draw.rng.below(3) {
            0 => draw.snapshot_race(),
            _ => (0..draw.in_range(scale.clients)).map(|_| draw.client_actions(scale)).collect(),
        };
        Scenario {
            key_count: keys as usize,
            setup: before,
            clients: actors,
            last_client_closes: draw.rng.one_in(2),
            bloom_bits: draw.rng.pick(&[0, 10]),
            reuse_logs: draw.rng.one_in(4),
            on_real_files: files,
        }
    }
}

impl ScenarioGenerator {
    fn in_range(&mut self, (least, most): (u64, u64)) -> u64 {
        least + self.rng.below(most - least + 1)
    }

    /// Something in tables and memory that merges and snapshots can meet.
    fn setup_actions(&mut self) -> Vec<Action> {
        let mut actions = Vec::new();
        for _ in 0..self.rng.below(3) {
            actions.push(self.random_write());
            if self.rng.one_in(2) {
                actions.push(Action::Flush);
            }
        }
        actions
    }

    fn client_actions(&mut self, scale: &ScenarioSize) -> Vec<Action> {
        let count = self.in_range(scale.actions_per_client);
        // Some only write, some only read, some see to tables, and most do anything.
        let kinds: &[u64] = match self.rng.below(6) {
            0 => &[0, 1, 2],
            1 => &[3, 4, 5, 6, 7, 8],
            2 => &[9, 10, 11],
            _ => &[0, 1, 2, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11],
        };
        (0..count).map(|_| self.random_action(kinds)).collect()
    }

    /// Somebody takes a moment and looks at it later, while others write and merge: few steps, so that a schedule which
    /// puts all of it into a narrow place is not too rare.
    fn snapshot_race(&mut self) -> Vec<Vec<Action>> {
        let holder = match self.rng.below(3) {
            0 => vec![Action::OpenIterator, Action::RescanIterator { backward: false }],
            _ => vec![Action::TakeSnapshot, Action::ReadSnapshot],
        };
        let writer = (0..self.in_range((1, 3))).map(|_| self.random_write()).collect();
        let mut merger =
            vec![if self.rng.one_in(4) { self.random_range_delete() } else { self.random_compaction() }];
        if self.rng.one_in(2) {
            merger.push(Action::Flush);
        }
        vec![holder, writer, merger]
    }

    fn random_action(&mut self, kinds: &[u64]) -> Action {
        match self.rng.pick(kinds) {
            0..3 => self.random_write(),
            3 => Action::Get(self.random_key()),
            4 => Action::Scan { backward: self.rng.one_in(2) },
            5 => Action::TakeSnapshot,
            6 => Action::ReadSnapshot,
            7 => Action::OpenIterator,
            8 => Action::RescanIterator { backward: self.rng.one_in(2) },
            9 => Action::Flush,
            10 => self.random_compaction(),
            // Rarely: to the judge each is many writes.
            11 if self.rng.one_in(4) => self.random_range_delete(),
            _ if self.on_real_files || self.rng.one_in(3) => Action::ReadProperties,
            _ => Action::PowerCut { profile: self.rng.pick(&POWER_CUT_PROFILES), seed: self.rng.next_u64() },
        }
    }

    fn random_write(&mut self) -> Action {
        let first = self.random_key();
        let mut values = vec![(first, self.fresh_value())];
        if self.rng.one_in(2) {
            for key in (0..self.keys as usize).filter(|key| *key != first) {
                let value = self.fresh_value();
                values.push((key, value));
            }
        }
        let length = if self.rng.one_in(5) { LARGE_VALUE_LEN } else { 8 };
        Action::Write { values, length, sync: self.rng.one_in(3) }
    }

    fn random_compaction(&mut self) -> Action {
        let (a, b) = (self.random_key(), self.random_key());
        Action::CompactRange(self.rng.one_in(3).then_some((a.min(b), a.max(b))))
    }

    fn random_range_delete(&mut self) -> Action {
        let first = self.random_key();
        Action::DeleteRange(first, first + 1 + self.random_key())
    }

    fn random_key(&mut self) -> Key {
        self.rng.below(self.keys) as usize
    }

    /// A value that there was not yet, or none.
    fn fresh_value(&mut self) -> Value {
        self.next_value += 1;
        (!self.rng.one_in(5)).then_some(self.next_value)
    }
}

/// The cuts after which everything that was acknowledged as synced must be there.
static POWER_CUT_PROFILES: [&PowerLossProfile; 6] = [
    &POWER_LOSS_PROFILES[0],
    &POWER_LOSS_PROFILES[1],
    &POWER_LOSS_PROFILES[2],
    &POWER_LOSS_PROFILES[3],
    &POWER_LOSS_PROFILES[4],
    &POWER_LOSS_PROFILES[5],
];
