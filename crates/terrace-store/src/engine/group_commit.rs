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
//! transaction of its own (`lanes`), because its condition must not fail the writes of others.
//!
//! A lane executes one transaction after the other. Lanes take turns, so that the engine finishes a
//! transaction before the next one of the same lane. A write that finds no free lane within the
//! time of a call leaves the queue.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use terrace::{BatchOp, WriteBatch};
use terrace_env::{Clock, SystemClock};
use terrace_sync::native_locks::{Condvar, Mutex, MutexGuard};

use super::lanes::no_free_lane;
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
    for op in batch.iter() {
        let (key, value) = match op {
            BatchOp::Put { key, value } => (key, Some(value)),
            BatchOp::Delete { key } => (key, None),
        };
        check_size("bytes of a key", key.len(), limits.key_bytes)?;
        check_size("bytes of a value", value.map_or(0, <[u8]>::len), limits.value_bytes)?;
        writes.insert(stored_key(key), value.map(<[u8]>::to_vec));
    }
    check_size("operations", writes.len(), limits.batch_operations)?;
    check_size("bytes", bytes_of(batch), limits.batch_bytes)?;
    Ok(writes)
}

/// Returns the bytes that the operations of `batch` take in a request.
pub(super) fn bytes_of(batch: &WriteBatch) -> usize {
    let sizes = batch.iter().map(|op| match op {
        BatchOp::Put { key, value } => Limits::batch_bytes_of(key, value),
        BatchOp::Delete { key } => Limits::batch_bytes_of(key, &[]),
    });
    sizes.sum()
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
    max_wait: Duration,
    queue: Mutex<Queue<L>>,
    changed: Condvar,
}

impl<L> GroupCommit<L> {
    /// Creates lanes without a state. A group has at most the given size, or it is one write. A
    /// write waits for a lane at most for `max_wait`.
    pub(super) fn new(max_operations: usize, max_bytes: usize, max_wait: Duration) -> GroupCommit<L> {
        let free_lanes = (0..LANES).map(|_| None).collect();
        let queue = Mutex::new(Queue { waiting: VecDeque::new(), free_lanes });
        GroupCommit { max_operations, max_bytes, max_wait, queue, changed: Condvar::new() }
    }

    /// Writes `writes`, together with those of other threads. `commit` executes the writes of a
    /// group, each of which gets its outcome, and returns the lane for the next group.
    ///
    /// # Errors
    ///
    /// [`Error::Busy`] if no lane is free in time. Otherwise those of `commit`.
    pub(super) fn write(
        &self,
        writes: Writes,
        commit: impl Fn(Option<L>, Vec<Writes>) -> (Option<L>, Vec<Result<()>>),
    ) -> Result<()> {
        let sizes = writes.iter().map(|(k, v)| Limits::batch_bytes_of(k, v.as_deref().unwrap_or_default()));
        let bytes = sizes.sum();
        let own = Arc::new(QueuedWrite { writes, bytes, outcome: Mutex::new(None) });
        let deadline = SystemClock.monotonic() + self.max_wait;
        let mut queue = self.queue.lock();
        queue.waiting.push_back(Arc::clone(&own));
        loop {
            if let Some(outcome) = own.outcome.lock().take() {
                return outcome;
            }
            if queue.waiting.is_empty() || queue.free_lanes.is_empty() {
                match self.wait(&mut queue, &own, deadline) {
                    true => continue,
                    false => return Err(no_free_lane(self.max_wait)),
                }
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

    /// Waits for an outcome or a free lane. Returns false if `own` still waits for a lane at
    /// `deadline`, and removes it from the queue.
    fn wait(&self, queue: &mut MutexGuard<'_, Queue<L>>, own: &Arc<QueuedWrite>, deadline: Duration) -> bool {
        let left = deadline.saturating_sub(SystemClock.monotonic());
        if !left.is_zero() {
            self.changed.wait_for(queue, left);
            return true;
        }
        match queue.waiting.iter().position(|write| Arc::ptr_eq(write, own)) {
            Some(index) => {
                queue.waiting.remove(index);
                false
            }
            // Another thread commits it now.
            None => {
                self.changed.wait(queue);
                true
            }
        }
    }

    /// Takes the states of all free lanes, for the end of the client.
    #[cfg(feature = "tikv")]
    pub(super) fn take_states(&self) -> Vec<L> {
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

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::thread::scope;

    use super::*;

    fn writes(key: &str) -> Writes {
        Writes::from([(key.as_bytes().to_vec(), None)])
    }

    #[test]
    fn write_that_finds_no_lane_in_time_is_not_executed() {
        let groups: GroupCommit<()> = GroupCommit::new(9, 9000, Duration::from_millis(20));
        let executed = Mutex::new(Vec::new());
        let entered = Barrier::new(LANES + 1);
        let left = Barrier::new(LANES + 1);
        let commit = |lane: Option<()>, group: Vec<Writes>| -> (Option<()>, Vec<Result<()>>) {
            let outcomes = group.iter().map(|_| Ok(())).collect();
            executed.lock().extend(group.into_iter().flatten().map(|(key, _)| key));
            (lane, outcomes)
        };
        scope(|scope| {
            for _ in 0..LANES {
                scope.spawn(|| {
                    let outcome = groups.write(writes("slow"), |lane, group| {
                        entered.wait();
                        left.wait();
                        commit(lane, group)
                    });
                    outcome.unwrap();
                });
            }
            entered.wait();
            let outcome = groups.write(writes("late"), commit);
            assert!(matches!(outcome, Err(Error::Busy(_))), "{outcome:?}");
            left.wait();
        });
        groups.write(writes("next"), commit).unwrap();
        let executed = executed.into_inner();
        assert_eq!(executed.len(), LANES + 1, "{executed:?}");
        assert!(!executed.contains(&b"late".to_vec()));
    }
}
