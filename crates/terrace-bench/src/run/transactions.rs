//! Operations of a thread in transactions, and the proof that no update was lost.
//!
//! A body may run several times, so it changes only the buffers of the thread. The thread counts an
//! operation after its commit.

use super::worker::{Worker, preview};
use crate::engine::{Result, Store, Txn, TxnError};
use crate::workload::keys::{self, ValueGenerator};
use crate::workload::phase_spec::PhaseSpec;

impl Worker<'_> {
    /// Puts key `n` in a transaction.
    pub(super) fn put_in_transaction(&mut self, n: u64) -> Result<()> {
        keys::write_key(n, &mut self.key);
        self.checker.values.write(n, &mut self.value);
        let key = &self.key;
        let value = &self.value;
        self.store.transact(&mut |txn| txn.put(key, value))?;
        self.count_put(self.key.len() + self.value.len());
        Ok(())
    }

    /// Increments the count of key `n` in a transaction.
    pub(super) fn increment(&mut self, n: u64) -> Result<()> {
        let store = self.store;
        keys::write_key(n, &mut self.key);
        let mut found = false;
        store.transact(&mut |txn| {
            found = self.increment_in(txn, n)?;
            Ok(())
        })?;
        self.finish_increment(found);
        Ok(())
    }

    /// Visits `entries` keys from `n` on, and increments the count of key `n`, in a transaction.
    pub(super) fn scan_and_increment(&mut self, n: u64, entries: u64) -> Result<()> {
        let store = self.store;
        keys::write_key(n, &mut self.key);
        keys::write_key(n.saturating_add(entries), &mut self.limit_key);
        let mut found = false;
        store.transact(&mut |txn| {
            let mut min_key = n;
            let Worker { checker, key, limit_key, read_buffer, .. } = &mut *self;
            txn.scan(key, limit_key, &mut |key, value| {
                let at = keys::parse_key(key).filter(|at| *at >= min_key);
                let at =
                    at.ok_or_else(|| format!("wrong order: found {}, expected key {min_key}", preview(key)))?;
                min_key = at + 1;
                read_buffer.clear();
                read_buffer.extend_from_slice(value);
                match checker.values.take_count(at, read_buffer) {
                    Some(_) => Ok(()),
                    None => Err(TxnError::Failed(checker.wrong_value(at, value))),
                }
            })?;
            found = self.increment_in(txn, n)?;
            Ok(())
        })?;
        self.finish_increment(found);
        Ok(())
    }

    /// Increments the count of key `n`, which is in `self.key`. Returns whether the key existed.
    fn increment_in(&mut self, txn: &mut dyn Txn, n: u64) -> std::result::Result<bool, TxnError> {
        let values = &self.checker.values;
        let found = txn.get(&self.key, &mut self.read_buffer)?;
        if !found {
            values.write(n, &mut self.read_buffer);
        }
        let Some(count) = values.take_count(n, &mut self.read_buffer) else {
            return Err(TxnError::Failed(self.checker.wrong_value(n, &self.read_buffer)));
        };
        ValueGenerator::add_count(&mut self.read_buffer, count + 1);
        txn.put(&self.key, &self.read_buffer)?;
        Ok(found)
    }

    fn finish_increment(&mut self, found: bool) {
        self.checker.stats.keys_found += u64::from(found);
        self.checker.stats.values_checked += u64::from(found);
        self.count_put(self.key.len() + self.read_buffer.len());
    }
}

/// Returns the sum of the counts of all values.
pub(super) fn sum_of_counts(store: &dyn Store, phase: &PhaseSpec) -> Result<u64> {
    let values = ValueGenerator::new(phase.value_size, phase.value_compress);
    let mut cursor = store.cursor()?;
    let mut sum = 0_u64;
    let mut copy = Vec::new();
    let mut at_entry = cursor.first()?;
    while at_entry {
        let (key, value) = cursor.entry();
        copy.clear();
        copy.extend_from_slice(value);
        let count = keys::parse_key(key).and_then(|n| values.take_count(n, &mut copy));
        let count =
            count.ok_or_else(|| format!("wrong value at {}: found {}", preview(key), preview(value)))?;
        sum = sum.wrapping_add(count);
        at_entry = cursor.next()?;
    }
    Ok(sum)
}

/// Returns an error unless the sum has grown by `increments`.
pub(super) fn check_sum(before: u64, after: u64, increments: u64) -> Result<()> {
    match after.wrapping_sub(before) {
        grown if grown == increments => Ok(()),
        grown => Err(format!(
            "LOST UPDATES: {increments} transactions have incremented a count, and the sum grew by {grown}"
        )),
    }
}
