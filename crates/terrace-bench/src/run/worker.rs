//! One thread of a phase: executes operations, checks the values read, measures the time of each.
//!
//! This overhead counts as the engine's time, so it must be small: the code for each operation is
//! inlined into the loop, allocates nothing and makes no system call. A scan reads the clock only
//! after 64 steps, and its latencies are means of 64 steps. Its entries are checked between these
//! readings, while the clock stands still.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use super::clock::Clock;
use super::histogram::Histogram;
use super::windows::ThroughputWindows;
use crate::engine::{Change, Result, ScannedEntries, Store};
use crate::workload::keys::{self, ValueGenerator};
use crate::workload::ops::{Op, Ops};
use crate::workload::phase_spec::{Kind, Order, PhaseSpec};

/// State that the threads of a phase share.
pub(super) struct PhaseShared<'a> {
    pub(super) phase: &'a PhaseSpec,
    pub(super) clock: Clock,
    /// Number of finished operations, updated every [`OPS_PER_REPORT`] operations of a thread.
    pub(super) done: &'a AtomicU64,
    /// Set by a thread that fails, so that the others stop.
    pub(super) stop: AtomicBool,
    /// Maximum operations per second of each thread; 0 for no limit.
    pub(super) max_ops_per_second: u64,
    /// Whether an earlier phase has added counts to values.
    pub(super) has_counts: bool,
    /// Directory of the database.
    pub(super) dir: &'a Path,
}

/// Number of portions into which a throttled thread divides the operations of a second.
const THROTTLE_STEPS_PER_SECOND: u64 = 100;

/// Measurements of a thread.
#[derive(Clone, Debug, Default)]
pub(super) struct WorkerStats {
    pub(super) latencies: Histogram,
    /// Latencies of the concurrent writers.
    pub(super) writers_latencies: Option<Histogram>,
    pub(super) windows: ThroughputWindows,
    pub(super) ops: u64,
    /// Operations that [`PhaseShared::done`] already includes.
    reported_ops: u64,
    pub(super) bytes: u64,
    pub(super) bytes_put: u64,
    pub(super) keys_found: u64,
    pub(super) values_checked: u64,
    /// End of the last operation, in nanoseconds since the start, without the untimed ones.
    pub(super) last_end_ns: u64,
    /// Nanoseconds in which the clock stood still, for checks.
    untimed_ns: u64,
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

    /// Records the end of `ops` operations that began together, at the end of the operations
    /// before.
    #[inline(always)]
    pub(super) fn record_end(&mut self, shared: &PhaseShared<'_>, ops: u64) {
        let elapsed_ns = self.restart_clock(shared);
        self.record(shared, elapsed_ns, ops);
    }

    /// Records the end of `ops` operations, which ran one after the other since the end of the
    /// operations before. Each of them counts with their mean latency.
    #[inline(always)]
    pub(super) fn record_mean(&mut self, shared: &PhaseShared<'_>, ops: u64) {
        let elapsed_ns = self.restart_clock(shared);
        self.record(shared, (elapsed_ns + ops / 2) / ops, ops);
    }

    /// Records the end of an operation whose latency is `age_ns`.
    pub(super) fn record_age(&mut self, shared: &PhaseShared<'_>, age_ns: u64) {
        self.restart_clock(shared);
        self.record(shared, age_ns, 1);
    }

    /// Returns the nanoseconds since the last call.
    #[inline(always)]
    fn restart_clock(&mut self, shared: &PhaseShared<'_>) -> u64 {
        // Counters of processors differ by some ticks, and the thread may have moved.
        let now = shared.clock.ns().saturating_sub(self.untimed_ns).max(self.last_end_ns);
        now - std::mem::replace(&mut self.last_end_ns, now)
    }

    /// Excludes the time since the last operation from the measurements.
    #[inline(always)]
    pub(super) fn resume_clock(&mut self, shared: &PhaseShared<'_>) {
        self.untimed_ns = shared.clock.ns().saturating_sub(self.last_end_ns).max(self.untimed_ns);
    }

