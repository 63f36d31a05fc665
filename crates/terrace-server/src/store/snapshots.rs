//! Snapshots that clients keep open over many commands: TERRACE.SNAPSHOT.

use std::collections::BTreeMap;
use std::time::Duration;

use terrace::{Db, ReadOptions, Snapshot};
use terrace_sync::native_locks::Mutex;

use super::layout::Layout;
use super::marker::{self, Spaces};

/// Maximum number of open snapshots.
const MAX_SNAPSHOTS: usize = 64;
/// Maximum time for which a snapshot stays open.
pub(crate) const MAX_SNAPSHOT_TIME: Duration = Duration::from_secs(60);

/// State of the database that a client reads.
#[derive(Debug, Clone)]
pub(crate) struct OpenSnapshot {
    pub(super) snapshot: Snapshot,
    /// Namespaces of the databases in this state.
    pub(super) spaces: Spaces,
    /// Milliseconds since 1970 at the begin. Later expiries are not seen.
    pub(super) now_ms: u64,
    /// Monotonic time of the end.
    end: Duration,
}

#[derive(Debug, Default)]
struct SnapshotTable {
    last_id: u64,
    open: BTreeMap<u64, OpenSnapshot>,
}

/// All open snapshots.
#[derive(Debug, Default)]
pub(crate) struct Snapshots {
    table: Mutex<SnapshotTable>,
}

impl Snapshots {
    /// Opens a snapshot until the monotonic time `end`. Returns its number, or None if there are
    /// too many.
    ///
    /// # Errors
    ///
    /// The map of the databases cannot be read.
    pub(crate) fn open(
        &self,
        db: &Db,
        layout: Layout,
        now_ms: u64,
        end: Duration,
    ) -> terrace::Result<Option<u64>> {
        let snapshot = db.snapshot();
        let options = ReadOptions::default().snapshot(snapshot.clone());
        let stored = match layout {
            Layout::Raw => None,
            Layout::Typed => db.get_with(marker::SPACES_KEY, &options)?,
        };
        let spaces = stored.as_deref().and_then(marker::decode_spaces).unwrap_or_else(marker::initial_spaces);
        let mut table = self.table.lock();
        if table.open.len() >= MAX_SNAPSHOTS {
            return Ok(None);
        }
        table.last_id += 1;
        let id = table.last_id;
        table.open.insert(id, OpenSnapshot { snapshot, spaces, now_ms, end });
        Ok(Some(id))
    }

    /// Returns an open snapshot.
    pub(crate) fn get(&self, id: u64) -> Option<OpenSnapshot> {
        self.table.lock().open.get(&id).cloned()
    }

    /// Closes a snapshot. Returns false if it is not open.
    pub(crate) fn close(&self, id: u64) -> bool {
        self.table.lock().open.remove(&id).is_some()
    }

    /// Closes the snapshots whose time has ended.
    pub(crate) fn close_ended(&self, now: Duration) {
        self.table.lock().open.retain(|_, snapshot| snapshot.end > now);
    }
}
