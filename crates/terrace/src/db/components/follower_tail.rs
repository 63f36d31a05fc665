//! Files of a database that another process writes, as far as a follower has read them.
//!
//! ```text
//!   MANIFEST  [ edit ][ edit ][ edit ]      version set: tables, and the number of the oldest WAL
//!   000007.log  [ r r r r r ]               one memtable for each WAL from that number on
//!   000009.log  [ r r r |
//!                       ^ last record that was read
//! ```
//!
//! A writer stores a record only after all earlier ones, and it creates a WAL only after all
//! records of the one before. So a record of a later WAL proves that the earlier ones are complete.

use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;

use terrace_env::Env;
use terrace_format::filename::FileName;
use terrace_format::key::{MAX_SEQUENCE_NUMBER, SequenceNumber};
use terrace_sync::mutant;

use super::directory::list_db_files;
use super::wal_tail::{ReadBudget, WalRead, WalTail};
use crate::error::{Error, Result};
use crate::memtable::Memtable;
use crate::sync::{Arc, AtomicU64, Ordering};
use crate::version::{ManifestTail, VersionSet};

/// Part of the maximum age that a read leaves for itself: it returns later than it checks the age.
const READ_TIME_PART: u32 = 16;

/// Times of the catch-ups of a follower, which its readers check.
pub(crate) struct FollowSchedule {
    /// Age of a state from which a read catches up first.
    every: Duration,
    /// Time from which a read catches up first, in nanoseconds of the monotonic clock. Stored with
    /// Release after the read state, and loaded with Acquire before it.
    due_at: AtomicU64,
    /// Time of the last complete catch-up. Relaxed: only the lag shows it.
    caught_up_at: AtomicU64,
    /// Number of bytes that the last catch-up has left. Relaxed: only the lag shows it.
    unread_bytes: AtomicU64,
}

impl FollowSchedule {
    /// Creates the schedule of a follower whose reads show a state of at most the age `max_age`.
    pub(crate) fn new(max_age: Duration) -> FollowSchedule {
        FollowSchedule {
            every: max_age - max_age / READ_TIME_PART,
            due_at: AtomicU64::new(0),
            caught_up_at: AtomicU64::new(0),
            unread_bytes: AtomicU64::new(0),
        }
    }

    /// Returns true if a read that begins at `now` catches up first.
    #[inline]
    pub(crate) fn is_due(&self, now: Duration) -> bool {
        nanos(now) >= self.due_at.load(Ordering::Acquire)
    }

    /// Records a catch-up that began at `began` and left `unread_bytes`.
    pub(crate) fn record(&self, began: Duration, unread_bytes: u64) {
        self.unread_bytes.store(unread_bytes, Ordering::Relaxed);
        if unread_bytes > 0 {
            return self.expire();
        }
        self.caught_up_at.store(nanos(began), Ordering::Relaxed);
        self.due_at.store(nanos(began.saturating_add(self.every)), Ordering::Release);
    }

    /// Makes the next read catch up.
    pub(crate) fn expire(&self) {
        self.due_at.store(0, Ordering::Release);
    }

    /// Returns the age of the state and the number of unread bytes.
    pub(crate) fn lag(&self, now: Duration) -> (Duration, u64) {
        let caught_up_at = Duration::from_nanos(self.caught_up_at.load(Ordering::Relaxed));
        (now.saturating_sub(caught_up_at), self.unread_bytes.load(Ordering::Relaxed))
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Read part of the files.
pub(crate) struct FollowerTail {
    env: Env,
    directory: PathBuf,
    manifest: ManifestTail,
    /// Read parts of the WALs, oldest first.
    wals: Vec<WalTail>,
    /// Last sequence number of the WALs, or None before the first record.
    last: Option<SequenceNumber>,
    /// Log number of the version set when WALs were dropped last.
    dropped_below: u64,
    /// True if there may be WALs that the last list lacks.
    is_list_outdated: bool,
    /// Number of a WAL that the MANIFEST names and that does not exist, although both were checked
    /// twice.
    accepted_missing_wal: Option<u64>,
    /// Error of every catch-up, once the database was replaced.
    pub(crate) replaced: Option<Error>,
}

/// Result of [`FollowerTail::read_wals`].
pub(crate) enum WalsRead {
    /// All whole records were read.
    End,
    /// The budget is spent.
    BudgetSpent,
    /// A WAL with this number does not exist.
    Missing(u64),
    /// A record follows that cannot be the next one.
    Unexpected(Error),
}

/// Amount of records that a catch-up reads.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ReadGoal {
    /// At most this number of operations, except for the last batch.
    Operations(usize),
    /// Each record that existed when the call began.
    All,
}

impl FollowerTail {
    pub(crate) fn new(env: &Env, directory: &Path, manifest: ManifestTail) -> FollowerTail {
        FollowerTail {
            env: env.clone(),
            directory: directory.to_path_buf(),
            manifest,
            wals: Vec::new(),
            last: None,
            dropped_below: 0,
            is_list_outdated: true,
            accepted_missing_wal: None,
            replaced: None,
        }
    }

