//! One phase against one engine, in this process.
//!
//! ```text
//!   open, fresh if asked | clock starts | threads do their operations | clock stops | wait until quiet | count
//!                        |<-- seconds, latencies, windows ------------>|
//!                        |<-- processor time, memory, device writes ------------------------------->|
//! ```
//!
//! What the engine puts off is not forgiven: processor time and writes count until the background is quiet. There is
//! no warm-up but the phases before: a turn begins in a new process, with an empty directory.

use std::fs;
use std::path::PathBuf;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, ScopedJoinHandle};
use std::time::Duration;

use super::clock::Clock;
use super::resources::{self, Counters};
use super::worker::{Shared, Tally, Worker};
use crate::engine::{Engine, Result, Store};
use crate::report::model::{PhaseResult, Settings};
use crate::workload::description::{Description, Kind};
use crate::workload::ops::Ops;

/// An engine with its directory, and the database if it is open.
pub struct Place<'a> {
    engine: &'a dyn Engine,
    dir: PathBuf,
    settings: Settings,
    store: Option<Box<dyn Store>>,
    /// What the open database was told.
    opened_with: Settings,
}

impl<'a> Place<'a> {
    /// `dir` exists and is empty.
    pub fn new(engine: &'a dyn Engine, dir: PathBuf, settings: Settings) -> Place<'a> {
        Place { engine, dir, opened_with: settings.clone(), settings, store: None }
    }

    /// Does `phase`. `done` counts its operations meanwhile.
    pub fn run(&mut self, phase: &Description, done: &AtomicU64) -> Result<PhaseResult> {
        self.prepare(phase)?;
        resources::forget_peak_memory();
        let before = Counters::now();
        let tally = if phase.kind == Kind::Open { self.opens(phase, done)? } else { self.work(phase, done)? };
        let quiet = phase.settle.then(resources::wait_until_quiet).flatten();
        Ok(self.result(tally, before, quiet))
    }

    fn prepare(&mut self, phase: &Description) -> Result<()> {
        if phase.fresh {
            self.store = None;
            self.clear().map_err(|e| format!("{}: {e}", self.dir.display()))?;
        }
        let cache_bytes = phase.cache_bytes.or(self.settings.cache_bytes);
        let settings = Settings { cache_bytes, ..self.settings.clone() };
        if settings != self.opened_with {
            self.store = None;
            self.opened_with = settings;
        }
        self.store().map(|_| ())
    }

    fn clear(&self) -> std::io::Result<()> {
        if self.dir.exists() {
            fs::remove_dir_all(&self.dir)?;
        }
        fs::create_dir_all(&self.dir)
    }

    /// The open database.
    fn store(&mut self) -> Result<&dyn Store> {
        let opened = match self.store.take() {
            Some(store) => store,
            None => self.engine.open(&self.dir, &self.opened_with)?,
        };
        Ok(&**self.store.insert(opened))
    }

    fn work(&mut self, phase: &Description, done: &AtomicU64) -> Result<Tally> {
        // Some orders take a pass over the keys to prepare; the clock does not run yet.
        let ops: Vec<Ops<'_>> = (0..phase.threads).map(|thread| Ops::new(phase, thread)).collect();
        let of_writers = phase.of_writers();
        let puts: Vec<Ops<'_>> = (0..phase.writers).map(|writer| Ops::new(&of_writers, writer)).collect();
        let store = self.store()?;
        let clock = Clock::start();
        let shared = Shared { phase, clock, done, stop: AtomicBool::new(false), rate: 0 };
        let (unseen, stop) = (AtomicU64::new(0), AtomicBool::new(false));
        let beside = Shared { phase: &of_writers, clock, done: &unseen, stop, rate: phase.write_rate };
        let barrier = Barrier::new(ops.len() + puts.len());
        let (mut sum, written) = thread::scope(|scope| {
            let barrier = &barrier;
            let start = |shared, ops: Vec<_>| -> Vec<_> {
                let work = |ops| {
                    move || {
                        barrier.wait();
                        Worker::new(shared, store).run(ops)
                    }
                };
                ops.into_iter().map(|ops| scope.spawn(work(ops))).collect()
            };
            let (threads, writers) = (start(&shared, ops), start(&beside, puts));
            let sum = join(threads);
            beside.stop.store(true, Ordering::Relaxed);
            Ok::<_, String>((sum?, join(writers)?))
        })?;
        clock.agrees()?;
        sum.bytes_put += written.bytes_put;
        Ok(sum)
    }

    /// Closes and opens, one thread alone.
    fn opens(&mut self, phase: &Description, done: &AtomicU64) -> Result<Tally> {
        let shared = Shared { phase, clock: Clock::start(), done, stop: AtomicBool::new(false), rate: 0 };
        let mut tally = Tally::default();
        for _ in Ops::new(phase, 0) {
            self.store = None;
            self.store()?;
            tally.end(&shared, 1);
        }
        shared.clock.agrees()?;
        Ok(tally)
    }

    fn result(&self, tally: Tally, before: Counters, quiet: Option<Duration>) -> PhaseResult {
        let after = Counters::now();
        let device = after.device_bytes.zip(before.device_bytes).map(|(a, b)| a.saturating_sub(b));
        let put = (tally.bytes_put > 0).then_some(tally.bytes_put as f64);
        let length = Duration::from_nanos(tally.ended);
        PhaseResult {
            ops: tally.ops,
            seconds: length.as_secs_f64(),
            ops_per_second: tally.ops as f64 / length.as_secs_f64().max(1e-9),
            bytes: tally.bytes,
            latency_ns: tally.latencies.summary(),
            windows_100ms: tally.windows.tenths().to_vec(),
            windows_1s: tally.windows.seconds(),
            slowest_1s_to_mean: tally.windows.slowest_second(length),
            slowest_100ms_to_mean: tally.windows.slowest_tenth(length),
            cpu_seconds: after.cpu.zip(before.cpu).map(|(a, b)| a.saturating_sub(b).as_secs_f64()),
            peak_rss_bytes: resources::peak_memory(),
            device_bytes_written: device,
            write_amplification: device.zip(put).map(|(device, put)| device as f64 / put),
            space_bytes: resources::space(&self.dir),
            quiet_seconds: quiet.map(|quiet| quiet.as_secs_f64()),
            found: tally.found,
            checked: tally.checked,
            ..PhaseResult::default()
        }
    }
}

/// What came of all `threads` together.
fn join(threads: Vec<ScopedJoinHandle<'_, Result<Tally>>>) -> Result<Tally> {
    let tallies = threads.into_iter().map(|thread| thread.join().map_err(|_| "a thread panicked")?);
    let mut sum = Tally::default();
    tallies.collect::<Result<Vec<_>>>()?.iter().for_each(|tally| sum.add(tally));
    Ok(sum)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::planted::Planted;
    use crate::workload::suites;

    const NUM: u64 = 5000;

    /// A workload, and how it differs from the table.
    type Step = (&'static str, fn(&mut Description));

    #[track_caller]
    fn run(engine: &Planted, workloads: &[Step]) -> Result<Vec<PhaseResult>> {
        let dir = tempfile::tempdir().expect("a directory for the test");
        let mut place = Place::new(engine, dir.path().join("db"), Settings::default());
        let phases = workloads.iter().map(|(name, change)| {
            let mut phase = suites::by_name(name).expect("a workload of the table").phase(NUM);
            phase.settle = false;
            change(&mut phase);
            place.run(&phase, &AtomicU64::new(0))
        });
        phases.collect()
    }

    fn as_is(_: &mut Description) {}

    #[test]
    fn every_kind_finds_what_is_there() {
        let few: fn(&mut Description) = |d| d.num = 20;
        let results = run(
            &Planted::default(),
            &[
                ("fillseq", as_is),
                ("readrandom", as_is),
                ("readseq", as_is),
                ("readreverse", as_is),
                ("readmissing", as_is),
                ("seekrandom", few),
                ("open", as_is),
                ("compact", as_is),
                ("deleteseq", as_is),
                ("readrandom", as_is),
            ],
        );
        let found: Vec<_> = results.expect("nothing is planted").iter().map(|r| (r.ops, r.found)).collect();
        let (all, none) = ((NUM, NUM), (NUM, 0));
        assert_eq!(found, [none, all, all, all, none, (20, 20), (1, 0), (1, 0), none, none]);
    }

    #[test]
    fn threads_and_batches() {
        let results = run(
            &Planted::default(),
            &[("fillseq", |d| (d.threads, d.batch) = (3, 7)), ("readseq", |d| d.threads = 2)],
        );
        let results = results.expect("nothing is planted");
        assert_eq!((results[0].ops, results[1].ops, results[1].found), (NUM, NUM, NUM));
        assert_eq!(results[1].checked, NUM);
        assert_eq!(results[0].latency_ns.histogram.iter().map(|(_, count)| count).sum::<u64>(), NUM);
    }

    #[test]
    fn the_last_of_so_many_writes_is_durable() {
        for (change, expect) in [
            ((|d| d.sync_every = 1000) as fn(&mut Description), vec![1000, 2000, 3000, 4000, 5000]),
            (|d| (d.sync_every, d.num) = (1000, 999), vec![]),
            (|d| (d.sync, d.sync_every, d.num) = (true, 2, 3), vec![1, 2, 3]),
            (as_is, vec![]),
        ] {
            let engine = Planted::default();
            run(&engine, &[("fillrandom", change)]).expect("nothing is planted");
            assert_eq!(engine.disk.lock().expect("no thread panicked").synced, expect);
        }
    }

    #[test]
    fn writers_put_until_the_gets_are_done() {
        let engine = Planted::default();
        let results = run(&engine, &[("fillseq", as_is), ("readwhilewriting", |d| d.writers = 2)]);
        let read = &results.expect("nothing is planted")[1];
        assert_eq!((read.ops, read.found, read.checked), (NUM, NUM, NUM));
        let puts = engine.disk.lock().expect("no thread panicked").puts;
        assert!(puts > NUM, "the writers have put nothing");
    }

    #[test]
    fn writers_put_no_more_than_they_may() {
        let engine = Planted::default();
        let slow: fn(&mut Description) = |d| (d.writers, d.write_rate) = (1, 50);
        let start = std::time::Instant::now();
        run(&engine, &[("fillseq", as_is), ("readwhilewriting", slow)]).expect("nothing is planted");
        let puts = engine.disk.lock().expect("no thread panicked").puts - NUM;
        let most = (start.elapsed().as_secs_f64() * 50.0) as u64 + 1;
        assert!(puts <= most, "{puts} puts, at most {most}");
    }

    #[test]
    fn a_planted_sleep_shows_as_a_stall() {
        let stall = Duration::from_millis(450);
        let engine = Planted { sleep_at: Some((NUM / 2, stall)), ..Planted::default() };
        let result = &run(&engine, &[("fillrandom", as_is)]).expect("a sleep is no error")[0];
        assert!(result.latency_ns.max >= stall.as_nanos() as u64, "{:?}", result.latency_ns);
        assert!(result.latency_ns.p50 < result.latency_ns.max / 10, "{:?}", result.latency_ns);
        assert_eq!(result.slowest_100ms_to_mean, Some(0.0), "{:?}", result.windows_100ms);
        assert!(
            result.windows_100ms.iter().filter(|ops| **ops == 0).count() >= 3,
            "{:?}",
            result.windows_100ms
        );
    }

    #[test]
    fn a_planted_pause_between_calls_is_not_hidden() {
        let engine = Planted { slow_drop: Some(Duration::from_millis(50)), ..Planted::default() };
        let seek = |d: &mut Description| d.num = 2;
        let result = &run(&engine, &[("fillseq", as_is), ("seekrandom", seek)]).expect("no error")[1];
        assert!(result.latency_ns.p50 >= 50_000_000, "{:?}", result.latency_ns);
    }

    #[test]
    fn a_planted_wrong_value_is_refused() {
        let engine = Planted { wrong_value_of: Some(42), ..Planted::default() };
        for reads in ["readseq", "readreverse", "getseq"] {
            let refused = run(&engine, &[("fillseq", as_is), (reads, as_is)]).expect_err("a value is wrong");
            assert!(refused.starts_with("wrong value at key 42: found "), "{refused}");
        }
    }
}
