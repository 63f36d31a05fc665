//! Executes one phase with one engine, in this process.
//!
//! ```text
//!   open, fresh if asked | threads execute their operations | wait until quiet | count
//!                        |<- seconds, latencies, windows -->|
//!                        |<- processor time, memory, device writes --------->|
//! ```
//!
//! Deferred work of the engine counts: processor time and writes are measured until background work
//! has ended. There is no warm-up except the earlier phases: a run begins in a new process, with an
//! empty directory.

use std::fs;
use std::path::PathBuf;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, ScopedJoinHandle};
use std::time::Duration;

use super::clock::Clock;
use super::resources::{self, ResourceUsage};
use super::worker::{PhaseShared, Worker, WorkerStats};
use crate::engine::{Engine, Result, Store};
use crate::report::model::{PhaseResult, Settings};
use crate::workload::ops::Ops;
use crate::workload::phase_spec::{Kind, PhaseSpec};

/// Executes phases with one engine in one directory, and keeps the database open between them.
pub struct PhaseRunner<'a> {
    engine: &'a dyn Engine,
    dir: PathBuf,
    settings: Settings,
    store: Option<Box<dyn Store>>,
    /// Settings of the open database.
    opened_with: Settings,
}

impl<'a> PhaseRunner<'a> {
    /// Creates a runner for the existing empty directory `dir`.
    pub fn new(engine: &'a dyn Engine, dir: PathBuf, settings: Settings) -> PhaseRunner<'a> {
        PhaseRunner { engine, dir, opened_with: settings.clone(), settings, store: None }
    }

    /// Executes `phase`, and counts its operations in `done` meanwhile.
    pub fn run(&mut self, phase: &PhaseSpec, done: &AtomicU64) -> Result<PhaseResult> {
        self.open_for_phase(phase)?;
        resources::reset_peak_memory();
        let before = ResourceUsage::read();
        let stats = if phase.kind == Kind::Open {
            self.run_opens(phase, done)?
        } else {
            self.run_threads(phase, done)?
        };
        let quiet = phase.settle.then(resources::wait_until_quiet).flatten();
        Ok(self.to_result(stats, before, quiet))
    }

    fn open_for_phase(&mut self, phase: &PhaseSpec) -> Result<()> {
        if phase.fresh {
            self.store = None;
            self.recreate_dir().map_err(|e| format!("{}: {e}", self.dir.display()))?;
        }
        let cache_bytes = phase.cache_bytes.or(self.settings.cache_bytes);
        let settings = Settings { cache_bytes, ..self.settings.clone() };
        if settings != self.opened_with {
            self.store = None;
            self.opened_with = settings;
        }
        self.store().map(|_| ())
    }

    fn recreate_dir(&self) -> std::io::Result<()> {
        if self.dir.exists() {
            fs::remove_dir_all(&self.dir)?;
        }
        fs::create_dir_all(&self.dir)
    }

    /// Returns the database, and opens it if it is closed.
    fn store(&mut self) -> Result<&dyn Store> {
        let opened = match self.store.take() {
            Some(store) => store,
            None => self.engine.open(&self.dir, &self.opened_with)?,
        };
        Ok(&**self.store.insert(opened))
    }

    fn run_threads(&mut self, phase: &PhaseSpec, done: &AtomicU64) -> Result<WorkerStats> {
        // Some orders need a pass over the keys first, so the operations are created before the
        // clock.
        let ops: Vec<Ops<'_>> = (0..phase.threads).map(|thread| Ops::new(phase, thread)).collect();
        let writers_phase = phase.writers_phase();
        let puts: Vec<Ops<'_>> = (0..phase.writers).map(|writer| Ops::new(&writers_phase, writer)).collect();
        let store = self.store()?;
        let clock = Clock::start();
        let shared = PhaseShared { phase, clock, done, stop: AtomicBool::new(false), max_ops_per_second: 0 };
        let writer_ops = AtomicU64::new(0);
        let stop = AtomicBool::new(false);
        let writers_shared = PhaseShared {
            phase: &writers_phase,
            clock,
            done: &writer_ops,
            stop,
            max_ops_per_second: phase.write_rate,
        };
        let barrier = Barrier::new(ops.len() + puts.len());
        let (mut sum, written) = thread::scope(|scope| {
            let barrier = &barrier;
            let start = |shared, ops: Vec<_>| -> Vec<_> {
                let threads = ops.into_iter().map(|ops| {
                    scope.spawn(move || {
                        barrier.wait();
                        Worker::new(shared, store).run(ops)
                    })
                });
                threads.collect()
            };
            let threads = start(&shared, ops);
            let writers = start(&writers_shared, puts);
            let sum = join_workers(threads);
            writers_shared.stop.store(true, Ordering::Relaxed);
            Ok::<_, String>((sum?, join_workers(writers)?))
        })?;
        clock.check_against_system_clock()?;
        sum.bytes_put += written.bytes_put;
        Ok(sum)
    }

    /// Closes and reopens the database repeatedly, in one thread.
    fn run_opens(&mut self, phase: &PhaseSpec, done: &AtomicU64) -> Result<WorkerStats> {
        let shared = PhaseShared {
            phase,
            clock: Clock::start(),
            done,
            stop: AtomicBool::new(false),
            max_ops_per_second: 0,
        };
        let mut stats = WorkerStats::default();
        for _ in Ops::new(phase, 0) {
            self.store = None;
            self.store()?;
            stats.record_end(&shared, 1);
        }
        shared.clock.check_against_system_clock()?;
        Ok(stats)
    }

    fn to_result(&self, stats: WorkerStats, before: ResourceUsage, quiet: Option<Duration>) -> PhaseResult {
        let after = ResourceUsage::read();
        let device = after.bytes_written.zip(before.bytes_written).map(|(a, b)| a.saturating_sub(b));
        let put = (stats.bytes_put > 0).then_some(stats.bytes_put as f64);
        let length = Duration::from_nanos(stats.last_end_ns);
        PhaseResult {
            ops: stats.ops,
            seconds: length.as_secs_f64(),
            ops_per_second: stats.ops as f64 / length.as_secs_f64().max(1e-9),
            bytes: stats.bytes,
            latency_ns: stats.latencies.summary(),
            windows_100ms: stats.windows.per_100ms().to_vec(),
            windows_1s: stats.windows.per_second(),
            slowest_1s_to_mean: stats.windows.slowest_1s_to_mean(length),
            slowest_100ms_to_mean: stats.windows.slowest_100ms_to_mean(length),
            cpu_seconds: after.cpu_time.zip(before.cpu_time).map(|(a, b)| a.saturating_sub(b).as_secs_f64()),
            peak_rss_bytes: resources::peak_memory(),
            device_bytes_written: device,
            write_amplification: device.zip(put).map(|(device, put)| device as f64 / put),
            space_bytes: resources::disk_usage(&self.dir),
            quiet_seconds: quiet.map(|quiet| quiet.as_secs_f64()),
            found: stats.keys_found,
            checked: stats.values_checked,
            ..PhaseResult::default()
        }
    }
}

/// Joins all `threads`, and merges their stats.
fn join_workers(threads: Vec<ScopedJoinHandle<'_, Result<WorkerStats>>>) -> Result<WorkerStats> {
    let mut total = WorkerStats::default();
    for thread in threads {
        total.merge(&thread.join().map_err(|_| "a thread panicked")??);
    }
    Ok(total)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::faulty::FaultyEngine;
    use crate::workload::suites;

    const NUM: u64 = 5000;

    /// A workload, and its changes to the table.
    type Step = (&'static str, fn(&mut PhaseSpec));

    #[track_caller]
    fn run(engine: &FaultyEngine, workloads: &[Step]) -> Result<Vec<PhaseResult>> {
        let dir = tempfile::tempdir().expect("a directory for the test");
        let mut runner = PhaseRunner::new(engine, dir.path().join("db"), Settings::default());
        let phases = workloads.iter().map(|(name, change)| {
            let mut phase = suites::by_name(name).expect("a workload of the table").to_phase(NUM);
            phase.settle = false;
            change(&mut phase);
            runner.run(&phase, &AtomicU64::new(0))
        });
        phases.collect()
    }

    fn as_is(_: &mut PhaseSpec) {}

    #[test]
    fn every_kind_finds_existing_keys() {
        let results = run(
            &FaultyEngine::default(),
            &[
                ("fillseq", as_is),
                ("readrandom", as_is),
                ("readseq", as_is),
                ("readreverse", as_is),
                ("readmissing", as_is),
                ("seekrandom", |d| d.num = 20),
                ("open", as_is),
                ("compact", as_is),
                ("deleteseq", as_is),
                ("readrandom", as_is),
            ],
        );
        let found: Vec<_> = results.expect("no fault is injected").iter().map(|r| (r.ops, r.found)).collect();
        let all = (NUM, NUM);
        let none = (NUM, 0);
        assert_eq!(found, [none, all, all, all, none, (20, 20), (1, 0), (1, 0), none, none]);
    }

    #[test]
    fn threads_and_batches() {
        let results = run(
            &FaultyEngine::default(),
            &[
                ("fillseq", |d| {
                    d.threads = 3;
                    d.batch = 7;
                }),
                ("readseq", |d| d.threads = 2),
            ],
        );
        let results = results.expect("no fault is injected");
        assert_eq!((results[0].ops, results[1].ops, results[1].found), (NUM, NUM, NUM));
        assert_eq!(results[1].checked, NUM);
        assert_eq!(results[0].latency_ns.histogram.iter().map(|(_, count)| count).sum::<u64>(), NUM);
    }

    #[test]
    fn sync_every_syncs_last_write() {
        for (change, expect) in [
            ((|d| d.sync_every = 1000) as fn(&mut PhaseSpec), vec![1000, 2000, 3000, 4000, 5000]),
            (
                |d| {
                    d.sync_every = 1000;
                    d.num = 999;
                },
                vec![],
            ),
            (
                |d| {
                    d.sync = true;
                    d.sync_every = 2;
                    d.num = 3;
                },
                vec![1, 2, 3],
            ),
            (as_is, vec![]),
        ] {
            let engine = FaultyEngine::default();
            run(&engine, &[("fillrandom", change)]).expect("no fault is injected");
            assert_eq!(engine.state.lock().expect("no thread panicked").synced_puts, expect);
        }
    }

    #[test]
    fn writers_put_until_the_gets_are_done() {
        let engine = FaultyEngine::default();
        let results = run(&engine, &[("fillseq", as_is), ("readwhilewriting", |d| d.writers = 2)]);
        let read = &results.expect("no fault is injected")[1];
        assert_eq!((read.ops, read.found, read.checked), (NUM, NUM, NUM));
        let puts = engine.state.lock().expect("no thread panicked").put_count;
        assert!(puts > NUM, "the writers put no key");
    }

    #[test]
    fn writers_respect_write_rate() {
        let engine = FaultyEngine::default();
        let steps: [Step; 2] = [
            ("fillseq", as_is),
            ("readwhilewriting", |d| {
                d.writers = 1;
                d.write_rate = 50;
            }),
        ];
        let start = std::time::Instant::now();
        run(&engine, &steps).expect("no fault is injected");
        let puts = engine.state.lock().expect("no thread panicked").put_count - NUM;
        let most = (start.elapsed().as_secs_f64() * 50.0) as u64 + 1;
        assert!(puts <= most, "{puts} puts, at most {most}");
    }

    #[test]
    fn injected_sleep_shows_as_stall() {
        let stall = Duration::from_millis(450);
        let engine = FaultyEngine { slow_put: Some((NUM / 2, stall)), ..FaultyEngine::default() };
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
    fn injected_pause_between_calls_is_measured() {
        let engine =
            FaultyEngine { cursor_drop_delay: Some(Duration::from_millis(50)), ..FaultyEngine::default() };
        let results = run(&engine, &[("fillseq", as_is), ("seekrandom", |d| d.num = 2)]);
        let result = &results.expect("no error")[1];
        assert!(result.latency_ns.p50 >= 50_000_000, "{:?}", result.latency_ns);
    }

    #[test]
    fn injected_wrong_value_is_rejected() {
        let engine = FaultyEngine { corrupt_key: Some(42), ..FaultyEngine::default() };
        for reads in ["readseq", "readreverse", "getseq"] {
            let refused = run(&engine, &[("fillseq", as_is), (reads, as_is)]).expect_err("a value is wrong");
            assert!(refused.starts_with("wrong value at key 42: found "), "{refused}");
        }
    }
}
