//! What happens beside the writers: flushes and merges, as jobs on the env's lanes.
//!
//! At most one merge runs at a time, which may have several threads, and two flushes beside it: while one waits for the device, the
//! other has the processor. Their tables count in the order of their memtables.
//!
//! ```text
//!   flush 1    [ table of 1 ][ sync ][ 1 counts ][ table of 3 ][ sync ]              leaves 3 to the other, who is at 2
//!   flush 2          [ table of 2, larger   ][ sync ][ 2 counts ][ 3 counts ]
//! ```
//!
//! A job does one piece of work, says so, and queues the next if there is more. Its failure is the database's: either it
//! refuses writes from then on, or, where nothing became unclear, the next writer who needs the work done causes another attempt.

use std::cell::Cell;

use terrace_env::Lane;
use terrace_format::edit::{LEVELS, VersionEdit};
use terrace_format::filename::FileName;
use terrace_format::key::{self, Sequence};

use super::install::Failure;
use super::pace::Running;
use super::property::LevelStats;
use super::unwinding::Unwinding;
use super::wish::REST;
use super::{Engine, Flushed, Frozen, MergeRange, Stage, State, Target};
use crate::compaction::policy::{deletes, leveled};
use crate::compaction::{self, Job, Outcome, Reason, flush};
use crate::error::Result;
use crate::metrics::Span;
use crate::sync::{Arc, Condvar, Mutex, Ordering, Weak};
use crate::tables::NewTable;
use crate::version::{KeyRange, Version, total_size};

/// So many flushes run at a time.
const FLUSHES: usize = 2;

/// A merge that somebody waits for.
pub(super) struct Manual {
    id: u64,
    level: usize,
    begin: Option<Vec<u8>>,
    end: Option<Vec<u8>>,
}

impl Manual {
    fn range(&self) -> KeyRange<'_> {
        KeyRange { begin: self.begin.as_deref(), end: self.end.as_deref() }
    }
}

/// How many jobs hold the engine. A job says that it is done while it still does: what a closed database shared with its
/// opener, who may take it apart when `close` returns, has to wait for the last one to let go.
#[derive(Default)]
pub(super) struct Jobs {
    count: Mutex<usize>,
    none: Condvar,
}

/// One of them.
struct Hold(Arc<Jobs>);

impl Jobs {
    fn hold(jobs: &Arc<Jobs>) -> Hold {
        *jobs.count.lock() += 1;
        Hold(Arc::clone(jobs))
    }

    /// Returns when there is none.
    pub(super) fn wait(&self) {
        let mut count = self.count.lock();
        while *count > 0 {
            self.none.wait(&mut count);
        }
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        *self.0.count.lock() -= 1;
        self.0.none.notify_all();
    }
}

impl State {
    /// How many flushes there is work for.
    fn flushes_wanted(&self) -> usize {
        let is_made = |frozen: &Frozen| matches!(frozen.stage, Stage::Made(_));
        let unmade = self.frozen.iter().filter(|frozen| !is_made(frozen)).count();
        // An edit that failed is tried again.
        let counts = self.frozen.front().is_some_and(is_made) && !self.installing;
        (unmade + usize::from(counts)).min(FLUSHES)
    }

    /// Takes what is made and does not count, and can't.
    fn take_made(&mut self) -> Vec<NewTable> {
        let take = |frozen: &mut Frozen| match &mut frozen.stage {
            Stage::Made(made) if !made.is_doubtful => made.table.take(),
            _ => None,
        };
        self.frozen.iter_mut().filter_map(take).collect()
    }

    /// Notes that the table of `frozen` is made. False if another one is to be made.
    fn note_made(&mut self, frozen: &Frozen, made: Flushed) -> bool {
        let same = self.frozen.iter_mut().find(|other| other.table == frozen.table);
        same.map(|same| same.stage = Stage::Made(made)).is_some()
    }
}

impl Engine {
    /// Queues what there is to do and is not queued yet.
    pub(super) fn schedule(&self, state: &mut State) {
        if self.read_only || state.ended || self.refusal.is_set() || !self.birth.is_here() {
            return;
        }
        while state.flushes < state.flushes_wanted() && self.queue(Lane::Flush, Engine::flush_job) {
            state.flushes += 1;
        }
        if !state.merging && state.may_merge && !self.closing.load(Ordering::Relaxed) && self.has_merge(state)
        {
            state.merging = self.queue(Lane::Compaction, Engine::merge_job);
        }
    }

