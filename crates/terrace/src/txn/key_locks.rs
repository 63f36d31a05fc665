//! Key locks of one transaction.

use std::collections::BTreeSet;
use std::time::Duration;

use terrace_env::Clock;

use super::lock_manager::{KeyLockMode, LockManager};
use super::wait_for_graph::TransactionId;
use crate::error::Result;
use crate::sync::Arc;

/// Locks that a transaction holds until its end.
pub(super) struct KeyLocks {
    manager: Arc<LockManager>,
    id: TransactionId,
    keys: BTreeSet<Vec<u8>>,
}

impl KeyLocks {
    pub(super) fn new(manager: Arc<LockManager>) -> KeyLocks {
        KeyLocks { id: manager.new_transaction(), manager, keys: BTreeSet::new() }
    }

    /// Returns the number of the transaction.
    pub(super) fn id(&self) -> TransactionId {
        self.id
    }

    /// Locks `key`. After an error, the transaction holds no lock.
    pub(super) fn lock(
        &mut self,
        key: &[u8],
        mode: KeyLockMode,
        timeout: Duration,
        clock: &dyn Clock,
    ) -> Result<()> {
        let is_new = self.manager.lock(self.id, key, mode, timeout, clock).inspect_err(|_| self.release())?;
        if is_new {
            self.keys.insert(key.to_vec());
        }
        Ok(())
    }

    fn release(&mut self) {
        let keys = std::mem::take(&mut self.keys);
        self.manager.unlock_all(self.id, keys.iter().map(Vec::as_slice));
    }
}

impl Drop for KeyLocks {
    fn drop(&mut self) {
        self.release();
    }
}
