//! One transaction, and the resolution of a commit without an answer.
//!
//! ```text
//!   begin     start timestamp S, which is the stamp of all values
//!   prewrite  locks on the written keys, on the keys of the condition, and on the marker
//!   commit    timestamp C on the first written key, and later on the others
//!   resolve   read of the marker: the stamp S means that the transaction is committed
//! ```
//!
//! A commit without an answer is still open only as long as its locks exist. The read of the marker
//! meets such a lock and waits until the transaction is committed, or until the lock expires and
//! the reader rolls the transaction back. So the result of the read is final, and a request that is
//! still on its way cannot change it.
//!
//! A rollback by this client would not be safe without an answer: it may remove the locks of a
//! transaction that is committed. So only a transaction that failed before its commit is rolled
//! back at once. Other locks expire after three seconds.

use tikv_client::{TimestampExt, Transaction};
use tokio::time::timeout;

use super::super::group_commit::Writes;
use super::cluster::{Bounds, Requester};
use super::failure::{Failure, Outcome};
use super::stored::{Stamp, encode_value, stamp_of};
use crate::error::{Error, Result};
use crate::key_range::successor;

/// Sequence of commits with one marker.
#[derive(Debug)]
pub(super) struct Lane {
    pub(super) marker: Vec<u8>,
    /// Whether a commit with this marker has succeeded.
    pub(super) is_known: bool,
    /// Start of the last transaction with this marker.
    pub(super) used_at: Stamp,
}

/// Result of an attempt to commit that had no effect, or its timestamp.
#[derive(Debug)]
pub(super) enum Attempt {
    Committed(u64),
    /// Another transaction has written one of the keys, or holds its lock.
    Conflict,
    /// The attempt failed, and it is certain that it cannot take effect.
    Abandoned(String),
}

/// Commits `writes` if no other transaction has written them, or one of the keys `locked`, since
/// the start of `transaction`.
pub(super) async fn attempt(
    mut transaction: Transaction,
    lane: &mut Lane,
    writes: &Writes,
    locked: Vec<Vec<u8>>,
    requester: &Requester,
) -> Result<Attempt> {
    let stamp = transaction.start_timestamp().version();
    let ranges = ranges_of(writes, &locked, lane);
    if let Err(error) = fill(&mut transaction, lane, writes, locked, stamp).await {
        return Err(requester.classify(error).into());
    }
    lane.used_at = stamp;
    let (transaction, outcome) = commit(transaction, requester).await;
    let failure = match outcome {
        Ok(at) => {
            lane.is_known = true;
            return Ok(Attempt::Committed(at));
        }
        Err(failure) => failure,
    };
    match failure {
        // Both come from the prewrite, so the commit was never sent.
        Failure::Conflict(_) | Failure::Locked(_) => {
            roll_back(transaction, requester).await;
            Ok(Attempt::Conflict)
        }
        failure => {
            drop(transaction);
            if let Some(at) = resolve(lane, stamp, requester, &failure).await? {
                lane.is_known = true;
                return Ok(Attempt::Committed(at));
            }
            requester.remove_orphans(&failure, ranges).await;
            match failure {
                Failure::Final(error) => Err(error),
                failure => Ok(Attempt::Abandoned(failure.to_string())),
            }
        }
    }
}

/// Ranges of the keys of a transaction, in order.
fn ranges_of(writes: &Writes, locked: &[Vec<u8>], lane: &Lane) -> Vec<Bounds> {
    let mut keys: Vec<&Vec<u8>> = writes.keys().chain(locked).chain([&lane.marker]).collect();
    keys.sort_unstable();
    keys.dedup();
    keys.into_iter().map(|key| (key.clone(), successor(key))).collect()
}

/// Adds all writes and locks. The first written key becomes the primary one: it is committed first,
/// and readers of it need not wait for the others.
async fn fill(
    transaction: &mut Transaction,
    lane: &Lane,
    writes: &Writes,
    locked: Vec<Vec<u8>>,
    stamp: Stamp,
) -> tikv_client::Result<()> {
    for (key, value) in writes {
        match value {
            Some(value) => transaction.put(key.clone(), encode_value(stamp, value)).await?,
            None => transaction.delete(key.clone()).await?,
        }
    }
    transaction.put(lane.marker.clone(), encode_value(stamp, &[])).await?;
    transaction.lock_keys(locked).await
}

/// Commits in a task of its own, because the library panics on some answers. Returns the
/// transaction for its rollback, if the task has ended.
async fn commit(mut transaction: Transaction, requester: &Requester) -> (Option<Transaction>, Outcome<u64>) {
    let mut task = tokio::spawn(async move {
        let outcome = transaction.commit().await;
        (transaction, outcome)
    });
    let failure = match timeout(requester.commit_time(), &mut task).await {
        Ok(Ok((transaction, Ok(at)))) => {
            // A transaction with a marker has a timestamp.
            let at = at.map_or(0, |at| at.version());
            return (Some(transaction), Ok(at));
        }
        Ok(Ok((transaction, Err(error)))) => return (Some(transaction), Err(requester.classify(error))),
        Ok(Err(error)) => Failure::Transient(format!("tikv: the client library failed: {error}")),
        Err(_) => {
            task.abort();
            Failure::Transient("tikv: no answer to a commit in time".into())
        }
    };
    (None, Err(failure))
}

/// Removes the locks of a transaction that was not committed, so that others need not wait for
/// their end. Its failure has no consequence.
async fn roll_back(transaction: Option<Transaction>, requester: &Requester) {
    if let Some(mut transaction) = transaction {
        let _ = timeout(requester.commit_time(), transaction.rollback()).await;
    }
}

/// Returns the timestamp of a commit without an answer, or None if it had no effect.
async fn resolve(lane: &Lane, stamp: Stamp, requester: &Requester, reason: &Failure) -> Result<Option<u64>> {
    // The caller has waited already. Its time is extended, because the answer is worth more.
    let requester = requester.extended();
    let found = find_commit(lane, stamp, &requester).await;
    found.map_err(|failure| Error::CommitUnknown(format!("{reason}; {failure}")))
}

async fn find_commit(lane: &Lane, stamp: Stamp, requester: &Requester) -> Outcome<Option<u64>> {
    let now = requester.timestamp().await?;
    if !has_stamp(lane, stamp, requester, now).await? {
        return Ok(None);
    }
    // The first timestamp at which the marker has the stamp is that of the commit.
    let mut before = stamp;
    let mut after = now;
    while after - before > 1 {
        let middle = before + (after - before) / 2;
        match has_stamp(lane, stamp, requester, middle).await? {
            true => after = middle,
            false => before = middle,
        }
    }
    Ok(Some(after))
}

async fn has_stamp(lane: &Lane, stamp: Stamp, requester: &Requester, at: u64) -> Outcome<bool> {
    let stored = requester.get_at(&lane.marker, at).await?;
    let found = stored.map(|stored| stamp_of(&lane.marker, &stored)).transpose();
    found.map(|found| found == Some(stamp)).map_err(Failure::Final)
}