    fn queue(&self, lane: Lane, job: fn(&Engine)) -> bool {
        // Gone only while the database is being dropped: then nothing is queued any more.
        let Some(engine) = self.me.upgrade() else { return false };
        let hold = Jobs::hold(&self.jobs);
        let job = move || {
            let _hold = hold; // Declared first, so that it goes last.
            let engine = engine;
            job(&engine);
        };
        self.options.env.scheduler.schedule(lane, Box::new(job));
        true
    }

    fn has_merge(&self, state: &State) -> bool {
        let version = &state.set.version;
        !state.manual.is_empty()
            || state.worn.is_some()
            || leveled::fullest(version).1 >= 1.0
            || self.has_deletes_to_merge(version)
    }

    /// If there is nothing to do for the space of deletes before a snapshot goes, its going has this asked again. Called with
    /// the state locked, of a database that does not close.
    fn has_deletes_to_merge(&self, version: &Version) -> bool {
        let readers = self.readers();
        if deletes::any(version, readers) {
            return true;
        }
        let Some(number) = deletes::waiting_for(version, readers) else { return false };
        // Like a job: who closes waits until a call that was begun has let go of the engine.
        let (hold, engine) = (Jobs::hold(&self.jobs), Weak::clone(&self.me));
        let look = move || {
            let _hold = hold; // Declared first, so that it goes last.
            let engine = engine.upgrade();
            engine.iter().for_each(|engine| engine.look_for_merges());
        };
        let waits = self.snapshots.wake_at(number, Box::new(look));
        // If not, the snapshot went meanwhile.
        !waits && deletes::any(version, self.readers())
    }

    /// Has a job look whether there is a merge to do: who calls has something else to do.
    pub(super) fn look_for_merges(&self) {
        let mut state = self.state.lock();
        let can = !self.read_only
            && self.birth.is_here()
            && !self.refusal.is_set()
            && !self.closing.load(Ordering::Relaxed);
        if can && !state.merging && state.may_merge {
            state.merging = self.queue(Lane::Compaction, Engine::merge_job);
        }
    }

    /// A number that no reader reads before. The state is locked, so this is no more than a good guess.
    fn readers(&self) -> Sequence {
        self.snapshots.oldest_or_so(self.present.visible())
    }

    fn flush_job(&self) {
        let _guard = Unwinding::new(self, |_| ());
        let counted = Unwinding::new(self, |state| state.flushes -= 1);
        let begun = self.present.visible().load(Ordering::Relaxed);
        let made = self.take_frozen().map_or(Ok(()), |frozen| self.flush_frozen(&frozen));
        let flushed = made.and_then(|()| self.install_tables());
        let mut state = self.state.lock();
        state.flushes -= 1;
        // Told of a failure, a logger may panic, too: this flush has been counted.
        drop(counted);
        self.finish_job(state, flushed);
        self.come_to_rest(begun);
    }

    /// The oldest memtable that nobody makes a table of, for who does.
    fn take_frozen(&self) -> Option<Frozen> {
        let mut state = self.state.lock();
        let frozen = state.frozen.iter_mut().find(|frozen| matches!(frozen.stage, Stage::Waits))?;
        frozen.stage = Stage::Runs;
        Some(frozen.clone())
    }

    fn finish_job(&self, mut state: crate::sync::MutexGuard<'_, State>, outcome: Result<()>) {
        match outcome {
            Ok(()) => self.schedule(&mut state),
            Err(error) if error.is_resumable() => {
                self.logger.log(format_args!("Background work failed, to be tried again: {error}"));
                state.failures += 1;
                state.last_failure = Some(error);
                state.may_merge = false;
            }
            Err(error) => {
                drop(state);
                return self.refuse(&error);
            }
        }
        self.announce(&mut state);
    }

    fn flush_frozen(&self, frozen: &Frozen) -> Result<()> {
        let made = self.make_table(frozen).inspect_err(|_| self.make_anew(frozen))?;
        let table = made.table.clone();
        let is_needed = self.state.lock().note_made(frozen, made);
        if !is_needed {
            compaction::remove_tables(&self.options.env, &self.directory, table.as_slice());
        }
        Ok(())
    }

