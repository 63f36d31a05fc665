//! Group commit of concurrent writes to a distributed engine.
//!
//! ```text
//!   writers   w1 w2 w3 w4 ..   queue
//!   lane 0    [w1]             the first writer finds a free lane and commits at once
//!   lane 1    [w2 w3 w4]       meanwhile others wait, and one of them commits for all
//! ```
//!
//! A group is one transaction of the engine. A write may depend on keys. Then no other write of its
//! group writes these keys, and neither does a group that is still on its way. So the writes of a
//! group have the same effect as one after the other, and they do not make each other fail. If
//! several of them have one key, the last one counts, in the order of the queue. A write whose
//! position the caller gets shares no written key with another one of its group, because positions
//! order the writes of a key. A write with a condition on a range has a transaction of its own
//! (`lanes`).
//!
//! A write that waits fails as soon as another one of this client has changed a key on which it
//! depends. It would fail in the engine, too.
//!
//! A lane executes one transaction after the other. Lanes take turns, so that the engine finishes a
//! transaction before the next one of the same lane. A write that finds no free lane within the
//! time of a call leaves the queue.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use terrace::{BatchOp, WriteBatch};
use terrace_env::{Clock, SystemClock};
use terrace_sync::native_locks::{Condvar, Mutex, MutexGuard};

use super::lanes::no_free_lane;
use crate::error::{Error, Result};
use crate::store::{Limits, Position, check_batch};

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

/// Version of a key that the engine changes with each write of it. 0: the key does not exist.
pub(super) type Version = u64;

/// Writes of a call, and the keys on which they depend.
#[derive(Debug, Default)]
pub(super) struct GroupedWrite {
    pub(super) writes: Writes,
    /// Stored keys with the versions that they must have.
    pub(super) compared: BTreeMap<Vec<u8>, Version>,
    /// Position of the snapshot in which the keys have these versions.
    pub(super) since: Position,
    /// True if the caller gets the position.
    pub(super) has_position: bool,
}

impl From<Writes> for GroupedWrite {
    /// Creates writes that depend on nothing, and whose position the caller does not get.
    fn from(writes: Writes) -> GroupedWrite {
        GroupedWrite { writes, ..GroupedWrite::default() }
    }
}

impl GroupedWrite {
    /// Returns the operations or comparisons of a transaction that it takes.
    fn operations(&self) -> usize {
        self.writes.len().max(self.compared.len())
    }

    /// Returns the bytes that it takes in a request.
    pub(super) fn bytes(&self) -> usize {
        let writes = self.writes.iter().map(|(key, value)| (key, value.as_deref().unwrap_or_default()));
        let all = writes.chain(self.compared.keys().map(|key| (key, &[][..])));
        all.map(|(key, value)| Limits::batch_bytes_of(key, value)).sum()
    }
}

/// Write that waits for its group.
struct QueuedWrite {
    write: Arc<GroupedWrite>,
    bytes: usize,
    outcome: Mutex<Option<Result<Position>>>,
}

/// Keys of several writes.
#[derive(Default)]
struct KeySet<'a> {
    written: HashSet<&'a [u8]>,
    /// Written keys of the writes whose position a caller gets.
    positioned: HashSet<&'a [u8]>,
    compared: HashSet<&'a [u8]>,
}

impl<'a> KeySet<'a> {
    fn add(&mut self, write: &'a GroupedWrite) {
        self.written.extend(write.writes.keys().map(Vec::as_slice));
        if write.has_position {
            self.positioned.extend(write.writes.keys().map(Vec::as_slice));
        }
        self.compared.extend(write.compared.keys().map(Vec::as_slice));
    }

    /// True if neither `write` nor the writes of the set depend on what the other side writes, and
    /// if one position for all of them says what the keys contain.
    fn is_independent_of(&self, write: &GroupedWrite) -> bool {
        let ordered = if write.has_position { &self.written } else { &self.positioned };
        write
            .writes
            .keys()
            .all(|key| !self.compared.contains(key.as_slice()) && !ordered.contains(key.as_slice()))
            && write.compared.keys().all(|key| !self.written.contains(key.as_slice()))
    }

