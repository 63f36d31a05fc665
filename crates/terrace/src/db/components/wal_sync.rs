//! Durability of writes. Concurrent sync writers share one sync of the logs.
//!
//! ```text
//!   writer   append, count: 7 ──> wait for 7 ────────────────────────────────> 7 <= 8: return
//!   writer        append, count: 8 ──> sync: read count (8), logs, names ──> durable: 8
//! ```
//!
//! One thread at a time syncs, the older logs first. No acknowledged write may follow a write that
//! a power cut can still remove.

use terrace_sync::mutant;

use super::wal::WalFile;
use crate::error::Result;
use crate::sync::{AtomicU64, Condvar, Mutex, Ordering};

/// Logs that the database needs, and the last durable write.
pub(crate) struct WalSync {
    /// Logs from oldest to current. A thread adds one under `DbInner::commit`, and removes one
    /// after its flush.
    logs: Mutex<Vec<WalFile>>,
    /// Number of writes so far. A sync writer waits for its own number. `record_write` stores it
    /// with Release after the append; pairs with the Acquire load in `sync_logs`.
    write_count: AtomicU64,
    /// The names of logs up to this number are durable in the directory.
    last_synced_name: AtomicU64,
    state: Mutex<WalSyncState>,
    sync_turn_ended: Condvar,
}

#[derive(Default)]
struct WalSyncState {
    /// Number of the last durable write.
    durable_write: u64,
    /// True while a thread syncs.
    is_syncing: bool,
}

impl WalSync {
    /// Creates the state for `logs`, whose content is durable.
    pub(crate) fn new(logs: Vec<WalFile>) -> WalSync {
        WalSync {
            logs: Mutex::new(logs),
            write_count: AtomicU64::new(0),
            last_synced_name: AtomicU64::new(0),
            state: Mutex::default(),
            sync_turn_ended: Condvar::new(),
        }
    }

    /// Counts a write that was appended to the last log. Only one thread calls this at a time.
    pub(crate) fn record_write(&self) {
        self.write_count.store(self.last_write() + 1, Ordering::Release);
    }

    /// Number of the last write, for the thread that counts writes.
    pub(crate) fn last_write(&self) -> u64 {
        self.write_count.load(Ordering::Relaxed)
    }

    /// Adds the new current log. Releases logs below `needed`, whose writes are in durable tables.
    pub(crate) fn add_log(&self, log: WalFile, needed: u64) {
        let mut logs = self.logs.lock();
        logs.retain(|log| log.number >= needed);
        logs.push(log);
    }

    /// Releases logs below `needed`, whose writes are in durable tables.
    pub(crate) fn release_logs(&self, needed: u64) {
        self.logs.lock().retain(|log| log.number >= needed);
    }

    /// Waits until write number `write` is durable. `check` returns the error that prevents this.
    /// `sync` calls [`WalSync::sync_logs`]; if it fails, `check` must fail from then on.
    pub(crate) fn wait_until_durable(
        &self,
        write: u64,
        check: impl Fn() -> Result<()>,
        sync: impl Fn() -> Result<u64>,
    ) -> Result<()> {
        if mutant!(SyncWriteAckedBeforeFsync) {
            return Ok(());
        }
        let mut state = self.state.lock();
        while state.durable_write < write {
            check()?;
            if state.is_syncing {
                self.sync_turn_ended.wait(&mut state);
                continue;
            }
            state.is_syncing = true;
            drop(state);
            let mut turn = SyncTurn { wal_sync: self, durable_write: 0 };
            turn.durable_write = sync()?;
            drop(turn);
            state = self.state.lock();
        }
        Ok(())
    }

    /// Makes all writes so far durable. Returns the number of the last of them. `sync_names` makes
    /// the names in the directory durable.
    pub(crate) fn sync_logs(&self, sync_names: impl FnOnce() -> Result<()>) -> Result<u64> {
        // Loads the number before the list of logs. A log that is added in between only adds work.
        let writes = self.write_count.load(Ordering::Acquire);
        let logs = self.logs.lock().clone();
        for log in &logs {
            log.sync()?;
        }
        let last = logs.last().map_or(0, |log| log.number);
        if self.last_synced_name.load(Ordering::Relaxed) < last && !mutant!(WalDirEntryNotSynced) {
            sync_names()?;
            self.last_synced_name.fetch_max(last, Ordering::Relaxed);
        }
        Ok(writes)
    }
}

/// Turn of one thread to sync. Its end, also by a panic, wakes the waiting writers.
struct SyncTurn<'a> {
    wal_sync: &'a WalSync,
    durable_write: u64,
}

impl Drop for SyncTurn<'_> {
    fn drop(&mut self) {
        let mut state = self.wal_sync.state.lock();
        state.is_syncing = false;
        state.durable_write = state.durable_write.max(self.durable_write);
        self.wal_sync.sync_turn_ended.notify_all();
    }
}