    /// Has the tables of `frozen` and of the memtables behind it made anew, by other numbers: a number that a file may have is not
    /// used for another, and they have to rise.
    fn make_anew(&self, frozen: &Frozen) {
        let mut scrap = Vec::new();
        let mut state = self.state.lock();
        for other in state.frozen.iter_mut().skip_while(|other| other.table != frozen.table) {
            other.table = self.new_file_number();
            if let Stage::Made(made) = std::mem::replace(&mut other.stage, Stage::Waits) {
                scrap.extend(made.table);
            }
        }
        drop(state);
        compaction::remove_tables(&self.options.env, &self.directory, &scrap);
    }

    fn make_table(&self, frozen: &Frozen) -> Result<Flushed> {
        self.settle(frozen.last_sequence)?;
        let start = self.options.env.clock.monotonic();
        let packed = compaction::packed_if(self.stays_put(frozen), &self.table_options);
        let env = &self.options.env;
        let table = flush::flush(&frozen.memtable, env, &self.directory, frozen.table, &packed)?;
        Ok(Flushed { table, start, is_doubtful: false })
    }

    /// Makes the tables count that are made, in the order of their memtables. Who finds another thread at it leaves it to that one.
    fn install_tables(&self) -> Result<()> {
        loop {
            let (frozen, made) = {
                let mut state = self.state.lock();
                if state.installing {
                    return Ok(());
                }
                if self.refusal.is_set() {
                    // A table may hold a write whose sync failed while it was made.
                    let made = state.take_made();
                    drop(state);
                    compaction::remove_tables(&self.options.env, &self.directory, &made);
                    return Ok(());
                }
                let Some(frozen) = state.frozen.front().cloned() else { return Ok(()) };
                let Stage::Made(made) = frozen.stage.clone() else { return Ok(()) };
                state.installing = true;
                (frozen, made)
            };
            let installed = self.install_table(&frozen, &made);
            // Before another thread tries.
            if let Err(error) = &installed
                && !error.is_resumable()
            {
                self.refuse(error);
            }
            self.state.lock().installing = false;
            installed?;
        }
    }

    fn install_table(&self, frozen: &Frozen, made: &Flushed) -> Result<()> {
        let (clock, env) = (&self.options.env.clock, &self.options.env);
        let Flushed { table, start, .. } = made;
        let size = table.as_ref().map_or(0, |table| table.file.size);
        let mut entries = 0;
        let level = Cell::new(0);
        let installed = self.install(
            |set| {
                entries = frozen.last_sequence.saturating_sub(set.last_sequence);
                let mut edit = VersionEdit { log_number: Some(frozen.next_log), ..VersionEdit::default() };
                edit.last_sequence = Some(frozen.last_sequence);
                if let Some(NewTable { file, .. }) = table {
                    level.set(match frozen.target {
                        Target::Level0 => 0,
                        Target::AnyLevel => {
                            self.flush_level(set, file.smallest.user_key(), file.largest.user_key())
                        }
                    });
                    edit.added.push((level.get(), file.clone()));
                }
                edit
            },
            |state| {
                state.frozen.pop_front();
                state.effort.flushed(size, frozen.put);
                state.set.version.learn(level.get(), table.as_slice());
            },
        );
        let level = level.get();
        match installed {
            Ok(()) => {}
            Err(Failure::Before(error)) => {
                if !made.is_doubtful {
                    self.make_anew(frozen);
                }
                return Err(error);
            }
            Err(Failure::Unknown(error)) => {
                let made = Flushed { is_doubtful: true, ..made.clone() };
                self.state.lock().note_made(frozen, made);
                return Err(error);
            }
        }
        // Its contents are in a durable table. Closed first: some file systems keep, or count, what is removed open.
        self.durability.forget_logs(frozen.next_log);
        // A leftover is removed at the next open.
        let _ = env.fs.remove(&self.path_of(FileName::Log(frozen.log)));
        let time = clock.monotonic().saturating_sub(*start);
        let stats = LevelStats { time, bytes_read: 0, bytes_written: size };
        self.state.lock().stats[level].add(stats);
        let stored = self.present.view().version.levels.iter().map(|files| total_size(files)).sum();
        self.buffer.filled(frozen.memtable.bytes(), stored, clock.monotonic());
        self.tables.metrics().spans.count(Span::Flush, stats.time);
        self.logger.log(format_args!(
            "Memtable flushed: table={} level={level} log={} entries={entries} bytes_in={} bytes_out={size} us={}",
            frozen.table,
            frozen.log,
            frozen.memtable.bytes(),
            stats.time.as_micros()
        ));
        Ok(())
    }

