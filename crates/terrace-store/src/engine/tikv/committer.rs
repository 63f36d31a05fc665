//! Commits of one client: groups of writes, single transactions, and commit markers.
//!
//! ```text
//!   begin     transaction of a group with the start timestamp S
//!   compare   the versions of the compared keys at S; a write with a changed key leaves the group
//!   commit    all writes, with locks on the compared keys, which exclude a change after S
//! ```
//!
//! A failure of the commit is no conflict of the callers: the comparison is repeated with a later
//! S.
//!
//! A marker belongs to a lane of one client. The first commit of a lane also writes the record of
//! the last new lane, and deletes markers that no client uses any more. So a condition on a range
//! can compare and lock that record and all markers, and no commit escapes it. The record shows the
//! commits of a client whose markers have been deleted meanwhile.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use terrace_env::{Random, SystemRandom};
use tikv_client::{TimestampExt, Transaction};

use super::super::group_commit::{Comparison, GroupCommit, GroupedWrite, Version, Writes, halves, writes_of};
use super::super::lanes::Lanes;
use super::super::prefix_layout::Layout;
use super::cluster::{Cluster, MILLIS_SHIFT, Requester};
use super::commit::{Attempt, Lane, attempt};
use super::snapshot::{commit_records_at, versions_at};
use super::stored::Stamp;
use crate::error::{Error, Result};
use crate::store::Position;

/// Maximum number of operations of a group.
const GROUP_OPERATIONS: usize = 512;
/// Maximum size of a group in bytes.
const GROUP_BYTES: usize = 1 << 20;
/// Time without a commit after which a lane gets a new marker, in milliseconds.
const LANE_LIFE_MILLIS: u64 = 3600 * 1000;
/// Age of a marker that no client uses any more, in milliseconds.
const DEAD_MARKER_MILLIS: u64 = 24 * 3600 * 1000;
/// Maximum number of markers that one commit deletes.
const DELETED_MARKERS: usize = 64;
/// Maximum time for the deletion of the markers at the end.
const CLOSE_TIME: Duration = Duration::from_secs(1);

/// Commits of one client.
pub(super) struct Committer {
    cluster: Arc<Cluster>,
    names: Arc<LaneNames>,
    groups: GroupCommit<Lane>,
    /// Lanes of writes with conditions on ranges.
    single: Lanes<Lane>,
}

/// Names of the lanes of one client.
struct LaneNames {
    layout: Arc<Layout>,
    client: u64,
    next: AtomicU64,
}

impl Committer {
    pub(super) fn new(cluster: Arc<Cluster>, layout: Arc<Layout>) -> Committer {
        let names = LaneNames { layout, client: SystemRandom::new().next_u64(), next: AtomicU64::new(0) };
        let max_wait = cluster.timeout();
        let groups = GroupCommit::new(GROUP_OPERATIONS, GROUP_BYTES, max_wait, Comparison::Locks);
        Committer { cluster, names: Arc::new(names), groups, single: Lanes::new(max_wait) }
    }

    /// Executes `write`, together with those of other threads.
    pub(super) fn write(&self, write: GroupedWrite) -> Result<Position> {
        self.groups.write(write, |lane, group| {
            let requester = self.cluster.requester();
            let names = Arc::clone(&self.names);
            let count = group.len();
            let work = async move {
                let mut lane = lane;
                let outcomes = commit_group(&mut lane, &names, group, &requester).await;
                Ok((lane, outcomes))
            };
            // The lane is lost with the threads, and so are the results.
            self.cluster
                .threads
                .run(work)
                .unwrap_or_else(|error| (None, vec![Err(Error::CommitUnknown(error.to_string())); count]))
        })
    }

    /// Commits `writes` in the transaction that `begin` returns, with locks on the keys beside it.
    ///
    /// The transaction begins when there is a lane for it. During a wait after its start, others
    /// would write the keys that it locks, and it would fail.
    pub(super) fn attempt(
        &self,
        writes: Writes,
        begin: impl FnOnce() -> Result<(Transaction, Vec<Vec<u8>>)>,
    ) -> Result<Attempt> {
        self.single.with_lane(|lane| {
            let (transaction, locked) = match begin() {
                Ok(begun) => begun,
                Err(error) => return (lane, Err(error)),
            };
            let requester = self.cluster.requester();
            let names = Arc::clone(&self.names);
            let work = async move {
                let mut current = names.usable(lane, transaction.start_timestamp().version());
                let writes = names.with_lane_record(&current, writes, &[]);
                let outcome = attempt(transaction, &mut current, &writes, locked, &requester).await;
                Ok((kept(current, &outcome), outcome))
            };
            let run = self.cluster.threads.run(work);
            run.unwrap_or_else(|error| (None, Err(Error::CommitUnknown(error.to_string()))))
        })
    }
}