    pub(crate) fn version_set(&self) -> &VersionSet {
        self.manifest.version_set()
    }

    /// Reads new version edits. Returns true if there are any.
    pub(crate) fn poll_manifest(&mut self) -> Result<bool> {
        let number = self.manifest.number();
        let has_edits = self.manifest.poll()?;
        self.is_list_outdated |= self.manifest.names_may_differ();
        if self.manifest.number() != number && !mutant!(ForeignWalKept) {
            self.check_wals_are_kept()?;
        }
        Ok(has_edits)
    }

    /// Returns an error if another file has the name of a WAL. A replaced database may have given
    /// the same number again, and a new MANIFEST may continue the numbers of the old one.
    fn check_wals_are_kept(&self) -> Result<()> {
        for wal in &self.wals {
            let found = match self.env.fs.identity(wal.path()) {
                Err(error) if error.is_not_found() => continue,
                found => found?,
            };
            if found != wal.identity() {
                let reason = format!("another file has the name {}", FileName::Log(wal.number));
                return Err(Error::Replaced { path: self.directory.clone(), reason });
            }
        }
        Ok(())
    }

    /// Lets the next call of [`FollowerTail::poll_manifest`] read all names again.
    pub(crate) fn distrust_names(&mut self) {
        self.manifest.distrust_names();
        self.is_list_outdated = true;
    }

    /// Ignores that the WAL `number` is missing, as an open does. LevelDB reads such a database.
    pub(crate) fn accept_missing_wal(&mut self, number: u64) {
        self.accepted_missing_wal = Some(number);
    }

    /// Returns the sequence number of the state. All records that existed when the version edits
    /// were read must have been read, too: the last sequence number of a MANIFEST of LevelDB
    /// includes writes that only WALs hold.
    pub(crate) fn sequence(&self) -> SequenceNumber {
        self.version_set().last_sequence.max(self.last.unwrap_or(0))
    }

    /// Returns the memtables, newest first.
    pub(crate) fn memtables(&self) -> impl Iterator<Item = Arc<Memtable>> {
        self.wals.iter().rev().map(|wal| Arc::clone(&wal.memtable))
    }

    /// Returns the number of bytes after the last record that was read. Unused space counts.
    pub(crate) fn unread_bytes(&self) -> Result<u64> {
        self.wals.last().map_or(Ok(0), WalTail::unread_bytes)
    }

    /// Reads the records of the WALs that the version set needs, and drops the other WALs.
    pub(crate) fn read_wals(
        &mut self,
        new_memtable: &dyn Fn() -> Arc<Memtable>,
        goal: ReadGoal,
    ) -> Result<WalsRead> {
        if !mutant!(StaleMemtableKept) {
            self.drop_flushed_wals();
        }
        let reads_all = matches!(goal, ReadGoal::All);
        let mut listed = match reads_all && (self.is_list_outdated || self.wals.is_empty()) {
            true => Some(self.list_wals()?),
            false => None,
        };
        // A record that a write has stored before this call ends before this length.
        let mut newest_len = self.wals.last().map(WalTail::len).transpose()?.unwrap_or(0);
        let mut budget = match goal {
            ReadGoal::Operations(operations) => ReadBudget { operations, goal: 0 },
            ReadGoal::All => ReadBudget { operations: 0, goal: 0 },
        };
        loop {
            let mut end = WalsRead::End;
            let expected = self.expected();
            if let Some(wal) = self.wals.last_mut() {
                let newest = listed.as_ref().and_then(|numbers: &Vec<u64>| numbers.last());
                let is_newest = newest.is_none_or(|newest| wal.number >= *newest);
                if reads_all {
                    budget.goal = if is_newest { newest_len } else { u64::MAX };
                }
                match wal.read(&mut self.last, expected, &mut budget)? {
                    WalRead::BudgetSpent => return Ok(WalsRead::BudgetSpent),
                    WalRead::Unexpected(error) => end = WalsRead::Unexpected(error),
                    WalRead::End => {}
                }
            }
            let numbers = match listed.take() {
                Some(numbers) => numbers,
                None if self.is_list_outdated || self.wals.is_empty() => self.list_wals()?,
                None => return Ok(end),
            };
            if let Some(missing) = self.missing_wal(&numbers) {
                return Ok(WalsRead::Missing(missing));
            }
            match self.find_next_wal(&numbers, new_memtable)? {
                NextWal::None => return Ok(end),
                NextWal::Missing(number) => return Ok(WalsRead::Missing(number)),
                NextWal::ReadCurrentAgain => {}
                NextWal::Found(wal) => {
                    newest_len = wal.len()?;
                    self.wals.push(*wal);
                }
            }
            listed = Some(numbers);
        }
    }

