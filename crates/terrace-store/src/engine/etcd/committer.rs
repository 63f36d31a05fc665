//! Commits of one client: their lanes, and the lease of the commit markers.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use etcd_client::{Compare, CompareOp, TxnOp};
use terrace_env::{Random, SystemRandom};

use super::super::group_commit::{Comparison, GroupCommit, GroupedWrite, Writes, halves, writes_of};
use super::super::lanes::Lanes;
use super::super::prefix_layout::Layout;
use super::MAX_REQUEST_BYTES;
use super::cluster::{Cluster, Requester};
use super::lane::{Committed, Lane};
use super::stored::encode_value;
use crate::error::{Error, Result};
use crate::store::Position;

/// Time to live of the lease, in seconds. A paused program finds its markers within this time.
const LEASE_SECONDS: i64 = 900;
/// Pause between two renewals of the lease.
const RENEWAL: Duration = Duration::from_secs(200);
/// Maximum time for the removal of the lease at the end.
const REVOKE_TIME: Duration = Duration::from_secs(1);
/// Maximum number of lanes that one commit may find without their lease.
const MAX_LOST_LANES: usize = 4;

/// Commits of one client.
pub(super) struct Committer {
    cluster: Arc<Cluster>,
    layout: Arc<Layout>,
    markers: Arc<Markers>,
    groups: GroupCommit<Lane>,
    /// Lanes of writes with conditions on ranges.
    single: Lanes<Lane>,
}

/// Names and lease of the commit markers.
struct Markers {
    client: u64,
    /// Lease, or None before the first commit, and the number of the next lane.
    state: tokio::sync::Mutex<(Option<i64>, u64)>,
}

impl Committer {
    /// A transaction has at most `max_operations`, and as many comparisons, besides its own ones.
    pub(super) fn new(cluster: Arc<Cluster>, layout: Arc<Layout>, max_operations: usize) -> Committer {
        let markers =
            Markers { client: SystemRandom::new().next_u64(), state: tokio::sync::Mutex::new((None, 0)) };
        let max_wait = cluster.timeout();
        Committer {
            cluster,
            layout,
            markers: Arc::new(markers),
            groups: GroupCommit::new(max_operations, MAX_REQUEST_BYTES, max_wait, Comparison::Reads),
            single: Lanes::new(max_wait),
        }
    }

    /// Executes `write`, together with those of other threads.
    pub(super) fn write(&self, write: GroupedWrite) -> Result<Position> {
        self.groups.write(write, |lane, group| self.commit_group(lane, &group))
    }

    /// Commits a group. Divides it after a conflict, so that one changed key fails only the writes
    /// that depend on it. Divides it also if the cluster refuses it, because a cluster with lower
    /// limits may accept the parts.
    fn commit_group(
        &self,
        mut lane: Option<Lane>,
        group: &[Arc<GroupedWrite>],
    ) -> (Option<Lane>, Vec<Result<Position>>) {
        let mut outcomes: Vec<Result<Position>> = vec![Ok(0); group.len()];
        let mut parts: Vec<_> = std::iter::once(0..group.len()).collect();
        while let Some(part) = parts.pop() {
            let members = group.get(part.clone()).unwrap_or_default();
            let (next_lane, outcome) =
                self.commit(lane, compares_of(members), self.operations(&writes_of(members)));
            lane = next_lane;
            match outcome {
                Err(Error::Conflict { .. } | Error::InvalidArgument(_)) if part.len() > 1 => {
                    parts.extend(halves(part));
                }
                outcome => outcomes[part].fill(outcome),
            }
        }
        (lane, outcomes)
    }

    /// Executes `operations` in a transaction of their own, if `compares` hold.
    pub(super) fn write_alone(&self, compares: Vec<Compare>, operations: Vec<TxnOp>) -> Result<Position> {
        self.single.with_lane(|lane| self.commit(lane, compares, operations))
    }

    /// Returns the operations of `writes`. Deletions also change the record of the last deletion.
    pub(super) fn operations(&self, writes: &Writes) -> Vec<TxnOp> {
        let mut operations = Vec::with_capacity(writes.len() + 2);
        for (key, value) in writes {
            operations.push(match value {
                Some(value) => TxnOp::put(key.clone(), encode_value(value), None),
                None => TxnOp::delete(key.clone(), None),
            });
        }
        if writes.values().any(Option::is_none) {
            operations.push(self.deletion_record());
        }
        operations
    }

