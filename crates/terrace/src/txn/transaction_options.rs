//! Options of transactions.

use std::time::Duration;

use crate::options::builder_methods;

/// Isolation of a transaction.
///
/// | level | reads see | a commit fails if another writer has written | what remains possible |
/// |---|---|---|---|
/// | `Serializable` | the snapshot and own writes | a key or range that the transaction read | nothing: the result is that of running the transaction alone, at the moment of its commit |
/// | `Snapshot` | the same | a key that the transaction writes, or read by `get_for_update` | write skew |
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Isolation {
    /// The transaction takes effect as if it ran alone at the moment of its commit.
    #[default]
    Serializable,
    /// Two transactions may each read what the other one writes, if they write different keys.
    Snapshot,
}

/// Options of a transaction.
///
/// ```
/// use terrace::{Isolation, TransactionOptions};
///
/// let options = TransactionOptions::default().isolation(Isolation::Snapshot).sync(true);
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct TransactionOptions {
    /// Anomalies that the transaction excludes. Default: [`Isolation::Serializable`].
    pub isolation: Isolation,
    /// Locks each key at its first read or write until the end of the transaction. Another
    /// locking transaction waits. Reads of keys see the newest value instead of the snapshot.
    /// Useful for keys that many transactions change. Default: false.
    pub locking: bool,
    /// Maximum wait for a lock. Default: one second.
    pub lock_timeout: Duration,
    /// Maximum number of runs by [`Db::transact`], at least 1. Default: 100.
    pub attempts: u32,
    /// Maximum size of the reads, writes and savepoints in memory, in bytes. Scans that overlap
    /// count once. Locks do not count. Default: 64 MiB.
    pub memory: usize,
    /// Returns from the commit only after the writes are durable. Default: false.
    pub sync: bool,
}

builder_methods! {
    TransactionOptions:
    isolation: Isolation,
    locking: bool,
    lock_timeout: Duration,
    attempts: u32,
    memory: usize,
    sync: bool,
}

impl Default for TransactionOptions {
    fn default() -> TransactionOptions {
        TransactionOptions {
            isolation: Isolation::Serializable,
            locking: false,
            lock_timeout: Duration::from_secs(1),
            attempts: 100,
            memory: 64 << 20,
            sync: false,
        }
    }
}
