//! Followers: reads beside a writer, which may be another process.
//!
//! ```text
//!   1  read the version edits that appeared
//!   2  open the new tables, and keep them open       a table is gone -> 1
//!   3  read the WALs, each into its own memtable     a WAL is gone -> 1
//!      read the version edits again                  there are new ones -> 2
//!   4  install memtables, tables and sequence number as one read state
//! ```
//!
//! A follower takes no lock and writes nothing, and it has no thread: a read whose state is too
//! old catches up first. Each installed state is one that the writer had:
//!
//! - No version edit is missing that precedes a record of step 3. If there were one, the second
//!   read of the edits would find it.
//! - A new version is installed only with all records that existed when its edits were read. A
//!   compaction or a deletion of a range may have dropped entries that an older state needs.
//!
//! The loop ends, because a writer syncs each version edit, and removes files only after that. A
//! file that is missing although no edit has appeared was lost.
//!
//! The compactions of the writer do not know the snapshots and iterators of a follower. They hold
//! their read state, and with it the open tables.

use std::path::{Path, PathBuf};
use std::time::Duration;

use terrace_format::filename::FileName;
use terrace_format::key::SequenceNumber;
use terrace_sync::mutant;

use super::components::follower_tail::{FollowerTail, ReadGoal, WalsRead};
use super::inner::{DbInner, ReadState};
use super::{Db, DbHandle};
use crate::error::{Error, Result};
use crate::memtable::Memtable;
use crate::options::{DEFAULT_READ_OPTIONS, Options, ReadOptions};
use crate::snapshot::Snapshot;
use crate::sync::{Arc, AtomicU64, Ordering};
use crate::version::Version;

/// Maximum number of operations that a read replays before it continues: about a millisecond.
const OPERATIONS_PER_READ: usize = 4096;

/// Options of [`Db::follow`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct FollowOptions {
    /// Maximum age of the state that a read shows when it returns, if the threads of the reader and
    /// of the writer run. A read catches up first if the last catch-up began before 15/16 of this
    /// time. Zero: each read catches up. Default: 10 ms.
    pub every: Duration,
}

impl Default for FollowOptions {
    fn default() -> FollowOptions {
        FollowOptions { every: Duration::from_millis(10) }
    }
}

impl FollowOptions {
    /// Sets [`FollowOptions::every`].
    pub fn every(mut self, every: Duration) -> FollowOptions {
        self.every = every;
        self
    }
}

/// Result of one attempt to catch up.
enum Attempt {
    /// The state is installed. The number of bytes is 0 if all records were read.
    Installed { unread_bytes: u64 },
    /// Version edits have appeared meanwhile.
    Outdated,
    /// The files contradict each other, without a new version edit.
    Contradiction(Error),
}

impl DbInner {
    /// Calls `read` with the read state and the sequence number for a read of a follower: the state
    /// of the snapshot, or a state that is new enough.
    #[inline]
    pub(super) fn with_followed_state<T>(
        &self,
        options: &ReadOptions,
        read: impl FnOnce(&Arc<ReadState>, SequenceNumber) -> T,
    ) -> Result<T> {
        self.check_not_lost_in_fork()?;
        if let Some(snapshot) = &options.snapshot {
            let sequence = self.read_sequence(options, 0)?;
            let held = snapshot.held_state::<ReadState>().filter(|_| !mutant!(SnapshotWithoutReadState));
            return Ok(match held {
                Some(held) => read(&held, sequence),
                None => read(&self.read_state.current(), sequence),
            });
        }
        self.catch_up_if_due()?;
        let read_state = self.read_state.current();
        let sequence = read_state.followed_sequence.unwrap_or(0);
        Ok(read(&read_state, sequence))
    }

    /// Creates a snapshot of the current state.
    pub(super) fn new_snapshot(&self) -> Snapshot {
        if self.follow_schedule.is_none() {
            return self.snapshots.new_snapshot(self.read_state.visible_seqno());
        }
        // After an error, the snapshot shows the last state.
        let _ = self.catch_up_if_due();
        let read_state = Arc::clone(&self.read_state.current());
        let sequence = AtomicU64::new(read_state.followed_sequence.unwrap_or(0));
        self.snapshots.new_snapshot(&sequence).holding(read_state)
    }

    /// Catches up if the state of a follower is too old for a read that begins now.
    #[inline]
    fn catch_up_if_due(&self) -> Result<()> {
        let now = self.options.env.clock.monotonic();
        match &self.follow_schedule {
            Some(schedule) if schedule.is_due(now) => self.catch_up_for_read(now),
            _ => Ok(()),
        }
    }

    /// Returns an error if a read that begins now would have to catch up first.
    pub(super) fn check_no_catch_up_due(&self, options: &ReadOptions) -> Result<()> {
        let now = self.options.env.clock.monotonic();
        let is_due = self.follow_schedule.as_ref().is_some_and(|schedule| schedule.is_due(now));
        if is_due && options.snapshot.is_none() { Err(Error::WouldWait) } else { Ok(()) }
    }

