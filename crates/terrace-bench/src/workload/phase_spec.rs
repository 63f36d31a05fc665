//! One phase, specified so that a program in any language executes exactly the same operations.
//!
//! **Numbers.** `num` operations are divided among `threads`: thread `t` of `T` executes `num/T` of
//! them, and the first `num % T` threads one more. Operation `i` of thread `t` has a key number `n`
//! below `keyspace`, by `order`:
//!
//! | order    | n |
//! |----------|---|
//! | `seq`    | `first + i`, `first` being the operations of the threads before, modulo `keyspace` |
//! | `reverse`| `keyspace - 1` minus that of `seq` |
//! | `random` | `splitmix64 % keyspace` |
//! | `hot`    | `splitmix64 % max(1, keyspace/100)` |
//! | `missing`| as `random`, but the key was never put |
//! | `zipf`   | YCSB's scrambled Zipfian, theta 0.99, over `keyspace` (see [`crate::workload::keys`]) |
//! | `latest` | as YCSB's: Zipfian, not scrambled, backward from the last key that this thread inserted |
//!
//! Each thread has one splitmix64, whose state begins at `seed + t`.
//!
//! **Keys.** `n` in decimal with leading zeros, `key_size` bytes. A missing key ends with `.`.
//!
//! **Values.** The value depends only on `n` and the size, so every value read can be checked: the
//! first `min(value_size, max(8, floor(value_size * value_compress)))` bytes are the little-endian
//! words of a splitmix64 whose state begins at `n ^ 0x5bd1e995`; the rest repeats them from the
//! start. An overwrite writes the same value again.
//!
//! **Kinds.** One operation is:
//!
//! | kind      | operation |
//! |-----------|-----------|
//! | `put`     | puts a key; each atomic write has `batch` keys, and `num` counts keys. The last write of a thread may be smaller |
//! | `delete`  | like `put`, but deletes the keys |
//! | `get`     | gets a key |
//! | `scan`    | one entry of a scan, forward from the first (`seq`) or backward from the last (`reverse`); a thread ends after its share of `num`, or at the end of the database |
//! | `seek`    | creates an iterator, seeks to the key, then moves `seek_next` steps forward |
//! | `open`    | closes and reopens the database |
//! | `compact` | compacts the whole database |
//! | `load`    | puts a key; each thread loads all its keys by one call of the engine's fastest way to load |
//! | `checkpoint` | copies the database to another directory, which is removed afterwards; 1/2 second passes between two copies |
//! | `follow`  | gets a key through a follower, which is opened before the clock starts |
//! | `follow-replay` | puts a key. After each 2,000 keys, a follower reads them; only that is measured |
//! | `follow-age` | gets key 0 through a follower, while another thread puts it. The latency is the age of the value |
//! | `txn-put` | puts a key in a transaction |
//! | `txn-rmw` | gets a key in a transaction, and puts it with a count that is one greater |
//! | `txn-scan`| in a transaction, visits the keys from `n` to `n + seek_next`, excluded, then gets and puts key `n` like `txn-rmw` |
//! | `mixed`   | one of the operations in `mix`, drawn *before* the key: `(splitmix64 >> 11) / 2^53` against the running sum of the shares in the order `get`, `put`, `insert`, `scan`, `rmw` |
//!
//! In `mix`, `insert` puts the next key after the key space: the `j`-th of thread `t` is `keyspace
//! + j*T + t`, and draws no random number; `scan` is a seek and `splitmix64 % seek_next + 1`
//! entries; `rmw` is a get, then a put of the same key. With `latest`, the key of rank `r` is the
//! `r`-th last insert of this thread; if it has only `k` inserts and `r` is larger, the key is
//! `keyspace - 1 - (r - k)`.
//!
//! **Transactions.** A conflict repeats the whole transaction, and the operation ends with its
//! commit. The *count* of a key is added to the first word of its value, little-endian. After a
//! phase of `txn-rmw` or `txn-scan`, the sum of all counts must have grown by the number of
//! operations: a smaller sum proves lost updates. The count of key 0 after `follow-age` is a time.
//!
//! **Latencies.** An operation begins at the end of the operation before. The keys of an atomic
//! write have the latency of the write. A scan reads the clock after every 64th entry, and the
//! entries since the last reading have their mean latency.
//!
//! **Durability.** If `sync` is set, every write is synced. If `sync_every` is above 0, every
//! `sync_every`-th write of a thread is synced; an atomic write of several keys counts as one.
//!
//! **Writers.** In addition to the threads, `writers` threads put keys in the order `random` until
//! all operations are done; their puts do not count towards `num`. The splitmix64 of writer `w`
//! begins at `seed + T + w`. If `write_rate` is above 0, each writer puts at most that many keys
//! per second, in portions of 1/100 second.
//!
//! **Time.** A thread begins its operations again from the first, random numbers included, until
//! `duration_min_s` seconds have passed. If `duration_limit_s` is above 0, a thread ends at that
//! time. If `completes` is set, a thread that ended before its last operation executes the others
//! after the measurement. So the next phase finds the same entries, however fast the engine is.
//!
//! **State.** A phase begins with an empty database if `fresh` is set, otherwise with the database
//! of the previous phase. If `cache_bytes` is given, the database is reopened with a cache of that
//! size for this phase, before the clock starts.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Type of an operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Puts a key, or a batch of keys.
    #[default]
    Put,
    /// Gets a key.
    Get,
    /// Deletes a key, or a batch of keys.
    Delete,
    /// Visits the next entry.
    Scan,
    /// Seeks to a key with a new iterator.
    Seek,
    /// Closes and reopens the database.
    Open,
    /// Compacts the whole database.
    Compact,
    /// Executes one of several operations.
    Mixed,
    /// Puts a key, by one call for all keys of a thread.
    Load,
    /// Copies the database.
    Checkpoint,
    /// Gets a key through a follower.
    Follow,
    /// Puts a key that a follower then reads.
    #[serde(rename = "follow-replay")]
    FollowReplay,
    /// Measures the age of a value that a follower reads.
    #[serde(rename = "follow-age")]
    FollowAge,
    /// Puts a key in a transaction.
    #[serde(rename = "txn-put")]
    TxnPut,
    /// Increments the count of a key in a transaction.
    #[serde(rename = "txn-rmw")]
    TxnReadModifyWrite,
    /// Visits a range, then increments the count of its first key, in a transaction.
    #[serde(rename = "txn-scan")]
    TxnScan,
}

