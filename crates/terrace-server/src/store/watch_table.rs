//! Keys that clients watch.
//!
//! ```text
//!   client   WATCH: insert(key); read the key; .. EXEC: fail if the mark is set
//!   writer   commit; then mark(key)
//! ```
//!
//! A writer marks while it still holds its pass of the gate, and EXEC takes the whole gate before
//! it looks at its mark. Therefore a commit before EXEC is always seen.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};

use terrace_sync::native_locks::Mutex;

/// Mark of a client: set if another client has changed a watched key.
pub(crate) type Mark = Arc<AtomicBool>;

/// Watch of a key by a client.
#[derive(Debug)]
struct Watch {
    mark: Mark,
    /// True if the key existed, and had not expired, when the watch began.
    is_of_existing: bool,
}

/// Table of the watched keys. Its keys are the number of the database, one byte, and the Redis key.
#[derive(Debug, Default)]
pub(crate) struct WatchTable {
    /// Number of watched keys.
    count: AtomicUsize,
    marks: Mutex<HashMap<Vec<u8>, Vec<Watch>>>,
}

impl WatchTable {
    /// Watches `key` for the client with `mark`.
    pub(crate) fn insert(&self, key: &[u8], mark: &Mark) {
        let mut marks = self.marks.lock();
        let watch = Watch { mark: Arc::clone(mark), is_of_existing: false };
        marks.entry(key.to_vec()).or_default().push(watch);
        self.count.store(marks.len(), Ordering::SeqCst);
        // Pairs with the fence of a writer: the caller reads the key after the insertion.
        fence(Ordering::SeqCst);
    }

    /// Notes that `key` existed when the client with `mark` began to watch it.
    pub(crate) fn note_existing(&self, key: &[u8], mark: &Mark) {
        let mut marks = self.marks.lock();
        for watch in marks.get_mut(key).into_iter().flatten() {
            watch.is_of_existing |= Arc::ptr_eq(&watch.mark, mark);
        }
    }

    /// Ends the watch of `key` by the client with `mark`.
    pub(crate) fn remove(&self, key: &[u8], mark: &Mark) {
        let mut marks = self.marks.lock();
        if let Some(watching) = marks.get_mut(key) {
            watching.retain(|other| !Arc::ptr_eq(&other.mark, mark));
            if watching.is_empty() {
                marks.remove(key);
            }
        }
        self.count.store(marks.len(), Ordering::SeqCst);
    }

    /// True if a client may watch a key. A writer executes a fence between its commit and this
    /// call: [`Store::record_commit`](super::Store::record_commit).
    pub(super) fn is_active(&self) -> bool {
        self.count.load(Ordering::SeqCst) > 0
    }

    /// Marks the clients that watch `key`.
    pub(crate) fn mark<'k>(&self, keys: impl Iterator<Item = &'k [u8]>) {
        let marks = self.marks.lock();
        for watch in keys.filter_map(|key| marks.get(key)).flatten() {
            watch.mark.store(true, Ordering::SeqCst);
        }
    }

    /// Marks the clients that watch `key`, whose record is deleted after its expiry. For a client
    /// that found no key, or an expired one, nothing changes.
    pub(crate) fn mark_expired(&self, key: &[u8]) {
        let marks = self.marks.lock();
        for watch in marks.get(key).into_iter().flatten().filter(|watch| watch.is_of_existing) {
            watch.mark.store(true, Ordering::SeqCst);
        }
    }

    /// Returns the watched keys that begin with `prefix`.
    pub(crate) fn keys_with_prefix(&self, prefix: &[u8]) -> Vec<Vec<u8>> {
        self.marks.lock().keys().filter(|key| key.starts_with(prefix)).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn change_of_a_watched_key() {
        let table = WatchTable::default();
        let mark = Mark::default();
        assert!(!table.is_active());
        table.insert(b"a", &mark);
        table.mark([&b"b"[..]].into_iter());
        assert!(table.is_active() && !mark.load(Ordering::SeqCst));
        table.mark([&b"a"[..]].into_iter());
        assert!(mark.load(Ordering::SeqCst));
    }

    #[test]
    fn end_of_a_watch() {
        let table = WatchTable::default();
        let first = Mark::default();
        let second = Mark::default();
        table.insert(b"a", &first);
        table.insert(b"a", &second);
        table.remove(b"a", &first);
        table.mark([&b"a"[..]].into_iter());
        assert!(!first.load(Ordering::SeqCst) && second.load(Ordering::SeqCst));
        table.remove(b"a", &second);
        assert!(!table.is_active());
    }
}
