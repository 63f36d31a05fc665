//! Removing a range of keys: whole tables at once, and key by key what the others have.
//!
//! ```text
//!   range             [begin ........................ end)
//!   tables        | a   | |  inside  | |  inside  | |  b    |        a, b and the memtables: the rest
//!
//!   1. delete, one by one, the keys of the range that the rest would show by itself; sync the log
//!   2. with no merge and no write beside: if the rest shows none of them, one edit takes out the tables inside
//! ```
//!
//! A table inside may hide older versions in the rest, so what counts in both steps is the rest alone, without it: what is
//! not seen there can't come back. The log is synced before the edit, so that a power cut never leaves the edit without
//! the deletes. Where the tables inside keep changing, or somebody holds a snapshot that sees them, every key is deleted
//! by itself.

use terrace_format::batch::WriteBatch;
use terrace_format::edit::VersionEdit;
use terrace_format::filename::FileName;
use terrace_format::key::Sequence;
use terrace_sync::mutant;

use super::install::Failure;
use super::tail::closed;
use super::unwinding::Unwinding;
use super::{Engine, State, View};
use crate::error::Result;
use crate::iter::{DbIterator, MergeIter, Owner, SAMPLE_PERIOD, Visible};
use crate::options::{ReadOptions, WriteOptions};
use crate::sync::{Arc, Ordering};
use crate::version::{FileMeta, KeyRange, Version};

/// How often the tables inside may change before they are not waited for any more.
const ATTEMPTS: usize = 3;

/// Deletes are written in batches of this many bytes.
const BATCH: usize = 64 << 10;

/// Where step 2 got to.
enum Taken {
    Out,
    /// There are keys of the range in the rest again.
    Changed,
    /// Somebody reads at a snapshot.
    Read,
}

impl Engine {
    pub(super) fn delete_range(&self, begin: Option<&[u8]>, end: Option<&[u8]>) -> Result<()> {
        self.check_process()?;
        let range = KeyRange { begin, end };
        if let (Some(begin), Some(end)) = (begin, end)
            && self.comparator.user().compare(begin, end).is_ge()
        {
            return self.write_nothing(&WriteOptions { sync: true });
        }
        for _ in 0..ATTEMPTS {
            let (rest, inside) = self.rest(range)?;
            if inside.deleted.is_empty() {
                break;
            }
            if !mutant!(DeleteRangeExposesOldVersions) {
                self.delete_each(&rest, range)?;
            }
            drop(rest);
            match self.in_place_of_merge(|last| self.take_out(last, range))? {
                Taken::Out => return Ok(()),
                Taken::Changed => {}
                Taken::Read => break,
            }
        }
        let view = Arc::clone(&self.present.view());
        self.delete_each(&view, range)
    }

    /// What there is now without the tables that have no key outside of `range`, and the edit that takes those out.
    fn rest(&self, range: KeyRange<'_>) -> Result<(View, VersionEdit)> {
        let state = self.state.lock();
        let version = &state.set.version;
        let mut edit = VersionEdit::default();
        for (level, files) in version.levels.iter().enumerate() {
            let inside = files.iter().filter(|file| is_inside(version, file, range));
            edit.deleted.extend(inside.map(|file| (level, file.number)));
        }
        let without = state.set.after(&edit, &self.path_of(FileName::Current))?;
        Ok((View { version: without.version, ..View::of(&state) }, edit))
    }

    /// Step 1, for what `view` shows. What was written before is on the medium when this returns, too.
    fn delete_each(&self, view: &View, range: KeyRange<'_>) -> Result<()> {
        let mut keys = self.keys(view, range);
        let mut batch = WriteBatch::new();
        while keys.valid() {
            batch.delete(keys.key());
            if batch.as_bytes().len() >= BATCH {
                self.write(&batch, &WriteOptions::default())?;
                batch = WriteBatch::new();
            }
            keys.next();
        }
        keys.status()?;
        self.write(&batch, &WriteOptions { sync: true })
    }

    /// The keys of `range` that `view` shows now.
    fn keys(&self, view: &View, range: KeyRange<'_>) -> DbIterator {
        let options = ReadOptions {
            fill_cache: false,
            lower_bound: range.begin.map(<[u8]>::to_vec),
            upper_bound: range.end.map(<[u8]>::to_vec),
            ..ReadOptions::default()
        };
        let now = self.present.visible().load(Ordering::Acquire);
        let merge = MergeIter::new(self.comparator.clone(), view.sources(self, &options));
        let mut keys =
            DbIterator::new(Visible::new(&self.comparator, merge, now, &options), Arc::new(Unsampled));
        keys.seek_to_first();
        keys
    }

    /// Step 2. No write comes in between: what is on the medium afterwards, too, is a state that was.
    fn take_out(&self, last: Sequence, range: KeyRange<'_>) -> Result<Taken> {
        self.settle(last)?;
        let (rest, edit) = self.rest(range)?;
        let left = self.keys(&rest, range);
        left.status()?;
        if left.valid() && !mutant!(DeleteRangeExposesOldVersions) {
            return Ok(Taken::Changed);
        }
        drop((left, rest));
        self.sync_to(self.durability.last_write())?;
        let count = edit.deleted.len();
        // While nobody can take a snapshot: one that is taken before sees the keys, and would not see them behind it.
        match self.snapshots.while_none(|| self.install(|_| edit, |_| ())) {
            None => Ok(Taken::Read),
            Some(installed) => {
                installed.map_err(Failure::into_error)?;
                self.logger.log(format_args!("Removed {count} tables with a range of keys"));
                Ok(Taken::Out)
            }
        }
    }

    /// Does `work` while no merge runs and nobody writes; it is given the last number that was taken. The tables stay
    /// where they are meanwhile, though a flush may add one.
    fn in_place_of_merge<T>(&self, work: impl FnOnce(Sequence) -> Result<T>) -> Result<T> {
        let release = |state: &mut State| state.merging = false;
        loop {
            self.wait_until_idle()?;
            // Before it counts as a merge: whoever closes the database holds this, and waits for merges.
            let commit = self.commit.lock();
            let last = commit.as_ref().ok_or_else(closed)?.sequence;
            let mut state = self.state.lock();
            if state.merging {
                continue;
            }
            state.merging = true;
            drop(state);
            let _guard = Unwinding::new(self, release);
            let outcome = work(last);
            let mut state = self.state.lock();
            release(&mut state);
            self.schedule(&mut state);
            self.announce(&mut state);
            return outcome;
        }
    }

    /// Returns when no merge runs, for a moment at least.
    fn wait_until_idle(&self) -> Result<()> {
        let mut state = self.state.lock();
        while state.merging {
            self.refusal.check()?;
            self.wait(&mut state);
        }
        Ok(())
    }
}

/// True if `file` has no key outside of `range`, whose end is not part of it.
fn is_inside(version: &Version, file: &FileMeta, range: KeyRange<'_>) -> bool {
    let user = version.comparator.user();
    range.begin.is_none_or(|begin| user.compare(file.smallest.user_key(), begin).is_ge())
        && range.end.is_none_or(|end| user.compare(file.largest.user_key(), end).is_lt())
}

/// A walk that wears no table out.
struct Unsampled;

impl Owner for Unsampled {
    fn sample(&self, _: &[u8]) {}

    fn until_sample(&self) -> usize {
        SAMPLE_PERIOD
    }

    fn passed_over(&self, _entries: usize) {}
}