/// Returns the lane for the next commit. After an unknown result, its marker must not be used
/// again.
fn kept<T>(lane: Lane, outcome: &Result<T>) -> Option<Lane> {
    (!matches!(outcome, Err(Error::CommitUnknown(_)))).then_some(lane)
}

/// Commits a group. Divides it after two conflicts, so that one contended key delays only its own
/// writer. Divides it also if the cluster refuses it, because a cluster with lower limits may
/// accept the parts.
async fn commit_group(
    lane: &mut Option<Lane>,
    names: &LaneNames,
    group: Vec<Arc<GroupedWrite>>,
    requester: &Requester,
) -> Vec<Result<Position>> {
    let mut outcomes: Vec<Result<Position>> = vec![Ok(0); group.len()];
    let mut parts = vec![(0..group.len()).collect::<Vec<usize>>()];
    while let Some(part) = parts.pop() {
        let mut part = Part { group: &group, members: part, outcomes: &mut outcomes };
        match part.commit(lane, names, requester).await {
            Ok(Some(at)) => part.end(&Ok(at)),
            Ok(None) => {
                let members = part.members;
                parts.extend(halves(0..members.len()).map(|half| members[half].to_vec()));
            }
            Err(error) => part.end(&Err(error)),
        }
    }
    outcomes
}

/// Writes of a group that one transaction commits.
struct Part<'a> {
    group: &'a [Arc<GroupedWrite>],
    /// Indexes of the writes without an outcome.
    members: Vec<usize>,
    outcomes: &'a mut [Result<Position>],
}

impl Part<'_> {
    /// Commits the writes whose compared keys are unchanged. The others get a conflict. Returns
    /// None if the part has to be divided. Repeats a failed commit otherwise, because a later write
    /// to the same keys is no reason to fail.
    async fn commit(
        &mut self,
        lane: &mut Option<Lane>,
        names: &LaneNames,
        requester: &Requester,
    ) -> Result<Option<Position>> {
        let mut pause = requester.first_pause();
        let mut is_repeated = false;
        loop {
            let mut transaction = requester.begin().await?;
            let now = transaction.start_timestamp().version();
            let compared = self.compare(now, requester).await;
            if compared.is_err() || self.members.is_empty() {
                // It has written nothing, so its end sends no request.
                let _ = transaction.rollback().await;
                return compared.map(|()| Some(0));
            }
            let mut current = names.usable(lane.take(), now);
            let dead = names.dead_markers(&current, requester, now).await?;
            let members: Vec<_> = self.members.iter().map(|index| Arc::clone(&self.group[*index])).collect();
            let writes = names.with_lane_record(&current, writes_of(&members), &dead);
            let locked: BTreeSet<Vec<u8>> =
                members.iter().flat_map(|write| write.compared.keys().cloned()).collect();
            let locked = locked.into_iter().collect();
            let outcome = attempt(transaction, &mut current, &writes, locked, requester).await;
            *lane = kept(current, &outcome);
            match outcome {
                Ok(Attempt::Committed(at)) => return Ok(Some(at)),
                Ok(Attempt::Conflict) if is_repeated && members.len() > 1 => return Ok(None),
                Err(Error::InvalidArgument(_)) if members.len() > 1 => return Ok(None),
                Ok(Attempt::Conflict) if requester.is_late() => {
                    return Err(Error::Busy("tikv: other clients write the same keys all the time".into()));
                }
                Ok(Attempt::Abandoned(reason)) if requester.is_late() => {
                    return Err(Error::Unavailable(reason));
                }
                Ok(Attempt::Conflict | Attempt::Abandoned(_)) => requester.pause(&mut pause).await,
                Err(error) => return Err(error),
            }
            is_repeated = true;
        }
    }

    /// Compares the keys on which the writes depend with their versions at `now`. A write with a
    /// changed key gets a conflict.
    async fn compare(&mut self, now: Stamp, requester: &Requester) -> Result<()> {
        let compared = self.members.iter().flat_map(|index| self.group[*index].compared.keys());
        let keys: BTreeSet<&Vec<u8>> = compared.collect();
        let found: BTreeMap<Vec<u8>, Version> =
            versions_at(requester, now, keys.into_iter().cloned().collect()).await?;
        let Part { group, members, outcomes } = self;
        members.retain(|index| match changed_key(&group[*index], &found) {
            None => true,
            Some(key) => {
                outcomes[*index] = Err(Error::Conflict { key: Some(key.clone()) });
                false
            }
        });
        Ok(())
    }

    /// Gives all remaining writes the same outcome.
    fn end(&mut self, outcome: &Result<Position>) {
        for index in self.members.drain(..) {
            self.outcomes[index] = outcome.clone();
        }
    }
}

