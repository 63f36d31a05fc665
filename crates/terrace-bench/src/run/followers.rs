//! Operations of a thread through a follower.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use super::worker::Worker;
use crate::engine::{Follower, Result, Store};
use crate::workload::keys::{self, ValueGenerator};
use crate::workload::ops::{Op, Ops};

/// Number of keys that a follower reads at once. They fit in the memtable of every engine, which
/// may be flushed afterwards.
const REPLAYED_KEYS: usize = 2_000;

/// Number of puts after which the writer of `follow-age` pauses, so that the reader gets a
/// processor.
const PUTS_PER_PAUSE: u64 = 16;

/// Length of this pause, and of the pause after each read.
const AGE_PAUSE: Duration = Duration::from_micros(100);

impl Worker<'_> {
    /// Gets the keys of all `ops` through a follower. Returns true if the phase ends.
    pub(super) fn get_from_follower(&mut self, ops: &mut Ops<'_>) -> Result<bool> {
        let follower = self.open_follower()?;
        for op in ops {
            if let Op::Get(n) = op {
                keys::write_key(n, &mut self.key);
                if follower.get(&self.key, &mut self.read_buffer)? {
                    self.checker.stats.keys_found += 1;
                    self.checker.check(n, &self.read_buffer)?;
                }
            }
            if self.finish_ops(1) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Puts the keys of all `ops`, and lets a follower read them. Returns true if the phase ends.
    pub(super) fn replay_in_follower(&mut self, ops: &mut Ops<'_>) -> Result<bool> {
        let follower = self.open_follower()?;
        loop {
            let mut count = 0;
            for op in ops.by_ref().take(REPLAYED_KEYS) {
                if let Op::Put(n) = op {
                    self.put(n)?;
                    count += 1;
                }
            }
            if count == 0 {
                return Ok(false);
            }
            self.checker.stats.resume_clock(self.shared);
            follower.catch_up()?;
            self.checker.stats.record_mean(self.shared, count);
            if self.is_over() {
                return Ok(true);
            }
        }
    }

    /// Measures the age of a value once for each of `ops`. Returns true if the phase ends.
    pub(super) fn measure_age(&mut self, ops: &mut Ops<'_>) -> Result<bool> {
        let follower = self.open_follower()?;
        let shared = self.shared;
        let store = self.store;
        let values = self.checker.values;
        let key = self.key_of_age();
        put_time(store, &values, &key, shared.clock.ns())?;
        follower.catch_up()?;
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            let writer = scope.spawn(|| {
                let mut puts = 0_u64;
                while !stop.load(Ordering::Relaxed) {
                    put_time(store, &values, &key, shared.clock.ns())?;
                    puts += 1;
                    if puts.is_multiple_of(PUTS_PER_PAUSE) {
                        thread::sleep(AGE_PAUSE);
                    }
                }
                Ok::<_, String>(())
            });
            let read = self.read_ages(ops, &*follower, &key);
            stop.store(true, Ordering::Relaxed);
            writer.join().map_err(|_| "a thread panicked")??;
            read
        })
    }

    fn key_of_age(&mut self) -> Vec<u8> {
        keys::write_key(0, &mut self.key);
        self.key.clone()
    }

    fn read_ages(&mut self, ops: &mut Ops<'_>, follower: &dyn Follower, key: &[u8]) -> Result<bool> {
        for _ in ops {
            let start = self.shared.clock.ns();
            let found = follower.get(key, &mut self.read_buffer)?;
            let time = self.checker.values.take_count(0, &mut self.read_buffer).filter(|_| found);
            let time = time.ok_or_else(|| self.checker.wrong_value(0, &self.read_buffer))?;
            self.checker.stats.record_age(self.shared, start.saturating_sub(time));
            if self.is_over() {
                return Ok(true);
            }
            thread::sleep(AGE_PAUSE);
        }
        Ok(false)
    }

    /// Opens a follower, while the clock stands still.
    fn open_follower(&mut self) -> Result<Box<dyn Follower>> {
        let follower = self.store.follow()?;
        self.checker.stats.resume_clock(self.shared);
        Ok(follower)
    }
}

/// Puts the value of key 0 with `time_ns` as its count.
fn put_time(store: &dyn Store, values: &ValueGenerator, key: &[u8], time_ns: u64) -> Result<()> {
    let mut value = Vec::new();
    values.write(0, &mut value);
    ValueGenerator::add_count(&mut value, time_ns);
    store.put(key, &value, false)
}
