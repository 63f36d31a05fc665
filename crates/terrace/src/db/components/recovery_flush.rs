//! Flushes of replayed memtables while the replay continues.

use std::path::{Path, PathBuf};

use terrace_env::{Env, Priority};
use terrace_format::table::TableOptions;
use terrace_format::version_edit::NewFile;

use super::task_group::TaskGroup;
use crate::compaction::{self, flush};
use crate::error::{Error, Result};
use crate::memtable::Memtable;
use crate::sync::{Arc, AtomicU64, Mutex, Ordering};
use crate::table::FinishedTable;

/// Memtables that become tables beside the replay. Dropped, it leaves none that is not to be kept: each try to open would leave
/// its own on a disk that has no room.
pub(crate) struct RecoveryFlusher {
    task_group: TaskGroup,
    context: Arc<RecoveryFlushContext>,
}

/// Where they go, and what came of them.
struct RecoveryFlushContext {
    env: Env,
    directory: PathBuf,
    options: TableOptions,
    results: Mutex<RecoveryFlushResults>,
}

#[derive(Default)]
struct RecoveryFlushResults {
    /// In no order.
    tables: Vec<FinishedTable>,
    error: Option<Error>,
}

impl RecoveryFlusher {
    pub(crate) fn new(env: &Env, directory: &Path, options: TableOptions) -> RecoveryFlusher {
        // More would want more memtables at a time.
        let crew = TaskGroup::new(&env.scheduler, Priority::Flush, 1);
        let (env, directory) = (env.clone(), directory.to_path_buf());
        RecoveryFlusher {
            task_group: crew,
            context: Arc::new(RecoveryFlushContext { env, directory, options, results: Mutex::default() }),
        }
    }

    /// Has `memtable` written to a table with the next number.
    pub(crate) fn spawn_flush(&self, memtable: Arc<Memtable>, next_file: &AtomicU64) {
        let number = next_file.fetch_add(1, Ordering::Relaxed);
        let place = Arc::clone(&self.context);
        self.task_group.spawn(Box::new(move || {
            let table = flush::build_table(&memtable, &place.env, &place.directory, number, &place.options);
            let mut made = place.results.lock();
            match table {
                Ok(table) => made.tables.extend(table),
                Err(error) => made.error = Some(error),
            }
        }));
    }

    /// Returns when those so far are written, with an error if one could not be.
    pub(crate) fn wait_for_flushes(&self) -> Result<()> {
        self.task_group.finish()?;
        self.context.results.lock().error.clone().map_or(Ok(()), Err)
    }

    /// Returns the tables, the oldest first; durable but for their names.
    pub(crate) fn finish(&self) -> Result<Vec<NewFile>> {
        self.wait_for_flushes()?;
        let made = self.context.results.lock();
        let mut files: Vec<NewFile> = made.tables.iter().map(|table| table.file.clone()).collect();
        files.sort_unstable_by_key(|file| file.number);
        Ok(files)
    }

    /// The tables count, or may.
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
