//! The writes of a turn, their faults, and the end of the process.

use std::fmt;

use terrace_testkit::rng::Rng;

use super::engine::{Engine, EngineSettings};
use super::engine_process::{Answer, EngineProcess};
use super::log_scan::newest_log_size;
use super::{AlternateCase, Storage};
use crate::counters::Counter;

/// Maximum number of writes of a turn.
const MAX_WRITES: u64 = 40;

/// Maximum number of writes that are sent before a kill.
const MAX_PIPELINED_WRITES: u64 = 30;

/// Maximum time between the last command and a kill, in microseconds.
const MAX_KILL_DELAY_US: u64 = 3_000;

/// Size in bytes from which on Terrace appends a record to a mapped log.
const MIN_LARGE_WRITE: usize = 64 << 10;

/// A turn in progress or a past one.
#[derive(Debug)]
pub(super) struct Turn {
    pub(super) settings: EngineSettings,
    /// True if the logs were damaged before the turn, or ended in a partial record.
    pub(super) is_log_damaged: bool,
    /// Index of the first batch that failed.
    pub(super) first_failed_batch: Option<usize>,
    /// Largest of the writes during which the process was killed, in bytes.
    killed_write: Option<usize>,
    /// Events, for messages.
    pub(super) events: Vec<String>,
}

impl Turn {
    pub(super) fn new(settings: EngineSettings, is_log_damaged: bool) -> Turn {
        Turn { settings, is_log_damaged, first_failed_batch: None, killed_write: None, events: Vec::new() }
    }

    /// Returns true if the turn may leave an incomplete record that hides the records after it.
    /// Terrace leaves one only if a kill interrupts a system call that appends: each one of an
    /// appended log, and that of a large record of a mapped log.
    pub(super) fn may_tear_log(&self) -> bool {
        let appended_from = if self.settings.appends_logs() { 0 } else { MIN_LARGE_WRITE };
        self.settings.engine != Engine::Terrace
            || self.killed_write.is_some_and(|bytes| bytes >= appended_from)
    }
}

impl fmt::Display for Turn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let damaged = if self.is_log_damaged { ", log damaged before" } else { "" };
        write!(f, "{}{damaged}: {}", self.settings, self.events.join(", "))
    }
}

/// Fault during some writes of a turn.
#[derive(Debug, Clone, Copy)]
pub(super) enum Fault {
    /// No file may grow beyond the size of the log and this number of bytes.
    FileSize(u64),
    /// The disk has this number of free bytes.
    FullDisk(u64),
}

/// Writes of a turn that the fault affects.
struct FaultPlan {
    fault: Fault,
    first: u64,
    /// First write after the fault, or None if it lasts to the end of the process.
    end: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TurnEnd {
    Close,
    Kill,
    KillDuringWrites,
}

impl FaultPlan {
    fn draw(rng: &mut Rng, has_many: bool, has_small_disk: bool, writes: u64) -> Option<FaultPlan> {
        // Two of three turns have a fault, or one.
        if rng.one_in(3) == has_many {
            return None;
        }
        let free = if rng.one_in(4) { 0 } else { rng.skewed(1 << 15) };
        let fault = match has_small_disk && rng.one_in(2) {
            true => Fault::FullDisk(free),
            false => Fault::FileSize(free),
        };
        let first = rng.below(writes);
        let end = (!rng.one_in(4)).then(|| first + 1 + rng.below(3));
        Some(FaultPlan { fault, first, end })
    }
}

impl AlternateCase<'_> {
    fn turn(&mut self) -> &mut Turn {
        let last = self.turns.len() - 1;
        &mut self.turns[last]
    }

    fn add_event(&mut self, event: impl Into<String>) {
        self.turn().events.push(event.into());
    }

    /// Writes batches and ends the process.
    pub(super) fn write_and_end(&mut self, mut process: EngineProcess) -> Result<(), String> {
        let first = self.history.batches.len();
        let writes = 1 + self.rng.below(MAX_WRITES);
        let has_small_disk = matches!(self.storage, Storage::SmallDisk(_));
        let plan = FaultPlan::draw(&mut self.rng, self.has_many_faults, has_small_disk, writes);
        for write in 0..writes {
            if let Some(plan) = plan.as_ref().filter(|plan| plan.first == write) {
                self.begin_fault(&process, plan.fault)?;
            }
            if plan.as_ref().is_some_and(|plan| plan.end == Some(write)) {
                self.end_fault(&process)?;
            }
            if !self.write_one(&mut process, plan.as_ref().is_some_and(|plan| write >= plan.first))? {
                return Ok(());
            }
        }
        let last = self.history.batches.len();
        self.add_event(format!("batches {first} to {last}"));
        if plan.is_none() && self.rng.one_in(4) {
            let found = process.read_all().map_err(|answer| format!("a read failed: {answer:?}"))?;
            self.history.check_in_use(&found)?;
        }
        self.end_process(process, plan.is_some())
    }