    pub(super) fn deletion_record(&self) -> TxnOp {
        TxnOp::put(self.layout.change_record_key(), encode_value(&[]), None)
    }

    /// Commits in `lane`. Returns the lane for the next commit, if its state is known.
    fn commit(
        &self,
        lane: Option<Lane>,
        compares: Vec<Compare>,
        operations: Vec<TxnOp>,
    ) -> (Option<Lane>, Result<Position>) {
        let requester = self.cluster.requester();
        let markers = Arc::clone(&self.markers);
        let layout = Arc::clone(&self.layout);
        let work = async move {
            let mut lane = lane;
            let outcome = commit(&mut lane, &markers, &layout, &requester, &compares, &operations).await;
            Ok((lane, outcome))
        };
        // The lane is lost with the work, and so is its result.
        let run = self.cluster.threads.run(work);
        run.unwrap_or_else(|error| (None, Err(Error::CommitUnknown(error.to_string()))))
    }
}

/// Comparisons of the keys on which `group` depends. Most of its writes have some in common.
fn compares_of(group: &[Arc<GroupedWrite>]) -> Vec<Compare> {
    let compared: BTreeSet<_> = group.iter().flat_map(|write| &write.compared).collect();
    let compares = compared
        .into_iter()
        .map(|(key, revision)| Compare::mod_revision(key.clone(), CompareOp::Equal, revision.cast_signed()));
    compares.collect()
}

async fn commit(
    lane: &mut Option<Lane>,
    markers: &Arc<Markers>,
    layout: &Layout,
    requester: &Requester,
    compares: &[Compare],
    operations: &[TxnOp],
) -> Result<Position> {
    for _ in 0..MAX_LOST_LANES {
        let mut current = match lane.take() {
            Some(lane) => lane,
            None => markers.new_lane(layout, requester).await?,
        };
        let committed = current.commit(requester, compares, operations).await;
        if let Ok(Committed::LaneLost) = committed {
            markers.forget_lease(&current).await;
            continue;
        }
        // After an error that leaves the result unknown, the marker must not be used again.
        if !matches!(committed, Err(Error::CommitUnknown(_))) {
            *lane = Some(current);
        }
        return match committed? {
            Committed::At(revision) => Ok(revision.unsigned_abs()),
            _ => Err(Error::Conflict { key: None }),
        };
    }
    Err(Error::Unavailable("etcd: the lease of this client expires at once".into()))
}

impl Markers {
    /// Returns a lane with a new marker. The first one creates the lease.
    async fn new_lane(self: &Arc<Self>, layout: &Layout, requester: &Requester) -> Result<Lane> {
        let mut state = self.state.lock().await;
        let lease = match state.0 {
            Some(lease) => lease,
            None => {
                let lease = grant_lease(requester).await?;
                state.0 = Some(lease);
                tokio::spawn(Arc::clone(self).renew(lease, requester.clone()));
                lease
            }
        };
        state.1 += 1;
        Ok(Lane::new(layout.marker_key(self.client, state.1), lease))
    }

    /// Makes the next lane create a new lease, if the current one is that of `lane`.
    async fn forget_lease(&self, lane: &Lane) {
        let mut state = self.state.lock().await;
        if state.0.is_some_and(|lease| lane.has_lease(lease)) {
            state.0 = None;
        }
    }

    /// Renews `lease` until it is no longer used. Ends with the threads of the cluster.
    async fn renew(self: Arc<Self>, lease: i64, requester: Requester) {
        loop {
            tokio::time::sleep(RENEWAL).await;
            if self.state.lock().await.0 != Some(lease) {
                return;
            }
            // The next commit notices a lease that could not be renewed.
            let _ = requester
                .extended()
                .call(|client| async move { client.lease_client().keep_alive(lease).await })
                .await;
        }
    }
}

async fn grant_lease(requester: &Requester) -> Result<i64> {
    let granted =
        requester.call(|client| async move { client.lease_client().grant(LEASE_SECONDS, None).await });
    Ok(granted.await?.id())
}

impl Drop for Committer {
    /// Revokes the lease, so that etcd removes the markers at once instead of later.
    fn drop(&mut self) {
        let markers = Arc::clone(&self.markers);
        let requester = self.cluster.requester();
        let _ = self.cluster.threads.run(async move {
            let Some(lease) = markers.state.lock().await.0.take() else { return Ok(()) };
            let revoked =
                requester.attempt(|client| async move { client.lease_client().revoke(lease).await });
            let _ = tokio::time::timeout(REVOKE_TIME, revoked).await;
            Ok(())
        });
    }
}
