//! Creation of a store in TiKV, and the check of its layout record.

use std::sync::Arc;

use tikv_client::Transaction;

use super::super::prefix_layout::{LAYOUT, Layout};
use super::cluster::{Cluster, Requester};
use super::failure::Failure;
use crate::error::Result;

/// Checks the layout record, and creates the store if it is missing and `may_create` is set.
pub(super) fn open(cluster: &Cluster, layout: &Arc<Layout>, may_create: bool) -> Result<()> {
    let requester = cluster.requester();
    let layout = Arc::clone(layout);
    cluster.threads.run(async move {
        let now = requester.timestamp().await?;
        if let Some(found) = requester.get_at(&layout.layout_key(), now).await? {
            return layout.check(&found);
        }
        if !may_create {
            return Err(layout.missing());
        }
        create(&requester, &layout).await
    })
}

/// Creates the store. A transaction that failed may have taken effect, and another client may
/// create the store meanwhile, so each attempt begins with a read of the layout record.
async fn create(requester: &Requester, layout: &Layout) -> Result<()> {
    let mut pause = requester.first_pause();
    loop {
        let mut transaction = requester.begin().await?;
        let found = read(&mut transaction, layout).await;
        let outcome = match found {
            Ok(Found::Store(record)) => return roll_back(transaction, layout.check(&record)).await,
            Ok(Found::Occupant(key)) => return roll_back(transaction, Err(layout.occupied(&key))).await,
            Ok(Found::Nothing) => write(&mut transaction, layout).await,
            Err(error) => Err(error),
        };
        match outcome.map_err(|error| requester.classify(error)) {
            Ok(()) => return Ok(()),
            Err(Failure::Final(error)) => return Err(error),
            Err(failure) if requester.is_late() => return Err(failure.into()),
            Err(failure) => {
                requester.remove_orphans(&failure, layout.occupied_ranges().into()).await;
                requester.pause(&mut pause).await;
            }
        }
    }
}

/// Contents of a prefix.
enum Found {
    Nothing,
    Store(Vec<u8>),
    /// A key of another program.
    Occupant(Vec<u8>),
}

async fn read(transaction: &mut Transaction, layout: &Layout) -> tikv_client::Result<Found> {
    if let Some(record) = transaction.get(layout.layout_key()).await? {
        return Ok(Found::Store(record));
    }
    for (start, end) in layout.occupied_ranges() {
        if let Some(key) = transaction.scan_keys(start..end, 1).await?.next() {
            return Ok(Found::Occupant(key.into()));
        }
    }
    for enclosing in layout.enclosing_layout_keys() {
        if transaction.key_exists(enclosing.clone()).await? {
            return Ok(Found::Occupant(enclosing));
        }
    }
    Ok(Found::Nothing)
}

/// Stores the layout record. The locks on those of enclosing stores make two creations conflict.
async fn write(transaction: &mut Transaction, layout: &Layout) -> tikv_client::Result<()> {
    transaction.put(layout.layout_key(), LAYOUT).await?;
    transaction.lock_keys(layout.enclosing_layout_keys()).await?;
    transaction.commit().await.map(|_| ())
}

async fn roll_back(mut transaction: Transaction, outcome: Result<()>) -> Result<()> {
    // It has written nothing, so a failure has no consequence.
    let _ = transaction.rollback().await;
    outcome
}
