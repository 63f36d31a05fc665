//! Commits of one client: groups of blind writes, conditional writes, and commit markers.
//!
//! A marker belongs to a lane of one client. The first commit of a lane also writes the record of
//! the last new lane, and deletes markers that no client uses any more. So a condition on a range
//! can lock that record and all markers, and no commit escapes it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use terrace_env::{Random, SystemRandom};
use tikv_client::{TimestampExt, Transaction};

use super::super::group_commit::{GroupCommit, Writes};
use super::super::lanes::Lanes;
use super::super::prefix_layout::Layout;
use super::cluster::{Cluster, MILLIS_SHIFT, Requester};
use super::commit::{Attempt, Lane, attempt};
use super::stored::Stamp;
use crate::error::{Error, Result};

/// Maximum size of a group.
const GROUP_OPERATIONS: usize = 512;
const GROUP_BYTES: usize = 1 << 20;
/// Conditional writes at the same time. They lock what they compare, so more of them fail more
/// often and take longer in all.
const LOCKING_LANES: usize = 8;
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
    conditional: Lanes<Lane>,
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
        let groups = GroupCommit::new(GROUP_OPERATIONS, GROUP_BYTES, max_wait);
        Committer {
            cluster,
            names: Arc::new(names),
            groups,
            conditional: Lanes::new(LOCKING_LANES, max_wait),
        }
    }

    /// Writes `writes`, together with those of other threads.
    pub(super) fn write(&self, writes: Writes) -> Result<()> {
        self.groups.write(writes, |lane, group| {
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
        self.conditional.with_lane(|lane| {
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

/// Commits the writes of a group. Divides the group after a conflict, so that one contended key
/// delays only its own writer. Divides it also if the cluster refuses it, because a cluster with
/// lower limits may accept the parts.
async fn commit_group(
    lane: &mut Option<Lane>,
    names: &LaneNames,
    group: Vec<Writes>,
    requester: &Requester,
) -> Vec<Result<()>> {
    let mut outcomes: Vec<Result<()>> = vec![Ok(()); group.len()];
    let mut parts = vec![(0, group.len())];
    while let Some((start, end)) = parts.pop() {
        let part = start..end;
        let writes: Writes =
            group[part.clone()].iter().flatten().map(|(k, v)| (k.clone(), v.clone())).collect();
        match commit_blind(lane, names, writes, part.len() > 1, requester).await {
            Ok(true) => {}
            Ok(false) | Err(Error::InvalidArgument(_)) if part.len() > 1 => {
                let middle = start + part.len() / 2;
                // The first half is on top: the order of the queue decides between two writers.
                parts.extend([(middle, end), (start, middle)]);
            }
            Ok(false) => outcomes[part].fill(Err(Error::Conflict { key: None })),
            Err(error) => outcomes[part].fill(Err(error)),
        }
    }
    outcomes
}

/// Commits writes that depend on nothing. Returns false after a conflict of a group that can be
/// divided. Repeats it otherwise, because a later write to the same keys is no reason to fail.
async fn commit_blind(
    lane: &mut Option<Lane>,
    names: &LaneNames,
    writes: Writes,
    can_divide: bool,
    requester: &Requester,
) -> Result<bool> {
    let mut pause = requester.first_pause();
    loop {
        let transaction = requester.begin().await?;
        let now = transaction.start_timestamp().version();
        let mut current = names.usable(lane.take(), now);
        let dead = names.dead_markers(&current, requester, now).await?;
        let writes = names.with_lane_record(&current, writes.clone(), &dead);
        let outcome = attempt(transaction, &mut current, &writes, Vec::new(), requester).await;
        *lane = kept(current, &outcome);
        match outcome? {
            Attempt::Committed(_) => return Ok(true),
            Attempt::Conflict if can_divide => return Ok(false),
            Attempt::Conflict if requester.is_late() => {
                return Err(Error::Busy("tikv: other clients write the same keys all the time".into()));
            }
            Attempt::Abandoned(reason) if requester.is_late() => return Err(Error::Unavailable(reason)),
            Attempt::Conflict | Attempt::Abandoned(_) => requester.pause(&mut pause).await,
        }
    }
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
        let markers = super::snapshot::markers_at(requester, &self.layout, now).await?;
        let dead = markers.into_iter().filter(|(_, stamp)| is_older(*stamp, now, DEAD_MARKER_MILLIS));
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
        let lanes = self.groups.take_states().into_iter().chain(self.conditional.take_states());
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
