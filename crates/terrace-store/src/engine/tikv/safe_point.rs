//! Removal of old versions, on demand: a loop that moves the safe point of the cluster.
//!
//! ```text
//!   each minute   is the record of the last move older than a minute?
//!                 write the record        conflict -> another client does it
//!                 resolve old locks, move the safe point to now - age
//! ```
//!
//! TiDB does this for its clusters. In a cluster without TiDB, old versions stay forever unless a
//! client moves the safe point. It concerns all programs of the cluster, so an address has to
//! demand it. The record makes one of all clients of a store do the work.

use std::sync::Arc;
use std::time::Duration;

use tikv_client::TimestampExt;
use tokio::time::{sleep, timeout};

use super::super::prefix_layout::Layout;
use super::cluster::{Cluster, MILLIS_SHIFT, Requester};
use super::failure::Outcome;
use super::stored::{encode_value, stamp_of};
use crate::error::Result;

/// Minimum time between two moves. The time is a tenth of the age, within the bounds.
const MIN_PERIOD: Duration = Duration::from_secs(1);
/// Maximum time between two moves.
const MAX_PERIOD: Duration = Duration::from_secs(60);
/// Maximum time of a move. The next one begins from the start.
const MOVE_TIME: Duration = Duration::from_secs(600);

/// Moves the safe point to the age `age` until the cluster is dropped.
pub(super) fn start(cluster: &Cluster, layout: &Arc<Layout>, age: Duration) {
    // No caller waits for the end. The task ends with the threads of the cluster.
    drop(cluster.threads.start(run(cluster.requester(), Arc::clone(layout), age)));
}

async fn run(requester: Requester, layout: Arc<Layout>, age: Duration) -> Result<()> {
    let period = (age / 10).clamp(MIN_PERIOD, MAX_PERIOD);
    loop {
        sleep(period).await;
        // After a failure, the next period tries again. Reads and writes report it.
        let _ = timeout(MOVE_TIME, move_once(&requester.extended(), &layout, age, period)).await;
    }
}

/// Moves the safe point, if no client has done so within `period`.
async fn move_once(requester: &Requester, layout: &Layout, age: Duration, period: Duration) -> Outcome<()> {
    let key = layout.safe_point_key();
    let mut transaction = requester.begin().await?;
    let now = transaction.start_timestamp().version();
    let found = transaction.get(key.clone()).await;
    let last = match found.map_err(|error| requester.classify(error)) {
        Ok(Some(stored)) => stamp_of(&key, &stored).unwrap_or(0),
        Ok(None) => 0,
        Err(failure) => {
            let _ = transaction.rollback().await;
            return Err(failure);
        }
    };
    if millis(now).saturating_sub(millis(last)) < period.as_millis() as u64 {
        let _ = transaction.rollback().await;
        return Ok(());
    }
    let claimed = match transaction.put(key, encode_value(now, &[])).await {
        Ok(()) => transaction.commit().await.map(|_| ()),
        Err(error) => Err(error),
    };
    if let Err(error) = claimed {
        let _ = transaction.rollback().await;
        return Err(requester.classify(error));
    }
    let safe = millis(now).saturating_sub(age.as_millis() as u64) << MILLIS_SHIFT;
    requester.move_safe_point(safe).await
}

/// Time of a timestamp in milliseconds, by the clock of PD.
fn millis(timestamp: u64) -> u64 {
    timestamp >> MILLIS_SHIFT
}
