//! One thread of a phase: does its operations, checks what it reads, takes the time of each.
//!
//! All of that counts as the engine's time, so it must be little: what runs for each operation is inlined into the
//! loop, allocates nothing and asks the system nothing.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use super::clock::Clock;
use super::histogram::Histogram;
use super::windows::Windows;
use crate::engine::{Change, Cursor, Result, Store};
use crate::workload::description::{Description, Kind, Order};
use crate::workload::keys::{self, Values};
use crate::workload::ops::{Op, Ops};

/// What the threads of a phase share.
pub(super) struct Shared<'a> {
    pub(super) phase: &'a Description,
    pub(super) clock: Clock,
    /// Operations done, now and then brought up to date.
    pub(super) done: &'a AtomicU64,
    /// Set by the thread that fails: the others need not go on.
    pub(super) stop: AtomicBool,
    /// Operations of each thread in a second, at most; 0 for as many as it can.
    pub(super) rate: u64,
}

/// In so many portions a thread does the operations of a second that it may do.
const PORTIONS: u64 = 100;

/// What came of a thread's operations.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally {
    pub(super) latencies: Histogram,
    pub(super) windows: Windows,
    pub(super) ops: u64,
    /// As many of them as [`Shared::done`] knows of.
    told: u64,
    pub(super) bytes: u64,
    pub(super) bytes_put: u64,
    pub(super) found: u64,
    pub(super) checked: u64,
    /// When the last operation ended, in nanoseconds after the start.
    pub(super) ended: u64,
}

impl Tally {
    pub(super) fn add(&mut self, other: &Tally) {
        self.latencies.add(&other.latencies);
        self.windows.add(&other.windows);
        self.ops += other.ops;
        self.bytes += other.bytes;
        self.bytes_put += other.bytes_put;
        self.found += other.found;
        self.checked += other.checked;
        self.ended = self.ended.max(other.ended);
    }

    /// `ops` operations have ended, the first of which began when the ones before ended.
    #[inline(always)]
    pub(super) fn end(&mut self, shared: &Shared<'_>, ops: u64) {
        // Processors differ by some ticks, and a thread may have changed its own.
        let now = shared.clock.ns().max(self.ended);
        self.latencies.record(now - self.ended, ops);
        self.windows.record(now, ops);
        self.ended = now;
        self.ops += ops;
        if self.ops - self.told >= TOLD {
            shared.done.fetch_add(self.ops - self.told, Ordering::Relaxed);
            self.told = self.ops;
        }
    }
}

/// Operations between two updates of [`Shared::done`].
const TOLD: u64 = 64;

/// What a thread reads is checked here, and counted with the rest.
struct Checker<'a> {
    phase: &'a Description,
    values: Values,
    tally: Tally,
}

impl Checker<'_> {
    /// Compares what was read at key `n` with what must be there.
    #[inline(always)]
    fn check(&mut self, n: u64, value: &[u8]) -> Result<()> {
        self.tally.bytes += (self.phase.key_size + value.len()) as u64;
        if !self.phase.verify {
            return Ok(());
        }
        self.tally.checked += 1;
        if self.values.matches(n, value) { Ok(()) } else { Err(self.wrong_value(n, value)) }
    }

    #[cold]
    fn wrong_value(&self, n: u64, value: &[u8]) -> String {
        let mut expected = Vec::new();
        self.values.write(n, &mut expected);
        format!("wrong value at key {n}: found {}, expected {}", show(value), show(&expected))
    }

    /// Checks the entry that `cursor` is at, and returns its key's number.
    #[inline(always)]
    fn check_entry(&mut self, cursor: &dyn Cursor) -> Result<u64> {
        let (key, value) = cursor.entry();
        let n = keys::read_key(key).filter(|_| key.len() == self.phase.key_size);
        let n = n.ok_or_else(|| format!("wrong key: found {}, which nobody put", show(key)))?;
        self.check(n, value)?;
        Ok(n)
    }
}

/// A thread at work.
pub(super) struct Worker<'a> {
    shared: &'a Shared<'a>,
    store: &'a dyn Store,
    checker: Checker<'a>,
    key: Vec<u8>,
    /// A value to put.
    value: Vec<u8>,
    /// A value that was read.
    read: Vec<u8>,
    /// The time after which the phase ends, done or not.
    limit: u64,
    /// Writes since the one that was durable, where some are.
    unsynced: u64,
}