    /// Makes later writes fail.
    fn begin_fault(&mut self, process: &EngineProcess, fault: Fault) -> Result<(), String> {
        self.add_event(format!("{fault:?} from batch {}", self.history.batches.len()));
        match (fault, &self.storage) {
            (Fault::FileSize(free), _) => {
                process.limit_file_size(Some(newest_log_size(&self.database_path()) + free))
            }
            (Fault::FullDisk(free), Storage::SmallDisk(disk)) => disk.fill(free),
            (Fault::FullDisk(_), Storage::Directory(_)) => Ok(()),
        }
    }

    fn end_fault(&mut self, process: &EngineProcess) -> Result<(), String> {
        self.add_event(format!("until batch {}", self.history.batches.len()));
        if let Storage::SmallDisk(disk) = &self.storage {
            disk.free_space();
        }
        process.limit_file_size(None)
    }

    /// Writes one batch, and sometimes compacts. Returns false if the process has to be killed.
    fn write_one(&mut self, process: &mut EngineProcess, may_fail: bool) -> Result<bool, String> {
        if self.rng.one_in(60) && !may_fail {
            self.add_event("compact");
            if process.call("compact") != Answer::Ok {
                return Err("a compaction failed".into());
            }
        }
        let index = self.draw_batch();
        match process.call(&self.history.batches[index].command()) {
            Answer::Ok => self.acknowledge(index),
            Answer::Error(_) if may_fail => {
                let first_failed = &mut self.turn().first_failed_batch;
                first_failed.get_or_insert(index);
                self.counters.add(Counter::ErrorsInjected, 1);
            }
            Answer::Timeout if may_fail => {
                self.add_event(format!("killed, because batch {index} waits"));
                self.note_killed_write(index);
                return Ok(false);
            }
            answer => return Err(format!("{}: {answer:?}", self.history.describe_batch(index))),
        }
        Ok(true)
    }

    fn note_killed_write(&mut self, index: usize) {
        let bytes = self.history.batches[index].size();
        let largest = &mut self.turn().killed_write;
        *largest = (*largest).max(Some(bytes));
    }

    fn draw_batch(&mut self) -> usize {
        let turn = self.turns.len() - 1;
        let engine = self.turns[turn].settings.engine;
        self.history.draw_batch(&mut self.rng, turn, engine)
    }

    fn acknowledge(&mut self, index: usize) {
        self.history.acknowledge(index);
        self.counters.add(Counter::AcknowledgedWrites, 1);
    }

    fn end_process(&mut self, mut process: EngineProcess, may_fail: bool) -> Result<(), String> {
        let end = self.rng.pick(&[TurnEnd::Close, TurnEnd::Kill, TurnEnd::KillDuringWrites]);
        self.add_event(format!("{end:?}"));
        match end {
            TurnEnd::Close => match process.call("close") {
                Answer::Ok => process.wait(),
                Answer::Error(_) | Answer::Timeout if may_fail => {}
                answer => return Err(format!("the close failed: {answer:?}")),
            },
            TurnEnd::Kill => drop(process),
            TurnEnd::KillDuringWrites => {
                self.kill_during_writes(process, may_fail)?;
            }
        }
        if end != TurnEnd::Close {
            self.counters.add(Counter::ProcessKills, 1);
        }
        Ok(())
    }

    fn kill_during_writes(&mut self, mut process: EngineProcess, may_fail: bool) -> Result<(), String> {
        let first = self.history.batches.len();
        for _ in 0..1 + self.rng.below(MAX_PIPELINED_WRITES) {
            let index = self.draw_batch();
            self.note_killed_write(index);
            process.send(&self.history.batches[index].command());
        }
        let delay = self.rng.skewed(MAX_KILL_DELAY_US);
        std::thread::sleep(std::time::Duration::from_micros(delay));
        for (index, answer) in (first..).zip(process.kill()) {
            match answer {
                Answer::Ok => self.acknowledge(index),
                Answer::Error(_) if may_fail => {
                    self.turn().first_failed_batch.get_or_insert(index);
                }
                answer => return Err(format!("{}: {answer:?}", self.history.describe_batch(index))),
            }
        }
        let last = self.history.batches.len();
        self.add_event(format!("batches {first} to {last}"));
        Ok(())
    }
}
