//! The process that writes while followers read, with Terrace, LevelDB or goleveldb.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use terrace::{Db, Env, IngestOptions, LoadOptions, SortedTable, WriteBatch};
use terrace_testkit::settings::Settings;
use terrace_testkit::stock_leveldb::{StockDb, StockLevelDb};

use super::goleveldb_writer::GoleveldbWriter;
use crate::database_under_test::options_from_settings;
use crate::followed_history::{self, BulkOperation, Operation};
use crate::harness::process_kill::ledger::Ledger;

/// Number of writes between two compactions of everything.
const COMPACTION_PERIOD: u64 = 20_011;

/// Pause between two checkpoints.
const CHECKPOINT_PAUSE: Duration = Duration::from_millis(5);

/// Arguments of the process.
#[derive(Debug, clap::Args)]
pub(crate) struct FollowedWriterArgs {
    database: PathBuf,
    ledger: PathBuf,
    /// Size of a memtable in bytes.
    write_buffer_size: usize,
    /// Writes with stock LevelDB.
    #[arg(long)]
    by_leveldb: bool,
    /// Writes with goleveldb, by this program.
    #[arg(long)]
    by_goleveldb: Option<PathBuf>,
    /// Kills goleveldb at the end, and does not close its database.
    #[arg(long)]
    ends_by_kill: bool,
    /// Executes bulk operations between the writes.
    #[arg(long)]
    has_bulk_operations: bool,
    /// Creates checkpoints meanwhile.
    #[arg(long)]
    has_checkpoints: bool,
}

/// Settings of writers and followers.
pub(super) fn settings(write_buffer_size: usize) -> Settings {
    Settings { create_if_missing: true, write_buffer_size, max_file_size: 1 << 20, ..Settings::default() }
}

/// Database of the writer.
pub(super) trait FollowedDb {
    /// Writes the operations as one batch.
    fn write(&self, operations: &[Operation]) -> Result<(), String>;

    /// Compacts everything.
    fn compact(&self) -> Result<(), String>;

    /// Executes a bulk operation, of which an earlier writer may have executed a part. By default,
    /// with batches.
    fn execute(&self, operation: &BulkOperation) -> Result<(), String> {
        match operation {
            BulkOperation::Ingest(entries) | BulkOperation::BulkLoad(entries) => {
                let puts: Vec<Operation> =
                    entries.iter().map(|(key, value)| (key.clone(), Some(value.clone()))).collect();
                self.write(&puts)
            }
            BulkOperation::DeleteRange { keys, .. } => keys.chunks(16).try_for_each(|keys| {
                let deletions: Vec<Operation> = keys.iter().map(|key| (key.clone(), None)).collect();
                self.write(&deletions)
            }),
        }
    }
}

/// Terrace, with a path for the tables to ingest.
struct TerraceDb {
    db: Db,
    table_path: PathBuf,
}

fn describe(error: terrace::Error) -> String {
    error.to_string()
}

impl TerraceDb {
    /// Ingests the entries as two tables.
    fn ingest(&self, entries: &[followed_history::Entry]) -> Result<(), String> {
        let (first, second) = entries.split_at(entries.len() / 2);
        let mut paths = Vec::new();
        for (number, entries) in [first, second].into_iter().enumerate() {
            let path = self.table_path.with_extension(number.to_string());
            let mut table = SortedTable::create(&path, &terrace::Options::default()).map_err(describe)?;
            for (key, value) in entries {
                table.add(key, value).map_err(describe)?;
            }
            table.finish().map_err(describe)?;
            paths.push(path);
        }
        self.db.ingest(&paths, &IngestOptions::default()).map_err(describe)
    }
}

impl FollowedDb for TerraceDb {
    fn write(&self, operations: &[Operation]) -> Result<(), String> {
        self.db.write(&batch_of(operations)).map_err(describe)
    }

    fn compact(&self) -> Result<(), String> {
        self.db.compact_range(None, None).map_err(describe)
    }

    fn execute(&self, operation: &BulkOperation) -> Result<(), String> {
        if let Some(key) = operation.added_key()
            && self.db.contains(key).map_err(describe)?
        {
            return Ok(());
        }
        match operation {
            BulkOperation::Ingest(entries) => self.ingest(entries),
            BulkOperation::BulkLoad(entries) => {
                let unsorted = entries.iter().rev().map(|(key, value)| Ok::<_, terrace::Error>((key, value)));
                let options = LoadOptions::default().memory(0).puts_on_overlap(false);
                terrace::bulk_load(&self.db, unsorted, &options).map(drop).map_err(describe)
            }
            BulkOperation::DeleteRange { begin, end, .. } => {
                self.db.delete_range(begin.as_slice()..end.as_slice()).map_err(describe)
            }
        }
    }
}

