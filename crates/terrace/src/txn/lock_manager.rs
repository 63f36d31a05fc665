//! Lock manager: locks of keys that transactions hold until their end.
//!
//! Locks only make conflicts rare. Plain writers take none, and the check at commit finds every
//! change. Locks are granted first come, first served. A transaction that must wait enters the
//! wait-for graph; the one that would close a cycle gets an error instead.
//!
//! A thread takes the lock of a shard before that of the graph.

use std::collections::hash_map::{Entry, RandomState};
use std::collections::{HashMap, VecDeque};
use std::hash::BuildHasher;
use std::time::Duration;

use terrace_env::{Clock, ProcessToken};

use super::wait_for_graph::{TransactionId, WaitForGraph};
use crate::error::{Error, Result};
use crate::sync::{Arc, AtomicU64, Condvar, Mutex, MutexGuard, Ordering};

const SHARDS: usize = if cfg!(feature = "loom") { 1 } else { 64 };

/// Kind of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum KeyLockMode {
    /// Several transactions may hold it.
    Shared,
    /// Excludes all other transactions.
    Exclusive,
}

/// Locked keys with equal hashes.
type LockShard = HashMap<Vec<u8>, KeyLock>;

/// Locks of one database.
pub(crate) struct LockManager {
    /// Process of the database. In a forked child, a lock may belong to a thread that the child
    /// does not have.
    process: ProcessToken,
    hasher: RandomState,
    shards: Box<[Mutex<LockShard>]>,
    graph: WaitForGraph,
    /// Number of the newest transaction. Relaxed: only the numbers must differ.
    last_id: AtomicU64,
}

/// Lock of one key.
#[derive(Default)]
struct KeyLock {
    holders: Vec<(TransactionId, KeyLockMode)>,
    /// Requests in the order in which they are granted.
    waiters: VecDeque<(TransactionId, KeyLockMode)>,
    changed: Arc<Condvar>,
}

impl KeyLock {
    /// Returns true if `transaction` may hold the lock beside the current holders.
    fn fits_holders(&self, transaction: TransactionId, mode: KeyLockMode) -> bool {
        self.holders.iter().all(|&(holder, held)| {
            holder == transaction || (mode == KeyLockMode::Shared && held == KeyLockMode::Shared)
        })
    }

    fn held_mode(&self, transaction: TransactionId) -> Option<KeyLockMode> {
        self.holders.iter().find(|(holder, _)| *holder == transaction).map(|(_, mode)| *mode)
    }

    fn add_holder(&mut self, transaction: TransactionId, mode: KeyLockMode) {
        match self.holders.iter_mut().find(|(holder, _)| *holder == transaction) {
            Some((_, held)) => *held = mode,
            None => self.holders.push((transaction, mode)),
        }
    }

    /// Returns the transactions for which a request at position `position` of the queue may wait:
    /// all holders and all earlier requests.
    ///
    /// A shared request counts the shared ones, too, because they may become exclusive during its
    /// wait. They never cause a false deadlock: the exclusive request between them and this one
    /// waits for them.
    fn blockers(&self, transaction: TransactionId, position: usize) -> Vec<TransactionId> {
        let earlier = self.waiters.iter().take(position);
        let others = self.holders.iter().chain(earlier).map(|(other, _)| *other);
        others.filter(|other| *other != transaction).collect()
    }

    /// Grants the requests at the front of the queue that fit the holders.
    fn grant(&mut self, graph: &WaitForGraph) {
        while let Some(&(transaction, mode)) = self.waiters.front() {
            if !self.fits_holders(transaction, mode) {
                break;
            }
            self.waiters.pop_front();
            self.add_holder(transaction, mode);
            graph.remove(transaction);
        }
        self.changed.notify_all();
    }
}

impl LockManager {
    pub(crate) fn new() -> LockManager {
        LockManager {
            process: ProcessToken::current(),
            hasher: RandomState::new(),
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            graph: WaitForGraph::default(),
            last_id: AtomicU64::new(0),
        }
    }

    pub(crate) fn new_transaction(&self) -> TransactionId {
        self.last_id.fetch_add(1, Ordering::Relaxed) + 1
    }

