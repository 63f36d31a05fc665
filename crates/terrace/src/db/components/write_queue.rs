//! Queue of writes that one thread executes together, as a group.
//!
//! ```text
//!   thread 1   push a ──> lock `commit`, take the group: a b c ──> one append ──> insert a b c
//!   thread 2        push b ──> wait ───────────────────────────────────────────────> return
//!   thread 3          push c ──> wait ─────────────────────────────────────────────> return
//! ```
//!
//! An appended log needs a system call for each append, which costs more than the rest of a put.
//! LevelDB, RocksDB and Pebble group writes, too. A mapped log needs no queue.
//!
//! Only the thread that holds `DbInner::commit` takes a group, and it sets the outcome before it
//! releases `commit`. A write in the queue therefore has no sequence number yet, and an error takes
//! none. The thread also inserts the operations of the group: a writer that sleeps would delay all
//! later ones.
//!
//! One writer leads group after group, as long as it writes: the memory that an append and an
//! insert change stays in the cache of its core. Another writer takes over when the leader stays
//! away.

use std::sync::OnceLock;

use terrace_format::batch::{self, BatchOp};
use terrace_format::key::SequenceNumber;
use terrace_sync::mutant;

use crate::error::Result;
use crate::sync::{Arc, AtomicBool, AtomicUsize, Mutex, Ordering, spin_or_yield, thread_slot};

/// Largest size of a queued write, in bytes. The gain of a group is small for larger ones.
const MAX_QUEUED_WRITE: usize = 16 << 10;

/// Size of the records in bytes at which a group takes no more writes.
const MAX_GROUP_BYTES: usize = 256 << 10;

/// Number of loads in which a thread waits for other writers before it takes a group: some hundred
/// nanoseconds. `spin_or_yield` must not yield, because the thread holds `DbInner::commit`.
const GATHER_SPINS: u32 = if cfg!(feature = "loom") { 1 } else { 40 };

/// Number of loads in which a writer waits for the next write of the last leader, before it leads
/// itself: about a microsecond, several times the time that a leader needs between two writes.
const LEADER_SPINS: u32 = if cfg!(feature = "loom") { 0 } else { 60 };

/// Writes that are appended together.
#[derive(Default)]
pub(crate) struct WriteGroup {
    outcome: OnceLock<Result<GroupCommit>>,
    /// True once `outcome` is set. The Release store in `set_outcome` pairs with the Acquire load
    /// in `outcome`: a model checker does not see those of the `OnceLock`.
    has_outcome: AtomicBool,
}

impl WriteGroup {
    /// Returns the outcome, once a thread has set it. All effects of the group are then visible.
    pub(crate) fn outcome(&self) -> Option<&Result<GroupCommit>> {
        if self.has_outcome.load(Ordering::Acquire) { self.outcome.get() } else { None }
    }

    pub(crate) fn set_outcome(&self, outcome: Result<GroupCommit>) {
        let _ = self.outcome.set(outcome);
        self.has_outcome.store(true, Ordering::Release);
    }
}

/// Position of a group in the WAL and in the sequence numbers.
#[derive(Clone, Copy)]
pub(crate) struct GroupCommit {
    pub(crate) first_sequence: SequenceNumber,
    /// Number of the group for [`WalSync`].
    ///
    /// [`WalSync`]: super::wal_sync::WalSync
    pub(crate) write: u64,
}

/// Write in the queue.
pub(crate) struct QueuedWrite {
    pub(crate) group: Arc<WriteGroup>,
    /// Number of operations of the group before those of this write.
    pub(crate) operations_before: u64,
}

/// Records of a group.
#[derive(Default)]
pub(crate) struct GroupRecords {
    bytes: Vec<u8>,
    records: Vec<GroupRecord>,
    /// Number of operations.
    pub(crate) operations: u64,
    /// Bytes of keys and values.
    pub(crate) user_bytes: usize,
}

struct GroupRecord {
    /// End of the record in the bytes of the group.
    end: usize,
    operations_before: u64,
}

impl GroupRecords {
    pub(crate) fn len(&self) -> usize {
        self.records.len()
    }

    /// Sets the sequence numbers of the records, and returns the records in order.
    pub(crate) fn number_from(&mut self, first: SequenceNumber) -> impl Iterator<Item = &[u8]> {
        let mut rest = &mut *self.bytes;
        let mut start = 0;
        self.records.iter().map(move |record| {
            let (bytes, later) = std::mem::take(&mut rest).split_at_mut(record.end - start);
            rest = later;
            start = record.end;
            let before = if mutant!(WriteGroupNumberedOnce) { 0 } else { record.operations_before };
            let sequence = first + before;
            bytes[..size_of::<SequenceNumber>()].copy_from_slice(&sequence.to_le_bytes());
            &*bytes
        })
    }

    /// Returns the operations of all records in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&[u8], Option<&[u8]>)> + Clone {
        let starts = std::iter::once(0).chain(self.records.iter().map(|record| record.end));
        let records = starts.zip(&self.records).map(|(start, record)| &self.bytes[start..record.end]);
        records.filter_map(|record| batch::validate(record).ok()).flat_map(|batch| batch.iter()).map(
            |operation| match operation {
                BatchOp::Put { key, value } => (key, Some(value)),
                BatchOp::Delete { key } => (key, None),
            },
        )
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.records.clear();
        self.operations = 0;
        self.user_bytes = 0;
    }
}

