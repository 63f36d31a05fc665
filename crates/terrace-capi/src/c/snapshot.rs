//! `leveldb_snapshot_t`: a snapshot of a database.

use terrace::Snapshot;

use super::database::DatabaseHandle;
use crate::ffi::run_or_default;

pub(super) struct SnapshotHandle(pub(super) Snapshot);

#[unsafe(no_mangle)]
extern "C" fn leveldb_create_snapshot(database: Option<&DatabaseHandle>) -> Option<Box<SnapshotHandle>> {
    run_or_default(|| Some(Box::new(SnapshotHandle(database?.0.snapshot()))))
}

/// Ignores the database, which may be closed already.
#[unsafe(no_mangle)]
extern "C" fn leveldb_release_snapshot(_: *const DatabaseHandle, snapshot: Option<Box<SnapshotHandle>>) {
    run_or_default(|| drop(snapshot));
}