    /// True if `write` can be on its way at the same time as the writes of the set.
    fn is_disjoint_from(&self, write: &GroupedWrite, comparison: Comparison) -> bool {
        let is_shared = comparison == Comparison::Reads;
        self.is_independent_of(write)
            && write.writes.keys().all(|key| !self.written.contains(key.as_slice()))
            && (is_shared || write.compared.keys().all(|key| !self.compared.contains(key.as_slice())))
    }
}

/// Way in which an engine compares keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Comparison {
    /// Two transactions at the same time may compare one key.
    Reads,
    /// The comparison locks the key, so one of the two would fail.
    Locks,
}

struct Queue<L> {
    waiting: VecDeque<Arc<QueuedWrite>>,
    free_lanes: VecDeque<Option<L>>,
    /// Writes of the groups that are on their way.
    in_flight: Vec<Arc<GroupedWrite>>,
}

/// Queue of the writes of one client, and its lanes of type `L`.
pub(super) struct GroupCommit<L> {
    max_operations: usize,
    max_bytes: usize,
    max_wait: Duration,
    comparison: Comparison,
    queue: Mutex<Queue<L>>,
    changed: Condvar,
}

impl<L> GroupCommit<L> {
    /// Creates lanes without a state. A group has at most the given size, or it is one write. A
    /// write waits for a lane at most for `max_wait`.
    pub(super) fn new(
        max_operations: usize,
        max_bytes: usize,
        max_wait: Duration,
        comparison: Comparison,
    ) -> GroupCommit<L> {
        let free_lanes = (0..LANES).map(|_| None).collect();
        let queue = Mutex::new(Queue { waiting: VecDeque::new(), free_lanes, in_flight: Vec::new() });
        GroupCommit { max_operations, max_bytes, max_wait, comparison, queue, changed: Condvar::new() }
    }

    /// Executes `write`, together with those of other threads, and returns its position. `commit`
    /// executes a group, each write of which gets its outcome, and returns the lane for the next
    /// group.
    ///
    /// # Errors
    ///
    /// [`Error::Conflict`] with the stored key if another write of this client has changed it.
    /// [`Error::Busy`] if no lane is free in time. Otherwise those of `commit`.
    pub(super) fn write(
        &self,
        write: GroupedWrite,
        commit: impl Fn(Option<L>, Vec<Arc<GroupedWrite>>) -> (Option<L>, Vec<Result<Position>>),
    ) -> Result<Position> {
        let bytes = write.bytes();
        let own = Arc::new(QueuedWrite { write: Arc::new(write), bytes, outcome: Mutex::new(None) });
        let deadline = SystemClock.monotonic() + self.max_wait;
        let mut queue = self.queue.lock();
        queue.waiting.push_back(Arc::clone(&own));
        loop {
            if let Some(outcome) = own.outcome.lock().take() {
                return outcome;
            }
            let group = if queue.free_lanes.is_empty() { Vec::new() } else { self.take_group(&mut queue) };
            if group.is_empty() {
                match self.wait(&mut queue, &own, deadline) {
                    true => continue,
                    false => return Err(no_free_lane(self.max_wait)),
                }
            }
            let lane = queue.free_lanes.pop_front().flatten();
            drop(queue);
            let writes = group.iter().map(|queued| Arc::clone(&queued.write)).collect();
            let mut guard = GroupGuard::new(self, group);
            let committed = commit(lane, writes);
            guard.lane = committed.0;
            guard.outcomes = committed.1;
            drop(guard);
            queue = self.queue.lock();
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
        match queue.waiting.iter().position(|queued| Arc::ptr_eq(queued, own)) {
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

    /// Takes the writes of the next group from the queue: as many as fit. Passes over those that
    /// have to wait for a group on its way or for another write of this group, and over later ones
    /// that would overtake them.
    fn take_group(&self, queue: &mut Queue<L>) -> Vec<Arc<QueuedWrite>> {
        let waiting: Vec<Arc<QueuedWrite>> = queue.waiting.drain(..).collect();
        let in_flight = queue.in_flight.clone();
        let mut blocked = KeySet::default();
        in_flight.iter().for_each(|write| blocked.add(write));
        let mut own = KeySet::default();
        let mut operations = 0;
        let mut bytes = 0;
        let mut group = Vec::new();
        for (index, queued) in waiting.iter().enumerate() {
            let write = &queued.write;
            if !blocked.is_disjoint_from(write, self.comparison) || !own.is_independent_of(write) {
                blocked.add(write);
                queue.waiting.push_back(Arc::clone(queued));
                continue;
            }
            operations += write.operations();
            bytes += queued.bytes;
            if !group.is_empty() && (operations > self.max_operations || bytes > self.max_bytes) {
                queue.waiting.extend(waiting.iter().skip(index).cloned());
                break;
            }
            own.add(write);
            group.push(Arc::clone(queued));
        }
        queue.in_flight.extend(group.iter().map(|queued| Arc::clone(&queued.write)));
        group
    }
}

/// Group on its way. Drop publishes its outcomes, also if the commit panics: the other writers of
/// the group wait for them.
struct GroupGuard<'a, L> {
    groups: &'a GroupCommit<L>,
    group: Vec<Arc<QueuedWrite>>,
    /// Lane for the next group.
    lane: Option<L>,
    outcomes: Vec<Result<Position>>,
}

impl<L> GroupGuard<'_, L> {
    fn new(groups: &GroupCommit<L>, group: Vec<Arc<QueuedWrite>>) -> GroupGuard<'_, L> {
        let unknown = Error::CommitUnknown("the thread that committed the group has panicked".into());
        GroupGuard { groups, lane: None, outcomes: vec![Err(unknown); group.len()], group }
    }
}

