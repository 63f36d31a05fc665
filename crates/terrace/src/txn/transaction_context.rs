//! State that the transactions of one database share.
//!
//! A forked child may adopt a database. Threads of its parent may hold the locks in its copy of
//! this state, and will never release them there. So each process has a state of its own.

use terrace_env::ProcessToken;

use super::lock_manager::LockManager;
use super::transaction_turn::TransactionTurn;
use crate::db::Db;
use crate::sync::{Arc, ArcSwap, Guard};

/// Locks and turn of all transactions of a database in one process.
pub(super) struct TransactionContext {
    process: ProcessToken,
    pub(super) locks: Arc<LockManager>,
    pub(super) turn: TransactionTurn,
}

impl TransactionContext {
    fn new() -> TransactionContext {
        TransactionContext {
            process: ProcessToken::current(),
            locks: Arc::new(LockManager::new()),
            turn: TransactionTurn::new(),
        }
    }

    /// Returns the state of `db` in this process.
    pub(super) fn of(db: &Db) -> Guard<Arc<TransactionContext>> {
        let slot = db.extension(|| ArcSwap::from_pointee(TransactionContext::new()));
        let context = slot.load();
        if context.process.is_current() {
            return context;
        }
        // Another thread of this process may be faster.
        slot.rcu(|context| match context.process.is_current() {
            true => Arc::clone(context),
            false => Arc::new(TransactionContext::new()),
        });
        slot.load()
    }
}
