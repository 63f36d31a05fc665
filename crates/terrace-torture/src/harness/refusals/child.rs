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
    // The values of this process must not fail for lack of memory.
    let mut values = ExpectedValues::new(arguments.seed, refusal.workload);
    let installed = match refusal.kind {
        RefusalKind::Calls(calls) => seccomp::refuse(calls, arguments.errno),
        // The seed decides which of the large requests is the first that fails.
        RefusalKind::Limit(resource, bytes) if refusal.workload == Workload::LargeValues => {
            lower_limit(resource, bytes - bytes / 8 * (arguments.seed % 6))
        }
        RefusalKind::Limit(resource, bytes) => lower_limit(resource, bytes),
    };
    if let Err(error) = installed {
        eprintln!("{}: {error}", refusal.name);
        return ExitCode::from(EXIT_NOT_TESTED);
    }
    match run_workload(&arguments.database, &mut values) {
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
fn run_workload(database: &Path, values: &mut ExpectedValues) -> terrace::Result<Result<(), String>> {
    let options = Options::default().create_if_missing(true);
    let db = Db::open(database, &options)?;
    write_all(&db, values)?;
    db.flush()?;
    db.compact_range(None, None)?;
    read_all(&db)?;
    if let Err(message) = values.check_entries(&db)? {
        return Ok(Err(message));
    }
    db.close()?;
    let db = Db::open(database, &options)?;
    read_all(&db)?;
    if let Err(message) = values.check_entries(&db)? {
        return Ok(Err(message));
    }
    db.put(key(0), values.value(0))?;
    db.close()?;
    Ok(Ok(()))
}

/// Values of a workload, which one buffer holds in turn.
pub(super) struct ExpectedValues {
    seed: u64,
    workload: Workload,
    buffer: Vec<u8>,
}

impl ExpectedValues {
    pub(super) fn new(seed: u64, workload: Workload) -> ExpectedValues {
        let max_len = match workload {
            Workload::SmallValues => 2_000,
            Workload::LargeValues => 9 << 20,
        };
        ExpectedValues { seed, workload, buffer: Vec::with_capacity(max_len) }
    }

    /// Number of entries of the workload.
    fn len(&self) -> u64 {
        match self.workload {
            Workload::SmallValues => 8_000,
            Workload::LargeValues => 12,
        }
    }

    fn value(&mut self, number: u64) -> &[u8] {
        let mut rng = Rng::new(self.seed ^ number);
        let len = match self.workload {
            Workload::SmallValues => 200 + rng.below(1_500),
            // Up to 8 MiB: a batch, a record, a part of a memtable, a block and a result.
            Workload::LargeValues => ((64 << 10) << (number % 8)) + rng.below(1 << 16),
        };
        self.buffer.clear();
        for _ in 0..len.div_ceil(8) {
            self.buffer.extend_from_slice(&rng.next_u64().to_le_bytes());
        }
        &self.buffer
    }

    /// Compares all entries with those that the workload wrote.
    pub(super) fn check_entries(&mut self, db: &Db) -> terrace::Result<Result<(), String>> {
        for number in 0..self.len() {
            let found = db.get(key(number))?;
            if found.as_deref() != Some(self.value(number)) {
                let len = found.map(|found| found.len());
                return Ok(Err(format!("entry {number} has the length {len:?}, or other bytes")));
            }
        }
        Ok(Ok(()))
    }
}

fn key(number: u64) -> Vec<u8> {
    format!("key{:08}", number.wrapping_mul(7919) % 100_000_000).into_bytes()
}

fn write_all(db: &Db, values: &mut ExpectedValues) -> terrace::Result<()> {
    for number in 0..values.len() {
        let sync = WriteOptions::default().sync(number.is_multiple_of(997));
        let value = values.value(number);
        if number.is_multiple_of(3) {
            let mut batch = WriteBatch::new();
            batch.put(key(number), value);
            db.write_with(&batch, &sync)?;
        } else {
            db.put_with(key(number), value, &sync)?;
        }
    }
    Ok(())
}

/// Reads every entry once in order.
fn read_all(db: &Db) -> terrace::Result<()> {
    db.iter().try_for_each(|entry| entry.map(drop))
}