impl Kind {
    /// Whether the operations are transactions.
    pub fn is_transaction(self) -> bool {
        self.counts() || self == Kind::TxnPut
    }

    /// Whether only some engines have the operation, beside compactions and transactions.
    pub fn is_optional(self) -> bool {
        self == Kind::Load || self == Kind::Checkpoint || self.follows()
    }

    /// Whether the operations need a follower.
    pub fn follows(self) -> bool {
        matches!(self, Kind::Follow | Kind::FollowReplay | Kind::FollowAge)
    }

    /// Whether each operation increments the count of a key.
    pub fn counts(self) -> bool {
        matches!(self, Kind::TxnReadModifyWrite | Kind::TxnScan)
    }
}

/// Order of the keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Order {
    /// Ascending key numbers.
    #[default]
    Seq,
    /// Descending key numbers.
    Reverse,
    /// Uniformly random.
    Random,
    /// Uniformly random out of 1 % of the keys.
    Hot,
    /// Keys that were never put.
    Missing,
    /// Zipfian; frequent keys are scattered over the key space.
    Zipf,
    /// Zipfian; the latest inserts are the most frequent.
    Latest,
}

/// One phase.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PhaseSpec {
    /// Name in the table of workloads.
    pub name: String,
    /// Type of an operation.
    pub kind: Kind,
    /// Order of the keys.
    pub order: Order,
    /// Number of operations of all threads together.
    pub num: u64,
    /// Key numbers are below this.
    pub keyspace: u64,
    /// Number of concurrent threads.
    pub threads: u32,
    /// Number of additional threads that put single random keys until the operations are done.
    pub writers: u32,
    /// Maximum puts per second of each writer; 0 for no limit.
    pub write_rate: u64,
    /// Size of a key in bytes.
    pub key_size: usize,
    /// Size of a value in bytes.
    pub value_size: usize,
    /// Number of keys in one atomic write.
    pub batch: u64,
    /// Whether every write is synced.
    pub sync: bool,
    /// Every write of a thread whose number is a multiple of this is synced; 0 leaves it to `sync`.
    pub sync_every: u64,
    /// Steps after a seek.
    pub seek_next: u64,
    /// Shares of a mixed phase, by the names `get`, `put`, `insert`, `scan`, `rmw`; they sum to 1.
    pub mix: BTreeMap<String, f64>,
    /// Seed of the random numbers.
    pub seed: u64,
    /// Fraction of a value that is incompressible.
    pub value_compress: f64,
    /// Seconds for which the operations are repeated; 0 to execute them once.
    pub duration_min_s: u64,
    /// Time limit of the phase in seconds; 0 for no limit.
    pub duration_limit_s: u64,
    /// Whether operations beyond the time limit are executed unmeasured.
    pub completes: bool,
    /// Whether every value read is compared with the expected value.
    pub verify: bool,
    /// Whether the phase begins with an empty database.
    pub fresh: bool,
    /// Whether the phase waits after its time measurement until background work has ended.
    pub settle: bool,
    /// Cache size for this phase only.
    pub cache_bytes: Option<u64>,
}

impl PhaseSpec {
    /// Phase of the writers, without an end.
    pub fn writers_phase(&self) -> PhaseSpec {
        PhaseSpec {
            kind: Kind::Put,
            order: Order::Random,
            num: u64::MAX,
            threads: self.writers,
            seed: self.seed.wrapping_add(u64::from(self.threads)),
            batch: 1,
            ..self.without_time()
        }
    }

    /// The same phase, with each operation once and without a time limit.
    pub fn without_time(&self) -> PhaseSpec {
        PhaseSpec { duration_min_s: 0, duration_limit_s: 0, completes: false, ..self.clone() }
    }

    /// Whether the speed of the engine decides how many operations are executed.
    pub fn is_timed(&self) -> bool {
        self.duration_min_s > 0 || self.duration_limit_s > 0
    }

    /// Whether the operations change the entries.
    pub fn writes(&self) -> bool {
        let kinds = [Kind::Put, Kind::Delete, Kind::Mixed, Kind::Load, Kind::FollowReplay, Kind::FollowAge];
        kinds.contains(&self.kind) || self.kind.is_transaction()
    }
}

/// A sequential put of 16-byte keys and 100-byte values, without batches.
impl Default for PhaseSpec {
    fn default() -> PhaseSpec {
        PhaseSpec {
            name: String::new(),
            kind: Kind::Put,
            order: Order::Seq,
            num: 1_000_000,
            keyspace: 1_000_000,
            threads: 1,
            writers: 0,
            write_rate: 0,
            key_size: 16,
            value_size: 100,
            batch: 1,
            sync: false,
            sync_every: 0,
            seek_next: 10,
            mix: BTreeMap::new(),
            seed: 301,
            value_compress: 0.5,
            duration_min_s: 0,
            duration_limit_s: 0,
            completes: false,
            verify: true,
            fresh: false,
            settle: true,
            cache_bytes: None,
        }
    }
}
