//! Last events of the engine: flushes, compactions, stalls.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use terrace::{CompactionInputs, CompactionReason, Error, Event, EventListener, TableChanges};
use terrace_env::Clock;
use terrace_sync::native_locks::Mutex;

use crate::page::EditLog;

/// Maximum number of kept events.
const MAX_EVENTS: usize = 1000;
/// Maximum number of kept marks of one kind.
const MAX_MARKS: usize = 4096;
/// Time after which a failure of background work is over, if it is not repeated, in milliseconds.
const RETRY_MS: u64 = 10_000;

/// Event with its time.
#[derive(Debug, Clone)]
pub(crate) struct EngineEvent {
    /// Milliseconds since 1970.
    pub(crate) at_ms: u64,
    /// One word, see [`kind`].
    pub(crate) kind: &'static str,
    /// Line of the info log.
    pub(crate) text: String,
}

/// Mark in the history: an event with a duration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mark {
    /// Milliseconds since 1970, at the end of the event.
    pub(crate) at_ms: u64,
    pub(crate) kind: &'static str,
    pub(crate) cause: &'static str,
    pub(crate) time: Duration,
}

/// Present state, as far as events tell it.
#[derive(Debug, Default)]
struct EngineState {
    recent: VecDeque<EngineEvent>,
    /// Number of all events.
    count: u64,
    /// Marks of stalls, flushes, compactions and refused writes.
    marks: [VecDeque<Mark>; 4],
    flushed_bytes: u64,
    /// Nanoseconds for each KiB written; 0 without a delay.
    delay_per_kib: u64,
    /// Time and error of the last failure of background work.
    retry: Option<(u64, Error)>,
    flushes: Vec<RunningFlush>,
    compaction: Option<CompactionInputs>,
}

/// Flush that a job executes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RunningFlush {
    /// File number of its table.
    pub(crate) table: u64,
    /// Milliseconds since 1970.
    pub(crate) started_at: u64,
}

/// Last events of the engine. The engine calls it, so it returns at once.
pub(crate) struct EngineEvents {
    clock: Arc<dyn Clock>,
    state: Mutex<EngineState>,
    /// Last changes of the set of tables.
    pub(crate) edits: Mutex<EditLog>,
    /// Listener of the caller of the server.
    next: Option<Arc<dyn EventListener>>,
}

impl std::fmt::Debug for EngineEvents {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("EngineEvents")
    }
}

impl EngineEvents {
    pub(crate) fn new(clock: Arc<dyn Clock>, next: Option<Arc<dyn EventListener>>) -> EngineEvents {
        EngineEvents { clock, state: Mutex::default(), edits: Mutex::default(), next }
    }

    /// Returns the last `count` events, the oldest one first.
    pub(crate) fn last(&self, count: usize) -> Vec<EngineEvent> {
        let state = self.state.lock();
        state.recent.iter().skip(state.recent.len().saturating_sub(count)).cloned().collect()
    }

    /// Number of all events.
    pub(crate) fn count(&self) -> u64 {
        self.state.lock().count
    }

    /// Returns the number of all events, and those after the first `seen` that are kept.
    pub(crate) fn since(&self, seen: u64) -> (u64, Vec<EngineEvent>) {
        let state = self.state.lock();
        let new = (state.count - seen.min(state.count)) as usize;
        let kept = state.recent.iter().skip(state.recent.len().saturating_sub(new));
        (state.count, kept.cloned().collect())
    }

    /// Returns the marks from the time `at_ms` on, in the order of their times.
    pub(crate) fn marks_since(&self, at_ms: u64) -> Vec<Mark> {
        let state = self.state.lock();
        let mut marks: Vec<Mark> =
            state.marks.iter().flatten().filter(|mark| mark.at_ms >= at_ms).cloned().collect();
        drop(state);
        marks.sort_by_key(|mark| mark.at_ms);
        marks
    }

    /// Running flushes, and the inputs of the running compaction.
    pub(crate) fn running(&self) -> (Vec<RunningFlush>, Option<CompactionInputs>) {
        let state = self.state.lock();
        (state.flushes.clone(), state.compaction.clone())
    }

    /// Bytes of all flushed tables.
    pub(crate) fn flushed_bytes(&self) -> u64 {
        self.state.lock().flushed_bytes
    }

    /// Bytes in a second to which the engine limits writes.
    pub(crate) fn delayed_write_rate(&self) -> Option<f64> {
        let delay = self.state.lock().delay_per_kib;
        (delay > 0).then(|| 1024.0 * 1e9 / delay as f64)
    }