impl<L> Drop for GroupGuard<'_, L> {
    fn drop(&mut self) {
        let mut queue = self.groups.queue.lock();
        queue.finish(&self.group, std::mem::take(&mut self.outcomes));
        queue.free_lanes.push_back(self.lane.take());
        self.groups.changed.notify_all();
    }
}

impl<L> Queue<L> {
    /// Publishes the outcomes of a group. Ends the writes in the queue that depend on a key which
    /// the group has changed since their snapshot.
    fn finish(&mut self, group: &[Arc<QueuedWrite>], outcomes: Vec<Result<Position>>) {
        let ended: HashSet<_> = group.iter().map(|queued| Arc::as_ptr(&queued.write)).collect();
        self.in_flight.retain(|write| !ended.contains(&Arc::as_ptr(write)));
        let mut changed: HashMap<&[u8], Position> = HashMap::new();
        for (queued, outcome) in group.iter().zip(outcomes) {
            if let Ok(position) = outcome {
                changed.extend(queued.write.writes.keys().map(|key| (key.as_slice(), position)));
            }
            *queued.outcome.lock() = Some(outcome);
        }
        self.waiting.retain(|queued| {
            let write = &queued.write;
            let Some(key) = changed_key(write, &changed) else { return true };
            *queued.outcome.lock() = Some(Err(Error::Conflict { key: Some(key.clone()) }));
            false
        });
    }
}

/// Returns a compared key of `write` that was changed after its snapshot.
fn changed_key<'w>(write: &'w GroupedWrite, changed: &HashMap<&[u8], Position>) -> Option<&'w Vec<u8>> {
    let mut compared = write.compared.keys();
    compared.find(|key| changed.get(key.as_slice()).is_some_and(|position| *position > write.since))
}

/// Returns the halves of a part of a group, the second one first: a stack then has the first half
/// on top, and the order of the queue decides between two writers.
pub(super) fn halves(part: Range<usize>) -> [Range<usize>; 2] {
    let middle = part.start + part.len() / 2;
    [middle..part.end, part.start..middle]
}