    #[inline(always)]
    fn record(&mut self, shared: &PhaseShared<'_>, latency_ns: u64, ops: u64) {
        self.latencies.record(latency_ns, ops);
        self.windows.record(self.last_end_ns, ops);
        self.ops += ops;
        if self.ops - self.reported_ops >= OPS_PER_REPORT {
            shared.done.fetch_add(self.ops - self.reported_ops, Ordering::Relaxed);
            self.reported_ops = self.ops;
        }
    }
}

/// Operations between two updates of [`PhaseShared::done`].
const OPS_PER_REPORT: u64 = 64;

/// Steps of a scan between two readings of the clock. A reading takes about as long as the step of
/// a fast engine.
const SCAN_STEPS_PER_READING: usize = 64;

/// Checks the values that a thread reads, and holds its measurements.
pub(super) struct ValueChecker<'a> {
    phase: &'a PhaseSpec,
    pub(super) values: ValueGenerator,
    pub(super) stats: WorkerStats,
    /// Whether values may have a count.
    has_counts: bool,
}

impl ValueChecker<'_> {
    /// Compares the value read at key `n` with the expected value.
    #[inline(always)]
    pub(super) fn check(&mut self, n: u64, value: &[u8]) -> Result<()> {
        self.stats.bytes += (self.phase.key_size + value.len()) as u64;
        if !self.phase.verify {
            return Ok(());
        }
        self.stats.values_checked += 1;
        if self.values.matches(n, value) { Ok(()) } else { self.check_count(n, value) }
    }

    /// Accepts the value of key `n` with a count, after a phase that counts.
    #[cold]
    fn check_count(&self, n: u64, value: &[u8]) -> Result<()> {
        let has_count = self.has_counts && self.values.take_count(n, &mut value.to_vec()).is_some();
        if has_count { Ok(()) } else { Err(self.wrong_value(n, value)) }
    }

    #[cold]
    pub(super) fn wrong_value(&self, n: u64, value: &[u8]) -> String {
        let mut expected = Vec::new();
        self.values.write(n, &mut expected);
        format!("wrong value at key {n}: found {}, expected {}", preview(value), preview(&expected))
    }

    /// Checks the copied entries of a scan and their order. `previous` is the key number before
    /// them.
    fn check_scanned(
        &mut self,
        scanned: &ScannedEntries,
        reverse: bool,
        previous: &mut Option<u64>,
    ) -> Result<()> {
        for entry in scanned.iter() {
            let found = self.check_entry(entry)?;
            if let Some(previous) = *previous
                && (if reverse { found >= previous } else { found <= previous })
            {
                return Err(format!("wrong order: key {found} after {previous}"));
            }
            *previous = Some(found);
            self.stats.keys_found += 1;
        }
        Ok(())
    }

    /// Checks an entry, and returns its key number.
    #[inline(always)]
    fn check_entry(&mut self, (key, value): (&[u8], &[u8])) -> Result<u64> {
        let n = keys::parse_key(key).filter(|_| key.len() == self.phase.key_size);
        let n = n.ok_or_else(|| format!("wrong key: found {}, which was never put", preview(key)))?;
        self.check(n, value)?;
        Ok(n)
    }
}

/// A thread that executes operations.
pub(super) struct Worker<'a> {
    pub(super) shared: &'a PhaseShared<'a>,
    pub(super) store: &'a dyn Store,
    pub(super) checker: ValueChecker<'a>,
    pub(super) key: Vec<u8>,
    /// Key at which a range ends.
    pub(super) limit_key: Vec<u8>,
    /// Buffer for a value to put.
    pub(super) value: Vec<u8>,
    /// Buffer for a value that is read.
    pub(super) read_buffer: Vec<u8>,
    scanned: ScannedEntries,
    /// Time until which the operations are repeated, in nanoseconds.
    min_time_ns: u64,
    /// Time limit of the phase in nanoseconds.
    time_limit_ns: u64,
    /// Writes since the last synced write, for `sync_every`.
    writes_since_sync: u64,
}

