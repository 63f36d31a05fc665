//! Which writes are durable, and how those who wait for it share one flush of the device.
//!
//! ```text
//!   writer   stored, counted: 7 ──> waits for 7 ─────────────────────────────> 7 <= 8: returns
//!   writer        stored, counted: 8 ──> flushes: count (8), logs, names ──> durable: 8
//! ```
//!
//! One thread at a time flushes. It covers the older logs first: no acknowledged write may lie behind one that a power
//! cut can still take.

use terrace_sync::mutant;

use super::wal::WalFile;
use crate::error::Result;
use crate::sync::{AtomicU64, Condvar, Mutex, Ordering};

/// The logs that are needed, and how far they are durable.
pub(crate) struct WalSync {
    /// Oldest first, the present one last. Grows under the engine's `commit`, and shrinks when one is in a table.
    logs: Mutex<Vec<WalFile>>,
    /// Writes so far: a syncing writer waits for its own number. Release after the store into the log.
    write_count: AtomicU64,
    /// Logs up to this number have durable names in the directory.
    last_synced_name: AtomicU64,
    state: Mutex<WalSyncState>,
    sync_turn_ended: Condvar,
}

#[derive(Default)]
struct WalSyncState {
    /// Writes up to this number are durable.
    durable_write: u64,
    /// True while somebody flushes.
    is_syncing: bool,
}

impl WalSync {
    /// Of these logs, in which everything is durable.
    pub(crate) fn new(logs: Vec<WalFile>) -> WalSync {
        WalSync {
            logs: Mutex::new(logs),
            write_count: AtomicU64::new(0),
            last_synced_name: AtomicU64::new(0),
            state: Mutex::default(),
            sync_turn_ended: Condvar::new(),
        }
    }

    /// Counts a write that has been stored in the last log. One thread at a time.
    pub(crate) fn record_write(&self) {
        self.write_count.store(self.last_write() + 1, Ordering::Release);
    }

    /// The number of the last write, for the thread that counts them.
    pub(crate) fn last_write(&self) -> u64 {
        self.write_count.load(Ordering::Relaxed)
    }

    /// Adds the log where writes go from now on, and forgets those below `needed`, which are in durable tables.
    pub(crate) fn add_log(&self, log: WalFile, needed: u64) {
        let mut logs = self.logs.lock();
        logs.retain(|log| log.number >= needed);
        logs.push(log);
    }

    /// Forgets the logs below `needed`: what they hold is in durable tables.
    pub(crate) fn release_logs(&self, needed: u64) {
        self.logs.lock().retain(|log| log.number >= needed);
    }

    /// Returns when write number `write` is durable. `check` says why it can't become so any more; `flush` is
    /// [`WalSync::sync_logs`], and sees to it that `check` fails ever after if it does.
    pub(crate) fn wait_until_durable(
        &self,
        write: u64,
        check: impl Fn() -> Result<()>,
        flush: impl Fn() -> Result<u64>,
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
            let mut flushing = SyncTurn { wal_sync: self, durable_write: 0 };
            flushing.durable_write = flush()?;
            drop(flushing);
            state = self.state.lock();
        }
        Ok(())
    }

    /// Makes all that has been written durable, and says up to which write that is. `sync_names` makes the names in the
    /// directory durable.
    pub(crate) fn sync_logs(&self, sync_names: impl FnOnce() -> Result<()>) -> Result<u64> {
        // First the number, then the logs: a log that is switched to in between only adds to the work.
        let writes = self.write_count.load(Ordering::Acquire);
        let logs = self.logs.lock().clone();
        for log in &logs {
            log.file.sync()?;
        }
        let last = logs.last().map_or(0, |log| log.number);
        if self.last_synced_name.load(Ordering::Relaxed) < last && !mutant!(WalDirEntryNotSynced) {
            sync_names()?;
            self.last_synced_name.fetch_max(last, Ordering::Relaxed);
        }
        Ok(writes)
    }
}

/// The turn of one thread to flush. Its end, also by a panic, is told to those who wait.
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