    #[cold]
    fn catch_up_for_read(&self, now: Duration) -> Result<()> {
        // A forked child reads the state at the fork, and a closed follower its last one.
        if !self.owner_process.is_current() || self.is_shutting_down.load(Ordering::Relaxed) {
            return Ok(());
        }
        let mut tail = self.follower_tail.lock();
        // Another thread may have begun a catch-up after this read began.
        if self.follow_schedule.as_ref().is_some_and(|schedule| schedule.is_due(now))
            && let Some(tail) = tail.as_mut()
        {
            self.catch_up_with(tail, ReadGoal::Operations(OPERATIONS_PER_READ))?;
        }
        Ok(())
    }

    /// Reads everything that the writer has stored before this call.
    fn catch_up(&self) -> Result<SequenceNumber> {
        self.check_owner_process()?;
        if let Some(tail) = self.follower_tail.lock().as_mut() {
            self.catch_up_with(tail, ReadGoal::All)?;
        }
        Ok(self.read_state.visible_seqno().load(Ordering::Acquire))
    }

    fn catch_up_with(&self, tail: &mut FollowerTail, goal: ReadGoal) -> Result<()> {
        let Some(schedule) = &self.follow_schedule else { return Ok(()) };
        if let Some(replaced) = &tail.replaced {
            return Err(replaced.clone());
        }
        let began = self.options.env.clock.monotonic();
        match self.follow_writer(tail, goal) {
            Ok(unread_bytes) => {
                schedule.record(began, unread_bytes);
                Ok(())
            }
            Err(error) => {
                schedule.expire();
                tail.distrust_names();
                if matches!(error, Error::Replaced { .. }) {
                    self.logger.log(format_args!("Following ends: {error}"));
                    tail.replaced = Some(error.clone());
                }
                Err(error)
            }
        }
    }

    /// Executes steps 1 to 4. Returns the number of bytes that were left.
    fn follow_writer(&self, tail: &mut FollowerTail, goal: ReadGoal) -> Result<u64> {
        tail.poll_manifest()?;
        let mut last_contradiction = false;
        loop {
            match self.follow_once(tail, goal)? {
                Attempt::Installed { unread_bytes } => return Ok(unread_bytes),
                Attempt::Outdated => last_contradiction = false,
                Attempt::Contradiction(error) if last_contradiction => return Err(error),
                Attempt::Contradiction(_) => {
                    last_contradiction = true;
                    tail.distrust_names();
                    tail.poll_manifest()?;
                }
            }
        }
    }

    /// Executes steps 2 to 4 once.
    fn follow_once(&self, tail: &mut FollowerTail, goal: ReadGoal) -> Result<Attempt> {
        let version = Arc::clone(&tail.version_set().version);
        let is_new_version = !Arc::ptr_eq(&version, &self.read_state.current().version);
        let missing_table = if is_new_version { self.hold_tables(&version)? } else { None };
        let goal = match is_new_version {
            true if mutant!(VersionInstalledBeforeItsRecords) => ReadGoal::Operations(0),
            true => ReadGoal::All,
            false => goal,
        };
        let read = tail.read_wals(&|| self.new_followed_memtable(), goal)?;
        if tail.poll_manifest()? {
            return Ok(Attempt::Outdated);
        }
        let missing = |path: PathBuf| Error::corruption(&path, None, "is missing, but the MANIFEST lists it");
        if let Some(path) = missing_table {
            return Ok(Attempt::Contradiction(missing(path)));
        }
        let shown = self.read_state.current().followed_sequence;
        let unread_bytes = match (read, goal) {
            (WalsRead::Unexpected(error), _) => return Ok(Attempt::Contradiction(error)),
            // Another program removes the files of the database that was followed so far.
            (WalsRead::Missing(number), _) if shown.is_some() => {
                return Ok(Attempt::Contradiction(missing(self.file_path(FileName::Log(number)))));
            }
            (WalsRead::Missing(number), _) => {
                tail.accept_missing_wal(number);
                return Ok(Attempt::Outdated);
            }
            (WalsRead::BudgetSpent, ReadGoal::Operations(_)) => tail.unread_bytes()?.max(1),
            (WalsRead::BudgetSpent, ReadGoal::All) | (WalsRead::End, _) => 0,
        };
        let shown = shown.unwrap_or(0);
        if tail.sequence() < shown {
            let reason = format!("last sequence number {}, expected at least {shown}", tail.sequence());
            let path = self.directory.clone();
            return Ok(Attempt::Contradiction(Error::Replaced { path, reason }));
        }
        self.install_followed_state(tail);
        Ok(Attempt::Installed { unread_bytes })
    }

    fn new_followed_memtable(&self) -> Arc<Memtable> {
        let size = self.options.initial_memtable_size();
        Memtable::with_pool(self.comparator.clone(), &self.chunk_pool, size, false)
    }

    /// Opens the tables of `version` that are not open yet. Returns the path of one that does not
    /// exist.
    fn hold_tables(&self, version: &Version) -> Result<Option<PathBuf>> {
        for file in version.levels.iter().flatten() {
            if !self.table_cache.hold(file.table_ref())? {
                return Ok(Some(self.file_path(FileName::Table(file.number))));
            }
        }
        Ok(None)
    }