impl<'a> Worker<'a> {
    pub(super) fn new(shared: &'a PhaseShared<'a>, store: &'a dyn Store) -> Worker<'a> {
        let phase = shared.phase;
        let limit = if phase.duration_limit_s == 0 { u64::MAX } else { phase.duration_limit_s };
        let values = ValueGenerator::new(phase.value_size, phase.value_compress);
        let stats = WorkerStats { last_end_ns: shared.clock.ns(), ..WorkerStats::default() };
        Worker {
            shared,
            store,
            checker: ValueChecker { phase, values, stats, has_counts: shared.has_counts },
            key: vec![0; phase.key_size],
            limit_key: vec![0; phase.key_size],
            value: Vec::new(),
            read_buffer: Vec::new(),
            scanned: ScannedEntries::default(),
            min_time_ns: phase.duration_min_s.saturating_mul(1_000_000_000),
            time_limit_ns: limit.saturating_mul(1_000_000_000),
            writes_since_sync: 0,
        }
    }

    /// Executes `ops` for the time of the phase. Returns the operations that the time limit left;
    /// none if each was executed.
    pub(super) fn run<'p>(mut self, ops: Ops<'p>) -> Result<(WorkerStats, Option<Ops<'p>>)> {
        let done = self.run_passes(ops);
        if done.is_err() {
            self.shared.stop.store(true, Ordering::Relaxed);
        }
        done.map(|rest| (self.checker.stats, rest))
    }