    fn shard(&self, key: &[u8]) -> MutexGuard<'_, LockShard> {
        self.shards[self.hasher.hash_one(key) as usize % SHARDS].lock()
    }

    /// Locks `key` for `transaction`, or extends its lock. Waits at most for `timeout`. Returns
    /// true if the transaction did not hold the lock before.
    pub(crate) fn lock(
        &self,
        transaction: TransactionId,
        key: &[u8],
        mode: KeyLockMode,
        timeout: Duration,
        clock: &dyn Clock,
    ) -> Result<bool> {
        if !self.process.is_current() {
            return Err(Error::NotSupported("a forked child cannot lock keys of its parent".into()));
        }
        let mut shard = self.shard(key);
        let lock = shard.entry(key.to_vec()).or_default();
        let held = lock.held_mode(transaction);
        if held.is_some_and(|held| held >= mode) {
            return Ok(false);
        }
        let may_pass = held.is_some() || lock.waiters.is_empty();
        if may_pass && lock.fits_holders(transaction, mode) {
            lock.add_holder(transaction, mode);
            return Ok(held.is_none());
        }
        // A holder that extends its lock would wait for itself after other requests.
        let position = if held.is_some() { 0 } else { lock.waiters.len() };
        if !self.graph.add(transaction, lock.blockers(transaction, position)) {
            return Err(Error::Deadlock { key: key.to_vec() });
        }
        lock.waiters.insert(position, (transaction, mode));
        let changed = Arc::clone(&lock.changed);
        let deadline = clock.monotonic().saturating_add(timeout);
        loop {
            let lock = shard.entry(key.to_vec()).or_default();
            if lock.held_mode(transaction).is_some_and(|held| held >= mode) {
                return Ok(held.is_none());
            }
            let now = clock.monotonic();
            if now >= deadline {
                lock.waiters.retain(|(waiter, _)| *waiter != transaction);
                self.graph.remove(transaction);
                lock.grant(&self.graph);
                return Err(Error::LockTimeout { key: key.to_vec() });
            }
            changed.wait_for(&mut shard, deadline - now);
        }
    }

    /// Releases the locks of `transaction` on `keys`.
    pub(crate) fn unlock_all<'a>(&self, transaction: TransactionId, keys: impl Iterator<Item = &'a [u8]>) {
        if !self.process.is_current() {
            return;
        }
        for key in keys {
            let mut shard = self.shard(key);
            if let Entry::Occupied(mut entry) = shard.entry(key.to_vec()) {
                let lock = entry.get_mut();
                lock.holders.retain(|(holder, _)| *holder != transaction);
                lock.grant(&self.graph);
                if lock.holders.is_empty() && lock.waiters.is_empty() {
                    entry.remove();
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::thread::{scope, yield_now};

    use terrace_env::{ManualClock, SystemClock};

    use super::*;

    fn wait_for_requests(manager: &LockManager, key: &[u8], count: usize) {
        while manager.shard(key).get(key).is_none_or(|lock| lock.waiters.len() < count) {
            yield_now();
        }
    }

    /// Symptom: a deadlock lasted until the timeout. Cause: a shared request waited after an
    /// exclusive one. A shared holder extended its lock, and the exclusive request ended. Then the
    /// graph did not know for whom the shared request waited.
    #[test]
    fn deadlock_after_the_timeout_of_another_request() {
        let manager = LockManager::new();
        let [holder, exclusive, shared] = [(); 3].map(|()| manager.new_transaction());
        let lock = |transaction, key, mode| {
            manager.lock(transaction, key, mode, Duration::from_secs(5), &SystemClock)
        };
        let clock = ManualClock::default();
        lock(holder, b"a", KeyLockMode::Shared).unwrap();
        lock(shared, b"b", KeyLockMode::Exclusive).unwrap();
        let timeout = Duration::from_millis(5);
        scope(|scope| {
            let first =
                scope.spawn(|| manager.lock(exclusive, b"a", KeyLockMode::Exclusive, timeout, &clock));
            wait_for_requests(&manager, b"a", 1);
            let second = scope.spawn(|| lock(shared, b"a", KeyLockMode::Shared));
            wait_for_requests(&manager, b"a", 2);
            lock(holder, b"a", KeyLockMode::Exclusive).unwrap();
            clock.advance(timeout);
            assert!(matches!(first.join().unwrap(), Err(Error::LockTimeout { .. })));
            let outcome = lock(holder, b"b", KeyLockMode::Exclusive);
            assert!(matches!(outcome, Err(Error::Deadlock { .. })), "{outcome:?}");
            manager.unlock_all(holder, [b"a".as_slice()].into_iter());
            assert!(second.join().unwrap().unwrap());
        });
    }
}