/// Returns all writes of `group`. The last one of a key counts.
pub(super) fn writes_of(group: &[Arc<GroupedWrite>]) -> Writes {
    group.iter().flat_map(|write| &write.writes).map(|(key, value)| (key.clone(), value.clone())).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::thread::scope;

    use super::*;

    fn groups(max_wait: Duration, comparison: Comparison) -> GroupCommit<()> {
        GroupCommit::new(9, 9000, max_wait, comparison)
    }

    /// Write of the keys of `written`, which depends on those of `compared`. Each byte is a key.
    fn write(written: &str, compared: &str) -> GroupedWrite {
        GroupedWrite {
            writes: written.bytes().map(|key| (vec![key], None)).collect(),
            compared: compared.bytes().map(|key| (vec![key], 1)).collect(),
            since: 5,
            has_position: !compared.is_empty(),
        }
    }

    fn queue(groups: &GroupCommit<()>, writes: &[(&str, &str)]) {
        let queued = writes.iter().map(|(written, compared)| {
            let write = Arc::new(write(written, compared));
            Arc::new(QueuedWrite { bytes: write.bytes(), write, outcome: Mutex::new(None) })
        });
        groups.queue.lock().waiting.extend(queued);
    }

    /// Written keys of each write.
    fn names(group: &[Arc<QueuedWrite>]) -> Vec<String> {
        let keys = group.iter().map(|queued| queued.write.writes.keys().flatten().copied().collect());
        keys.map(|keys| String::from_utf8(keys).unwrap()).collect()
    }

    fn take(groups: &GroupCommit<()>) -> Vec<Arc<QueuedWrite>> {
        groups.take_group(&mut groups.queue.lock())
    }

    #[test]
    fn group_has_no_write_that_depends_on_another_one() {
        for comparison in [Comparison::Reads, Comparison::Locks] {
            let groups = groups(Duration::ZERO, comparison);
            queue(
                &groups,
                &[
                    ("a", "g"),
                    ("b", "g"),
                    ("c", "a"),
                    ("d", "dg"),
                    ("d", "dg"),
                    ("g", ""),
                    ("e", "c"),
                    ("b", ""),
                ],
            );
            assert_eq!(names(&take(&groups)), ["a", "b", "d"], "{comparison:?}");
            assert!(take(&groups).is_empty(), "they wait for the first group");
        }
    }

    #[test]
    fn groups_on_their_way_have_different_keys() {
        let groups_that_read = groups(Duration::ZERO, Comparison::Reads);
        let groups_that_lock = groups(Duration::ZERO, Comparison::Locks);
        for (groups, expected) in [(&groups_that_read, vec!["b", "d"]), (&groups_that_lock, vec!["d"])] {
            queue(groups, &[("a", "g")]);
            assert_eq!(names(&take(groups)), ["a"]);
            queue(groups, &[("b", "g"), ("a", ""), ("c", "a"), ("d", "h")]);
            assert_eq!(names(&take(groups)), expected);
        }
    }

    #[test]
    fn change_of_a_key_ends_the_writes_that_depend_on_it() {
        let groups = groups(Duration::ZERO, Comparison::Reads);
        queue(&groups, &[("a", "a"), ("b", "b"), ("a", "a"), ("x", "a"), ("b", "b"), ("y", "z"), ("b", "b")]);
        let group = take(&groups);
        assert_eq!(names(&group), ["a", "b", "y"]);
        let waiting: Vec<_> = groups.queue.lock().waiting.iter().cloned().collect();
        // The first write came after the snapshots, and the second one failed.
        let outcomes = vec![Ok(6), Err(Error::Conflict { key: None }), Ok(6)];
        groups.queue.lock().finish(&group, outcomes);
        let ended: Vec<bool> = waiting.iter().map(|queued| queued.outcome.lock().is_some()).collect();
        assert_eq!(ended, [true, true, false, false]);
        let next = take(&groups);
        assert_eq!(names(&next), ["b"]);
        groups.queue.lock().finish(&next, vec![Ok(5)]);
        assert_eq!(names(&take(&groups)), ["b"], "a change that the snapshots show");
    }

    #[test]
    fn order_of_the_queue_holds_for_each_key() {
        let groups = groups(Duration::ZERO, Comparison::Locks);
        queue(&groups, &[("a", "g")]);
        let first = take(&groups);
        queue(&groups, &[("b", "gh"), ("c", "h"), ("d", "i")]);
        let second = take(&groups);
        assert_eq!(names(&second), ["d"], "'c' would take the lock of 'b'");
        groups.queue.lock().finish(&first, vec![Ok(6)]);
        assert_eq!(names(&take(&groups)), ["b", "c"]);
    }

    /// Regression: two transactions got one position, and a reader could not tell which of them had
    /// the last word about a key.
    #[test]
    fn positions_order_the_writes_of_a_key() {
        let groups = groups(Duration::ZERO, Comparison::Reads);
        queue(&groups, &[("a", ""), ("a", ""), ("a", "x"), ("b", "x"), ("b", "y"), ("b", "")]);
        assert_eq!(names(&take(&groups)), ["a", "a", "b"]);
        groups.queue.lock().in_flight.clear();
        assert_eq!(names(&take(&groups)), ["a", "b"]);
        groups.queue.lock().in_flight.clear();
        assert_eq!(names(&take(&groups)), ["b"]);
    }

    #[test]
    fn group_has_a_maximum_size() {
        let groups = groups(Duration::ZERO, Comparison::Reads);
        queue(&groups, &[("abcd", ""), ("efgh", ""), ("i", "klm"), ("j", "")]);
        assert_eq!(names(&take(&groups)), ["abcd", "efgh"]);
        assert_eq!(names(&take(&groups)), ["i", "j"]);
    }

    #[test]
    fn parts_of_a_group() {
        assert_eq!(halves(2..7), [4..7, 2..4]);
        assert_eq!(halves(2..4), [3..4, 2..3]);
    }

    /// Two writers wait while all lanes are in use. One of them commits for both, and panics.
    #[test]
    fn panic_in_a_commit_reaches_the_other_writers_of_the_group() {
        let groups = groups(Duration::from_secs(60), Comparison::Reads);
        let entered = Barrier::new(LANES + 1);
        let left = Barrier::new(LANES + 1);
        scope(|scope| {
            for slow in ["a", "b", "c", "d"] {
                let groups = &groups;
                let entered = &entered;
                let left = &left;
                scope.spawn(move || {
                    groups.write(write(slow, ""), |lane, _| {
                        entered.wait();
                        left.wait();
                        (lane, vec![Ok(9)])
                    })
                });
            }
            entered.wait();
            let writers = ["l", "m"].map(|key| {
                let groups = &groups;
                scope.spawn(move || groups.write(write(key, ""), |_, _| panic!("planned")))
            });
            while groups.queue.lock().waiting.len() < writers.len() {
                std::thread::yield_now();
            }
            left.wait();
            let outcomes = writers.map(|writer| writer.join().ok());
            assert_eq!(outcomes.iter().flatten().count(), 1, "{outcomes:?}");
            let outcome = outcomes.into_iter().flatten().next().unwrap();
            assert!(matches!(outcome, Err(Error::CommitUnknown(_))), "{outcome:?}");
        });
        for _ in 0..2 * LANES {
            groups.write(write("n", ""), |lane, _| (lane, vec![Ok(10)])).unwrap();
        }
    }

    #[test]
    fn write_that_finds_no_lane_in_time_is_not_executed() {
        let groups = groups(Duration::from_millis(20), Comparison::Reads);
        let executed = Mutex::new(Vec::new());
        let entered = Barrier::new(LANES + 1);
        let left = Barrier::new(LANES + 1);
        let position = AtomicU64::new(9);
        let commit =
            |lane: Option<()>, group: Vec<Arc<GroupedWrite>>| -> (Option<()>, Vec<Result<Position>>) {
                let outcomes = group.iter().map(|_| Ok(position.fetch_add(1, Ordering::Relaxed))).collect();
                executed.lock().extend(writes_of(&group).into_keys());
                (lane, outcomes)
            };
        scope(|scope| {
            for slow in ["a", "b", "c", "d"] {
                let groups = &groups;
                let entered = &entered;
                let left = &left;
                scope.spawn(move || {
                    let outcome = groups.write(write(slow, ""), |lane, group| {
                        entered.wait();
                        left.wait();
                        commit(lane, group)
                    });
                    outcome.unwrap();
                });
            }
            entered.wait();
            let outcome = groups.write(write("l", ""), commit);
            assert!(matches!(outcome, Err(Error::Busy(_))), "{outcome:?}");
            left.wait();
        });
        groups.write(write("n", ""), commit).unwrap();
        let mut executed = executed.into_inner();
        executed.sort_unstable();
        assert_eq!(executed, [b"a", b"b", b"c", b"d", b"n"]);
    }
}