    /// True if the table of `frozen` will likely go to the last level, where it stays: that it is packed, or not, is no
    /// more than a matter of time and space.
    fn stays_put(&self, frozen: &Frozen) -> bool {
        let Some((first, last)) = frozen.memtable.ends().filter(|_| frozen.target == Target::AnyLevel) else {
            return false;
        };
        let version = Arc::clone(&self.present.view().version);
        let level = leveled::flush_level(&version, key::user_key(&first), key::user_key(&last), &self.limits);
        level > 0 && version.is_last(level)
    }

    /// Called with the manifest locked, so that no merge begins between this and the edit.
    fn flush_level(&self, set: &crate::version::VersionSet, smallest: &[u8], largest: &[u8]) -> usize {
        let user = self.comparator.user();
        let state = self.state.lock();
        let meets_merge = state.merge_range.as_ref().is_some_and(|merge| {
            user.compare(smallest, &merge.largest).is_le() && user.compare(largest, &merge.smallest).is_ge()
        });
        if meets_merge { 0 } else { leveled::flush_level(&set.version, smallest, largest, &self.limits) }
    }

    fn merge_job(&self) {
        let clear = |state: &mut State| {
            state.merging = false;
            (state.merge_range, state.running) = (None, None);
        };
        let _guard = Unwinding::new(self, clear);
        let begun = self.present.visible().load(Ordering::Relaxed);
        let job = self.pick().map(Arc::new);
        let step = job.as_deref().and_then(ManualStep::of);
        let merged = job.map_or(Ok(()), |job| self.merge(&job));
        // While the job still counts as running, so that nobody has closed the database and made it anew; and before
        // who waits for the merge goes on, so that he finds the space free.
        self.remove_doomed();
        let mut state = self.state.lock();
        clear(&mut state);
        if let (Ok(()), Some(step)) = (&merged, step) {
            step.done(&mut state);
        }
        let merged = match merged {
            // Given up because the database closes.
            Err(_) if self.closing.load(Ordering::Relaxed) => Ok(()),
            merged => merged,
        };
        self.finish_job(state, merged);
        self.come_to_rest(begun);
    }

    /// Gives the memory back that is kept for memtables to come, at the end of a job, if nothing is left to do and nothing was written
    /// since the job began, at number `begun`. (Who writes again soon pays for some hundred microseconds of page faults.)
    fn come_to_rest(&self, begun: Sequence) {
        let state = self.state.lock();
        let works = state.flushes > 0 || state.merging || state.stopped > 0 || !state.frozen.is_empty();
        drop(state);
        // Relaxed: any write that is not seen yet finds other memory.
        if !works && self.present.visible().load(Ordering::Relaxed) == begun {
            self.spare.let_go();
        }
    }

    fn pick(&self) -> Option<Job> {
        // No flush is between its choice of a level and its edit.
        let _manifest = self.manifest.lock();
        let mut state = self.state.lock();
        if self.closing.load(Ordering::Relaxed) {
            return None;
        }
        let job = loop {
            let Some(manual) = state.manual.front() else {
                let job = leveled::pick(&state.set, state.worn.as_ref(), &self.limits)
                    .or_else(|| deletes::pick(&state.set.version, self.readers(), &self.limits));
                if job.as_ref().is_none_or(|job| matches!(job.reason, Reason::Seeks | Reason::Deletes)) {
                    state.worn = None;
                }
                break job;
            };
            let job =
                leveled::manual(&state.set.version, manual.id, manual.level, manual.range(), &self.limits);
            if job.is_some() {
                break job;
            }
            state.manual.pop_front();
            self.announce(&mut state);
        };
        let inputs: Vec<_> = job.iter().flat_map(Job::files).cloned().collect();
        state.merge_range = state
            .set
            .version
            .hull(&inputs)
            .map(|(smallest, largest)| MergeRange { smallest: smallest.to_vec(), largest: largest.to_vec() });
        state.running = job.as_ref().map(|job| Running {
            level: job.level(),
            bytes: total_size(&inputs),
            began: self.options.env.clock.monotonic(),
        });
        let turn = self.set_pace(&state);
        drop(state);
        self.tell_turn(turn);
        job
    }

