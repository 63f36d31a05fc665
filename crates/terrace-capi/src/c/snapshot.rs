//! `leveldb_snapshot_t`: the state of a database at one moment.

use terrace::Snapshot;

use super::database::Database;
use crate::border::quietly;

pub(super) struct SnapshotHandle(pub(super) Snapshot);

#[unsafe(no_mangle)]
extern "C" fn leveldb_create_snapshot(database: Option<&Database>) -> Option<Box<SnapshotHandle>> {
    quietly(|| Some(Box::new(SnapshotHandle(database?.0.snapshot()))))
}

/// The database is not looked at: it may be closed already.
#[unsafe(no_mangle)]
extern "C" fn leveldb_release_snapshot(_: *const Database, snapshot: Option<Box<SnapshotHandle>>) {
    quietly(|| drop(snapshot));
}
