//! Executes one phase with one engine, in this process.
//!
//! ```text
//!   open, fresh if asked | threads execute their operations | wait until quiet | count | complete
//!                        |<- seconds, latencies, windows -->|
//!                        |<- processor time, memory, device writes --------->|
//! ```
//!
//! Operations that a time limit cut off are executed at the end, unmeasured, if the next phase
//! needs their entries.
//!
//! Deferred work of the engine counts: processor time and writes are measured until background work
//! has ended. There is no warm-up except the earlier phases: a run begins in a new process, with an
//! empty directory.

use std::fs;
use std::path::PathBuf;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, Scope, ScopedJoinHandle};
use std::time::Duration;

use super::clock::Clock;
use super::resources::{self, ResourceUsage};
use super::transactions;
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
    /// Sum of the counts of all values; None if it is unknown.
    sum_of_counts: Option<u64>,
}

impl<'a> PhaseRunner<'a> {
    /// Creates a runner for the existing empty directory `dir`.
    pub fn new(engine: &'a dyn Engine, dir: PathBuf, settings: Settings) -> PhaseRunner<'a> {
        let opened_with = settings.clone();
        PhaseRunner { engine, dir, opened_with, settings, store: None, sum_of_counts: Some(0) }
    }

    /// Executes `phase`, and counts its operations in `done` meanwhile.
    pub fn run(&mut self, phase: &PhaseSpec, done: &AtomicU64) -> Result<PhaseResult> {
        self.open_for_phase(phase)?;
        if phase.kind.counts() && self.sum_of_counts.is_none() {
            self.sum_of_counts = Some(transactions::sum_of_counts(self.store()?, phase)?);
        }
        resources::reset_peak_memory();
        let before = ResourceUsage::read();
        // Some orders need a pass over the keys first, so the operations are created before the
        // clock.
        let ops = (0..phase.threads).map(|thread| Ops::new(phase, thread)).collect();
        let (stats, rest) = if phase.kind == Kind::Open {
            (self.run_opens(phase, done)?, Vec::new())
        } else {
            self.run_threads(phase, ops, done)?
        };
        let quiet = phase.settle.then(resources::wait_until_quiet).flatten();
        let mut result = self.to_result(stats, before, quiet);
        self.check_counts(phase, result.ops)?;
        if phase.completes && !rest.is_empty() {
            self.complete(phase, rest)?;
            result.space_bytes = resources::disk_usage(&self.dir);
        }
        Ok(result)
    }

    /// Checks that no increment was lost, if `ops` operations of `phase` were increments.
    fn check_counts(&mut self, phase: &PhaseSpec, ops: u64) -> Result<()> {
        if let (Some(before), true) = (self.sum_of_counts, phase.kind.counts()) {
            let after = transactions::sum_of_counts(self.store()?, phase)?;
            transactions::check_sum(before, after, ops)?;
            // Operations that follow without a measurement are not summed.
            self.sum_of_counts = (!phase.completes).then_some(after);
        } else if phase.kind == Kind::FollowAge || phase.writes() && self.sum_of_counts != Some(0) {
            self.sum_of_counts = None;
        }
        Ok(())
    }

    /// Executes the operations that the time limit of `phase` left, without measuring them.
    fn complete(&mut self, phase: &PhaseSpec, rest: Vec<Ops<'_>>) -> Result<()> {
        self.run_threads(&phase.without_time(), rest, &AtomicU64::new(0))?;
        if phase.settle {
            resources::wait_until_quiet();
        }
        Ok(())
    }

    fn open_for_phase(&mut self, phase: &PhaseSpec) -> Result<()> {
        if phase.fresh {
            self.store = None;
            self.recreate_dir().map_err(|e| format!("{}: {e}", self.dir.display()))?;
            self.sum_of_counts = Some(0);
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

    /// Executes `ops`, each in a thread. Returns the operations that a time limit left.
    fn run_threads<'p>(
        &mut self,
        phase: &PhaseSpec,
        ops: Vec<Ops<'p>>,
        done: &AtomicU64,
    ) -> Result<(WorkerStats, Vec<Ops<'p>>)> {
        let writers_phase = phase.writers_phase();
        let puts: Vec<Ops<'_>> = (0..phase.writers).map(|writer| Ops::new(&writers_phase, writer)).collect();
        // The times of `follow-age` count like increments.
        let has_counts = self.sum_of_counts != Some(0) || phase.kind == Kind::FollowAge;
        let dir = self.dir.clone();
        let store = self.store()?;
        let clock = Clock::start();
        let stop = AtomicBool::new(false);
        let dir = &dir;
        let shared = PhaseShared { phase, clock, done, stop, max_ops_per_second: 0, has_counts, dir };
        let writer_ops = AtomicU64::new(0);
        let stop = AtomicBool::new(false);
        let writers_shared = PhaseShared {
            phase: &writers_phase,
            clock,
            done: &writer_ops,
            stop,
            max_ops_per_second: phase.write_rate,
            has_counts,
            dir,
        };
        let barrier = Barrier::new(ops.len() + puts.len());
        let ((mut sum, rest), (written, _)) = thread::scope(|scope| {
            let threads = start_workers(scope, &barrier, &shared, store, ops);
            let writers = start_workers(scope, &barrier, &writers_shared, store, puts);
            let sum = join_workers(threads);
            writers_shared.stop.store(true, Ordering::Relaxed);
            Ok::<_, String>((sum?, join_workers(writers)?))
        })?;
        clock.check_against_system_clock()?;
        sum.bytes_put += written.bytes_put;
        sum.writers_latencies = (phase.writers > 0).then_some(written.latencies);
        Ok((sum, rest))
    }

    /// Closes and reopens the database repeatedly, in one thread.
    fn run_opens(&mut self, phase: &PhaseSpec, done: &AtomicU64) -> Result<WorkerStats> {
        let shared = PhaseShared {
            phase,
            clock: Clock::start(),
            done,
            stop: AtomicBool::new(false),
            max_ops_per_second: 0,
            has_counts: false,
            dir: &self.dir.clone(),
        };
        let mut stats = WorkerStats::default();
        let seconds = |stats: &WorkerStats| stats.last_end_ns / 1_000_000_000;
        while stats.ops < phase.num || seconds(&stats) < phase.duration_min_s {
            self.store = None;
            self.store()?;
            stats.record_end(&shared, 1);
            if phase.duration_limit_s > 0 && seconds(&stats) >= phase.duration_limit_s {
                break;
            }
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
            writers_latency_ns: stats.writers_latencies.map(|latencies| latencies.summary()),
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

/// Measurements of a thread, and the operations that a time limit left.
type ThreadResult<'a> = Result<(WorkerStats, Option<Ops<'a>>)>;

/// Starts a thread for each of `ops`. The threads begin when all have reached the barrier.
fn start_workers<'scope, 'p: 'scope>(
    scope: &'scope Scope<'scope, '_>,
    barrier: &'scope Barrier,
    shared: &'scope PhaseShared<'scope>,
    store: &'scope dyn Store,
    ops: Vec<Ops<'p>>,
) -> Vec<ScopedJoinHandle<'scope, ThreadResult<'p>>> {
    let threads = ops.into_iter().map(|ops| {
        scope.spawn(move || {
            barrier.wait();
            Worker::new(shared, store).run(ops)
        })
    });
    threads.collect()
}

/// Joins all `threads`, merges their stats, and collects the operations that are left.
fn join_workers<'a>(
    threads: Vec<ScopedJoinHandle<'_, ThreadResult<'a>>>,
) -> Result<(WorkerStats, Vec<Ops<'a>>)> {
    let mut total = WorkerStats::default();
    let mut rest = Vec::new();
    for thread in threads {
        let (stats, left) = thread.join().map_err(|_| "a thread panicked")??;
        total.merge(&stats);
        rest.extend(left);
    }
    Ok((total, rest))
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

    /// A count survives later reads, and the sum is known again after other writes.
    #[test]
    fn transactions_count_each_operation() {
        let two_threads: fn(&mut PhaseSpec) = |d| d.threads = 2;
        let results = run(
            &FaultyEngine::default(),
            &[
                ("fillseq", as_is),
                ("txn-rmw", two_threads),
                ("readrandom", as_is),
                ("txn-hot", two_threads),
                ("txn-scan", as_is),
                ("txn-blind", as_is),
                ("txn-rmw", as_is),
                ("readseq", as_is),
            ],
        );
        let results = results.expect("no fault is injected");
        let found: Vec<_> = results.iter().map(|r| (r.ops, r.found)).collect();
        let all = (NUM, NUM);
        assert_eq!(found, [(NUM, 0), all, all, all, (NUM / 10, NUM / 10), (NUM, 0), all, all]);
    }

    #[test]
    fn injected_lost_update_is_rejected() {
        let engine = FaultyEngine { loses_transactions: true, ..FaultyEngine::default() };
        for workload in ["txn-rmw", "txn-scan"] {
            let refused =
                run(&engine, &[("fillseq", as_is), (workload, as_is)]).expect_err("updates are lost");
            assert!(refused.starts_with("LOST UPDATES: "), "{refused}");
        }
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

    /// Regression: the reads after a load with a time limit found fewer entries in slow engines.
    #[test]
    fn load_is_completed_after_its_time_limit() {
        for (threads, batch) in [(1, 1), (3, 1), (2, 7)] {
            let stall = Duration::from_millis(1100);
            let engine = FaultyEngine { slow_put: Some((NUM / 2, stall)), ..FaultyEngine::default() };
            let dir = tempfile::tempdir().expect("a directory for the test");
            let mut runner = PhaseRunner::new(&engine, dir.path().join("db"), Settings::default());
            let load = suites::by_name("fillseq").expect("a workload of the table").to_phase(NUM);
            let read = suites::by_name("readseq").expect("a workload of the table").to_phase(NUM);
            let settle = false;
            let limited = PhaseSpec { threads, batch, settle, duration_limit_s: 1, completes: true, ..load };
            let puts = runner.run(&limited, &AtomicU64::new(0)).expect("no fault is injected");
            assert!(puts.ops < NUM, "{threads} threads, {} puts were measured", puts.ops);
            let all = runner.run(&PhaseSpec { settle, ..read }, &AtomicU64::new(0)).expect("no fault");
            assert_eq!(all.found, NUM, "{threads} threads, batches of {batch}");
        }
    }

    #[test]
    fn short_phases_are_repeated() {
        let repeat: fn(&mut PhaseSpec) = |d| d.duration_min_s = 1;
        let steps: [Step; 5] = [
            ("fillseq", as_is),
            ("readrandom", repeat),
            ("readreverse", repeat),
            ("open", repeat),
            ("fillrandom", |d| {
                d.duration_min_s = 1;
                d.batch = 7;
            }),
        ];
        let results = run(&FaultyEngine::default(), &steps).expect("no fault is injected");
        for (result, (name, _)) in results.iter().zip(steps).skip(1) {
            assert!(
                result.seconds >= 1.0 && result.ops > 10,
                "{name}: {} in {} s",
                result.ops,
                result.seconds
            );
            assert_eq!(result.windows_100ms.iter().sum::<u64>(), result.ops, "{name}");
        }
        assert_eq!((results[1].found, results[2].found), (results[1].ops, results[2].ops));
    }

    #[test]
    fn repeated_scan_of_an_empty_database_ends() {
        let results = run(
            &FaultyEngine::default(),
            &[("readseq", |d| {
                d.fresh = true;
                d.duration_min_s = 3600;
            })],
        );
        assert_eq!(results.expect("no fault is injected")[0].ops, 0);
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
