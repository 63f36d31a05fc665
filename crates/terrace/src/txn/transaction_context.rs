//! State that the transactions of one database share.
//!
//! A forked child may adopt a database. Threads of its parent may hold the locks in its copy of
//! this state, and will never release them there. So each process has a state of its own.

use std::ops::Deref;

use terrace_env::ProcessToken;

use super::lock_manager::LockManager;
use super::transaction_turn::TransactionTurn;
use crate::db::Db;
use crate::sync::{Arc, ArcSwapOption};

/// Locks and turn of all transactions of a database in one process.
pub(super) struct TransactionContext {
    process: ProcessToken,
    pub(super) locks: Arc<LockManager>,
    pub(super) turn: TransactionTurn,
}

/// Slot of a database for the state of its process.
struct ContextSlot {
    /// State of the process that opened the database.
    first: TransactionContext,
    /// State of a child that adopted it.
    adopted: ArcSwapOption<TransactionContext>,
}

/// State of this process.
pub(super) enum ContextRef<'a> {
    First(&'a TransactionContext),
    Adopted(Arc<TransactionContext>),
}

impl Deref for ContextRef<'_> {
    type Target = TransactionContext;

    fn deref(&self) -> &TransactionContext {
        match self {
            ContextRef::First(context) => context,
            ContextRef::Adopted(context) => context,
        }
    }
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
    #[inline]
    pub(super) fn of(db: &Db) -> ContextRef<'_> {
        let slot = db
            .extension(|| ContextSlot { first: TransactionContext::new(), adopted: ArcSwapOption::empty() });
        match slot.first.process.is_current() {
            true => ContextRef::First(&slot.first),
            false => ContextRef::Adopted(slot.adopted()),
        }
    }
}

impl ContextSlot {
    /// Returns the state of a child.
    #[cold]
    fn adopted(&self) -> Arc<TransactionContext> {
        let is_current = |context: &Arc<TransactionContext>| context.process.is_current();
        loop {
            if let Some(context) = self.adopted.load_full().filter(is_current) {
                return context;
            }
            // Another thread of this process may be faster.
            self.adopted.rcu(|context| match context.as_ref().filter(|context| is_current(context)) {
                Some(context) => Some(Arc::clone(context)),
                None => Some(Arc::new(TransactionContext::new())),
            });
        }
    }
}