    /// Executes step 4, if anything has changed.
    fn install_followed_state(&self, tail: &FollowerTail) {
        let sequence = tail.sequence();
        let version_set = tail.version_set();
        let current = self.read_state.current();
        if current.followed_sequence == Some(sequence) && Arc::ptr_eq(&current.version, &version_set.version)
        {
            return;
        }
        drop(current);
        let mut memtables = tail.memtables();
        let memtable = memtables.next().unwrap_or_else(|| Memtable::new(self.comparator.clone()));
        let mut state = self.state.lock();
        state.memtable = Arc::clone(&memtable);
        state.version_set = version_set.clone();
        // Snapshots of this database and `Db::catch_up` return this number.
        self.read_state.publisher().publish_exclusive(sequence);
        self.read_state.install(ReadState {
            memtable,
            immutable_memtables: memtables.collect(),
            version: Arc::clone(&version_set.version),
            flushed_sequence: version_set.last_sequence,
            followed_sequence: Some(sequence),
        });
    }

    /// Returns the property `terrace.lag`.
    pub(super) fn lag_property(&self) -> Option<String> {
        let schedule = self.follow_schedule.as_ref()?;
        let (age, unread_bytes) = schedule.lag(self.options.env.clock.monotonic());
        let age_us = age.as_micros();
        Some(format!("lag     age_us       {age_us:12}\nlag     unread_bytes {unread_bytes:12}\n"))
    }
}

/// Followers.
impl Db {
    /// Opens the database in directory `path` for reads beside its writer. The writer may be this
    /// process or another one, and Terrace, LevelDB or goleveldb. It need not run.
    ///
    /// A follower takes no lock and writes nothing, so that it works on read-only media. It shows
    /// states that the writer had: all writes up to one sequence number, and no later ones. It
    /// never shows an earlier state than before. A read whose state would be older than
    /// [`FollowOptions::every`] at its end catches up first, by at most 4,096 operations if the
    /// writer has flushed and compacted nothing meanwhile. [`Db::catch_up`] has no such limit.
    ///
    /// Snapshots and iterators hold the data that they show, in open tables and in memory. A
    /// follower keeps all tables mapped or open, whatever
    /// [`Options::max_open_files`](crate::Options::max_open_files) says. It may show a write before
    /// the writer has synced it. It runs on the machine of the writer, because both share the page
    /// cache. Writes fail with [`Error::NotSupported`].
    ///
    /// # Errors
    ///
    /// - [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument): the database is
    ///   missing, has another comparator, or is one of RocksDB.
    /// - [`ErrorKind::Corruption`](crate::ErrorKind::Corruption): the MANIFEST is damaged, or a
    ///   table is missing.
    /// - [`ErrorKind::Io`](crate::ErrorKind::Io): a file cannot be read. With too few file
    ///   descriptors, the message names the limit.
    ///
    /// Reads return the same errors, and [`Error::Replaced`] after the database was repaired,
    /// restored or replaced.
    ///
    /// ```
    /// # use terrace::{Db, Env, FollowOptions, Options};
    /// # let env = Env::in_memory();
    /// # let options = Options::default().create_if_missing(true).env(env);
    /// let db = Db::open("cities", &options)?;
    /// let follower = Db::follow("cities", &options, &FollowOptions::default())?;
    /// db.put("CH/Bern", "46.95,7.45")?;
    /// follower.catch_up()?;
    /// assert_eq!(follower.get("CH/Bern")?.as_deref(), Some(b"46.95,7.45".as_slice()));
    /// assert!(follower.put("CH/Chur", "").is_err());
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn follow(path: impl AsRef<Path>, options: &Options, follow: &FollowOptions) -> Result<Db> {
        let inner = DbInner::open_follower(path.as_ref(), options, follow.every)?;
        inner.catch_up()?;
        Ok(Db { handle: Arc::new(DbHandle::new(inner)) })
    }

    /// Reads everything that the writer has stored. Later reads of this follower see each write
    /// that had returned before this call began. Returns the sequence number of the state.
    ///
    /// Without anything new, this takes a few microseconds. If the database is not a follower, this
    /// only returns the sequence number of the last write.
    ///
    /// # Errors
    ///
    /// Those of a read of a follower. The state stays as before.
    ///
    /// ```
    /// # use terrace::{Db, Env, FollowOptions, Options};
    /// # let env = Env::in_memory();
    /// # let options = Options::default().create_if_missing(true).env(env);
    /// # let db = Db::open("cities", &options)?;
    /// let follower = Db::follow("cities", &options, &FollowOptions::default())?;
    /// db.put("CH/Bern", "46.95,7.45")?;
    /// assert_eq!(follower.catch_up()?, 1);
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn catch_up(&self) -> Result<SequenceNumber> {
        self.reader(&DEFAULT_READ_OPTIONS).inner.catch_up()
    }
}
