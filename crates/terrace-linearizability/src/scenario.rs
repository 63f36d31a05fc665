//! Scenarios: a few clients with a few actions each, drawn from a seed.

use terrace_env::mem::{POWER_LOSS_PROFILES, PowerLossProfile};
use terrace_testkit::rng::Rng;

use crate::checker::{Key, Value};

/// Bounds of a scenario's size.
#[derive(Debug, Clone, Copy)]
pub struct ScenarioSize {
    /// Minimum and maximum number of clients.
    pub clients: (u64, u64),
    /// Minimum and maximum number of actions per client.
    pub actions_per_client: (u64, u64),
    /// Maximum number of keys.
    pub keys: u64,
    /// Whether some scenarios run on files of the operating system.
    pub may_use_real_files: bool,
}

/// Scenario with so few steps that a thousand schedules reach rare orders.
pub const SMALL_SCENARIO: ScenarioSize =
    ScenarioSize { clients: (2, 4), actions_per_client: (2, 6), keys: 3, may_use_real_files: false };
/// Scenario that is long enough for real threads to run concurrently.
pub const LARGE_SCENARIO: ScenarioSize =
    ScenarioSize { clients: (2, 8), actions_per_client: (10, 40), keys: 4, may_use_real_files: true };

/// Operations of all clients, and the options of the database.
#[derive(Debug)]
pub struct Scenario {
    /// Number of keys.
    pub key_count: usize,
    /// Actions before the clients start.
    pub setup: Vec<Action>,
    /// Actions of each client, in their order.
    pub clients: Vec<Vec<Action>>,
    /// Whether the last client closes the database. Otherwise the runner closes it after all
    /// clients.
    pub last_client_closes: bool,
    /// Bloom filter bits per key; 0 for no filter.
    pub bloom_bits: usize,
    /// Value of `Options::reuse_logs`.
    pub reuse_logs: bool,
    /// Whether the logs are appended instead of mapped, so that writers form groups.
    pub has_appended_logs: bool,
    /// Whether the database uses files of the operating system instead of files in memory.
    pub on_real_files: bool,
}

/// Action of a client.
#[derive(Debug, Clone)]
pub enum Action {
    /// Writes a batch that puts or deletes each of these keys.
    Write {
        /// New value of each key; a key occurs once.
        values: Vec<(Key, Value)>,
        /// Length of a value, in bytes.
        length: usize,
        /// Whether the write is durable when it returns.
        sync: bool,
    },
    /// Gets one key.
    Get(Key),
    /// Scans all keys with a new iterator.
    Scan {
        /// Whether the scan goes from the last key to the first.
        backward: bool,
    },
    /// Takes a snapshot and keeps it until the next one.
    TakeSnapshot,
    /// Reads the kept snapshot by gets and by a scan. It must show the same as at its first read.
    ReadSnapshot,
    /// Creates an iterator and keeps it until the next one.
    OpenIterator,
    /// Scans with the kept iterator. It must show the same as at its first scan.
    RescanIterator {
        /// Whether the scan goes from the last key to the first.
        backward: bool,
    },
    /// Flushes the memtable.
    Flush,
    /// Compacts everything, or the range between two keys.
    CompactRange(Option<(Key, Key)>),
    /// Deletes the range from the first key up to, and without, the second.
    DeleteRange(Key, Key),
    /// Ingests a table with values for some keys, in key order. The database may refuse it.
    Ingest(Vec<(Key, Value)>),
    /// Reads properties and approximate sizes.
    ReadProperties,
    /// Creates the crash image of a power cut at this moment.
    PowerCut {
        /// Kinds of writes that the power cut may lose.
        profile: &'static PowerLossProfile,
        /// Seed of the choices that the profile leaves open.
        seed: u64,
    },
}

/// Two values of this length, in bytes, fill a memtable.
const LARGE_VALUE_LEN: usize = 40_000;

struct ScenarioGenerator {
    rng: Rng,
    keys: u64,
    next_value: u32,
    on_real_files: bool,
}

