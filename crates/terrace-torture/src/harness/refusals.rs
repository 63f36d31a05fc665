//! System calls that a sandbox refuses, and limits of the process. The database must work without
//! them, or return an error; it must not abort or hang.
//!
//! ```text
//!   this process                 a child: this same program
//!     start it ---------------->   refuse a call with an error number, or lower a limit
//!                                  open, write, flush, compact, read, close, reopen, read, close
//!     exit code <---------------   0, or the error of an operation
//!     open the database, compare
//! ```
//!
//! Each case tries every row of `rows.rs` with every error number. Its seed determines the writes.

mod child;
mod rows;
pub(super) mod seccomp;

use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Once;
use std::time::{Duration, Instant};

use terrace::{Db, Options};

use super::Harness;
use crate::counters::{Counter, Counters};
pub(crate) use child::{ChildArgs, run_child};
use rows::{ERRNOS, REFUSALS, Refusal, RefusalKind};

pub(super) const REFUSALS_HARNESS: Harness = Harness {
    id: 34,
    name: "refusals",
    property: "no refused system call and no limit of the process ends it or loses a write",
    check_cases: 1,
    time_share: 1,
    run,
};

/// Exit code of a child whose operation returned an error. Its last line is the error.
const EXIT_OPERATION_FAILED: u8 = 3;
/// Exit code of a child that could not install its filter.
const EXIT_NOT_TESTED: u8 = 4;

/// Time after which a child counts as hanging. It works for a tenth of a second.
const TIME_LIMIT: Duration = Duration::from_secs(120);

fn run(seed: u64, counters: &Counters) -> Result<(), String> {
    for refusal in REFUSALS {
        let errnos = match refusal.kind {
            RefusalKind::Calls(_) => ERRNOS,
            RefusalKind::Limit(..) => &[0],
        };
        for &errno in errnos {
            let error = std::io::Error::from_raw_os_error(errno);
            run_refusal(seed, refusal, errno)
                .map_err(|message| format!("{} refused with \"{error}\": {message}", refusal.name))?;
            counters.add(Counter::Refusals, 1);
        }
    }
    Ok(())
}

fn run_refusal(seed: u64, refusal: &Refusal, errno: i32) -> Result<(), String> {
    let dir = tempfile::tempdir().map_err(|error| error.to_string())?;
    let database = dir.path().join("db");
    let stderr_path = dir.path().join("stderr");
    let arguments = [refusal.name, &errno.to_string(), &seed.to_string()].map(str::to_owned);
    let child = start_child(&arguments, &database, &stderr_path).map_err(|error| error.to_string())?;
    let status = wait_for_child(child)?;
    let output = std::fs::read_to_string(&stderr_path).unwrap_or_default();
    match status.code().and_then(|code| u8::try_from(code).ok()) {
        Some(0) => check_contents(seed, refusal, &database),
        Some(EXIT_OPERATION_FAILED) if refusal.may_fail_with.contains(&errno) => Ok(()),
        Some(EXIT_NOT_TESTED) => {
            static WARN: Once = Once::new();
            WARN.call_once(|| eprintln!("NOT TESTED: refused system calls: {output}"));
            Ok(())
        }
        _ => Err(format!("the child ended with {status}: {output}")),
    }
}

fn start_child(arguments: &[String], database: &Path, stderr_path: &Path) -> std::io::Result<Child> {
    Command::new(std::env::current_exe()?)
        .arg("refused")
        .args(arguments)
        .arg(database)
        // The child ends when this pipe is closed.
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(std::fs::File::create(stderr_path)?)
        .spawn()
}

fn wait_for_child(mut child: Child) -> Result<ExitStatus, String> {
    let started = Instant::now();
    while started.elapsed() < TIME_LIMIT {
        if let Some(status) = child.try_wait().map_err(|error| error.to_string())? {
            return Ok(status);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    // Fails only if the child has ended meanwhile.
    let _ = child.kill();
    let _ = child.wait();
    Err(format!("the child did not end within {TIME_LIMIT:?}"))
}

/// Opens the database of a child without refusals.
fn check_contents(seed: u64, refusal: &Refusal, database: &Path) -> Result<(), String> {
    if !refusal.info_log.is_empty() {
        let lines = std::fs::read_to_string(database.join("LOG")).unwrap_or_default();
        if !lines.contains(refusal.info_log) {
            return Err(format!("LOG has no line with \"{}\": {lines}", refusal.info_log));
        }
    }
    let db = Db::open(database, &Options::default()).map_err(|error| error.to_string())?;
    let mut values = child::ExpectedValues::new(seed, refusal.workload);
    values.check_entries(&db).map_err(|error| error.to_string())??;
    db.close().map_err(|error| error.to_string())
}