impl FollowedDb for StockDb {
    fn write(&self, operations: &[Operation]) -> Result<(), String> {
        let operations: Vec<_> =
            operations.iter().map(|(key, value)| (key.as_slice(), value.as_deref())).collect();
        self.write(&operations, false).map_err(|error| error.text)
    }

    fn compact(&self) -> Result<(), String> {
        self.compact_range(None, None);
        Ok(())
    }
}

/// Returns the operations as a batch.
pub(super) fn batch_of(operations: &[Operation]) -> WriteBatch {
    let mut batch = WriteBatch::new();
    for (key, value) in operations {
        match value {
            Some(value) => batch.put(key, value),
            None => batch.delete(key),
        };
    }
    batch
}

/// Writes until the standard input ends. Then closes the database.
pub(crate) fn run_followed_writer(arguments: &FollowedWriterArgs) -> ExitCode {
    let should_stop = Arc::new(AtomicBool::new(false));
    let stopper = Arc::clone(&should_stop);
    std::thread::spawn(move || {
        let _ = std::io::stdin().read(&mut [0]);
        stopper.store(true, Ordering::Relaxed);
    });
    let settings = settings(arguments.write_buffer_size);
    let written = match &arguments.by_goleveldb {
        Some(program) => write_with_goleveldb(program, arguments, &settings, &should_stop),
        None if arguments.by_leveldb => write_with_leveldb(arguments, &settings, &should_stop),
        None => write_with_terrace(arguments, &settings, &should_stop),
    };
    match written {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn write_with_terrace(
    arguments: &FollowedWriterArgs,
    settings: &Settings,
    should_stop: &AtomicBool,
) -> Result<(), String> {
    let options = options_from_settings(settings, &Env::system());
    let db = Db::open(&arguments.database, &options).map_err(describe)?;
    let first = followed_history::count_in(&db)? + 1;
    let table_path = arguments.database.with_extension("table");
    let terrace = TerraceDb { db: db.clone(), table_path };
    let is_done = &AtomicBool::new(false);
    std::thread::scope(|scope| {
        let checkpoints = arguments.has_checkpoints.then(|| {
            scope.spawn({
                let db = &db;
                move || create_checkpoints(db, &arguments.database, is_done)
            })
        });
        let written = write_from(first, arguments, should_stop, &terrace);
        is_done.store(true, Ordering::Relaxed);
        let created = checkpoints.map(|thread| thread.join().unwrap_or_else(|_| Err("a panic".into())));
        written.and(created.unwrap_or(Ok(())))
    })?;
    drop(terrace);
    db.close().map_err(describe)
}

/// Creates checkpoints, and removes each of them again.
fn create_checkpoints(db: &Db, database: &Path, is_done: &AtomicBool) -> Result<(), String> {
    let target = database.with_extension(format!("checkpoint-{}", std::process::id()));
    while !is_done.load(Ordering::Relaxed) {
        db.checkpoint(&target).map_err(describe)?;
        std::fs::remove_dir_all(&target).map_err(|error| error.to_string())?;
        std::thread::sleep(CHECKPOINT_PAUSE);
    }
    Ok(())
}

fn write_with_leveldb(
    arguments: &FollowedWriterArgs,
    settings: &Settings,
    should_stop: &AtomicBool,
) -> Result<(), String> {
    let db = StockLevelDb::load()?.open(&arguments.database, settings).map_err(|error| error.text)?;
    let count = db.get(followed_history::count_key(), None).map_err(|error| error.text)?;
    let first = followed_history::count_of(count.as_deref())? + 1;
    write_from(first, arguments, should_stop, &db)?;
    db.close();
    Ok(())
}

fn write_with_goleveldb(
    program: &Path,
    arguments: &FollowedWriterArgs,
    settings: &Settings,
    should_stop: &AtomicBool,
) -> Result<(), String> {
    // The protocol of the Go program has no get.
    let options = options_from_settings(settings, &Env::system());
    let reader = Db::open_read_only(&arguments.database, &options).map_err(describe)?;
    let first = followed_history::count_in(&reader)? + 1;
    reader.close().map_err(describe)?;
    let db = GoleveldbWriter::open(program, &arguments.database, settings.write_buffer_size)?;
    write_from(first, arguments, should_stop, &db)?;
    if arguments.ends_by_kill { db.kill() } else { db.close() }
}

fn write_from(
    first: u64,
    arguments: &FollowedWriterArgs,
    should_stop: &AtomicBool,
    db: &impl FollowedDb,
) -> Result<(), String> {
    let ledger = Ledger::open(&arguments.ledger, 1)?;
    for number in first.. {
        if should_stop.load(Ordering::Relaxed) {
            break;
        }
        if arguments.has_bulk_operations
            && let Some(operation) = BulkOperation::after(number - 1)
        {
            db.execute(&operation)?;
        }
        db.write(&followed_history::batch(number))?;
        if number.is_multiple_of(COMPACTION_PERIOD) {
            db.compact()?;
        }
        ledger.record(0, number)?;
    }
    Ok(())
}
