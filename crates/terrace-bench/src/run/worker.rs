//! One thread of a phase: does its operations, checks what it reads, takes the time of each.
//!
//! All of that counts as the engine's time, so it must be little: what runs for each operation is inlined into the
//! loop, allocates nothing and asks the system nothing.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use super::clock::Clock;
use super::histogram::Histogram;
use super::windows::ThroughputWindows;
use crate::engine::{Change, Cursor, Result, Store};
use crate::workload::keys::{self, ValueGenerator};
use crate::workload::ops::{Op, Ops};
use crate::workload::phase_spec::{Kind, Order, PhaseSpec};

/// What the threads of a phase share.
pub(super) struct PhaseShared<'a> {
    pub(super) phase: &'a PhaseSpec,
    pub(super) clock: Clock,
    /// Operations done, now and then brought up to date.
    pub(super) done: &'a AtomicU64,
    /// Set by the thread that fails: the others need not go on.
    pub(super) stop: AtomicBool,
    /// Operations of each thread in a second, at most; 0 for as many as it can.
    pub(super) max_ops_per_second: u64,
}

/// In so many portions a thread does the operations of a second that it may do.
const THROTTLE_STEPS_PER_SECOND: u64 = 100;

/// What came of a thread's operations.
#[derive(Clone, Debug, Default)]
pub(super) struct WorkerStats {
    pub(super) latencies: Histogram,
    pub(super) windows: ThroughputWindows,
    pub(super) ops: u64,
    /// As many of them as [`Shared::subcompaction_done`] knows of.
    reported_ops: u64,
    pub(super) bytes: u64,
    pub(super) bytes_put: u64,
    pub(super) keys_found: u64,
    pub(super) values_checked: u64,
    /// When the last operation ended, in nanoseconds after the start.
    pub(super) last_end_ns: u64,
}

impl WorkerStats {
    pub(super) fn merge(&mut self, other: &WorkerStats) {
        self.latencies.merge(&other.latencies);
        self.windows.merge(&other.windows);
        self.ops += other.ops;
        self.bytes += other.bytes;
        self.bytes_put += other.bytes_put;
        self.keys_found += other.keys_found;
        self.values_checked += other.values_checked;
        self.last_end_ns = self.last_end_ns.max(other.last_end_ns);
    }

    /// `ops` operations have ended, the first of which began when the ones before ended.
    #[inline(always)]
    pub(super) fn record_end(&mut self, shared: &PhaseShared<'_>, ops: u64) {
        // Processors differ by some ticks, and a thread may have changed its own.
        let now = shared.clock.ns().max(self.last_end_ns);
        self.latencies.record(now - self.last_end_ns, ops);
        self.windows.record(now, ops);
        self.last_end_ns = now;
        self.ops += ops;
        if self.ops - self.reported_ops >= OPS_PER_REPORT {
            shared.done.fetch_add(self.ops - self.reported_ops, Ordering::Relaxed);
            self.reported_ops = self.ops;
        }
    }
}

/// Operations between two updates of [`Shared::subcompaction_done`].
const OPS_PER_REPORT: u64 = 64;

/// What a thread reads is checked here, and counted with the rest.
struct ValueChecker<'a> {
    phase: &'a PhaseSpec,
    values: ValueGenerator,
    stats: WorkerStats,
}

impl ValueChecker<'_> {
    /// Compares what was read at key `n` with what must be there.
    #[inline(always)]
    fn check(&mut self, n: u64, value: &[u8]) -> Result<()> {
        self.stats.bytes += (self.phase.key_size + value.len()) as u64;
        if !self.phase.verify {
            return Ok(());
        }
        self.stats.values_checked += 1;
        if self.values.matches(n, value) { Ok(()) } else { Err(self.wrong_value(n, value)) }
    }

    #[cold]
    fn wrong_value(&self, n: u64, value: &[u8]) -> String {
        let mut expected = Vec::new();
        self.values.write(n, &mut expected);
        format!("wrong value at key {n}: found {}, expected {}", preview(value), preview(&expected))
    }

    /// Checks the entry that `cursor` is at, and returns its key's number.
    #[inline(always)]
    fn check_entry(&mut self, cursor: &dyn Cursor) -> Result<u64> {
        let (key, value) = cursor.entry();
        let n = keys::parse_key(key).filter(|_| key.len() == self.phase.key_size);
        let n = n.ok_or_else(|| format!("wrong key: found {}, which nobody put", preview(key)))?;
        self.check(n, value)?;
        Ok(n)
    }
}