    /// Returns the last failure of background work, unless it was long before `now_ms`.
    pub(crate) fn last_retry(&self, now_ms: u64) -> Option<Error> {
        let state = self.state.lock();
        state.retry.as_ref().filter(|(at, _)| now_ms < at + RETRY_MS).map(|(_, error)| error.clone())
    }

    /// Marks a second in which the database refused writes.
    pub(crate) fn mark_refusal(&self, at_ms: u64, cause: &'static str) {
        let time = Duration::from_secs(1);
        self.state.lock().mark(3, Mark { at_ms, kind: "refused", cause, time });
    }
}

impl EventListener for EngineEvents {
    fn on_event(&self, event: &Event) {
        let at_ms = self.clock.wall_us() / 1000;
        let entry = EngineEvent { at_ms, kind: kind(event), text: event.to_string() };
        let mut state = self.state.lock();
        state.record(event, at_ms);
        if state.recent.len() == MAX_EVENTS {
            state.recent.pop_front();
        }
        state.recent.push_back(entry);
        state.count += 1;
        drop(state);
        if let Some(next) = &self.next {
            next.on_event(event);
        }
    }

    fn on_table_changes(&self, changes: &TableChanges) {
        self.edits.lock().record(changes, self.clock.wall_us() / 1000);
        if let Some(next) = &self.next {
            next.on_table_changes(changes);
        }
    }
}

impl EngineState {
    fn record(&mut self, event: &Event, at_ms: u64) {
        match event {
            Event::FlushBegin { table, .. } => {
                self.flushes.push(RunningFlush { table: *table, started_at: at_ms });
            }
            Event::CompactionBegin(inputs) => self.compaction = Some(inputs.clone()),
            Event::FlushEnd { table, tables, time, .. } => {
                self.flushes.retain(|flush| flush.table != *table);
                self.flushed_bytes += tables.iter().map(|table| table.bytes).sum::<u64>();
                self.mark(1, Mark { at_ms, kind: "flush", cause: "memtable", time: *time });
            }
            Event::CompactionEnd { inputs, time, .. } => {
                self.compaction = None;
                let cause = reason(inputs.reason);
                self.mark(2, Mark { at_ms, kind: "compaction", cause, time: *time });
            }
            Event::WriteStall { cause, time, .. } => {
                self.mark(0, Mark { at_ms, kind: "stall", cause, time: *time });
            }
            Event::WriteDelay { nanos_per_kib, .. } => self.delay_per_kib = *nanos_per_kib,
            Event::BackgroundRetry { error } => {
                self.retry = Some((at_ms, error.clone()));
                self.end_jobs();
            }
            Event::WritesRefused { .. } => self.end_jobs(),
            _ => {}
        }
    }

    /// Forgets the running jobs. One of them has failed, and a retry begins with an event.
    fn end_jobs(&mut self) {
        self.flushes.clear();
        self.compaction = None;
    }

    fn mark(&mut self, slot: usize, mark: Mark) {
        let marks = &mut self.marks[slot];
        if marks.len() == MAX_MARKS {
            marks.pop_front();
        }
        marks.push_back(mark);
    }
}

/// Name of the cause why the database refuses writes.
pub(crate) fn refusal(error: &Error) -> &'static str {
    match error {
        Error::Io(file) if file.is_no_space() => "disk_full",
        error if error.is_retryable() => "no_resources",
        _ => "refused",
    }
}

/// Name of a reason, as in the info log.
pub(crate) fn reason(reason: CompactionReason) -> &'static str {
    match reason {
        CompactionReason::LevelSize => "LevelSize",
        CompactionReason::AddLevel => "AddLevel",
        CompactionReason::SortedRuns => "SortedRuns",
        CompactionReason::ReadTriggered => "ReadTriggered",
        CompactionReason::Tombstones => "Tombstones",
        CompactionReason::Manual(_) => "Manual",
        _ => "Other",
    }
}

/// Word for an event.
fn kind(event: &Event) -> &'static str {
    match event {
        Event::FlushBegin { .. } | Event::FlushEnd { .. } => "flush",
        Event::CompactionBegin(_) | Event::CompactionEnd { .. } => "compaction",
        Event::TablesMoved { .. } => "move",
        Event::TableDeleted { .. } => "delete",
        Event::WriteStall { .. } => "stall",
        Event::WriteDelay { .. } => "delay",
        Event::BackgroundRetry { .. } => "retry",
        Event::WritesRefused { .. } => "refused",
        _ => "other",
    }
}
