//! One commit, and the resolution of a commit without an answer.
//!
//! ```text
//!   commit    if   revision(marker) == R  and the condition
//!             then operations, marker = N committed
//!             else read marker
//!   resolve   if   revision(marker) == R            the commit has not happened,
//!             then marker = N abandoned             and now it cannot happen any more
//!             else read marker                      N committed, or N abandoned
//! ```
//!
//! A lane executes one commit after the other. Its marker names the last of them. If no answer
//! comes, the request may still be on its way. So the resolution changes the revision of the
//! marker: the late commit then fails its comparison. The resolution itself may be repeated.
//!
//! A marker belongs to the lease of its client, so that etcd deletes the markers of ended programs.
//! If the lease expires during a resolution, the result stays unknown.
//!
//! etcd executes the first transactions beyond its space quota, and answers them with an error. The
//! marker tells whether this commit is one of them.

use std::time::Duration;

use etcd_client::{
    Compare, CompareOp, GetOptions, KeyValue, PutOptions, ResponseHeader, Txn, TxnOp, TxnOpResponse,
    TxnResponse,
};

use super::cluster::{Failure, Outcome, Requester};
use crate::error::{Error, Result};

/// First pause before a commit that was resolved as abandoned is repeated.
const FIRST_PAUSE: Duration = Duration::from_millis(10);

/// State of a commit marker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Marked {
    Committed,
    Abandoned,
}

/// Sequence of commits with one marker.
#[derive(Debug)]
pub(super) struct Lane {
    marker: Vec<u8>,
    lease: i64,
    /// Revision of the marker, or 0 before the first commit.
    revision: i64,
    /// Number of the current commit.
    number: u64,
}

/// Result of a commit.
#[derive(Debug)]
pub(super) enum Committed {
    /// The operations took effect at this revision.
    At(i64),
    /// The condition did not hold.
    Conflict,
    /// The marker has disappeared with its lease before this commit, which had no effect.
    LaneLost,
}

/// Result of a resolution.
enum Resolved {
    Committed(i64),
    Abandoned,
}

impl Lane {
    pub(super) fn new(marker: Vec<u8>, lease: i64) -> Lane {
        Lane { marker, lease, revision: 0, number: 0 }
    }

    /// Returns true if the marker belongs to `lease`.
    pub(super) fn has_lease(&self, lease: i64) -> bool {
        self.lease == lease
    }

    /// Executes `operations` if `compares` hold. Repeats the transaction while it is certain that
    /// it had no effect.
    pub(super) async fn commit(
        &mut self,
        requester: &Requester,
        compares: &[Compare],
        operations: &[TxnOp],
    ) -> Result<Committed> {
        self.number += 1;
        let mut pause = FIRST_PAUSE;
        loop {
            let txn = self.transaction(compares, operations);
            let reason = match requester.txn_once(&txn).await {
                Ok(answer) if answer.succeeded() => {
                    self.revision = revision(answer.header());
                    return Ok(Committed::At(self.revision));
                }
                Ok(answer) => {
                    let is_current = marker(&answer).map_or(0, |(revision, ..)| revision) == self.revision;
                    return Ok(if is_current { Committed::Conflict } else { Committed::LaneLost });
                }
                Err(Failure::LeaseNotFound) => return Ok(Committed::LaneLost),
                Err(Failure::Transient(reason)) => reason,
                Err(Failure::Final(Error::OutOfSpace(reason))) => {
                    return self.outcome_beyond_quota(requester, reason).await;
                }
                Err(failure) => return Err(failure.into()),
            };
            match self.resolve(requester, &reason).await? {
                Resolved::Committed(revision) => return Ok(Committed::At(revision)),
                Resolved::Abandoned if requester.is_late() => return Err(Error::Unavailable(reason)),
                Resolved::Abandoned => requester.pause(&mut pause).await,
            }
        }
    }

    /// Finds out if a transaction took effect that etcd answered with `reason`. The answer has
    /// come, so the marker does not change any more.
    async fn outcome_beyond_quota(&mut self, requester: &Requester, reason: String) -> Result<Committed> {
        let found = requester.extended().get(self.marker.clone(), GetOptions::new()).await;
        let found =
            found.map_err(|failure| Error::CommitUnknown(format!("{reason}; {}", Error::from(failure))))?;
        match found.kvs().first().and_then(decode_marker) {
            Some((revision, number, Marked::Committed)) if number == self.number => {
                self.revision = revision;
                Ok(Committed::At(revision))
            }
            found if found.map_or(0, |(revision, ..)| revision) == self.revision => {
                Err(Error::OutOfSpace(reason))
            }
            _ => Err(Error::CommitUnknown(format!("{reason}; the marker of the commit has expired"))),
        }
    }

    fn is_unchanged(&self) -> Compare {
        Compare::mod_revision(self.marker.clone(), CompareOp::Equal, self.revision)
    }

    fn put_marker(&self, state: Marked) -> TxnOp {
        let mut value = self.number.to_be_bytes().to_vec();
        value.push(if state == Marked::Committed { b'c' } else { b'a' });
        TxnOp::put(self.marker.clone(), value, Some(PutOptions::new().with_lease(self.lease)))
    }

    fn transaction(&self, compares: &[Compare], operations: &[TxnOp]) -> Txn {
        let mut all = vec![self.is_unchanged()];
        all.extend_from_slice(compares);
        let mut then = operations.to_vec();
        then.push(self.put_marker(Marked::Committed));
        Txn::new().when(all).and_then(then).or_else([TxnOp::get(self.marker.clone(), None)])
    }

    /// Finds out if the current commit took effect, and prevents it otherwise.
    async fn resolve(&mut self, requester: &Requester, reason: &str) -> Result<Resolved> {
        let unknown = |why: String| Error::CommitUnknown(format!("{reason}; {why}"));
        let fence = Txn::new()
            .when([self.is_unchanged()])
            .and_then([self.put_marker(Marked::Abandoned)])
            .or_else([TxnOp::get(self.marker.clone(), None)]);
        // The caller has waited already. Its time is extended, because the answer is worth more.
        let answer: Outcome<TxnResponse> = requester.extended().txn(&fence).await;
        let answer = match answer {
            Ok(answer) => answer,
            Err(Failure::LeaseNotFound) => {
                return Err(unknown("the marker of the commit has expired".into()));
            }
            Err(failure) => return Err(unknown(Error::from(failure).to_string())),
        };
        if answer.succeeded() {
            self.revision = revision(answer.header());
            return Ok(Resolved::Abandoned);
        }
        match marker(&answer) {
            Some((revision, number, state)) if number == self.number => {
                self.revision = revision;
                Ok(match state {
                    Marked::Committed => Resolved::Committed(revision),
                    Marked::Abandoned => Resolved::Abandoned,
                })
            }
            _ => Err(unknown("the marker of the commit has expired".into())),
        }
    }
}

fn revision(header: Option<&ResponseHeader>) -> i64 {
    header.map_or(0, ResponseHeader::revision)
}

/// Returns revision, number and state of the marker that `answer` contains.
fn marker(answer: &TxnResponse) -> Option<(i64, u64, Marked)> {
    let responses = answer.op_responses();
    let Some(TxnOpResponse::Get(found)) = responses.first() else { return None };
    decode_marker(found.kvs().first()?)
}

fn decode_marker(entry: &KeyValue) -> Option<(i64, u64, Marked)> {
    let (number, state) = entry.value().split_first_chunk()?;
    let state = match state {
        b"c" => Marked::Committed,
        _ => Marked::Abandoned,
    };
    Some((entry.mod_revision(), u64::from_be_bytes(*number), state))
}
