//! Transactions: several reads and writes that take effect as one step.
//!
//! ```text
//!   begin     nothing
//!   reads     the first one takes a snapshot; the read set records keys and ranges
//!   writes    the write set collects them; own reads see them
//!   commit    one conditional write: the batch, if nothing in the read set changed
//! ```
//!
//! All isolation rests on [`Db::write_if`]. Locks only make conflicts rare.

mod key_locks;
mod key_order;
pub(crate) mod lock_manager;
mod read_set;
mod transaction;
mod transaction_context;
mod transaction_options;
mod transaction_scan;
mod transaction_turn;
mod txn_iter;
mod wait_for_graph;
mod write_set;

use crate::db::Db;
use crate::error::Result;
use crate::sync::spin_or_yield;
use lock_manager::KeyLockMode;
use transaction_context::TransactionContext;

pub use transaction::{Savepoint, Transaction};
pub use transaction_options::{Isolation, TransactionOptions};
pub use txn_iter::{TransactionEntries, TransactionIterator};

/// Number of conflicts after which [`Db::transact`] locks the keys of the transaction, so that it
/// makes progress beside others on the same keys.
const CONFLICTS_UNTIL_LOCKING: u32 = 3;

/// Number of conflicts after which [`Db::transact`] lets no other run of it start. Locks do not
/// help a transaction that reads large ranges.
const CONFLICTS_UNTIL_TURN: u32 = 6;

/// Transactions.
impl Db {
    /// Starts a transaction. It costs nothing before its first read.
    ///
    /// ```
    /// # let env = terrace::Env::in_memory();
    /// # let options = terrace::Options::default().create_if_missing(true).env(env);
    /// # let db = terrace::Db::open("cities", &options)?;
    /// let mut transaction = db.begin(&terrace::TransactionOptions::default());
    /// transaction.put("CH/Bern", "46.95,7.45")?;
    /// transaction.commit()?;
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn begin(&self, options: &TransactionOptions) -> Transaction {
        Transaction::new(self, options)
    }

    /// Runs `body` in a transaction and commits it. Runs it again after a conflict, with a new
    /// snapshot, up to 100 times. After three conflicts, locks make further ones rare. After six,
    /// no other call of `transact` starts a run until this one ends, at most for the lock timeout.
    ///
    /// `body` may run several times, so it has no other effects than those on the transaction. If
    /// it returns an error or panics, nothing is written.
    ///
    /// # Errors
    ///
    /// The error of `body`, if it is no conflict. The last conflict after all attempts. The errors
    /// of [`Transaction::commit`].
    ///
    /// ```
    /// # let env = terrace::Env::in_memory();
    /// # let options = terrace::Options::default().create_if_missing(true).env(env);
    /// # let db = terrace::Db::open("cities", &options)?;
    /// let visits = db.transact(|transaction| {
    ///     let before = transaction.get("visits")?;
    ///     let before = before.map_or(0, |bytes| u64::from_le_bytes(bytes.try_into().unwrap()));
    ///     transaction.put("visits", (before + 1).to_le_bytes())?;
    ///     Ok(before + 1)
    /// })?;
    /// assert_eq!(visits, 1);
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn transact<T>(&self, body: impl FnMut(&mut Transaction) -> Result<T>) -> Result<T> {
        self.transact_with(&TransactionOptions::default(), body)
    }

    /// Same as [`Db::transact`], with options.
    ///
    /// ```
    /// # let env = terrace::Env::in_memory();
    /// # let options = terrace::Options::default().create_if_missing(true).env(env);
    /// # let db = terrace::Db::open("cities", &options)?;
    /// let durable = terrace::TransactionOptions::default().sync(true);
    /// db.transact_with(&durable, |transaction| transaction.put("CH/Bern", "46.95,7.45"))?;
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn transact_with<T>(
        &self,
        options: &TransactionOptions,
        mut body: impl FnMut(&mut Transaction) -> Result<T>,
    ) -> Result<T> {
        let context = TransactionContext::of(self);
        let clock = &**self.clock();
        let mut turn_guard = None;
        let mut conflicts = 0;
        let mut spins = 0;
        loop {
            if turn_guard.is_none() {
                match conflicts >= CONFLICTS_UNTIL_TURN {
                    true => turn_guard = context.turn.take(options.lock_timeout, clock),
                    false => context.turn.wait(options.lock_timeout, clock),
                }
            }
            let mut transaction = Transaction::new(self, options);
            if conflicts >= CONFLICTS_UNTIL_LOCKING {
                // Two transactions that share a lock could not both extend it.
                transaction.lock_keys(KeyLockMode::Exclusive);
            }
            let outcome = body(&mut transaction).and_then(|value| transaction.commit_writes().map(|_| value));
            match outcome {
                Err(error) if error.is_conflict() && conflicts + 1 < options.attempts => conflicts += 1,
                outcome => return outcome,
            }
            spin_or_yield(&mut spins);
        }
    }
}
