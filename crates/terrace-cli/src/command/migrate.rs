//! `terrace migrate`: copies a database or a store to another one.
//!
//! ```text
//!   copy      entries of a snapshot; the writer of FROM continues
//!   passes    changes since then, until few are left
//!   cut-over  the same once more, while FROM is locked; then both sides have the same hash
//! ```

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use terrace_env::Clock;
use terrace_store::migrate::{Reconciled, copy, digest, reconcile};
use terrace_store::{OpenOptions, Store, is_address, open};

use crate::cli::Run;
use crate::failure::{CommandResult, Failure};
use crate::progress::Progress;
use crate::{terminal, units};

/// Number of changes below which another pass without the lock is not worth its time.
const FEW_CHANGES: u64 = 1000;
/// Maximum number of passes without the lock. A faster writer is stopped by the cut-over.
const MAX_PASSES: u32 = 5;

/// Copy a database to a store or back, and check that both are equal
///
/// FROM and TO are directories or addresses, such as etcd://10.0.0.1,10.0.0.2/cities. A directory
/// may have a live writer during the copy. The cut-over needs its lock, so the writer ends first;
/// then --resume continues.
#[derive(Args)]
pub(crate) struct Migrate {
    /// Directory or address of the source
    from: String,
    /// Directory or address of the target; it is created if it does not exist
    to: String,
    /// Continue after the last key of the target, which an earlier run has copied
    #[arg(long)]
    resume: bool,
    /// Leave out the cut-over, while the writer of FROM continues
    #[arg(long)]
    no_cut_over: bool,
}

impl Run for Migrate {
    fn run(self) -> CommandResult {
        let from = address_of(&self.from);
        let to = address_of(&self.to);
        if from == to {
            return Err(Failure::Usage("FROM and TO are the same".into()));
        }
        let source = open(&from, &OpenOptions::default().read_only(true))?;
        let target = open(&to, &OpenOptions::default().create_if_missing(true))?;
        let copied = with_progress("copying", |progress| copy(&*source, &*target, self.resume, progress));
        let copied = copied.map_err(|error| advise_resume(error, self.resume))?;
        terminal::note(format_args!("copied: {}", units::entries(copied)));
        catch_up(&*source, &*target)?;
        if self.no_cut_over {
            terminal::note("cut-over: not done; end the writer of FROM, then run again with --resume");
            return Ok(());
        }
        cut_over(source, &from, &*target)
    }
}

/// Returns the address of a directory or of a store.
fn address_of(argument: &str) -> String {
    if is_address(argument) {
        argument.to_owned()
    } else {
        format!("local:{}", Path::new(argument).display())
    }
}

fn advise_resume(error: terrace_store::Error, has_resumed: bool) -> Failure {
    let is_unused = matches!(error, terrace_store::Error::InvalidArgument(_)) && !has_resumed;
    let failure = Failure::from(error);
    if is_unused { failure } else { failure.with_note("--resume continues after the last copied key") }
}

/// Calls `work` with a receiver of its progress.
fn with_progress<T>(message: &'static str, work: impl FnOnce(&mut dyn FnMut(u64)) -> T) -> T {
    let mut progress = Progress::line(message);
    work(&mut |entries| progress.set_position(entries))
}

/// Transfers the changes since the copy, until few are left.
fn catch_up(source: &dyn Store, target: &dyn Store) -> CommandResult {
    for _ in 0..MAX_PASSES {
        let pass = pass(source, target)?;
        terminal::note(format_args!("changed meanwhile: {} put, {} deleted", pass.puts, pass.deletes));
        if pass.puts + pass.deletes < FEW_CHANGES {
            break;
        }
    }
    Ok(())
}

fn pass(source: &dyn Store, target: &dyn Store) -> Result<Reconciled, Failure> {
    Ok(with_progress("comparing", |progress| reconcile(source, target, progress))?)
}

/// Transfers the last changes while the source is locked, and compares both sides.
fn cut_over(reader: Arc<dyn Store>, from: &str, target: &dyn Store) -> CommandResult {
    let started = terrace_env::SystemClock.monotonic();
    let is_lockable = from.starts_with("local:");
    let source = match is_lockable {
        // The lock of the directory excludes every other writer.
        true => open(from, &OpenOptions::default()).map_err(|error| {
            Failure::from(error).with_note("the cut-over needs the lock; --resume continues")
        })?,
        false => reader,
    };
    let last = pass(&*source, target)?;
    let found = with_progress("verifying", |progress| digest(target, progress))?;
    drop(source);
    let locked = terrace_env::SystemClock.monotonic().saturating_sub(started);
    if found != last.source {
        return Err(Failure::Database(format!(
            "corruption: TO has {} with the hash {:016x}, expected {} with the hash {:016x}",
            units::entries(found.entries),
            found.hash,
            units::entries(last.source.entries),
            last.source.hash
        )));
    }
    terminal::note(format_args!("cut-over: {} put, {} deleted", last.puts, last.deletes));
    terminal::note(lock_report(is_lockable, locked));
    terminal::note(format_args!("equal: {}, hash {:016x}", units::entries(found.entries), found.hash));
    Ok(())
}

fn lock_report(is_lockable: bool, locked: Duration) -> String {
    match is_lockable {
        true => format!("locked: FROM for {}", units::time(locked)),
        false => {
            format!("locked: nothing, because FROM has no lock; the last pass took {}", units::time(locked))
        }
    }
}
