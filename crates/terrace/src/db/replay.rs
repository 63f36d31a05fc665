//! Replaying logs: from what a crash or a close left to memtables and tables.
//!
//! Two sets of rules (`docs/design/0001-log-replay.md`):
//!
//! - *Terrace's*, for logs beside a manifest that Terrace wrote. Sequence numbers run without a gap through a log and
//!   into the next, so replay ends for good at the first gap, whatever made it: behind it lie writes that came after
//!   lost ones. In a log that was closed a gap is no crash's, and is passed over; so is one between a log that was closed
//!   and the next, which somebody else put there.
//! - *LevelDB's*, for all others: what is damaged is left out.
//!
//! Damage is reported to the info log, or with `paranoid_checks` an error. A record that breaks off with nothing behind
//! it is no damage, but where a process was killed. An error of a read is never taken for the end of a log.

use std::io::{self, Read};
use std::path::Path;

use terrace_env::{Access, Env};
use terrace_format::batch::{self, BatchRef};
use terrace_format::filename::FileName;
use terrace_format::key::{InternalComparator, Sequence};
use terrace_format::log::{self, Item, LogReader};
use terrace_format::{Flaw, FlawKind};
use terrace_sync::mutant;

use super::filling::{self, Filling};
use crate::error::{Error, Result};
use crate::logger::Logger;
use crate::memtable::Memtable;
use crate::stream::{Reading, file_error};
use crate::sync::Arc;

/// What a replay works with.
pub(super) struct Replay<'a> {
    pub(super) env: &'a Env,
    pub(super) directory: &'a Path,
    pub(super) comparator: &'a InternalComparator,
    pub(super) logger: &'a dyn Logger,
    pub(super) paranoid: bool,
    /// Whether Terrace's rules apply.
    pub(super) strict: bool,
    /// The size at which a memtable is handed to `full`, in bytes, about.
    pub(super) memtable_size: usize,
    pub(super) filling: Filling,
    /// The last number in the tables.
    pub(super) last_sequence: Sequence,
    /// Turns a memtable into a table, or keeps it.
    pub(super) full: &'a mut dyn FnMut(Arc<Memtable>) -> Result<()>,
}

/// What came of it.
pub(super) struct Replayed {
    pub(super) last_sequence: Sequence,
    /// The last number before the last log.
    pub(super) before_last_log: Sequence,
    /// The number behind the last record, once there was one.
    next: Option<Sequence>,
    /// True if the last log so far was closed: it ends with a batch without operations.
    pub(super) closed: bool,
    /// The last memtable, which may be empty. While records are on their way to it nobody looks into it.
    pub(super) memtable: Arc<Memtable>,
    /// About what it takes with them, in bytes; 0 if it is empty.
    weight: usize,
    /// No record so far has this number or a greater one.
    unseen: Sequence,
    /// Logs from which whole records were left out, for somebody to look at.
    pub(super) set_aside: Vec<u64>,
    /// The length of the last log, if it was closed or is empty, and its records are all in `memtable`.
    ///
    /// Only then is it known to be durable. A sync of a log that was not closed may have failed, and the system may take
    /// pages that it could not write for written: readers see them, and no later sync makes them last.
    pub(super) resumable: Option<u64>,
}

impl Replayed {
    /// What is wrong with `batch`, at `offset`, if it is not the next. Before the first record of all only a gap is
    /// wrong: the manifest may already tell of numbers that its oldest log holds.
    fn out_of_order(&self, offset: u64, batch: &BatchRef<'_>) -> Option<Flaw> {
        let expected = self.next.unwrap_or(self.last_sequence + 1);
        let found = format!("sequence number {}", batch.sequence());
        let wrong = batch.sequence() > expected || self.is_repeated(batch);
        wrong.then(|| Flaw::new(FlawKind::Order, offset, found, format!("{expected}, the next")))
    }

    /// True if `batch` has numbers that came before.
    fn is_repeated(&self, batch: &BatchRef<'_>) -> bool {
        self.next.is_some_and(|next| batch.sequence() < next)
    }
}

