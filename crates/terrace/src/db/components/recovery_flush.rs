//! Flushes of replayed memtables while the replay continues.

use std::path::{Path, PathBuf};

use terrace_env::{Env, Priority};
use terrace_format::key::MAX_SEQUENCE_NUMBER;
use terrace_format::table::TableOptions;

use super::task_group::TaskGroup;
use crate::compaction;
use crate::compaction::flush::{self, FlushPlace};
use crate::error::{Error, Result};
use crate::memtable::Memtable;
use crate::sync::{Arc, AtomicU64, Mutex, Ordering};
use crate::table::FinishedTable;

/// Flushes of replayed memtables. When this is dropped, it removes the tables that recovery does
/// not keep. Otherwise each attempt to open would leave tables on a full disk.
pub(crate) struct RecoveryFlusher {
    task_group: TaskGroup,
    context: Arc<RecoveryFlushContext>,
}

/// Arguments and results of the flushes.
struct RecoveryFlushContext {
    env: Env,
    directory: PathBuf,
    options: TableOptions,
    results: Mutex<RecoveryFlushResults>,
}

#[derive(Default)]
struct RecoveryFlushResults {
    /// Finished tables, unordered.
    tables: Vec<FinishedTable>,
    error: Option<Error>,
}

impl RecoveryFlusher {
    pub(crate) fn new(env: &Env, directory: &Path, options: TableOptions) -> RecoveryFlusher {
        // More helpers would need more memtables in memory.
        let task_group = TaskGroup::new(&env.scheduler, Priority::Flush, 1);
        let context = RecoveryFlushContext {
            env: env.clone(),
            directory: directory.to_path_buf(),
            options,
            results: Mutex::default(),
        };
        RecoveryFlusher { task_group, context: Arc::new(context) }
    }

    /// Writes `memtable` to a table with the next file number, on another thread if possible.
    pub(crate) fn spawn_flush(&self, memtable: Arc<Memtable>, next_file: &AtomicU64) {
        let number = next_file.fetch_add(1, Ordering::Relaxed);
        let context = Arc::clone(&self.context);
        self.task_group.spawn(Box::new(move || {
            // Nothing reads before the end of the recovery.
            let RecoveryFlushContext { env, directory, options, .. } = &*context;
            let place = FlushPlace { env, directory, number, options };
            let table = flush::build_table(&memtable, MAX_SEQUENCE_NUMBER, place);
            let mut results = context.results.lock();
            match table {
                Ok(table) => results.tables.extend(table),
                Err(error) => results.error = Some(error),
            }
        }));
    }

    /// Waits for all flushes so far. Returns an error if one of them failed.
    pub(crate) fn wait_for_flushes(&self) -> Result<()> {
        self.task_group.finish()?;
        self.context.results.lock().error.clone().map_or(Ok(()), Err)
    }

    /// Waits for all flushes. Returns the tables from oldest to newest. Their contents are durable,
    /// but not yet their names.
    pub(crate) fn finish(&self) -> Result<Vec<FinishedTable>> {
        self.wait_for_flushes()?;
        let mut tables = self.context.results.lock().tables.clone();
        tables.sort_unstable_by_key(|table| table.file.number);
        Ok(tables)
    }

    /// Keeps the tables, because the version edit with them was or may have been written.
    pub(crate) fn keep_tables(&self) {
        self.context.results.lock().tables.clear();
    }
}

impl Drop for RecoveryFlusher {
    fn drop(&mut self) {
        self.task_group.cancel();
        compaction::remove_tables(
            &self.context.env,
            &self.context.directory,
            &self.context.results.lock().tables,
        );
    }
}