    fn merge(&self, job: &Arc<Job>) -> Result<()> {
        // A merge that was asked for rewrites everything, so that deletes and what they hide go.
        if !matches!(job.reason, Reason::Manual(_)) && job.is_move() {
            return self.move_files(job);
        }
        let clock = &self.options.env.clock;
        let start = clock.monotonic();
        let level = job.output_level();
        let bytes_read: u64 = job.inputs.iter().map(|(_, files)| total_size(files)).sum();
        self.logger.log(format_args!("Merging: {job} bytes_in={bytes_read}"));
        let outcome = self.run_merge(job)?;
        let mut edit = job.edit();
        edit.added.extend(outcome.tables.iter().map(|table| (level, table.file.clone())));
        let Outcome { tables, bytes_written, entries_read, entries_written } = outcome;
        let stats = LevelStats { time: clock.monotonic().saturating_sub(start), bytes_read, bytes_written };
        match self.install(
            |_| edit,
            |state| {
                state.effort.merged(bytes_read, stats.time);
                state.running = None;
                state.set.version.learn(level, &tables);
            },
        ) {
            Ok(()) => {}
            Err(Failure::Before(error)) => {
                compaction::remove_tables(&self.options.env, &self.directory, &tables);
                return Err(error);
            }
            Err(Failure::Unknown(error)) => return Err(error),
        }
        let mut state = self.state.lock();
        state.stats[level].add(stats);
        if job.reason == Reason::Seeks {
            state.rest_of_reads = clock.monotonic() + stats.time * REST;
        }
        drop(state);
        self.tables.metrics().spans.count(Span::Merge, stats.time);
        self.logger.log(format_args!(
            "Merged: {job} into={level} files_out={} entries_in={entries_read} entries_out={entries_written} \
             bytes_in={bytes_read} bytes_out={bytes_written} us={}",
            tables.len(),
            stats.time.as_micros()
        ));
        Ok(())
    }

    fn move_files(&self, job: &Job) -> Result<()> {
        let level = job.output_level();
        let mut edit = job.edit();
        edit.added.extend(job.files().map(|file| (level, file.to_edit())));
        let numbers: Vec<u64> = job.files().map(|file| file.number).collect();
        self.install(|_| edit, |_| ()).map_err(Failure::into_error)?;
        self.logger.log(format_args!("Moved: {job} into={level} tables={numbers:?}"));
        Ok(())
    }

    pub(super) fn compact_range(&self, begin: Option<&[u8]>, end: Option<&[u8]>) -> Result<()> {
        let range = KeyRange { begin, end };
        // What has nothing to do with the range goes where any flush would put it.
        let touched = self.present.view().memtable.overlaps(begin, end);
        self.flush(if touched { Target::Level0 } else { Target::AnyLevel })?;
        let version = Arc::clone(&self.present.view().version);
        // Level 0 is merged in any case; the last level has nowhere to go.
        let deepest = (1..LEVELS).rev().find(|&level| version.overlaps_level(level, range)).unwrap_or(1);
        drop(version);
        (0..deepest).try_for_each(|level| self.compact_level(level, range))
    }

    fn compact_level(&self, level: usize, range: KeyRange<'_>) -> Result<()> {
        let id = {
            let mut state = self.state.lock();
            state.manuals += 1;
            let id = state.manuals;
            let (begin, end) = (range.begin.map(<[u8]>::to_vec), range.end.map(<[u8]>::to_vec));
            state.manual.push_back(Manual { id, level, begin, end });
            id
        };
        let done = self.wait_for(|state| state.manual.iter().all(|manual| manual.id != id));
        if done.is_err() {
            self.state.lock().manual.retain(|manual| manual.id != id);
        }
        done
    }
}

/// What a job does of the merge that somebody waits for.
struct ManualStep {
    id: u64,
    /// Where the rest begins, unless this is all.
    rest: Option<Vec<u8>>,
}

impl ManualStep {
    fn of(job: &Job) -> Option<ManualStep> {
        let Reason::Manual(id) = job.reason else { return None };
        // All of level 0 that was in the range goes at once; what comes meanwhile was not asked for.
        let rest = job.pointer.as_ref().filter(|_| job.level() > 0);
        Some(ManualStep { id, rest: rest.map(|pointer| pointer.user_key().to_vec()) })
    }

    /// Notes that the job is done.
    fn done(self, state: &mut State) {
        // Gone if who asked has given up.
        let Some(manual) = state.manual.iter_mut().find(|manual| manual.id == self.id) else { return };
        match self.rest {
            Some(rest) => manual.begin = Some(rest),
            None => state.manual.retain(|manual| manual.id != self.id),
        }
    }
}
