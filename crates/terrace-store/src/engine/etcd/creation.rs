//! Creation of a store in etcd, and the check of its layout record.

use etcd_client::{Compare, CompareOp, GetOptions, PutOptions, Txn, TxnOp, TxnOpResponse, TxnResponse};

use super::super::prefix_layout::{LAYOUT, Layout};
use super::cluster::Cluster;
use crate::error::{Error, Result};

/// Checks the layout record, and creates the store if it is missing and `may_create` is set.
pub(super) fn open(cluster: &Cluster, layout: &Layout, may_create: bool) -> Result<()> {
    if let Some(found) = stored_layout(cluster, layout)? {
        return layout.check(&found);
    }
    if !may_create {
        return Err(layout.missing());
    }
    let txn = creation(layout);
    let requester = cluster.requester();
    let answer = cluster.threads.run(async move { Ok(requester.txn(&txn).await?) })?;
    if answer.succeeded() {
        return Ok(());
    }
    // Another client may have created the store meanwhile, or this one before a lost answer.
    match stored_layout(cluster, layout)? {
        Some(found) => layout.check(&found),
        None => Err(occupied(layout, &answer)),
    }
}

fn stored_layout(cluster: &Cluster, layout: &Layout) -> Result<Option<Vec<u8>>> {
    let answer = cluster.get(layout.layout_key(), GetOptions::new())?;
    Ok(answer.kvs().first().map(|entry| entry.value().to_vec()))
}

/// Transaction that stores the layout record if no other program uses the prefix.
fn creation(layout: &Layout) -> Txn {
    let mut compares = Vec::new();
    let mut reads = Vec::new();
    for (start, end) in layout.occupied_ranges() {
        let absent = Compare::create_revision(start.clone(), CompareOp::Equal, 0);
        compares.push(absent.with_range(end.clone()));
        reads.push(TxnOp::get(start, Some(GetOptions::new().with_range(end).with_limit(1).with_keys_only())));
    }
    for enclosing in layout.enclosing_layout_keys() {
        compares.push(Compare::create_revision(enclosing.clone(), CompareOp::Equal, 0));
        reads.push(TxnOp::get(enclosing, Some(GetOptions::new().with_keys_only())));
    }
    let record = TxnOp::put(layout.layout_key(), LAYOUT, Some(PutOptions::new()));
    Txn::new().when(compares).and_then([record]).or_else(reads)
}

/// Error for a prefix that another program uses.
fn occupied(layout: &Layout, answer: &TxnResponse) -> Error {
    let found = answer.op_responses().into_iter().find_map(|response| match response {
        TxnOpResponse::Get(found) => found.kvs().first().map(|entry| entry.key().to_vec()),
        _ => None,
    });
    layout.occupied(&found.unwrap_or_default())
}
