//! One phase, described so that any program in any language does exactly the same operations.
//!
//! **Numbers.** `num` operations are shared out to `threads`: thread `t` of `T` does `num/T` of them, and the first
//! `num % T` threads one more. Operation `i` of thread `t` has a key number `n` below `keyspace`, by `order`:
//!
//! | order    | n |
//! |----------|---|
//! | `seq`    | `first + i`, `first` being the operations of the threads before, modulo `keyspace` |
//! | `reverse`| `keyspace - 1` minus that of `seq` |
//! | `random` | `splitmix64 % keyspace` |
//! | `hot`    | `splitmix64 % max(1, keyspace/100)` |
//! | `missing`| as `random`; the key is one that nobody put |
//! | `zipf`   | YCSB's scrambled Zipfian, theta 0.99, over `keyspace` (see [`crate::workload::keys`]) |
//! | `latest` | as YCSB's: Zipfian, not scrambled, backwards from the key that this thread inserted last |
//!
//! Each thread has one splitmix64, whose state begins at `seed + t`.
//!
//! **Keys.** `n` in decimal with leading zeros, `key_size` bytes. A missing key has `.` for its last byte.
//!
//! **Values.** From `n` and the size alone, so every value read can be checked: the first
//! `min(value_size, max(8, floor(value_size * value_compress)))` bytes are the little-endian words of a splitmix64
//! whose state begins at `n ^ 0x5bd1e995`; the rest repeats them from the start. Overwriting writes the same again.
//!
//! **Kinds.** What one operation is:
//!
//! | kind      | operation |
//! |-----------|-----------|
//! | `put`     | puts a key; `batch` of them in each atomic write, and `num` counts keys. The last write of a thread may be smaller |
//! | `delete`  | the same with deletes |
//! | `get`     | looks a key up |
//! | `scan`    | one entry of a walk: from the first (`seq`) or from the last backwards (`reverse`); a thread ends with its share of `num`, or with the database |
//! | `seek`    | an iterator made, moved to the key or the first after it, then `seek_next` steps forward |
//! | `open`    | closes the database and opens it again |
//! | `compact` | compacts everything |
//! | `mixed`   | one of those in `mix`, drawn *before* the key: `(splitmix64 >> 11) / 2^53` against the running sum of the shares in the order `get`, `put`, `insert`, `scan`, `rmw` |
//!
//! In `mix`, `insert` puts the next key behind the key space: the `j`-th of thread `t` is `keyspace + j*T + t`, and
//! nothing is drawn for it; `scan` is a seek and `splitmix64 % seek_next + 1` entries; `rmw` is a get, then a put of
//! the same key.
//! With `latest`, the key of rank `r` is the `r`-th last insert of this thread; when these are used up (`k` of them),
//! `keyspace - 1 - (r - k)`.
//!
//! **Durability.** If `sync`, every write waits for the device. If `sync_every` is above 0, of each so many writes of a
//! thread the last one waits; an atomic write of several keys is one.
//!
//! **Writers.** Beside the threads, `writers` more put keys in the order `random` until all operations are done; their
//! puts are none of `num`. The splitmix64 of writer `w` begins at `seed + T + w`. If `write_rate` is above 0, each puts so many a
//! second at most, in portions of a hundredth of a second.
//!
//! **State.** A phase begins with an empty database if `fresh`, else with what the phase before left. If `cache_bytes`
//! is given the database is reopened with a cache of that size, before the clock starts and for this phase only.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// What one operation is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Puts a key, or a batch of them.
    #[default]
    Put,
    /// Looks a key up.
    Get,
    /// Deletes a key, or a batch of them.
    Delete,
    /// Visits the next entry.
    Scan,
    /// Moves a new iterator to a key.
    Seek,
    /// Closes and opens.
    Open,
    /// Compacts everything.
    Compact,
    /// One of several.
    Mixed,
}

/// Which key comes next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Order {
    /// Upwards.
    #[default]
    Seq,
    /// Downwards.
    Reverse,
    /// Each as likely as any other.
    Random,
    /// Only a hundredth of the keys.
    Hot,
    /// Keys that nobody put.
    Missing,
    /// Few keys often, many rarely; the frequent ones are scattered.
    Zipf,
    /// What was inserted last, most often.
    Latest,
}

/// One phase.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PhaseSpec {
    /// Its name in the table of workloads.
    pub name: String,
    /// What one operation is.
    pub kind: Kind,
    /// Which key comes next.
    pub order: Order,
    /// Operations of all threads together.
    pub num: u64,
    /// Keys are numbers below this.
    pub keyspace: u64,
    /// Threads that do them at the same time.
    pub threads: u32,
    /// Threads beside these that put random keys, one by one, until the operations are done.
    pub writers: u32,
    /// Puts of each of those in a second, at most; 0 for as many as they can.
    pub write_rate: u64,
    /// Bytes of a key.
    pub key_size: usize,
    /// Bytes of a value.
    pub value_size: usize,
    /// Keys in one atomic write.
    pub batch: u64,
    /// Whether a write returns only when the device has it.
    pub sync: bool,
    /// Of so many writes of a thread the last one returns only when the device has it; 0 leaves it to `sync`.
    pub sync_every: u64,
    /// Steps after a seek.
    pub seek_next: u64,
    /// Shares of a mixed phase, by the names `get`, `put`, `insert`, `scan`, `rmw`; they add up to 1.
    pub mix: BTreeMap<String, f64>,
    /// Where randomness starts.
    pub seed: u64,
    /// The share of a value that can't be compressed away.
    pub value_compress: f64,
    /// The phase ends after this many seconds, done or not; 0 for no limit.
    pub duration_limit_s: u64,
    /// Whether every value read is compared with what it must be.
    pub verify: bool,
    /// Whether it begins with an empty database.
    pub fresh: bool,
    /// Whether the phase waits, off the clock, until the background is quiet.
    pub settle: bool,
    /// A cache for this phase alone.
    pub cache_bytes: Option<u64>,
}

impl PhaseSpec {
    /// What the writers do, if there are any: without an end.
    pub fn writers_phase(&self) -> PhaseSpec {
        PhaseSpec {
            kind: Kind::Put,
            order: Order::Random,
            num: u64::MAX,
            threads: self.writers,
            seed: self.seed.wrapping_add(u64::from(self.threads)),
            batch: 1,
            duration_limit_s: 0,
            ..self.clone()
        }
    }
}

/// A put of 16-byte keys and 100-byte values, one by one.
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
            duration_limit_s: 0,
            verify: true,
            fresh: false,
            settle: true,
            cache_bytes: None,
        }
    }
}