impl Scenario {
    /// Returns the scenario of `seed`.
    pub fn draw(seed: u64, size: &ScenarioSize) -> Scenario {
        let mut rng = Rng::new(seed);
        let keys = 1 + rng.below(size.keys);
        let on_real_files = size.may_use_real_files && rng.one_in(4);
        let mut generator = ScenarioGenerator { rng, keys, next_value: 1, on_real_files };
        let setup = generator.setup_actions();
        let clients = match generator.rng.below(3) {
            0 => generator.snapshot_race(),
            _ => {
                let count = generator.in_range(size.clients);
                (0..count).map(|_| generator.client_actions(size)).collect()
            }
        };
        Scenario {
            key_count: keys as usize,
            setup,
            clients,
            last_client_closes: generator.rng.one_in(2),
            bloom_bits: generator.rng.pick(&[0, 10]),
            reuse_logs: generator.rng.one_in(4),
            has_appended_logs: generator.rng.one_in(2),
            on_real_files,
        }
    }
}

impl ScenarioGenerator {
    fn in_range(&mut self, (min, max): (u64, u64)) -> u64 {
        min + self.rng.below(max - min + 1)
    }

    /// Returns writes and flushes, so that compactions and snapshots find tables and memtables.
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

    fn client_actions(&mut self, size: &ScenarioSize) -> Vec<Action> {
        let count = self.in_range(size.actions_per_client);
        // Some clients only write, some only read, some only flush and compact; most do everything.
        let kinds: &[u64] = match self.rng.below(6) {
            0 => &[0, 1, 2],
            1 => &[3, 4, 5, 6, 7, 8],
            2 => &[9, 10, 11],
            _ => &[0, 1, 2, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12],
        };
        (0..count).map(|_| self.random_action(kinds)).collect()
    }

    /// Returns three clients: one reads an older state while the others write and compact. Few
    /// steps make a schedule with all of them in a narrow window likely enough.
    fn snapshot_race(&mut self) -> Vec<Vec<Action>> {
        let reader = match self.rng.below(3) {
            0 => vec![Action::OpenIterator, Action::RescanIterator { backward: false }],
            _ => vec![Action::TakeSnapshot, Action::ReadSnapshot],
        };
        let writer = (0..self.in_range((1, 3))).map(|_| self.random_write()).collect();
        let mut compactor =
            vec![if self.rng.one_in(4) { self.random_range_delete() } else { self.random_compaction() }];
        if self.rng.one_in(2) {
            compactor.push(Action::Flush);
        }
        vec![reader, writer, compactor]
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
            // Rare, because the checker treats each one as many writes.
            11 if self.rng.one_in(4) => self.random_range_delete(),
            12 => self.random_ingest(),
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
        let a = self.random_key();
        let b = self.random_key();
        Action::CompactRange(self.rng.one_in(3).then_some((a.min(b), a.max(b))))
    }

    fn random_range_delete(&mut self) -> Action {
        let first = self.random_key();
        Action::DeleteRange(first, first + 1 + self.random_key())
    }

    fn random_ingest(&mut self) -> Action {
        let first = self.random_key();
        let last = if self.rng.one_in(2) { first } else { self.keys as usize - 1 };
        let values = (first..=last).map(|key| {
            self.next_value += 1;
            (key, Some(self.next_value))
        });
        Action::Ingest(values.collect())
    }

    fn random_key(&mut self) -> Key {
        self.rng.below(self.keys) as usize
    }

    /// Returns a new value, or no value in one of five calls.
    fn fresh_value(&mut self) -> Value {
        self.next_value += 1;
        (!self.rng.one_in(5)).then_some(self.next_value)
    }
}

/// Power cuts that must keep every acknowledged sync write.
static POWER_CUT_PROFILES: [&PowerLossProfile; 6] = [
    &POWER_LOSS_PROFILES[0],
    &POWER_LOSS_PROFILES[1],
    &POWER_LOSS_PROFILES[2],
    &POWER_LOSS_PROFILES[3],
    &POWER_LOSS_PROFILES[4],
    &POWER_LOSS_PROFILES[5],
];
