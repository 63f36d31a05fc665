//! State that the transactions of one database share.

use super::lock_manager::LockManager;
use super::transaction_turn::TransactionTurn;
use crate::db::Db;
use crate::sync::Arc;

/// Locks and turn of all transactions of a database.
pub(super) struct TransactionContext {
    pub(super) locks: Arc<LockManager>,
    pub(super) turn: TransactionTurn,
}

impl TransactionContext {
    pub(super) fn of(db: &Db) -> &TransactionContext {
        db.extension(|| TransactionContext {
            locks: Arc::new(LockManager::new()),
            turn: TransactionTurn::new(),
        })
    }
}