    fn run_passes<'p>(&mut self, first_pass: Ops<'p>) -> Result<Option<Ops<'p>>> {
        let mut ops = first_pass.clone();
        if self.run_pass(&mut ops)? {
            return Ok(Some(ops));
        }
        let mut finished_ops = 0;
        // A pass without an operation would never reach the time.
        while self.checker.stats.last_end_ns < self.min_time_ns && finished_ops < self.checker.stats.ops {
            finished_ops = self.checker.stats.ops;
            if self.run_pass(&mut first_pass.clone())? {
                break;
            }
        }
        Ok(None)
    }

    /// Executes `ops` once. Returns true if the phase ends before the last of them.
    fn run_pass(&mut self, ops: &mut Ops<'_>) -> Result<bool> {
        let phase = self.shared.phase;
        match phase.kind {
            Kind::Scan => self.scan(ops),
            Kind::Load => self.bulk_load(ops),
            Kind::Checkpoint => self.make_checkpoints(ops),
            Kind::Follow => self.get_from_follower(ops),
            Kind::FollowReplay => self.replay_in_follower(ops),
            Kind::FollowAge => self.measure_age(ops),
            Kind::Put | Kind::Delete if phase.batch > 1 => self.write_batches(ops),
            _ => self.run_each(ops),
        }
    }

    fn run_each(&mut self, ops: &mut Ops<'_>) -> Result<bool> {
        for op in ops {
            self.execute(op)?;
            if self.finish_ops(1) {
                return Ok(true);
            }
            if self.shared.max_ops_per_second > 0 {
                self.throttle();
            }
        }
        Ok(false)
    }

    /// Sleeps after each portion until the next is due.
    #[inline(always)]
    fn throttle(&self) {
        let rate = self.shared.max_ops_per_second;
        let tally = &self.checker.stats;
        if tally.ops.is_multiple_of((rate / THROTTLE_STEPS_PER_SECOND).max(1)) {
            let due = u128::from(tally.ops) * 1_000_000_000 / u128::from(rate);
            thread::sleep(Duration::from_nanos((due as u64).saturating_sub(tally.last_end_ns)));
        }
    }

    /// Records the end of `ops` operations, and returns whether the phase ends.
    #[inline(always)]
    pub(super) fn finish_ops(&mut self, ops: u64) -> bool {
        self.checker.stats.record_end(self.shared, ops);
        self.is_over()
    }

    /// Returns whether the phase ends.
    #[inline(always)]
    pub(super) fn is_over(&self) -> bool {
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
            Op::TxnPut(n) => self.put_in_transaction(n),
            Op::TxnReadModifyWrite(n) => self.increment(n),
            Op::TxnScan(n, entries) => self.scan_and_increment(n, entries),
            Op::Compact => self.store.compact(),
            // Passes of their own execute these operations.
            Op::NextEntry | Op::Open | Op::Checkpoint | Op::Age => Ok(()),
        }
    }

    #[inline(always)]
    pub(super) fn put(&mut self, n: u64) -> Result<()> {
        keys::write_key(n, &mut self.key);
        self.checker.values.write(n, &mut self.value);
        self.count_put(self.key.len() + self.value.len());
        let sync = self.next_write_syncs();
        self.store.put(&self.key, &self.value, sync)
    }

    /// Returns whether the next write is synced.
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
    pub(super) fn count_put(&mut self, bytes: usize) {
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
            return Err(format!("wrong answer: found {}, which was never put", preview(&self.key)));
        }
        Ok(())
    }

    fn seek(&mut self, n: u64, steps: u64) -> Result<()> {
        keys::write_key(n, &mut self.key);
        let mut cursor = self.store.cursor()?;
        let mut at_entry = cursor.seek(&self.key)?;
        let mut min_key = n;
        for step in 0..=steps {
            if !at_entry {
                break;
            }
            let found = self.checker.check_entry(cursor.entry())?;
            if found < min_key {
                return Err(format!("wrong order: found key {found}, expected at least {min_key}"));
            }
            self.checker.stats.keys_found += u64::from(step == 0 && found == n);
            min_key = found + 1;
            at_entry = step < steps && cursor.next()?;
        }
        Ok(())
    }

    /// Executes one scan, of which every step is an operation. Returns true if the phase ends.
    ///
    /// A step copies its entry, as a program that uses it might. The clock stands still while the
    /// copies are checked, because a check takes longer than the step of a fast engine.
    fn scan(&mut self, ops: &mut Ops<'_>) -> Result<bool> {
        let mut cursor = self.store.cursor()?;
        let reverse = self.shared.phase.order == Order::Reverse;
        let mut is_first = true;
        let mut previous = None;
        loop {
            self.scanned.clear();
            let mut steps = ops.by_ref().take(SCAN_STEPS_PER_READING).count() as u64;
            if std::mem::take(&mut is_first) && steps > 0 {
                if !(if reverse { cursor.last()? } else { cursor.first()? }) {
                    return Ok(self.is_over());
                }
                self.scanned.push(cursor.entry());
                steps -= 1;
            }
            cursor.copy_steps(steps, reverse, &mut self.scanned)?;
            let steps = self.scanned.len();
            if steps > 0 {
                self.checker.stats.record_mean(self.shared, steps as u64);
                self.checker.check_scanned(&self.scanned, reverse, &mut previous)?;
                self.checker.stats.resume_clock(self.shared);
            }
            if self.is_over() || steps < SCAN_STEPS_PER_READING {
                return Ok(self.is_over());
            }
        }
    }

    /// Puts or deletes in atomic writes. The latency of each key is that of its write.
    fn write_batches(&mut self, ops: &mut Ops<'_>) -> Result<bool> {
        let size = self.shared.phase.batch;
        let mut changes = Vec::new();
        loop {
            changes.clear();
            changes.extend(ops.by_ref().take(size as usize).map(|op| self.build_change(op)));
            if changes.is_empty() {
                return Ok(false);
            }
            let sync = self.next_write_syncs();
            self.store.write(&changes, sync)?;
            if self.finish_ops(changes.len() as u64) {
                return Ok(true);
            }
        }
    }

    fn build_change(&mut self, op: Op) -> Change {
        let (n, put) = match op {
            Op::Put(n) => (n, true),
            Op::Delete(n) => (n, false),
            other => unreachable!("{other:?} in a batch, which contains only puts and deletes"),
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

/// First bytes of a key or value, for messages.
pub(super) fn preview(bytes: &[u8]) -> String {
    let start = bytes[..bytes.len().min(12)].escape_ascii();
    let more = if bytes.len() > 12 { "..." } else { "" };
    format!("\"{start}{more}\" ({} bytes)", bytes.len())
}
