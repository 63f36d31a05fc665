//! `terrace migrate`: copies a database or a store to another one.
//!
//! ```text
//!   copy      entries of a snapshot; the writer of FROM continues
//!   passes    changes since then, until few are left
//!   cut-over  changes since the last pass, while FROM is locked
//!   end       TO has the hash that FROM had under the lock
//! ```
//!
//! The lock of a directory lasts for two scans of it at most: one of the snapshot of the last pass
//! and one of the end. TO is only written meanwhile.

use std::path::{Path, PathBuf};

use clap::Args;
use clap::builder::NonEmptyStringValueParser;
use terrace::Options;
use terrace_env::{Clock, SystemClock, normalized_path};
use terrace_format::filename::FileName;
use terrace_store::migrate::{Reconciled, copy, digest, reconcile, transfer_changes};
use terrace_store::{OpenOptions, Store, StoreSnapshot, is_address, open};

use crate::cli::Run;
use crate::database::{PathContents, check_outside};
use crate::failure::{CORRUPTION_ADVICE, CommandResult, Failure};
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
/// then --resume continues. FROM is only read.
#[derive(Args)]
pub(crate) struct Migrate {
    /// Directory or address of the source
    #[arg(value_parser = NonEmptyStringValueParser::new())]
    from: String,
    /// Directory or address of the target; it is created if it does not exist
    #[arg(value_parser = NonEmptyStringValueParser::new())]
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
        check_directories(&from, &to)?;
        let source = open(&from, &OpenOptions::default().read_only(true))?;
        let target = open(&to, &OpenOptions::default().create_if_missing(true))?;
        let copied = with_progress("copying", |progress| copy(&*source, &*target, self.resume, progress));
        let copied = copied.map_err(advise_resume)?;
        terminal::note(format_args!("copied: {}", units::entries(copied)));
        let passed = catch_up(&*source, &*target)?;
        if self.no_cut_over {
            terminal::note("cut-over: not done; end the writer of FROM, then run again with --resume");
            return Ok(());
        }
        let last = match local_directory(&from) {
            Some(directory) => cut_over(&from, &directory, &*passed, &*target)?,
            None => last_pass(&*source, &*target)?,
        };
        verify(&*target, &last)
    }
}

/// Returns the directory of a local store.
fn local_directory(address: &str) -> Option<PathBuf> {
    address.strip_prefix("local:").map(PathBuf::from)
}

/// Returns an error if both are the same, or if a directory cannot have its part.
fn check_directories(from: &str, to: &str) -> CommandResult {
    let options = Options::default();
    let source = local_directory(from);
    let target = local_directory(to);
    let normalized = |path: &PathBuf| normalized_path(&*options.env.fs, path);
    if from == to || source.is_some() && source.as_ref().map(normalized) == target.as_ref().map(normalized) {
        return Err(Failure::Usage("FROM and TO are the same".into()));
    }
    if let Some(source) = &source {
        match PathContents::inspect(&options, source)? {
            PathContents::Database => {}
            other => return other.not_a_database(source, ""),
        }
    }
    let Some(target) = &target else { return Ok(()) };
    match PathContents::inspect(&options, target)? {
        other @ (PathContents::File | PathContents::RocksDb { .. }) => other.not_a_database(target, ""),
        _ => source.map_or(Ok(()), |source| check_outside(target, &source)),
    }
}

/// Returns the address of a directory or of a store. An unknown engine is no directory.
fn address_of(argument: &str) -> String {
    if is_address(argument) || argument.contains("://") {
        argument.to_owned()
    } else {
        format!("local:{}", Path::new(argument).display())
    }
}

/// Names the option that continues a copy, unless the same error would occur again.
fn advise_resume(error: terrace_store::Error) -> Failure {
    let advice = match error {
        terrace_store::Error::InvalidArgument(_) => return error.into(),
        terrace_store::Error::TargetHasEntries => "--resume continues an earlier copy",
        _ => "--resume continues after the last copied key",
    };
    Failure::from(error).with_note(advice)
}

/// Calls `work` with a receiver of its progress.
fn with_progress<T>(message: &'static str, work: impl FnOnce(&mut dyn FnMut(u64)) -> T) -> T {
    let mut progress = Progress::line(message);
    work(&mut |entries| progress.set_position(entries))
}

/// Transfers the changes since the copy, until few are left. Returns the snapshot that TO equals.
fn catch_up(source: &dyn Store, target: &dyn Store) -> Result<Box<dyn StoreSnapshot>, Failure> {
    let mut passes = 0;
    loop {
        let snapshot = source.snapshot()?;
        let pass = pass(&*snapshot, target)?;
        terminal::note(format_args!("changed meanwhile: {} put, {} deleted", pass.puts, pass.deletes));
        passes += 1;
        if pass.puts + pass.deletes < FEW_CHANGES || passes == MAX_PASSES {
            return Ok(snapshot);
        }
    }
}

fn pass(source: &dyn StoreSnapshot, target: &dyn Store) -> Result<Reconciled, Failure> {
    Ok(with_progress("comparing", |progress| reconcile(source, target, progress))?)
}

/// Transfers the changes since the snapshot `passed`, while the directory `from` is locked.
fn cut_over(
    from: &str,
    directory: &Path,
    passed: &dyn StoreSnapshot,
    target: &dyn Store,
) -> Result<Reconciled, Failure> {
    let started = SystemClock.monotonic();
    // The lock of readers excludes every writer, and needs no permission to write.
    let source =
        open(from, &OpenOptions::default().read_only(true).exclude_writers(true)).map_err(|error| {
            let is_damage = matches!(error, terrace_store::Error::Corruption(_));
            let lock_advice = "the cut-over needs the lock; --resume continues";
            Failure::from(error).with_note(if is_damage { CORRUPTION_ADVICE } else { lock_advice })
        })?;
    let now = source.snapshot()?;
    let last = with_progress("cut-over", |progress| transfer_changes(passed, &*now, target, progress))?;
    drop((now, source));
    let locked = SystemClock.monotonic().saturating_sub(started);
    terminal::note(format_args!("cut-over: {} put, {} deleted", last.puts, last.deletes));
    let path = directory.join(FileName::Lock.to_string());
    // A read-only open creates no lock file, and a copy on a read-only disk may have none.
    match Options::default().env.fs.exists(&path)? {
        true => terminal::note(format_args!("locked: FROM for {}", units::time(locked))),
        false => terminal::note("locked: nothing, because FROM has no file LOCK"),
    }
    Ok(last)
}

/// Transfers the last changes of a source without a lock.
fn last_pass(source: &dyn Store, target: &dyn Store) -> Result<Reconciled, Failure> {
    let started = SystemClock.monotonic();
    let last = pass(&*source.snapshot()?, target)?;
    let time = SystemClock.monotonic().saturating_sub(started);
    terminal::note(format_args!("cut-over: {} put, {} deleted", last.puts, last.deletes));
    terminal::note(format_args!(
        "locked: nothing, because FROM has no lock; the last pass took {}",
        units::time(time)
    ));
    Ok(last)
}

/// Compares the target with what the source had at the end.
fn verify(target: &dyn Store, last: &Reconciled) -> CommandResult {
    let found = with_progress("verifying", |progress| digest(target, progress))?;
    if found != last.source {
        return Err(Failure::Database(format!(
            "corruption: TO has {} with the hash {:016x}, expected {} with the hash {:016x}",
            units::entries(found.entries),
            found.hash,
            units::entries(last.source.entries),
            last.source.hash
        )));
    }
    terminal::note(format_args!("equal: {}, hash {:016x}", units::entries(found.entries), found.hash));
    Ok(())
}
