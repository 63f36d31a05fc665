//! Ingest of a small table by a client.

use std::time::Duration;

use terrace::{Error, IngestOptions, SortedTable};

use super::{Client, error_context, key_bytes, lock_ignoring_poison, value_bytes};
use crate::checker::{Effect, Key, Value};

/// Length of the values of an ingested table, in bytes.
const SMALL_VALUE_LEN: usize = 8;

impl Client {
    /// Ingests a table, which counts as a sync write. A range that is not free and an open snapshot
    /// are no faults.
    pub(super) fn ingest(&mut self, values: &[(Key, Value)]) -> Result<(), String> {
        let path = self.context.path.with_extension(&self.name);
        let mut table = SortedTable::create(&path, &self.context.options).map_err(error_context("table"))?;
        for &(key, value) in values {
            let value = value.map(|number| value_bytes(number, SMALL_VALUE_LEN)).unwrap_or_default();
            table.add(key_bytes(key), value).map_err(error_context("add"))?;
        }
        table.finish().map_err(error_context("finish"))?;
        let from = self.context.next_timestamp();
        match self.db.ingest(&[path], &IngestOptions::default().timeout(Duration::ZERO)) {
            Ok(()) => {}
            Err(Error::Overlap { .. } | Error::SnapshotsOpen) => return Ok(()),
            Err(error) => return Err(error_context("ingest")(error)),
        }
        let to = self.context.next_timestamp();
        if let Some(first) = values.iter().find_map(|(_, value)| *value) {
            lock_ignoring_poison(&self.context.synced_values).push(first);
        }
        self.record_operation("ingest", from, to, Effect::Write(values.to_vec()));
        Ok(())
    }
}
