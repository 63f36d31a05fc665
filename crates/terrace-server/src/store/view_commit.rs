//! Commit of a view, and what follows from it: watched keys, events, keys that clients wait for.

use std::collections::HashSet;
use std::sync::atomic::Ordering;

use terrace::{Db, WriteOptions};

use super::view::{View, ViewData};
use crate::failure::CommandResult;

impl View<'_> {
    /// Writes everything as one batch, and marks the clients that watch a changed key. Returns true
    /// if there was anything to write.
    ///
    /// # Errors
    ///
    /// [`Failure::WouldWait`] if the write would stall and this thread may not wait. Nothing is
    /// written after an error.
    pub(crate) fn commit(&mut self) -> CommandResult<bool> {
        let is_written = self.write_all()?;
        if is_written {
            self.note_commit();
        } else if let Some(effects) = self.effects.existing() {
            self.store.watch_table.mark(effects.marked.iter().map(Vec::as_slice));
        }
        // Some commands report an event although nothing has changed, as LTRIM does in Redis.
        for event in self.effects.existing().into_iter().flat_map(|effects| effects.events.drain(..)) {
            self.store.key_events.publish(&event);
        }
        Ok(is_written)
    }

    /// Marks the clients that watch `key` with the commit, although it has not changed. A shared
    /// store tells other front ends only about writes.
    pub(crate) fn touch(&mut self, database: u8, key: &[u8]) {
        if self.store.watch_table.is_active() {
            self.effects.marked.push([&[database], key].concat());
        }
    }

    /// Tells the rest of the server about the committed writes.
    fn note_commit(&mut self) {
        let store = self.store;
        if self.creates_objects {
            // Relaxed: a later command on the same key takes the same lock of the gate.
            store.has_objects.store(true, Ordering::Relaxed);
        }
        if let Some(spaces) = &self.effects.spaces {
            store.namespaces.install(spaces);
        }
        if store.record_commit() {
            store.watch_table.mark(self.effects.marked.iter().map(Vec::as_slice));
            let batch = self.scratch.batch.iter().map(|op| op_key(&op));
            store.mark_watched(self.effects.changed.iter().map(Vec::as_slice).chain(batch));
        }
    }

    /// Keys that the committed command has changed: the number of the database, one byte, and the
    /// Redis key. In the order of the first changes.
    pub(crate) fn changed_keys(&self) -> Vec<Vec<u8>> {
        let batch = self.scratch.batch.iter().map(|op| op_key(&op));
        let noted = self.effects.changed.iter().chain(&self.effects.ready).map(Vec::as_slice);
        let records = noted.chain(batch);
        let mut seen = HashSet::new();
        let keys = records.filter_map(|record| self.store.watch_key(record));
        let keys = self.effects.marked.iter().cloned().chain(keys);
        keys.filter(|key| seen.insert(key.clone())).collect()
    }

    /// Writes the transaction or the batch. Returns false if there is nothing to write.
    fn write_all(&mut self) -> CommandResult<bool> {
        match &mut self.data {
            ViewData::Database(_) if self.scratch.batch.is_empty() => return Ok(self.has_written),
            ViewData::Database(db) => {
                let db = *db;
                self.write_batch(db)?;
                let bytes = self.scratch.batch.approximate_size();
                self.store.durability.record_bytes(self.scratch.slot, bytes);
            }
            ViewData::Exec(_) => return self.commit_exec(),
            ViewData::Store(transaction) => return transaction.commit(),
        }
        Ok(true)
    }

    fn commit_exec(&mut self) -> CommandResult<bool> {
        let ViewData::Exec(transaction) = std::mem::replace(&mut self.data, ViewData::new(self.store)) else {
            return Ok(false);
        };
        if self.effects.changed.is_empty() && !self.is_dirty && self.effects.spaces.is_none() {
            return Ok(false);
        }
        transaction.commit()?;
        Ok(true)
    }

    fn write_batch(&self, db: &Db) -> CommandResult {
        let batch = &self.scratch.batch;
        if self.scratch.can_wait() {
            return Ok(db.write(batch)?);
        }
        match db.try_write(batch, &WriteOptions::DEFAULT) {
            // Another thread is writing, or the memtable has to be switched: a short wait.
            Err(error) if error.is_would_wait() && !db.would_wait() => Ok(db.write(batch)?),
            other => Ok(other?),
        }
    }
}

fn op_key<'b>(op: &terrace::BatchOp<'b>) -> &'b [u8] {
    match op {
        terrace::BatchOp::Put { key, .. } | terrace::BatchOp::Delete { key } => key,
    }
}