impl<'a> Worker<'a> {
    pub(super) fn new(shared: &'a Shared<'a>, store: &'a dyn Store) -> Worker<'a> {
        let phase = shared.phase;
        let limit = if phase.duration_limit_s == 0 { u64::MAX } else { phase.duration_limit_s };
        let values = Values::new(phase.value_size, phase.value_compress);
        let tally = Tally { ended: shared.clock.ns(), ..Tally::default() };
        Worker {
            shared,
            store,
            checker: Checker { phase, values, tally },
            key: vec![0; phase.key_size],
            value: Vec::new(),
            read: Vec::new(),
            limit: limit.saturating_mul(1_000_000_000),
            unsynced: 0,
        }
    }

    /// Does `ops`, or as many as the phase's time allows.
    pub(super) fn run(mut self, ops: Ops<'_>) -> Result<Tally> {
        let phase = self.shared.phase;
        let done = match phase.kind {
            Kind::Scan => self.walk(ops),
            Kind::Put | Kind::Delete if phase.batch > 1 => self.batches(ops),
            _ => self.each(ops),
        };
        if done.is_err() {
            self.shared.stop.store(true, Ordering::Relaxed);
        }
        done.map(|()| self.checker.tally)
    }

    fn each(&mut self, ops: Ops<'_>) -> Result<()> {
        for op in ops {
            self.act(op)?;
            if self.ends(1) {
                break;
            }
            if self.shared.rate > 0 {
                self.wait();
            }
        }
        Ok(())
    }

    /// Waits after each portion until the next is due.
    #[inline(always)]
    fn wait(&self) {
        let (rate, tally) = (self.shared.rate, &self.checker.tally);
        if tally.ops.is_multiple_of((rate / PORTIONS).max(1)) {
            let due = u128::from(tally.ops) * 1_000_000_000 / u128::from(rate);
            thread::sleep(Duration::from_nanos((due as u64).saturating_sub(tally.ended)));
        }
    }

    /// `ops` operations have ended; whether the phase has.
    #[inline(always)]
    fn ends(&mut self, ops: u64) -> bool {
        self.checker.tally.end(self.shared, ops);
        self.checker.tally.ended >= self.limit || self.shared.stop.load(Ordering::Relaxed)
    }

    #[inline(always)]
    fn act(&mut self, op: Op) -> Result<()> {
        match op {
            Op::Put(n) => self.put(n),
            Op::Delete(n) => {
                keys::write_key(n, &mut self.key);
                self.count_put(self.key.len());
                let sync = self.sync();
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
            Op::Step | Op::Open => Ok(()),
        }
    }

    #[inline(always)]
    fn put(&mut self, n: u64) -> Result<()> {
        keys::write_key(n, &mut self.key);
        self.checker.values.write(n, &mut self.value);
        self.count_put(self.key.len() + self.value.len());
        let sync = self.sync();
        self.store.put(&self.key, &self.value, sync)
    }

    /// Whether the write that comes now is durable.
    #[inline(always)]
    fn sync(&mut self) -> bool {
        let phase = self.shared.phase;
        self.unsynced += 1;
        let last = self.unsynced == phase.sync_every;
        if last {
            self.unsynced = 0;
        }
        last || phase.sync
    }

    #[inline(always)]
    fn count_put(&mut self, bytes: usize) {
        self.checker.tally.bytes += bytes as u64;
        self.checker.tally.bytes_put += bytes as u64;
    }

    #[inline(always)]
    fn get(&mut self, n: u64) -> Result<()> {
        keys::write_key(n, &mut self.key);
        if self.store.get(&self.key, &mut self.read)? {
            self.checker.tally.found += 1;
            self.checker.check(n, &self.read)?;
        }
        Ok(())
    }

    fn get_missing(&mut self, n: u64) -> Result<()> {
        keys::write_key(n, &mut self.key);
        keys::make_missing(&mut self.key);
        if self.store.get(&self.key, &mut self.read)? {
            return Err(format!("wrong answer: found {}, which nobody put", show(&self.key)));
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
            self.checker.tally.found += u64::from(step == 0 && at == n);
            least = at + 1;
            there = step < steps && cursor.next()?;
        }
        Ok(())
    }

    /// One walk; an operation is a step of it.
    fn walk(&mut self, ops: Ops<'_>) -> Result<()> {
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
            self.checker.tally.found += 1;
            if self.ends(1) {
                break;
            }
        }
        Ok(())
    }

    /// Puts or deletes in atomic writes. Each key waits as long as its write takes.
    fn batches(&mut self, mut ops: Ops<'_>) -> Result<()> {
        let size = self.shared.phase.batch;
        let mut changes = Vec::new();
        loop {
            changes.clear();
            changes.extend(ops.by_ref().take(size as usize).map(|op| self.change(op)));
            if changes.is_empty() {
                return Ok(());
            }
            let sync = self.sync();
            self.store.write(&changes, sync)?;
            if self.ends(changes.len() as u64) {
                return Ok(());
            }
        }
    }

    fn change(&mut self, op: Op) -> Change {
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
fn show(bytes: &[u8]) -> String {
    let start = bytes[..bytes.len().min(12)].escape_ascii();
    let more = if bytes.len() > 12 { "..." } else { "" };
    format!("\"{start}{more}\" ({} bytes)", bytes.len())
}
