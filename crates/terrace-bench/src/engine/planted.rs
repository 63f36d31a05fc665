//! An engine for tests: a map in memory, with faults planted on demand.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use super::{Change, Cursor, Engine, Result, Store};
use crate::report::model::Settings;
use crate::workload::keys;

/// The faults.
#[derive(Clone, Debug, Default)]
pub(crate) struct Planted {
    /// The put that sleeps, counted from 0, and how long.
    pub(crate) sleep_at: Option<(u64, Duration)>,
    /// The key number whose value is read with a flipped bit.
    pub(crate) wrong_value_of: Option<u64>,
    /// A put of this number is lost.
    pub(crate) lost: Option<u64>,
    /// What it takes to let go of a cursor.
    pub(crate) slow_drop: Option<Duration>,
    pub(crate) disk: Arc<Mutex<Disk>>,
}

#[derive(Debug, Default)]
pub(crate) struct Disk {
    entries: BTreeMap<Vec<u8>, Vec<u8>>,
    pub(crate) puts: u64,
    /// The puts that were durable, counted from 1.
    pub(crate) synced: Vec<u64>,
}

impl Planted {
    fn disk(&self) -> MutexGuard<'_, Disk> {
        self.disk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn read(&self, key: &[u8], value: &[u8]) -> Vec<u8> {
        let mut value = value.to_vec();
        if self.wrong_value_of.is_some() && keys::read_key(key) == self.wrong_value_of {
            value[0] ^= 1;
        }
        value
    }
}

impl Engine for Planted {
    fn open(&self, dir: &Path, _: &Settings) -> Result<Box<dyn Store>> {
        if std::fs::read_dir(dir).map_err(|e| e.to_string())?.next().is_none() {
            self.disk().entries.clear();
            std::fs::write(dir.join("CURRENT"), "").map_err(|e| e.to_string())?;
        }
        Ok(Box::new(self.clone()))
    }
}

impl Store for Planted {
    fn put(&self, key: &[u8], value: &[u8], sync: bool) -> Result<()> {
        let mut disk = self.disk();
        disk.puts += 1;
        let puts = disk.puts;
        disk.synced.extend(sync.then_some(puts));
        if let Some((at, time)) = self.sleep_at
            && at + 1 == disk.puts
        {
            thread::sleep(time);
        }
        if self.lost.is_none() || keys::read_key(key) != self.lost {
            disk.entries.insert(key.to_vec(), value.to_vec());
        }
        Ok(())
    }

    fn delete(&self, key: &[u8], _: bool) -> Result<()> {
        self.disk().entries.remove(key);
        Ok(())
    }

    fn write(&self, changes: &[Change], sync: bool) -> Result<()> {
        changes.iter().try_for_each(|change| match &change.value {
            Some(value) => self.put(&change.key, value, sync),
            None => self.delete(&change.key, sync),
        })
    }

    fn get(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        let disk = self.disk();
        let found = disk.entries.get(key);
        if let Some(found) = found {
            *value = self.read(key, found);
        }
        Ok(found.is_some())
    }

    fn cursor(&self) -> Result<Box<dyn Cursor + '_>> {
        let entries = self.disk().entries.iter().map(|(k, v)| (k.clone(), self.read(k, v))).collect();
        Ok(Box::new(Walk { entries, at: 0, slow_drop: self.slow_drop }))
    }

    fn compact(&self) -> Result<()> {
        Ok(())
    }
}

struct Walk {
    entries: Vec<(Vec<u8>, Vec<u8>)>,
    at: usize,
    slow_drop: Option<Duration>,
}

impl Walk {
    fn go(&mut self, at: Option<usize>) -> Result<bool> {
        self.at = at.unwrap_or(usize::MAX);
        Ok(self.at < self.entries.len())
    }
}

impl Cursor for Walk {
    fn first(&mut self) -> Result<bool> {
        self.go(Some(0))
    }

    fn last(&mut self) -> Result<bool> {
        self.go(self.entries.len().checked_sub(1))
    }

    fn seek(&mut self, key: &[u8]) -> Result<bool> {
        self.go(Some(self.entries.partition_point(|entry| entry.0.as_slice() < key)))
    }

    fn next(&mut self) -> Result<bool> {
        self.go(Some(self.at + 1))
    }

    fn prev(&mut self) -> Result<bool> {
        self.go(self.at.checked_sub(1))
    }

    fn entry(&self) -> (&[u8], &[u8]) {
        let (key, value) = &self.entries[self.at];
        (key, value)
    }
}

impl Drop for Walk {
    fn drop(&mut self) {
        self.slow_drop.into_iter().for_each(thread::sleep);
    }
}