/// A thread at work.
pub(super) struct Worker<'a> {
    shared: &'a PhaseShared<'a>,
    store: &'a dyn Store,
    checker: ValueChecker<'a>,
    key: Vec<u8>,
    /// A value to put.
    value: Vec<u8>,
    /// A value that was read.
    read_buffer: Vec<u8>,
    /// The time after which the phase ends, done or not.
    time_limit_ns: u64,
    /// Writes since the one that was durable, where some are.
    writes_since_sync: u64,
}

impl<'a> Worker<'a> {
    pub(super) fn new(shared: &'a PhaseShared<'a>, store: &'a dyn Store) -> Worker<'a> {
        let phase = shared.phase;
        let limit = if phase.duration_limit_s == 0 { u64::MAX } else { phase.duration_limit_s };
        let values = ValueGenerator::new(phase.value_size, phase.value_compress);
        let tally = WorkerStats { last_end_ns: shared.clock.ns(), ..WorkerStats::default() };
        Worker {
            shared,
            store,
            checker: ValueChecker { phase, values, stats: tally },
            key: vec![0; phase.key_size],
            value: Vec::new(),
            read_buffer: Vec::new(),
            time_limit_ns: limit.saturating_mul(1_000_000_000),
            writes_since_sync: 0,
        }
    }

    /// Does `ops`, or as many as the phase's time allows.
    pub(super) fn run(mut self, ops: Ops<'_>) -> Result<WorkerStats> {
        let phase = self.shared.phase;
        let done = match phase.kind {
            Kind::Scan => self.scan(ops),
            Kind::Put | Kind::Delete if phase.batch > 1 => self.write_batches(ops),
            _ => self.run_each(ops),
        };
        if done.is_err() {
            self.shared.stop.store(true, Ordering::Relaxed);
        }
        done.map(|()| self.checker.stats)
    }

    fn run_each(&mut self, ops: Ops<'_>) -> Result<()> {
        for op in ops {
            self.execute(op)?;
            if self.finish_ops(1) {
                break;
            }
            if self.shared.max_ops_per_second > 0 {
                self.throttle();
            }
        }
        Ok(())
    }

    /// Waits after each portion until the next is due.
    #[inline(always)]
    fn throttle(&self) {
        let rate = self.shared.max_ops_per_second;
        let tally = &self.checker.stats;
        if tally.ops.is_multiple_of((rate / THROTTLE_STEPS_PER_SECOND).max(1)) {
            let due = u128::from(tally.ops) * 1_000_000_000 / u128::from(rate);
            thread::sleep(Duration::from_nanos((due as u64).saturating_sub(tally.last_end_ns)));
        }
    }

    /// `ops` operations have ended; whether the phase has.
    #[inline(always)]
    fn finish_ops(&mut self, ops: u64) -> bool {
        self.checker.stats.record_end(self.shared, ops);
        self.checker.stats.last_end_ns >= self.time_limit_ns || self.shared.stop.load(Ordering::Relaxed)
    }

    #[inline(always)]
    fn execute(&mut self, op: Op) -> Result<()> {
        match op {
            Op::Put(n) => self.put(n),
            Op::Delete(n) => {
                keys::write_key(n, &mut self.key);
                self.count_put(self.key.len());
                let sync = self.next_write_syncs();
                self.store.delete(&self.key, sync)
            }
            Op::Get(n) => self.get(n),
            Op::GetMissing(n) => self.get_missing(n),
            Op::ReadModifyWrite(n) => {
                self.get(n)?;
                self.put(n)
            }
            Op::Seek(n, steps) => self.seek(n, steps),
            Op::Compact => self.store.compact(),
            // Walks are whole, and opening needs the store to itself: neither comes here.
            Op::NextEntry | Op::Open => Ok(()),
        }
    }

    #[inline(always)]
    fn put(&mut self, n: u64) -> Result<()> {
        keys::write_key(n, &mut self.key);
        self.checker.values.write(n, &mut self.value);
        self.count_put(self.key.len() + self.value.len());
        let sync = self.next_write_syncs();
        self.store.put(&self.key, &self.value, sync)
    }

    /// Whether the write that comes now is durable.
    #[inline(always)]
    fn next_write_syncs(&mut self) -> bool {
        let phase = self.shared.phase;
        self.writes_since_sync += 1;
        let last = self.writes_since_sync == phase.sync_every;
        if last {
            self.writes_since_sync = 0;
        }
        last || phase.sync
    }

    #[inline(always)]
    fn count_put(&mut self, bytes: usize) {
        self.checker.stats.bytes += bytes as u64;
        self.checker.stats.bytes_put += bytes as u64;
    }

    #[inline(always)]
    fn get(&mut self, n: u64) -> Result<()> {
        keys::write_key(n, &mut self.key);
        if self.store.get(&self.key, &mut self.read_buffer)? {
            self.checker.stats.keys_found += 1;
            self.checker.check(n, &self.read_buffer)?;
        }
        Ok(())
    }

    fn get_missing(&mut self, n: u64) -> Result<()> {
        keys::write_key(n, &mut self.key);
        keys::make_missing(&mut self.key);
        if self.store.get(&self.key, &mut self.read_buffer)? {
            return Err(format!("wrong answer: found {}, which nobody put", preview(&self.key)));
        }
        Ok(())
    }

    fn seek(&mut self, n: u64, steps: u64) -> Result<()> {
        keys::write_key(n, &mut self.key);
        let mut cursor = self.store.cursor()?;
        let mut there = cursor.seek(&self.key)?;
        let mut least = n;
        for step in 0..=steps {
            if !there {
                break;
            }
            let at = self.checker.check_entry(&*cursor)?;
            if at < least {
                return Err(format!("wrong order: found key {at} where {least} is the least possible"));
            }
            self.checker.stats.keys_found += u64::from(step == 0 && at == n);
            least = at + 1;
            there = step < steps && cursor.next()?;
        }
        Ok(())
    }

    /// One walk; an operation is a step of it.
    fn scan(&mut self, ops: Ops<'_>) -> Result<()> {
        let mut cursor = self.store.cursor()?;
        let backwards = self.shared.phase.order == Order::Reverse;
        let mut before = None;
        for _ in ops {
            let there = match (before, backwards) {
                (None, false) => cursor.first()?,
                (None, true) => cursor.last()?,
                (Some(_), false) => cursor.next()?,
                (Some(_), true) => cursor.prev()?,
            };
            if !there {
                break;
            }
            let at = self.checker.check_entry(&*cursor)?;
            if before.is_some_and(|before| if backwards { at >= before } else { at <= before }) {
                return Err(format!("wrong order: key {at} after {}", before.unwrap_or_default()));
            }
            before = Some(at);
            self.checker.stats.keys_found += 1;
            if self.finish_ops(1) {
                break;
            }
        }
        Ok(())
    }

    /// Puts or deletes in atomic writes. Each key waits as long as its write takes.
    fn write_batches(&mut self, mut ops: Ops<'_>) -> Result<()> {
        let size = self.shared.phase.batch;
        let mut changes = Vec::new();
        loop {
            changes.clear();
            changes.extend(ops.by_ref().take(size as usize).map(|op| self.to_change(op)));
            if changes.is_empty() {
                return Ok(());
            }
            let sync = self.next_write_syncs();
            self.store.write(&changes, sync)?;
            if self.finish_ops(changes.len() as u64) {
                return Ok(());
            }
        }
    }

    fn to_change(&mut self, op: Op) -> Change {
        let (n, put) = match op {
            Op::Put(n) => (n, true),
            Op::Delete(n) => (n, false),
            other => unreachable!("{other:?} is no change, and only changes come in batches"),
        };
        keys::write_key(n, &mut self.key);
        self.value.clear();
        if put {
            self.checker.values.write(n, &mut self.value);
        }
        self.count_put(self.key.len() + self.value.len());
        Change { key: self.key.clone(), value: put.then(|| self.value.clone()) }
    }
}

/// The start of some bytes, for people.
fn preview(bytes: &[u8]) -> String {
    let start = bytes[..bytes.len().min(12)].escape_ascii();
    let more = if bytes.len() > 12 { "..." } else { "" };
    format!("\"{start}{more}\" ({} bytes)", bytes.len())
}
