//! An engine for tests: an in-memory map with injected faults.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use super::{
    Change, Cursor, Engine, EntrySource, EntryVisitor, Follower, Result, Store, Txn, TxnBody, TxnError,
};
use crate::report::model::Settings;
use crate::workload::keys;

/// The engine with its faults.
#[derive(Clone, Debug, Default)]
pub(crate) struct FaultyEngine {
    /// Index from 0 of the put that sleeps, and the duration.
    pub(crate) slow_put: Option<(u64, Duration)>,
    /// Key number whose value is read with a flipped bit.
    pub(crate) corrupt_key: Option<u64>,
    /// Key number whose puts are lost.
    pub(crate) lost_key: Option<u64>,
    /// Whether one of a hundred transactions is lost.
    pub(crate) loses_transactions: bool,
    /// Duration of dropping a cursor.
    pub(crate) cursor_drop_delay: Option<Duration>,
    pub(crate) state: Arc<Mutex<FaultyEngineState>>,
}

#[derive(Debug, Default)]
pub(crate) struct FaultyEngineState {
    entries: BTreeMap<Vec<u8>, Vec<u8>>,
    pub(crate) put_count: u64,
    transaction_count: u64,
    /// Numbers of the durable puts, counted from 1.
    pub(crate) synced_puts: Vec<u64>,
}

impl FaultyEngine {
    fn lock_state(&self) -> MutexGuard<'_, FaultyEngineState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn read_value(&self, key: &[u8], value: &[u8]) -> Vec<u8> {
        let mut value = value.to_vec();
        if self.corrupt_key.is_some() && keys::parse_key(key) == self.corrupt_key {
            value[0] ^= 1;
        }
        value
    }
}

impl Engine for FaultyEngine {
    fn open(&self, dir: &Path, _: &Settings) -> Result<Box<dyn Store>> {
        if std::fs::read_dir(dir).map_err(|e| e.to_string())?.next().is_none() {
            self.lock_state().entries.clear();
            std::fs::write(dir.join("CURRENT"), "").map_err(|e| e.to_string())?;
        }
        Ok(Box::new(self.clone()))
    }
}

impl Store for FaultyEngine {
    fn put(&self, key: &[u8], value: &[u8], sync: bool) -> Result<()> {
        let mut state = self.lock_state();
        state.put_count += 1;
        let puts = state.put_count;
        state.synced_puts.extend(sync.then_some(puts));
        if let Some((index, duration)) = self.slow_put
            && index + 1 == state.put_count
        {
            thread::sleep(duration);
        }
        if self.lost_key.is_none() || keys::parse_key(key) != self.lost_key {
            state.entries.insert(key.to_vec(), value.to_vec());
        }
        Ok(())
    }

    fn delete(&self, key: &[u8], _: bool) -> Result<()> {
        self.lock_state().entries.remove(key);
        Ok(())
    }

    fn write(&self, changes: &[Change], sync: bool) -> Result<()> {
        changes.iter().try_for_each(|change| match &change.value {
            Some(value) => self.put(&change.key, value, sync),
            None => self.delete(&change.key, sync),
        })
    }

    fn get(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        let state = self.lock_state();
        let found = state.entries.get(key);
        if let Some(found) = found {
            *value = self.read_value(key, found);
        }
        Ok(found.is_some())
    }

    fn cursor(&self) -> Result<Box<dyn Cursor + '_>> {
        let entries =
            self.lock_state().entries.iter().map(|(k, v)| (k.clone(), self.read_value(k, v))).collect();
        Ok(Box::new(FaultyCursor { entries, index: 0, drop_delay: self.cursor_drop_delay }))
    }

    fn compact(&self) -> Result<()> {
        Ok(())
    }

    fn bulk_load(&self, entries: EntrySource<'_>) -> Result<()> {
        let mut entries = entries;
        while let Some((key, value)) = entries.next_entry() {
            self.put(key, value, false)?;
        }
        Ok(())
    }

    fn checkpoint(&self, dir: &Path) -> Result<()> {
        std::fs::create_dir(dir).map_err(|e| e.to_string())
    }

    fn follow(&self) -> Result<Box<dyn Follower>> {
        Ok(Box::new(self.clone()))
    }

    /// Runs each transaction twice, as if the first run had a conflict.
    fn transact(&self, body: &mut TxnBody<'_>) -> Result<()> {
        let mut state = self.lock_state();
        state.transaction_count += 1;
        let is_lost = self.loses_transactions && state.transaction_count.is_multiple_of(100);
        body(&mut FaultyTxn { entries: &state.entries, writes: BTreeMap::new() })?;
        let mut txn = FaultyTxn { entries: &state.entries, writes: BTreeMap::new() };
        body(&mut txn)?;
        let mut writes = txn.writes;
        if !is_lost {
            state.entries.append(&mut writes);
        }
        Ok(())
    }
}

impl Follower for FaultyEngine {
    fn get(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        Store::get(self, key, value)
    }

    fn catch_up(&self) -> Result<()> {
        Ok(())
    }
}

struct FaultyTxn<'a> {
    entries: &'a BTreeMap<Vec<u8>, Vec<u8>>,
    writes: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl Txn for FaultyTxn<'_> {
    fn get(&mut self, key: &[u8], value: &mut Vec<u8>) -> std::result::Result<bool, TxnError> {
        let found = self.writes.get(key).or_else(|| self.entries.get(key));
        if let Some(found) = found {
            value.clone_from(found);
        }
        Ok(found.is_some())
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> std::result::Result<(), TxnError> {
        self.writes.insert(key.to_vec(), value.to_vec());
        Ok(())
    }

    fn scan(
        &mut self,
        from: &[u8],
        to: &[u8],
        visit: &mut EntryVisitor<'_>,
    ) -> std::result::Result<(), TxnError> {
        let range = self.entries.range(from.to_vec()..to.to_vec());
        range.into_iter().try_for_each(|(key, value)| visit(key, value))
    }
}

struct FaultyCursor {
    entries: Vec<(Vec<u8>, Vec<u8>)>,
    index: usize,
    drop_delay: Option<Duration>,
}

impl FaultyCursor {
    fn move_to(&mut self, index: Option<usize>) -> Result<bool> {
        self.index = index.unwrap_or(usize::MAX);
        Ok(self.index < self.entries.len())
    }
}

impl Cursor for FaultyCursor {
    fn first(&mut self) -> Result<bool> {
        self.move_to(Some(0))
    }

    fn last(&mut self) -> Result<bool> {
        self.move_to(self.entries.len().checked_sub(1))
    }

    fn seek(&mut self, key: &[u8]) -> Result<bool> {
        self.move_to(Some(self.entries.partition_point(|entry| entry.0.as_slice() < key)))
    }

    fn next(&mut self) -> Result<bool> {
        self.move_to(Some(self.index + 1))
    }

    fn prev(&mut self) -> Result<bool> {
        self.move_to(self.index.checked_sub(1))
    }

    fn entry(&self) -> (&[u8], &[u8]) {
        let (key, value) = &self.entries[self.index];
        (key, value)
    }
}

impl Drop for FaultyCursor {
    fn drop(&mut self) {
        if let Some(delay) = self.drop_delay {
            thread::sleep(delay);
        }
    }
}