/// Queue of writes for the next group.
pub(crate) struct WriteQueue {
    /// True if the logs are appended, so that groups save system calls.
    pub(crate) is_enabled: bool,
    next: Mutex<NextGroup>,
    /// Number of writes in the queue. Changed under `next`. Relaxed: the waiting thread only
    /// estimates.
    len: AtomicUsize,
    /// Number of writes of the last group, or fewer if not all of them wrote again. Accessed
    /// under `DbInner::commit`.
    expected_len: AtomicUsize,
    /// Leader of the last group, as returned by `this_thread`. Relaxed, as `is_executing`: both are
    /// hints for the waiting writers. Changed under `DbInner::commit`.
    last_leader: AtomicUsize,
    /// True while a leader executes a group.
    is_executing: AtomicBool,
}

#[derive(Default)]
struct NextGroup {
    group: Arc<WriteGroup>,
    records: GroupRecords,
    /// Buffers of an earlier group, for reuse.
    spare: GroupRecords,
}

impl WriteQueue {
    pub(crate) fn new(is_enabled: bool) -> WriteQueue {
        WriteQueue {
            is_enabled,
            next: Mutex::default(),
            len: AtomicUsize::new(0),
            expected_len: AtomicUsize::new(0),
            last_leader: AtomicUsize::new(0),
            is_executing: AtomicBool::new(false),
        }
    }

    /// Adds a write of `operations` operations of `bytes` bytes in total. `encode` creates its
    /// record for a sequence number. Returns `encode` if the write is too large for the group.
    pub(crate) fn push<E: FnOnce(SequenceNumber, &mut Vec<u8>)>(
        &self,
        operations: u64,
        bytes: usize,
        encode: E,
    ) -> std::result::Result<QueuedWrite, E> {
        if bytes > MAX_QUEUED_WRITE {
            return Err(encode);
        }
        let mut next = self.next.lock();
        let records = &mut next.records;
        if records.bytes.len() >= MAX_GROUP_BYTES {
            return Err(encode);
        }
        encode(0, &mut records.bytes);
        let operations_before = records.operations;
        records.records.push(GroupRecord { end: records.bytes.len(), operations_before });
        records.operations += operations;
        records.user_bytes += bytes;
        self.len.store(records.len(), Ordering::Relaxed);
        Ok(QueuedWrite { group: Arc::clone(&next.group), operations_before })
    }

    /// Returns the approximate number of writes in the queue.
    pub(crate) fn len(&self) -> usize {
        self.len.load(Ordering::Relaxed)
    }

    /// Returns true if this thread should try to lead the next group. `turn` counts the calls of
    /// one wait in which no leader executed a group.
    pub(crate) fn should_lead(&self, turn: &mut u32) -> bool {
        if self.is_executing.load(Ordering::Relaxed) {
            return false;
        }
        *turn += 1;
        *turn > LEADER_SPINS || self.last_leader.load(Ordering::Relaxed) == this_thread()
    }

    /// Records that this thread leads the next group, until [`WriteQueue::end_lead`]. The caller
    /// holds `DbInner::commit`.
    pub(crate) fn begin_lead(&self) {
        self.last_leader.store(this_thread(), Ordering::Relaxed);
        self.is_executing.store(true, Ordering::Relaxed);
    }

    /// Records that no thread executes a group. The caller holds `DbInner::commit`.
    pub(crate) fn end_lead(&self) {
        self.is_executing.store(false, Ordering::Relaxed);
    }

    /// Waits some hundred nanoseconds for the writers of the last group, which probably write again
    /// soon. `has_waited` tells that the caller waited for that group. The caller holds
    /// `DbInner::commit`.
    pub(crate) fn gather(&self, has_waited: bool) {
        let expected = self.expected_len.load(Ordering::Relaxed);
        let goal = expected + if has_waited { self.len() } else { 0 };
        let mut turn = 0;
        while self.len() < goal && turn < GATHER_SPINS {
            spin_or_yield(&mut turn);
        }
    }

    /// Takes the next group, if that is `group`. Otherwise a thread that held `DbInner::commit` has
    /// taken it. The caller holds `DbInner::commit` until it has set the outcome.
    pub(crate) fn take(&self, group: &Arc<WriteGroup>) -> Option<GroupRecords> {
        let mut next = self.next.lock();
        if !Arc::ptr_eq(&next.group, group) {
            return None;
        }
        next.group = Arc::default();
        let spare = std::mem::take(&mut next.spare);
        let records = std::mem::replace(&mut next.records, spare);
        self.len.store(0, Ordering::Relaxed);
        self.expected_len.store(records.len(), Ordering::Relaxed);
        Some(records)
    }

    /// Gives the buffers of a group back for reuse.
    pub(crate) fn recycle(&self, mut records: GroupRecords) {
        records.clear();
        self.next.lock().spare = records;
    }
}

/// Returns a number of this thread that no other live thread has.
fn this_thread() -> usize {
    thread_slot().map_or(usize::MAX, |slot| slot + 1)
}