/// Returns a compared key of `write` whose version is not that of `found`.
fn changed_key<'w>(write: &'w GroupedWrite, found: &BTreeMap<Vec<u8>, Version>) -> Option<&'w Vec<u8>> {
    let mut compared = write.compared.iter();
    compared
        .find(|(key, version)| found.get(*key).copied().unwrap_or_default() != **version)
        .map(|(key, _)| key)
}

impl LaneNames {
    /// Returns `lane`, or a new one if there is none or if others may take its marker for dead.
    fn usable(&self, lane: Option<Lane>, now: Stamp) -> Lane {
        lane.filter(|lane| !is_older(lane.used_at, now, LANE_LIFE_MILLIS)).unwrap_or_else(|| Lane {
            marker: self.layout.marker_key(self.client, self.next.fetch_add(1, Ordering::Relaxed)),
            is_known: false,
            used_at: now,
        })
    }

    /// Adds the record of the last new lane to the first writes of `lane`, and the deletion of
    /// markers.
    fn with_lane_record(&self, lane: &Lane, mut writes: Writes, dead: &[Vec<u8>]) -> Writes {
        if !lane.is_known {
            writes.insert(self.layout.change_record_key(), Some(Vec::new()));
            writes.extend(dead.iter().map(|marker| (marker.clone(), None)));
        }
        writes
    }

    /// Returns markers that no client uses any more, for the first commit of a lane.
    async fn dead_markers(&self, lane: &Lane, requester: &Requester, now: Stamp) -> Result<Vec<Vec<u8>>> {
        if lane.is_known {
            return Ok(Vec::new());
        }
        let change_record = self.layout.change_record_key();
        let records = commit_records_at(requester, &self.layout, now).await?;
        let dead = records
            .into_iter()
            .filter(|(key, stamp)| *key != change_record && is_older(*stamp, now, DEAD_MARKER_MILLIS));
        Ok(dead.take(DELETED_MARKERS).map(|(key, _)| key).collect())
    }
}

/// Returns true if `stamp` is more than `millis` milliseconds before `now`, by the clock of PD.
fn is_older(stamp: Stamp, now: Stamp, millis: u64) -> bool {
    (now >> MILLIS_SHIFT).saturating_sub(stamp >> MILLIS_SHIFT) > millis
}

impl Drop for Committer {
    /// Deletes the markers of this client.
    fn drop(&mut self) {
        let lanes = self.groups.take_states().into_iter().chain(self.single.take_states());
        let markers: Vec<Vec<u8>> = lanes.filter(|lane| lane.is_known).map(|lane| lane.marker).collect();
        if markers.is_empty() {
            return;
        }
        let requester = self.cluster.requester();
        let _ = self.cluster.threads.run(async move {
            let _ = tokio::time::timeout(CLOSE_TIME, delete_markers(markers, &requester)).await;
            Ok(())
        });
    }
}

/// A failure leaves markers, which another client deletes later.
async fn delete_markers(markers: Vec<Vec<u8>>, requester: &Requester) -> Result<()> {
    let mut transaction = requester.begin().await?;
    for marker in markers {
        transaction.delete(marker).await.map_err(|error| requester.classify(error))?;
    }
    transaction.commit().await.map_err(|error| requester.classify(error))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn age_of_a_stamp() {
        let at = |millis: u64| millis << MILLIS_SHIFT;
        assert!(!is_older(at(7), at(7), 10));
        assert!(!is_older(at(7), at(17), 10));
        assert!(is_older(at(7), at(18), 10));
        assert!(!is_older(at(18), at(7), 10), "a later stamp");
    }
}
