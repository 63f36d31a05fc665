//! Writes in groups, while several threads write to an appended log.

use terrace_format::key::SequenceNumber;

use super::WalWriter;
use crate::db::components::write_queue::{GroupCommit, GroupRecords, QueuedWrite};
use crate::db::inner::DbInner;
use crate::error::{Error, Result};
use crate::sync::{MutexGuard, spin_then_yield};

/// Number of pauses of a waiting writer before it yields its core: about ten microseconds, several
/// times the time of a group. A yield and the switch to another thread take longer than the append
/// that it waits for. After these pauses, the scheduler has probably interrupted the leader.
const WAIT_SPINS: u32 = if cfg!(feature = "loom") { 1 } else { 400 };

/// Number of pauses before a writer sleeps. To be woken costs more than several appends.
const WAIT_ATTEMPTS: u32 = if cfg!(feature = "loom") { 1 } else { WAIT_SPINS + 16 };

impl DbInner {
    /// Returns true if the next write should go to the queue, because other threads write too. Loom
    /// models of groups use it from the first write on.
    #[inline]
    pub(super) fn should_queue(&self) -> bool {
        self.write_queue.is_enabled && (cfg!(feature = "loom") || self.write_contention.is_contended())
    }

    /// Locks `commit`. Notes the contention if another thread holds it and groups would help.
    #[inline]
    pub(super) fn lock_commit(&self) -> MutexGuard<'_, Option<WalWriter>> {
        if self.write_queue.is_enabled {
            if let Some(commit) = self.commit.try_lock() {
                return commit;
            }
            self.write_contention.record_contention();
        }
        self.commit.lock()
    }

    /// Locks `commit` if the thread that holds it releases it within some microseconds.
    pub(super) fn try_lock_commit(&self) -> Option<MutexGuard<'_, Option<WalWriter>>> {
        let mut attempts = 0;
        while attempts < WAIT_SPINS {
            if let Some(commit) = self.commit.try_lock() {
                return Some(commit);
            }
            spin_then_yield(&mut attempts, WAIT_SPINS);
        }
        self.write_contention.record_contention();
        None
    }

    /// Waits until a thread has executed the group of `queued`. It may be this thread. Returns the
    /// first sequence number of this write, and the number of the group for the sync.
    pub(super) fn commit_queued(&self, queued: &QueuedWrite) -> Result<(SequenceNumber, u64)> {
        let mut attempts = 0;
        let mut leader_turn = 0;
        let group = loop {
            if let Some(outcome) = queued.group.outcome() {
                break outcome.clone()?;
            }
            let has_waited = attempts > 0;
            let commit = if attempts >= WAIT_ATTEMPTS {
                Some(self.commit.lock())
            } else if self.write_queue.should_lead(&mut leader_turn) {
                self.commit.try_lock()
            } else {
                None
            };
            match commit {
                Some(commit) => self.commit_next_group(commit, queued, has_waited)?,
                None => spin_then_yield(&mut attempts, WAIT_SPINS),
            }
        };
        Ok((group.first_sequence + queued.operations_before, group.write))
    }

    /// Executes the group of `queued`, unless another thread has done that.
    fn commit_next_group(
        &self,
        mut commit: MutexGuard<'_, Option<WalWriter>>,
        queued: &QueuedWrite,
        has_waited: bool,
    ) -> Result<()> {
        if queued.group.outcome().is_some() {
            return Ok(());
        }
        self.write_queue.begin_lead();
        // It may release the lock, so another thread may take the group meanwhile.
        let has_room = self.make_room_for_write(&mut commit);
        let records = if queued.group.outcome().is_some() {
            None
        } else {
            self.write_queue.gather(has_waited);
            self.write_queue.take(&queued.group)
        };
        let Some(mut records) = records else {
            self.write_queue.end_lead();
            let is_executed = queued.group.outcome().is_some();
            // Otherwise the thread that has taken the group panicked.
            return if is_executed { Ok(()) } else { Err(self.commit_poisoned()) };
        };
        if records.len() > 1 {
            self.write_contention.record_contention();
        } else {
            self.write_contention.try_exclusive();
        }
        let outcome = has_room.and_then(|()| {
            let writer = commit.as_mut().ok_or_else(|| self.closed_error())?;
            self.execute_group(writer, &mut records)
        });
        self.write_queue.end_lead();
        queued.group.set_outcome(outcome);
        drop(commit);
        self.write_queue.recycle(records);
        Ok(())
    }

    fn execute_group(&self, writer: &mut WalWriter, records: &mut GroupRecords) -> Result<GroupCommit> {
        if !writer.memtable.try_reserve(records.user_bytes) {
            return Err(Error::out_of_memory(&self.directory, records.user_bytes));
        }
        let first = writer.last_sequence + 1;
        let sequences = first..=writer.last_sequence + records.operations;
        self.append_to_wal(writer, &sequences, |writer| writer.append_records(records.number_from(first)))?;
        writer.user_bytes += records.user_bytes as u64;
        if !writer.watches.is_empty() {
            writer.watches.note_written(records.iter().map(|(key, _)| key));
        }
        let write = self.wal_sync.last_write();
        if self.read_state.publisher().is_next(first) {
            self.insert_exclusive(&writer.memtable, &sequences, records.iter());
        } else {
            self.insert_concurrent(&writer.memtable, &sequences, records.iter())?;
        }
        Ok(GroupCommit { first_sequence: first, write })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use terrace_env::fault::{FaultFs, FaultPlan, FileOp};
    use terrace_env::mem::{Crash, MemFs};
    use terrace_env::{FileSystem, MappedLogs};

    use crate::{Db, Env, Error, Options, Result, WriteBatch, WriteOptions};

    fn open(fs: Arc<dyn FileSystem>, paranoid_checks: bool) -> Db {
        let env = Env { fs, ..Env::in_memory() };
        let mut options =
            Options::default().create_if_missing(true).env(env).paranoid_checks(paranoid_checks);
        options.mapped_logs = MappedLogs::Never;
        Db::open("db", &options).unwrap()
    }

    const PANIC_OF_WRITER: &str = "the writer panicked";

    /// Starts a thread for each writer, so that all are in one group. Returns their results. The
    /// panic of a writer is an error with the text `PANIC_OF_WRITER`.
    fn write_together(db: &Db, writers: &[(&str, &WriteOptions)]) -> Vec<Result<()>> {
        let commit = db.inner().commit.lock();
        db.inner().write_contention.record_contention();
        std::thread::scope(|scope| {
            let threads: Vec<_> = writers
                .iter()
                .map(|(name, options)| {
                    scope.spawn(move || {
                        let mut batch = WriteBatch::new();
                        batch.put(name, b"1").put(format!("{name}, again"), b"2").delete(name);
                        db.write_with(&batch, options)
                    })
                })
                .collect();
            while db.inner().write_queue.len() < writers.len() {
                std::thread::yield_now();
            }
            drop(commit);
            let results = threads.into_iter().map(|thread| {
                thread.join().unwrap_or_else(|_| Err(Error::InvalidArgument(PANIC_OF_WRITER.into())))
            });
            results.collect()
        })
    }

    #[track_caller]
    fn check(db: &Db, present: &[&str], absent: &[&str]) {
        for name in [present, absent].concat() {
            assert_eq!(db.get(name).unwrap(), None, "{name}");
            let expected = present.contains(&name).then(|| b"2".to_vec());
            assert_eq!(db.get(format!("{name}, again")).unwrap(), expected, "{name}");
        }
    }

    /// One append for all writers. An error reaches all of them, and takes no sequence number: a
    /// gap would be an error at the next open.
    #[test]
    fn group_shares_its_append_and_its_error() {
        let memory = Arc::new(MemFs::new());
        let faults = Arc::new(FaultFs::new(Arc::clone(&memory) as _, FaultPlan::default()));
        let db = open(Arc::clone(&faults) as _, false);
        let sync = WriteOptions::default().sync(true);
        let plain = WriteOptions::default();

        let appends = faults.call_count(FileOp::WriteAt);
        let results = write_together(&db, &[("a", &plain), ("b", &sync), ("c", &plain)]);
        assert!(results.iter().all(Result::is_ok), "{results:?}");
        assert_eq!(faults.call_count(FileOp::WriteAt) - appends, 1);
        check(&db, &["a", "b", "c"], &[]);

        faults.set_plan("write-at * #1 once ENOSPC".parse().unwrap());
        let results = write_together(&db, &[("d", &plain), ("e", &sync)]);
        assert!(results.iter().all(|result| result.as_ref().unwrap_err().is_retryable()), "{results:?}");
        check(&db, &["a", "b", "c"], &["d", "e"]);
        assert!(write_together(&db, &[("f", &plain)]).iter().all(Result::is_ok));

        check(&open(Arc::new(memory.crash_clone(&Crash::Kill)), true), &["a", "b", "c", "f"], &["d", "e"]);
        check(&db, &["a", "b", "c", "f"], &["d", "e"]);
    }

    /// The leader panics in its append. The other writers of its group do not wait for ever, and
    /// none of them succeeds.
    #[test]
    fn panic_of_the_leader_fails_its_group() {
        let memory = Arc::new(MemFs::new());
        let faults = Arc::new(FaultFs::new(Arc::clone(&memory) as _, FaultPlan::default()));
        let db = open(Arc::clone(&faults) as _, false);
        db.put(b"before", b"1").unwrap();
        faults.set_plan("write-at .log #1 once panic".parse().unwrap());
        let plain = WriteOptions::default();
        let results = write_together(&db, &[("a", &plain), ("b", &plain), ("c", &plain)]);
        let errors: Vec<_> = results.into_iter().map(|result| result.unwrap_err().to_string()).collect();
        let panics = errors.iter().filter(|error| error.contains(PANIC_OF_WRITER)).count();
        assert_eq!(panics, 1, "{errors:?}");
        assert!(db.put(b"later", b"1").is_err());
        assert!(db.get(b"before").unwrap().is_some());
        drop(db);
        let db = open(memory, true);
        assert!(db.get(b"before").unwrap().is_some());
        check(&db, &[], &["a", "b", "c"]);
    }

    #[test]
    fn group_fails_after_close() {
        let db = open(Arc::new(MemFs::new()), false);
        let commit = db.inner().commit.lock();
        db.inner().write_contention.record_contention();
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| db.put(b"a", b"1"));
            while db.inner().write_queue.len() < 1 {
                std::thread::yield_now();
            }
            let mut commit = commit;
            let log = commit.take();
            drop(commit);
            assert!(writer.join().unwrap().is_err());
            *db.inner().commit.lock() = log;
        });
        assert_eq!(db.get(b"a").unwrap(), None);
    }
}