/// Whether a replay goes on behind some log.
enum Next {
    GoOn,
    Stop,
}

impl Replay<'_> {
    /// Replays `logs`, given in their order.
    pub(super) fn run(mut self, logs: &[u64]) -> Result<Replayed> {
        let mut done = Replayed {
            last_sequence: self.last_sequence,
            before_last_log: self.last_sequence,
            next: None,
            closed: false,
            memtable: Memtable::new(self.comparator.clone()),
            weight: 0,
            unseen: 0,
            set_aside: Vec::new(),
            resumable: None,
        };
        let mut stopped = false;
        for &number in logs {
            if mutant!(ReplayContinuesAfterDamagedWal) && std::mem::take(&mut stopped) {
                self.strict = false;
            }
            let path = self.directory.join(FileName::Log(number).to_string());
            if stopped {
                self.leave_out(&path, number, &mut done)?;
                continue;
            }
            stopped = matches!(self.log(&path, number, &mut done)?, Next::Stop);
        }
        self.filling.settle(&done.memtable)?;
        Ok(done)
    }

    fn log(&mut self, path: &Path, number: u64, done: &mut Replayed) -> Result<Next> {
        let mut reader = LogReader::new(Reading(self.env.fs.open_sequential(path)?));
        let mut strict = self.strict;
        // True while the memtable holds what is in this log, no less and no more.
        let mut whole = done.weight == 0;
        let (mut broken_off, mut is_first) = (None, true);
        // Nothing of ours follows a closed log without a manifest that makes it needless: what does follow is none of
        // our logs, and may begin anywhere.
        let mut may_jump = std::mem::take(&mut done.closed);
        done.before_last_log = done.last_sequence;
        while let Some(item) = read(&mut reader, path)? {
            if std::mem::take(&mut is_first) {
                self.logger.log(format_args!("Recovering log #{number}"));
            }
            let (offset, data) = match item {
                Item::Record { offset, data } => (offset, data),
                Item::Damage { flaw, .. } => {
                    (whole, done.closed) = (false, false);
                    match flaw.kind {
                        FlawKind::Truncated if strict => broken_off = Some(flaw),
                        _ => self.report(path, &flaw)?,
                    }
                    continue;
                }
            };
            broken_off.take().map_or(Ok(()), |flaw| self.report(path, &flaw))?;
            let batch = match batch::check(data) {
                Ok(batch) => batch,
                Err(flaw) => {
                    whole = false;
                    self.report(path, &flaw.moved(offset))?;
                    continue;
                }
            };
            done.closed = batch.is_empty();
            let jumps = std::mem::take(&mut may_jump);
            if let Some(flaw) = done
                .out_of_order(offset, &batch)
                .filter(|_| strict && !mutant!(ReplayContinuesAfterLostRecord))
            {
                whole = false;
                self.report(path, &flaw)?;
                if done.is_repeated(&batch) {
                    continue;
                }
                if !jumps && !self.was_closed(path)? {
                    return self.stop(reader, path, number, done);
                }
                strict = jumps;
            }
            whole &= !self.apply(&batch, done)?;
        }
        let (tail, length) = (reader.tail(), reader.bytes_read());
        // Not with room behind the end, or a torn record.
        let closed = done.closed && length == tail.end;
        if self.strict && !closed && length > 0 && self.ends_with_mark(path)? {
            // A length that rotted makes a record seem to break off, and takes all behind it along.
            let found = "a record that breaks off in a log that was closed";
            self.report(path, &Flaw::new(FlawKind::Truncated, tail.end, found, "whole records"))?;
        }
        if !tail.clean {
            self.logger
                .log(format_args!("Log #{number} ends in the middle of a record, behind {} bytes", tail.end));
        }
        done.resumable = (whole && (closed || length == 0)).then_some(tail.end);
        if mutant!(TornWalReused) {
            done.resumable = whole.then_some(length);
        }
        Ok(Next::GoOn)
    }

    /// Sends a batch on its way into the memtable. True if that was full then, and handed over.
    fn apply(&mut self, batch: &BatchRef<'_>, done: &mut Replayed) -> Result<bool> {
        let (first, count) = (batch.sequence(), batch.len() as u64);
        if first >= done.unseen {
            self.filling.add(&done.memtable, batch);
        } else {
            // Of a write that comes twice the later counts.
            self.filling.settle(&done.memtable)?;
            filling::insert(&done.memtable, batch);
        }
        done.unseen = done.unseen.max(first + count);
        done.next = Some(first + count);
        done.last_sequence = done.last_sequence.max((first + count).saturating_sub(1));
        done.weight += if count > 0 { filling::weight(batch) } else { 0 };
        let full = done.weight > self.memtable_size;
        if full {
            self.filling.settle(&done.memtable)?;
            done.weight = 0;
            let next = Memtable::new(self.comparator.clone());
            (self.full)(std::mem::replace(&mut done.memtable, next))?;
        }
        Ok(full)
    }

    fn report(&self, path: &Path, flaw: &Flaw) -> Result<()> {
        let error = Error::flaw(path, flaw);
        if self.paranoid {
            return Err(error);
        }
        self.logger.log(format_args!("Ignoring {error}"));
        Ok(())
    }

    /// Ends the replay at a record that follows lost ones.
    fn stop(
        &self,
        mut reader: LogReader<Reading>,
        path: &Path,
        number: u64,
        done: &mut Replayed,
    ) -> Result<Next> {
        let records = 1 + count_records(&mut reader, path)?;
        self.logger.log(format_args!(
            "Leaving out the last {records} records of log #{number}: they follow lost ones"
        ));
        done.set_aside.push(number);
        done.resumable = None;
        Ok(Next::Stop)
    }

    fn leave_out(&self, path: &Path, number: u64, done: &mut Replayed) -> Result<()> {
        let mut reader = LogReader::new(Reading(self.env.fs.open_sequential(path)?));
        let records = count_records(&mut reader, path)?;
        self.logger.log(format_args!("Leaving out log #{number}: its {records} records follow lost ones"));
        if records > 0 {
            done.set_aside.push(number);
        }
        Ok(())
    }

    /// True if the log was closed: its last record is the mark.
    fn was_closed(&self, path: &Path) -> Result<bool> {
        if self.ends_with_mark(path)? {
            return Ok(true);
        }
        // There may be room behind it still.
        let reader = LogReader::new(Reading(self.env.fs.open_sequential(path)?));
        last_is_mark(reader).map_err(|error| file_error(path, error))
    }

    /// True if the last bytes of the log are the mark of a log that was closed, whatever stands before them.
    fn ends_with_mark(&self, path: &Path) -> Result<bool> {
        let file = self.env.fs.open_random(path, Access::Read)?;
        let Some(start) = file.len().checked_sub(MARK as u64) else { return Ok(false) };
        let mut end = [0; MARK];
        let read = file.read_at(start, &mut end)?;
        last_is_mark(LogReader::new(&end[..read])).map_err(|error| file_error(path, error))
    }
}

/// The bytes of the mark: one fragment that holds a batch without operations.
pub(super) const MARK: usize = log::HEADER_SIZE + batch::HEADER_SIZE;

fn last_is_mark(mut reader: LogReader<impl Read>) -> io::Result<bool> {
    let mut mark = false;
    while let Some(item) = reader.next()? {
        mark = match item {
            Item::Record { data, .. } => batch::check(data).is_ok_and(|batch| batch.is_empty()),
            Item::Damage { .. } => false,
        };
    }
    Ok(mark)
}

fn read<'a>(reader: &'a mut LogReader<Reading>, path: &Path) -> Result<Option<Item<'a>>> {
    match reader.next() {
        Err(_) if mutant!(ReadErrorTreatedAsEof) => Ok(None),
        next => next.map_err(|error| file_error(path, error)),
    }
}

fn count_records(reader: &mut LogReader<Reading>, path: &Path) -> Result<usize> {
    let mut records = 0;
    while let Some(item) = reader.next().map_err(|error| file_error(path, error))? {
        records += usize::from(matches!(item, Item::Record { .. }));
    }
    Ok(records)
}

#[cfg(test)]
mod tests;
