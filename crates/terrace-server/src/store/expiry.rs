//! Deletion of expired keys and of garbage, and the filter of objects, in the background.
//!
//! ```text
//!   02 <= now   02 ms space key  -->  01 space key has this expiry?  delete both
//!                                     otherwise                      delete the index entry
//! ```
//!
//! The job takes the same locks as a write command, so it never deletes a key that a client has
//! just replaced. It sleeps nine times as long as it works, or as long after it has met garbage.

use std::time::Duration;

use terrace::{Db, ReadOptions, WriteBatch};

use super::front_end::Cleanup;
use super::garbage::{collect_garbage, decode};
use super::layout::{Layout, expiry_bound, object_garbage_key, parse_expiry_key};
use super::object_filter::ObjectScan;
use super::{Backend, Store};

/// Maximum number of index entries of one run.
const RUN: usize = 1000;
/// Pause after a run that found nothing to do.
const IDLE_PAUSE: Duration = Duration::from_millis(100);
/// Ratio of the pause to the work before it.
const PAUSE_RATIO: u32 = 9;

/// State of the job.
#[derive(Debug)]
pub(crate) struct ExpiryJob {
    slot: usize,
    /// Milliseconds since 1970. The index is empty before this time.
    done_until: u64,
    object_scan: ObjectScan,
    /// State of the job in a shared store.
    cleanup: Cleanup,
}

impl ExpiryJob {
    /// Creates the job for the thread with the gate's slot `slot`.
    pub(crate) fn new(slot: usize) -> ExpiryJob {
        ExpiryJob { slot, done_until: 0, object_scan: ObjectScan::default(), cleanup: Cleanup::default() }
    }

    /// Works once and returns the pause until the next run.
    pub(crate) fn run(&mut self, store: &Store) -> Duration {
        if store.layout == Layout::Raw || store.is_read_only {
            return IDLE_PAUSE;
        }
        let db = match &store.backend {
            Backend::Database(db) => db,
            Backend::Store(shared) => {
                self.cleanup.run(store, &**shared);
                return IDLE_PAUSE;
            }
        };
        let start = store.clock.monotonic();
        // An error means that the database is damaged or full. Commands report it to clients.
        let has_more = self.delete_expired(store, db).unwrap_or(false);
        let has_garbage = collect_garbage(store, db).unwrap_or(false);
        // After an error, the filter stays incomplete, and a SET reads the old value.
        let _ = self.object_scan.run(store, db);
        let work = store.clock.monotonic().saturating_sub(start);
        match (has_garbage, has_more) {
            (true, _) => work,
            (false, true) => work * PAUSE_RATIO,
            (false, false) => (work * PAUSE_RATIO).max(IDLE_PAUSE),
        }
    }

    /// Deletes expired keys, at most [`RUN`]. Returns true if there may be more.
    fn delete_expired(&mut self, store: &Store, db: &Db) -> terrace::Result<bool> {
        let now_ms = store.now_ms();
        // The clock may have been set back. Entries are never added before the present.
        self.done_until = self.done_until.min(now_ms);
        let mut options = ReadOptions::default().fill_cache(false);
        options.lower_bound = Some(expiry_bound(self.done_until));
        options.upper_bound = Some(expiry_bound(now_ms.saturating_add(1)));
        let mut index = db.iter_with(&options);
        for _ in 0..RUN {
            let Some((entry, _)) = index.next_entry()? else {
                self.done_until = now_ms;
                return Ok(false);
            };
            match parse_expiry_key(entry) {
                Some((at, record)) => {
                    self.delete_one(store, db, entry, at, &record)?;
                    self.done_until = at;
                }
                None => db.delete(entry)?,
            }
        }
        Ok(true)
    }

    fn delete_one(
        &self,
        store: &Store,
        db: &Db,
        entry: &[u8],
        at: u64,
        record: &[u8],
    ) -> terrace::Result<()> {
        let key = record.get(store.layout.prefix_len()..).unwrap_or_default();
        let _pass = store.gate.enter(self.slot, &[key]);
        let stored = db.get_pinned(record)?;
        let stored = stored.as_deref();
        let header = stored.and_then(|stored| store.layout.header(stored));
        let is_expired = header.is_some_and(|header| header.expires_at == Some(at));
        let mut batch = WriteBatch::new();
        batch.delete(entry);
        if is_expired {
            batch.delete(record);
            if let Some(object) = stored.and_then(decode) {
                batch.put(object_garbage_key(object.number), [object.value_type.code()]);
            }
        }
        db.write(&batch)?;
        let may_be_watched = store.record_commit();
        if is_expired {
            store.record_expired(1);
            store.publish_expired(record);
            if let Some(watch_key) = store.watch_key(record).filter(|_| may_be_watched) {
                store.watch_table.mark_expired(&watch_key);
            }
        }
        Ok(())
    }
}
