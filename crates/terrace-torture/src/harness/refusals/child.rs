//! The child process, which works while the system refuses calls.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use terrace::{Db, Options, WriteBatch, WriteOptions};
use terrace_testkit::rng::Rng;

use super::rows::{REFUSALS, RefusalKind, Workload};
use super::{EXIT_NOT_TESTED, EXIT_OPERATION_FAILED, seccomp};
use crate::harness::process_kill::writer::exit_with_parent;

/// Arguments of a child.
#[derive(Debug, clap::Args)]
pub(crate) struct ChildArgs {
    refusal: String,
    errno: i32,
    seed: u64,
    database: PathBuf,
}

/// Runs the workload of a refusal. Its errors go to the standard error output.
pub(crate) fn run_child(arguments: &ChildArgs) -> ExitCode {
    let Some(refusal) = REFUSALS.iter().find(|refusal| refusal.name == arguments.refusal) else {
        eprintln!("unknown refusal {}", arguments.refusal);
        return ExitCode::from(2);
    };
    exit_with_parent();
    let installed = match refusal.kind {
        RefusalKind::Calls(calls) => seccomp::refuse(calls, arguments.errno),
        RefusalKind::Limit(resource, bytes) => lower_limit(resource, bytes),
    };
    if let Err(error) = installed {
        eprintln!("{}: {error}", refusal.name);
        return ExitCode::from(EXIT_NOT_TESTED);
    }
    match run_workload(&arguments.database, arguments.seed, refusal.workload) {
        Ok(Ok(())) => ExitCode::SUCCESS,
        Ok(Err(message)) => {
            eprintln!("wrong contents: {message}");
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(EXIT_OPERATION_FAILED)
        }
    }
}

fn lower_limit(resource: Resource, bytes: u64) -> std::io::Result<()> {
    let used = match resource {
        Resource::As => status_bytes("VmSize:"),
        Resource::Data => status_bytes("VmData:"),
        _ => 0,
    };
    let maximum = getrlimit(resource).maximum;
    Ok(setrlimit(resource, Rlimit { current: Some(used + bytes), maximum })?)
}

/// Returns a size in the status of this process.
fn status_bytes(row: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let size = status.lines().find_map(|line| line.strip_prefix(row)).unwrap_or_default();
    size.trim().trim_end_matches("kB").trim().parse::<u64>().unwrap_or(0) << 10
}

/// Returns the error of an operation, or the description of wrong contents.
fn run_workload(database: &Path, seed: u64, workload: Workload) -> terrace::Result<Result<(), String>> {
    let options = Options::default().create_if_missing(true);
    let db = Db::open(database, &options)?;
    write_all(&db, seed, workload)?;
    db.flush()?;
    db.compact_range(None, None)?;
    read_all(&db)?;
    if let Err(message) = check_entries(&db, seed, workload) {
        return Ok(Err(message));
    }
    db.close()?;
    let db = Db::open(database, &options)?;
    read_all(&db)?;
    if let Err(message) = check_entries(&db, seed, workload) {
        return Ok(Err(message));
    }
    db.put(key(0), value(seed, workload, 0))?;
    db.close()?;
    Ok(Ok(()))
}

/// Number of entries of a workload.
fn entry_count(workload: Workload) -> u64 {
    match workload {
        Workload::SmallValues => 8_000,
        Workload::LargeValues => 12,
    }
}

fn key(number: u64) -> Vec<u8> {
    format!("key{:08}", number.wrapping_mul(7919) % 100_000_000).into_bytes()
}

fn value(seed: u64, workload: Workload, number: u64) -> Vec<u8> {
    let mut rng = Rng::new(seed ^ number);
    let len = match workload {
        Workload::SmallValues => 200 + rng.below(1_500),
        // Up to 12 MiB: a batch, a record, a memtable chunk, a block and a result of each.
        Workload::LargeValues => (64 << 10) << (number % 8) | rng.below(1 << 16),
    };
    (0..len.div_ceil(8)).flat_map(|_| rng.next_u64().to_le_bytes()).collect()
}

fn write_all(db: &Db, seed: u64, workload: Workload) -> terrace::Result<()> {
    for number in 0..entry_count(workload) {
        let sync = WriteOptions::default().sync(number.is_multiple_of(997));
        let value = value(seed, workload, number);
        if number.is_multiple_of(3) {
            let mut batch = WriteBatch::new();
            batch.put(key(number), &value);
            db.write_with(&batch, &sync)?;
        } else {
            db.put_with(key(number), &value, &sync)?;
        }
    }
    Ok(())
}

/// Reads every entry once in order, to separate errors from wrong contents.
fn read_all(db: &Db) -> terrace::Result<()> {
    db.iter().try_for_each(|entry| entry.map(drop))
}

/// Compares all entries with those that the workload wrote.
pub(super) fn check_entries(db: &Db, seed: u64, workload: Workload) -> Result<(), String> {
    for number in 0..entry_count(workload) {
        match db.get(key(number)) {
            Ok(Some(found)) if found == value(seed, workload, number) => {}
            Ok(found) => {
                let len = found.map(|found| found.len());
                return Err(format!("entry {number} has the length {len:?}, or other bytes"));
            }
            Err(error) => return Err(error.to_string()),
        }
    }
    Ok(())
}
