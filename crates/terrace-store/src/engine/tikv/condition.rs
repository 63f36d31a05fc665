//! Conditional writes: changes since a snapshot.
//!
//! A write that depends on keys joins a group (`committer`). One that depends on ranges has a
//! transaction of its own:
//!
//! ```text
//!   begin     transaction with the start timestamp S
//!   compare   the stamps of the keys of the condition, in the snapshot and at S
//!   compare   the entries of its ranges, in the snapshot and at S
//!   commit    with locks on the keys, on all commit markers and on the record of the last new lane
//! ```
//!
//! A lock makes the commit fail if the key is written between S and the commit. A range has no lock
//! in TiKV. But each commit to the store writes a marker, and the first one with a marker writes
//! the record of the last new lane. So locks on all of them exclude every commit between S and this
//! one. Such a failure is no conflict of the caller: the comparison is repeated with a later S.

use tikv_client::{TimestampExt, Transaction};

use super::super::group_commit::{GroupedWrite, Writes};
use super::cluster::Requester;
use super::commit::Attempt;
use super::committer::Committer;
use super::snapshot::{Content, Snapshots, TikvSnapshot};
use crate::error::{Error, Result};
use crate::key_range::KeyRange;
use crate::store::{Condition, Position, StoreIterator, StoreSnapshot, foreign_snapshot};

/// Commits `writes` if nothing in `condition` has changed.
pub(super) fn write_if(
    reads: &Snapshots,
    committer: &Committer,
    writes: Writes,
    condition: &Condition<'_>,
) -> Result<Position> {
    let since = condition.since.as_any().downcast_ref::<TikvSnapshot>();
    let since = since.filter(|since| since.belongs_to(reads)).ok_or_else(foreign_snapshot)?;
    if condition.ranges.iter().all(KeyRange::is_empty) {
        let stamps = since.stamps(condition.keys)?.into_iter().map(Option::unwrap_or_default);
        let compared = condition.keys.iter().map(|key| reads.layout.data_key(key)).zip(stamps).collect();
        let write = GroupedWrite { writes, compared, since: since.position(), has_position: true };
        return committer.write(write).map_err(|error| reads.layout.with_user_key(error));
    }
    let requester = reads.cluster.requester();
    let mut pause = requester.first_pause();
    loop {
        let attempt =
            committer.attempt(writes.clone(), || begin_unchanged(reads, since, condition, &requester));
        match attempt? {
            Attempt::Committed(at) => return Ok(at),
            Attempt::Conflict if requester.is_late() => {
                return Err(Error::Busy("tikv: other clients write all the time".into()));
            }
            Attempt::Abandoned(reason) if requester.is_late() => return Err(Error::Unavailable(reason)),
            Attempt::Conflict | Attempt::Abandoned(_) => {
                let waiter = requester.clone();
                pause = reads.cluster.threads.run(async move {
                    waiter.pause(&mut pause).await;
                    Ok(pause)
                })?;
            }
        }
    }
}

/// Begins a transaction, and returns it with the keys to lock if `condition` holds at its start.
/// Otherwise returns a conflict.
fn begin_unchanged(
    reads: &Snapshots,
    since: &TikvSnapshot,
    condition: &Condition<'_>,
    requester: &Requester,
) -> Result<(Transaction, Vec<Vec<u8>>)> {
    let begin = requester.clone();
    let mut transaction = reads.cluster.threads.run(async move { Ok(begin.begin().await?) })?;
    let now = reads.at_start(transaction.start_timestamp().version());
    match unchanged(reads, since, &now, condition) {
        Ok(locked) => Ok((transaction, locked)),
        Err(error) => {
            // It has written nothing, so its end sends no request.
            let _ = reads.cluster.threads.run(async move { Ok(transaction.rollback().await.is_ok()) });
            Err(error)
        }
    }
}

/// Returns the keys to lock if `condition` holds at the time of `now`, or a conflict.
fn unchanged(
    reads: &Snapshots,
    since: &TikvSnapshot,
    now: &TikvSnapshot,
    condition: &Condition<'_>,
) -> Result<Vec<Vec<u8>>> {
    let before = since.stamps(condition.keys)?;
    let after = now.stamps(condition.keys)?;
    let changed = before.iter().zip(&after).position(|(before, after)| before != after);
    if let Some(index) = changed {
        return Err(Error::Conflict { key: condition.keys.get(index).map(|key| key.to_vec()) });
    }
    let mut locked: Vec<Vec<u8>> = condition.keys.iter().map(|key| reads.layout.data_key(key)).collect();
    let records = now.commit_records()?;
    // Each commit changes one of them. The markers do not suffice: those of a client that has ended
    // are deleted. Without a change, the store is the same.
    if records != since.commit_records()? {
        for range in condition.ranges.iter().filter(|range| !range.is_empty()) {
            compare_range(since, now, range)?;
        }
    }
    // It is among the records, unless the store has no commit.
    locked.push(reads.layout.change_record_key());
    locked.extend(records.into_iter().map(|(record, _)| record));
    Ok(locked)
}

/// Returns a conflict if the entries of `range` differ in the two states.
fn compare_range(since: &TikvSnapshot, now: &TikvSnapshot, range: &KeyRange) -> Result<()> {
    let mut before = since.cursor(range, Content::Stored);
    let mut after = now.cursor(range, Content::Stored);
    before.seek_to_first();
    after.seek_to_first();
    while before.valid() && (before.key(), before.value()) == (after.key(), after.value()) {
        before.next();
        after.next();
    }
    before.status()?;
    after.status()?;
    match before.valid() || after.valid() {
        true => Err(Error::Conflict { key: None }),
        false => Ok(()),
    }
}
