//! The process that writes while followers read, with Terrace or with stock LevelDB.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use terrace::{Db, Env, WriteBatch};
use terrace_testkit::settings::Settings;
use terrace_testkit::stock_leveldb::StockLevelDb;

use crate::database_under_test::options_from_settings;
use crate::followed_history::{self, Operation};
use crate::harness::process_kill::ledger::Ledger;

/// Number of writes between two compactions of everything.
const COMPACTION_PERIOD: u64 = 20_011;

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
}

/// Settings of writers and followers.
pub(super) fn settings(write_buffer_size: usize) -> Settings {
    Settings { create_if_missing: true, write_buffer_size, max_file_size: 1 << 20, ..Settings::default() }
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
    let written = match arguments.by_leveldb {
        true => write_with_leveldb(arguments, &settings, &should_stop),
        false => write_with_terrace(arguments, &settings, &should_stop),
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
    let describe = |error: terrace::Error| error.to_string();
    let db =
        Db::open(&arguments.database, &options_from_settings(settings, &Env::system())).map_err(describe)?;
    let first = followed_history::count_in(&db)? + 1;
    write_from(first, &arguments.ledger, should_stop, |write, operations| {
        let mut batch = WriteBatch::new();
        for (key, value) in operations {
            match value {
                Some(value) => batch.put(key, value),
                None => batch.delete(key),
            };
        }
        db.write(&batch).map_err(describe)?;
        if write.is_multiple_of(COMPACTION_PERIOD) {
            db.compact_range(None, None).map_err(describe)?;
        }
        Ok(())
    })?;
    db.close().map_err(describe)
}

fn write_with_leveldb(
    arguments: &FollowedWriterArgs,
    settings: &Settings,
    should_stop: &AtomicBool,
) -> Result<(), String> {
    let db = StockLevelDb::load()?.open(&arguments.database, settings).map_err(|error| error.text)?;
    let count = db.get(followed_history::count_key(), None).map_err(|error| error.text)?;
    let first = followed_history::count_of(count.as_deref())? + 1;
    write_from(first, &arguments.ledger, should_stop, |write, operations| {
        let operations: Vec<_> =
            operations.iter().map(|(key, value)| (key.as_slice(), value.as_deref())).collect();
        db.write(&operations, false).map_err(|error| error.text)?;
        if write.is_multiple_of(COMPACTION_PERIOD) {
            db.compact_range(None, None);
        }
        Ok(())
    })?;
    db.close();
    Ok(())
}

fn write_from(
    first: u64,
    ledger: &Path,
    should_stop: &AtomicBool,
    mut write: impl FnMut(u64, &[Operation]) -> Result<(), String>,
) -> Result<(), String> {
    let ledger = Ledger::open(ledger, 1)?;
    for number in first.. {
        if should_stop.load(Ordering::Relaxed) {
            break;
        }
        write(number, &followed_history::batch(number))?;
        ledger.record(0, number)?;
    }
    Ok(())
}