    /// Drops the WALs whose records are all in tables, also a WAL that was read only in part.
    ///
    /// After a failed sync, a new MANIFEST may lack the last flush of the old one. Then all WALs
    /// are read again, because the WAL of that flush was dropped.
    fn drop_flushed_wals(&mut self) {
        let set = self.manifest.version_set();
        let log_number = set.log_number;
        let prev_log_number = set.prev_log_number;
        if log_number < self.dropped_below {
            self.wals.clear();
        }
        self.dropped_below = log_number;
        self.wals.retain(|wal| wal.number >= log_number || wal.number == prev_log_number);
        if self.wals.is_empty() {
            self.last = None;
        }
    }

    /// Returns the range of sequence numbers of the record after a given one, or of the first one.
    fn expected(&self) -> impl Fn(Option<SequenceNumber>) -> RangeInclusive<SequenceNumber> + use<> {
        let has_gaps = !self.manifest.is_written_by_terrace();
        let flushed = self.version_set().last_sequence;
        move |last| match (last, has_gaps) {
            (Some(last), false) => last + 1..=last + 1,
            (Some(last), true) => last + 1..=MAX_SEQUENCE_NUMBER,
            // The tables may contain records of the oldest log already.
            (None, false) => 0..=flushed + 1,
            (None, true) => 0..=MAX_SEQUENCE_NUMBER,
        }
    }

    /// Returns the numbers of the WALs that the version set needs, in ascending order.
    fn list_wals(&mut self) -> Result<Vec<u64>> {
        let set = self.manifest.version_set();
        let files = list_db_files(&self.env, &self.directory, self.manifest.next_file_number())?;
        let logs = files.iter().filter_map(|file| match *file {
            FileName::Log(number) => Some(number),
            _ => None,
        });
        let mut numbers: Vec<u64> =
            logs.filter(|number| *number >= set.log_number || *number == set.prev_log_number).collect();
        numbers.sort_unstable();
        self.is_list_outdated = false;
        Ok(numbers)
    }

    /// Returns the number of the oldest WAL that the version set needs if nothing of it was read
    /// and it is not in `listed`.
    fn missing_wal(&self, listed: &[u64]) -> Option<u64> {
        let number = self.version_set().log_number;
        let is_missing = self.wals.is_empty()
            && number != 0
            && !listed.contains(&number)
            && self.accepted_missing_wal != Some(number);
        is_missing.then_some(number)
    }

    /// Searches the WAL in which the next record is, among those after the current one.
    fn find_next_wal(&self, listed: &[u64], new_memtable: &dyn Fn() -> Arc<Memtable>) -> Result<NextWal> {
        let current = self.wals.last();
        let expected = self.expected()(self.last);
        let mut candidates =
            listed.iter().filter(|number| current.is_none_or(|wal| **number > wal.number)).peekable();
        if candidates.peek().is_none() {
            return Ok(NextWal::None);
        }
        let memtable = new_memtable();
        let mut earlier: Vec<WalTail> = Vec::new();
        for &number in candidates {
            let Some(wal) = WalTail::open(&self.env, &self.directory, number, &memtable)? else {
                return Ok(NextWal::Missing(number));
            };
            if !wal.has_next(&expected)? {
                earlier.push(wal);
                continue;
            }
            // The earlier WALs are complete now, but they were not when they were read.
            if !mutant!(WalLeftTooEarly) {
                if let Some(current) = current
                    && current.has_next(&expected)?
                {
                    return Ok(NextWal::ReadCurrentAgain);
                }
                for complete in earlier {
                    if complete.has_next(&expected)? {
                        return Ok(NextWal::Found(Box::new(complete)));
                    }
                }
            }
            return Ok(NextWal::Found(Box::new(wal)));
        }
        Ok(NextWal::None)
    }
}

/// Result of [`FollowerTail::find_next_wal`].
enum NextWal {
    /// No later WAL begins with the next record.
    None,
    Found(Box<WalTail>),
    /// The next record is in the current WAL after all.
    ReadCurrentAgain,
    /// The WAL with this number is gone.
    Missing(u64),
}
