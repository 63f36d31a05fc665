//! WATCH in a store.
//!
//! ```text
//!   WATCH   snapshot A, existence of the keys
//!   EXEC    snapshot B; are the keys unchanged since A? commit, if they are unchanged since B
//! ```
//!
//! Together, the two comparisons cover the time from WATCH to the commit, and the writes of every
//! front end. The store compares versions, so a write of the same value counts as a change.
//!
//! A key without a version at both times may have had one in between. So each command of the client
//! after WATCH reads these keys with its own ones, and a key that exists ends the watch. What
//! remains is a key that another front end creates and deletes unseen: EXEC is executed then.

use std::sync::atomic::Ordering;

use terrace_store::{Condition, Error, StoreSnapshot, WriteBatch, WriteOptions};

use super::super::Mark;
use super::super::view::{View, ViewData};
use crate::failure::{CommandResult, Failure};

/// Keys of one WATCH, with the state that the client has seen.
pub(crate) struct StoreWatch {
    snapshot: Box<dyn StoreSnapshot>,
    keys: Vec<WatchedKey>,
}

struct WatchedKey {
    database: u8,
    key: Vec<u8>,
    /// Record of the key in the namespace that the database had.
    record: Vec<u8>,
    existed: bool,
}

impl std::fmt::Debug for StoreWatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "StoreWatch of {} keys", self.keys.len())
    }
}

impl View<'_> {
    /// Ends the reads of a WATCH of `keys`. Returns None on a database, which marks its watchers.
    ///
    /// # Errors
    ///
    /// The store does not answer.
    pub(crate) fn watch_in_store<'k>(
        &mut self,
        database: u8,
        keys: impl Iterator<Item = &'k [u8]>,
    ) -> CommandResult<Option<StoreWatch>> {
        if !self.store.is_shared() {
            return Ok(None);
        }
        let mut watched = Vec::new();
        for key in keys {
            let existed = self.exists_or_is_damaged(database, key)?;
            let record = self.record_key(database, key)?.to_vec();
            watched.push(WatchedKey { database, key: key.to_vec(), record, existed });
        }
        let ViewData::Store(transaction) = &mut self.data else { return Ok(None) };
        Ok(Some(StoreWatch { snapshot: transaction.take_snapshot()?, keys: watched }))
    }

    /// Sets `mark` if a key of `watches` that did not exist exists in the snapshot of this view,
    /// which the client is about to read. The keys come with the first access.
    ///
    /// # Errors
    ///
    /// The store does not answer.
    pub(crate) fn note_new_watched_key(&mut self, watches: &[StoreWatch], mark: &Mark) -> CommandResult {
        // A command that may not wait reads nothing from a store.
        if self.scratch.can_wait() && self.has_new_watched_key(watches)? {
            mark.store(true, Ordering::SeqCst);
        }
        Ok(())
    }

    fn has_new_watched_key(&mut self, watches: &[StoreWatch]) -> CommandResult<bool> {
        let missing: Vec<&WatchedKey> =
            watches.iter().flat_map(|watch| &watch.keys).filter(|watched| !watched.existed).collect();
        for watched in &missing {
            self.want(watched.database, || std::iter::once(watched.key.as_slice()));
        }
        for watched in missing {
            if self.exists_or_is_damaged(watched.database, &watched.key)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// True if a key of `watches` has changed. Otherwise the commit of this view fails if one of
    /// them changes before it.
    ///
    /// # Errors
    ///
    /// The store does not answer.
    pub(crate) fn is_watch_broken(&mut self, watches: &[StoreWatch]) -> CommandResult<bool> {
        for watch in watches {
            for watched in &watch.keys {
                let exists = self.exists_or_is_damaged(watched.database, &watched.key)?;
                // FLUSHDB and SWAPDB change the namespace. Redis ignores keys that did not exist
                // and still do not.
                let has_moved = self.record_key(watched.database, &watched.key)? != watched.record;
                if has_moved && (watched.existed || exists) {
                    return Ok(true);
                }
            }
            if self.has_changed_since(watch)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn has_changed_since(&self, watch: &StoreWatch) -> CommandResult<bool> {
        let ViewData::Store(transaction) = &self.data else { return Ok(false) };
        let keys: Vec<&[u8]> = watch.keys.iter().map(|watched| watched.record.as_slice()).collect();
        let condition = Condition { since: &*watch.snapshot, keys: &keys, ranges: &[] };
        // An empty batch only compares.
        match transaction.store().write_if(&WriteBatch::new(), &condition, &WriteOptions::DEFAULT) {
            Ok(_) => Ok(false),
            // Old versions tell nothing any more. A client repeats an EXEC that was not executed.
            Err(Error::Conflict { .. } | Error::SnapshotTooOld(_)) => Ok(true),
            // An empty batch has no effect that could be unknown.
            Err(Error::CommitUnknown(reason)) => Err(Error::Unavailable(reason).into()),
            Err(error) => Err(Failure::from(error)),
        }
    }

    /// True if `key` exists. A record that cannot be decoded counts as one.
    fn exists_or_is_damaged(&mut self, database: u8, key: &[u8]) -> CommandResult<bool> {
        let read = self.get(database, key).map(|entry| Some(entry.is_some()));
        Ok(read.or_else(Failure::ignore_reply)?.unwrap_or(true))
    }
}
