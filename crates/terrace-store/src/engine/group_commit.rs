//! Group commit of concurrent writes to a distributed engine.
//!
//! ```text
//!   writers   w1 w2 w3 w4 ..   queue
//!   lane 0    [w1]             the first writer finds a free lane and commits at once
//!   lane 1    [w2 w3 w4]       meanwhile others wait, and one of them commits for all
//! ```
//!
//! A group is one transaction of the engine. If several of its writes have one key, the last one
//! counts, as if they had been executed in the order of the queue. A conditional write has a
//! transaction of its own, because its condition must not fail the writes of others.
//!
//! A lane executes one transaction after the other. Lanes take turns, so that the engine finishes a
//! transaction before the next one of the same lane.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use terrace::{BatchOp, WriteBatch};
use terrace_sync::native_locks::{Condvar, Mutex};

use crate::error::{Error, Result};
use crate::store::{Limits, check_batch};

/// Number of transactions at the same time. More of them make smaller groups.
const LANES: usize = 4;

/// Writes of a transaction by their stored keys. None is a deletion. The last operation of a key
/// counts.
pub(super) type Writes = BTreeMap<Vec<u8>, Option<Vec<u8>>>;

/// Returns the writes of `batch` with the stored keys that `stored_key` returns, or the limit that
/// the batch exceeds.
pub(super) fn checked_writes(
    batch: &WriteBatch,
    limits: &Limits,
    stored_key: impl Fn(&[u8]) -> Vec<u8>,
) -> Result<Writes> {
    check_batch(batch)?;
    let mut writes = Writes::new();
    let mut bytes = 0;
    for op in batch.iter() {
        let (key, value) = match op {
            BatchOp::Put { key, value } => (key, Some(value)),
            BatchOp::Delete { key } => (key, None),
        };
        check_size("bytes of a key", key.len(), limits.key_bytes)?;
        check_size("bytes of a value", value.map_or(0, <[u8]>::len), limits.value_bytes)?;
        bytes += Limits::batch_bytes_of(key, value.unwrap_or_default());
        writes.insert(stored_key(key), value.map(<[u8]>::to_vec));
    }
    check_size("operations", writes.len(), limits.batch_operations)?;
    check_size("bytes", bytes, limits.batch_bytes)?;
    Ok(writes)
}

/// Returns an error if `found` exceeds `limit`.
pub(super) fn check_size(unit: &'static str, found: usize, limit: usize) -> Result<()> {
    match found <= limit {
        true => Ok(()),
        false => Err(Error::BatchTooLarge { unit, found, limit }),
    }
}

/// Write that waits for its group.
struct QueuedWrite {
    writes: Writes,
    bytes: usize,
    outcome: Mutex<Option<Result<()>>>,
}

struct Queue<L> {
    waiting: VecDeque<Arc<QueuedWrite>>,
    free_lanes: VecDeque<Option<L>>,
}

/// Queue of the writes of one client, and its lanes of type `L`.
pub(super) struct GroupCommit<L> {
    max_operations: usize,
    max_bytes: usize,
    queue: Mutex<Queue<L>>,
    changed: Condvar,
}

impl<L> GroupCommit<L> {
    /// Creates lanes without a state. A group has at most the given size, or it is one write.
    pub(super) fn new(max_operations: usize, max_bytes: usize) -> GroupCommit<L> {
        let free_lanes = (0..LANES).map(|_| None).collect();
        let queue = Mutex::new(Queue { waiting: VecDeque::new(), free_lanes });
        GroupCommit { max_operations, max_bytes, queue, changed: Condvar::new() }
    }

    /// Writes `writes`, together with those of other threads. `commit` executes the writes of a
    /// group, each of which gets its outcome, and returns the lane for the next group.
    pub(super) fn write(
        &self,
        writes: Writes,
        commit: impl Fn(Option<L>, Vec<Writes>) -> (Option<L>, Vec<Result<()>>),
    ) -> Result<()> {
        let sizes = writes.iter().map(|(k, v)| Limits::batch_bytes_of(k, v.as_deref().unwrap_or_default()));
        let bytes = sizes.sum();
        let own = Arc::new(QueuedWrite { writes, bytes, outcome: Mutex::new(None) });
        let mut queue = self.queue.lock();
        queue.waiting.push_back(Arc::clone(&own));
        loop {
            if let Some(outcome) = own.outcome.lock().take() {
                return outcome;
            }
            if queue.waiting.is_empty() || queue.free_lanes.is_empty() {
                self.changed.wait(&mut queue);
                continue;
            }
            let lane = queue.free_lanes.pop_front().flatten();
            let group = self.next_group(&mut queue.waiting);
            drop(queue);
            let (lane, outcomes) = commit(lane, group.iter().map(|write| write.writes.clone()).collect());
            for (write, outcome) in group.iter().zip(outcomes) {
                *write.outcome.lock() = Some(outcome);
            }
            queue = self.queue.lock();
            queue.free_lanes.push_back(lane);
            self.changed.notify_all();
        }
    }

    /// Executes `commit` with a lane. It returns the lane for the next transaction.
    #[cfg(feature = "tikv")]
    pub(super) fn with_lane<T>(&self, commit: impl FnOnce(Option<L>) -> (Option<L>, T)) -> T {
        let mut queue = self.queue.lock();
        let lane = loop {
            match queue.free_lanes.pop_front() {
                Some(lane) => break lane,
                None => self.changed.wait(&mut queue),
            }
        };
        drop(queue);
        let (lane, outcome) = commit(lane);
        self.queue.lock().free_lanes.push_back(lane);
        self.changed.notify_all();
        outcome
    }

    /// Takes the states of all free lanes, for the end of the client.
    #[cfg(feature = "tikv")]
    pub(super) fn take_lanes(&self) -> Vec<L> {
        self.queue.lock().free_lanes.iter_mut().filter_map(Option::take).collect()
    }

    /// Takes the writes of the next group: as many as fit.
    fn next_group(&self, waiting: &mut VecDeque<Arc<QueuedWrite>>) -> Vec<Arc<QueuedWrite>> {
        let mut operations = 0;
        let mut bytes = 0;
        let mut group: Vec<Arc<QueuedWrite>> = Vec::new();
        while let Some(next) = waiting.front() {
            operations += next.writes.len();
            bytes += next.bytes;
            if !group.is_empty() && (operations > self.max_operations || bytes > self.max_bytes) {
                break;
            }
            group.extend(waiting.pop_front());
        }
        group
    }
}

/// Lanes of conditional writes, which no group shares. A writer that finds no free lane waits.
#[cfg(feature = "etcd")]
pub(super) struct Lanes<L> {
    free: Mutex<VecDeque<Option<L>>>,
    changed: Condvar,
}

#[cfg(feature = "etcd")]
impl<L> Lanes<L> {
    /// Creates `count` lanes without a state.
    pub(super) fn new(count: usize) -> Lanes<L> {
        Lanes { free: Mutex::new((0..count).map(|_| None).collect()), changed: Condvar::new() }
    }

    /// Executes `commit` with a lane. It returns the lane for the next transaction.
    pub(super) fn with_lane<T>(&self, commit: impl FnOnce(Option<L>) -> (Option<L>, T)) -> T {
        let mut free = self.free.lock();
        let lane = loop {
            match free.pop_front() {
                Some(lane) => break lane,
                None => self.changed.wait(&mut free),
            }
        };
        drop(free);
        let (lane, outcome) = commit(lane);
        self.free.lock().push_back(lane);
        self.changed.notify_one();
        outcome
    }
}
