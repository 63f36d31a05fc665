//! Executes the rounds: A B C, A B C, A B C. Changes on the machine affect all engines alike.
//!
//! In every round, each engine runs in a new process and an empty directory, so memory, processor
//! time and a crash belong to one engine. An engine that fails is skipped in later rounds, and the
//! result tells the reason. A result that differs from the expected result is rejected. A run that
//! is stopped keeps the finished phases; the interrupted phase does not count as a failure.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use super::plan::{Plan, SelectedEngine};
use super::protocol::{Message, ProgressTick, RunRequest};
use super::stop_signal::StopSignal;
use crate::report::model::{PhaseResult, ResultFile};
use crate::report::summary;
use crate::workload::expected_values::ExpectedResult;
use crate::workload::phase_spec::{Kind, Order, PhaseSpec};

/// Observer of a run.
pub trait Observer {
    /// Called with the progress of `engine` in round `round`.
    fn on_tick(&mut self, engine: &str, round: u32, tick: ProgressTick);

    /// Called when `result` has grown. It is complete up to the last finished phase.
    fn on_result(&mut self, result: &ResultFile);
}

/// Runs one engine in one round, and passes its messages to the callback.
pub type RunEngine<'a> =
    dyn FnMut(&SelectedEngine, &RunRequest, &mut dyn FnMut(Message)) -> Result<(), String> + 'a;

/// Executes `plan` until its end or until `stop` is set, and adds the measurements to `result`.
pub fn run(
    plan: &Plan,
    result: &mut ResultFile,
    run_engine: &mut RunEngine<'_>,
    stop: &StopSignal,
    observer: &mut dyn Observer,
) {
    let mut failed = vec![false; plan.engines.len()];
    for round in 0..plan.rounds {
        for (engine, failed) in plan.engines.iter().zip(&mut failed) {
            if engine.info.present && !*failed && stop.signal().is_none() {
                let mut run = EngineRound { plan, engine, round, result, stop, observer };
                *failed = !run.execute(run_engine);
            }
        }
    }
    result.summary = summary::summarise(result);
    observer.on_result(result);
}

/// Run of one engine in one round.
struct EngineRound<'a> {
    plan: &'a Plan,
    engine: &'a SelectedEngine,
    round: u32,
    result: &'a mut ResultFile,
    stop: &'a StopSignal,
    observer: &'a mut dyn Observer,
}

impl EngineRound<'_> {
    /// Runs the engine, and returns whether it succeeded.
    fn execute(&mut self, run_engine: &mut RunEngine<'_>) -> bool {
        let engine = self.engine;
        let dir = self.plan.dir.join(format!("{}-{}", engine.info.id, self.round));
        let request = RunRequest {
            engine: engine.entry_id.into(),
            path: engine.path.clone(),
            dir: dir.clone(),
            settings: engine.info.settings.clone(),
            phases: self
                .plan
                .phases
                .iter()
                .filter(|phase| self.can_execute(&phase.workload))
                .cloned()
                .collect(),
        };
        let last_row = request.phases.last().map(|phase| phase.row);
        let mut finished = None;
        let outcome = RoundDir::new(&dir).and_then(|_dir_guard| {
            run_engine(engine, &request, &mut |message| match message {
                Message::Tick(tick) => self.observer.on_tick(&engine.info.id, self.round, tick),
                Message::Result(result) => {
                    finished = Some(result.row);
                    self.add_result(*result);
                }
                Message::Error(_) => {}
            })
        });
        let outcome = outcome.and_then(|()| match finished == last_row {
            true => Ok(()),
            false => Err("the measuring process ended before its last phase".into()),
        });
        let failed = outcome.is_err();
        if let (Err(error), None) = (outcome, self.stop.signal()) {
            let row = next_row(&request, finished);
            self.add_result(PhaseResult { row, error, ..PhaseResult::default() });
        }
        !failed
    }

    /// Whether the engine has the operations of `phase`. A compaction may have no effect.
    fn can_execute(&self, phase: &PhaseSpec) -> bool {
        phase.kind == Kind::Compact || self.engine.info.takes_part_in(phase.kind)
    }

    fn add_result(&mut self, mut result: PhaseResult) {
        let phase = self.plan.phases.get(result.row);
        let takes_part = phase.is_none_or(|phase| self.engine.info.takes_part_in(phase.workload.kind));
        if !takes_part && result.error.is_empty() {
            // The time of a call without an effect is not comparable with a compaction.
            return;
        }
        result.engine.clone_from(&self.engine.info.id);
        result.round = self.round;
        let expected = self.plan.expected.get(result.row).copied().flatten();
        if let (Some(phase), Some(expected), true) = (phase, expected, result.error.is_empty()) {
            check_result(&mut result, &phase.workload, expected);
        }
        self.result.results.push(result);
        self.result.summary = summary::summarise(self.result);
        self.observer.on_result(self.result);
    }
}

/// Returns the row of `request` that fails after the last `finished` one.
fn next_row(request: &RunRequest, finished: Option<usize>) -> usize {
    let mut rows = request.phases.iter().map(|phase| phase.row);
    let next = rows.find(|row| finished.is_none_or(|finished| *row > finished));
    next.or(finished).unwrap_or_default()
}

/// New directory of a run, removed on drop.
struct RoundDir<'a>(&'a Path);

impl RoundDir<'_> {
    fn new(dir: &Path) -> Result<RoundDir<'_>, String> {
        match fs::create_dir(dir) {
            Ok(()) => Ok(RoundDir(dir)),
            Err(e) if e.kind() == ErrorKind::AlreadyExists => Err(format!(
                "{}: already exists; remove it or choose another directory with --dir",
                dir.display()
            )),
            Err(e) => Err(format!("{}: {e}", dir.display())),
        }
    }
}

impl Drop for RoundDir<'_> {
    fn drop(&mut self) {
        // An error is ignored: the measurements of this run are complete.
        let _ = fs::remove_dir_all(self.0);
    }
}

/// Compares a result with the expected result, and computes the space amplification.
fn check_result(result: &mut PhaseResult, phase: &PhaseSpec, expected: ExpectedResult) {
    if let Some(found) = expected.found
        && is_wrong(result, phase, found)
    {
        result.error = format!("wrong answer: found {} keys, expected {found}", result.found);
        if phase.is_timed() {
            result.error += &format!(" of {}, not of {}", phase.num, result.ops);
        }
    }
    let live = expected.live as f64 * (phase.key_size + phase.value_size) as f64;
    if live > 0.0 {
        result.space_amplification = result.space_bytes.map(|bytes| bytes as f64 / live);
    }
}

/// Returns whether a result contradicts `found`, the number of keys that the operations find if
/// each is executed once.
fn is_wrong(result: &PhaseResult, phase: &PhaseSpec, found: u64) -> bool {
    if !phase.is_timed() {
        return result.found != found;
    }
    // Every part of a sequence of random keys finds the same share of them. The tolerance is eight
    // standard deviations of a share of one half.
    let is_random = matches!(phase.order, Order::Random | Order::Hot | Order::Zipf);
    let reads = matches!(phase.kind, Kind::Get | Kind::Seek) && is_random && result.ops > 0;
    let share = result.found as f64 / result.ops as f64;
    reads && (share - found as f64 / phase.num as f64).abs() > 4.0 / (result.ops as f64).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::faulty::FaultyEngine;
    use crate::report::model::{EngineInfo, PhaseInfo, Settings};
    use crate::run::phase::PhaseRunner;
    use crate::workload::expected_values::expected_results;
    use crate::workload::suites;
    use std::sync::atomic::AtomicU64;

    struct NoObserver;

    impl Observer for NoObserver {
        fn on_tick(&mut self, _: &str, _: u32, _: ProgressTick) {}
        fn on_result(&mut self, _: &ResultFile) {}
    }

    fn plan(engines: &[&'static str], dir: &Path) -> Plan {
        let phases = ["fillseq", "readrandom", "readseq"].into_iter().enumerate().map(|(row, name)| {
            let workload = suites::by_name(name).expect("in the table").to_phase(500);
            PhaseInfo { row, name: name.into(), workload: PhaseSpec { settle: false, ..workload } }
        });
        let engines = engines.iter().map(|id| SelectedEngine {
            info: EngineInfo { id: (*id).into(), present: true, ..EngineInfo::default() },
            entry_id: id,
            path: None,
            program: None,
        });
        let phases: Vec<PhaseInfo> = phases.collect();
        let expected = expected_results(phases.iter().map(|phase| &phase.workload));
        Plan { engines: engines.collect(), phases, expected, rounds: 2, dir: dir.into() }
    }

    /// Runs the engines with their injected faults in this process. Each line of `expect` is a
    /// round, an engine, a row, and the error if there is one.
    #[track_caller]
    fn check(engines: &[(&'static str, FaultyEngine)], expect: &[&str]) {
        let dir = tempfile::tempdir().expect("a directory for the test");
        let plan = plan(&engines.iter().map(|(id, _)| *id).collect::<Vec<_>>(), dir.path());
        let mut result = ResultFile { phases: plan.phases.clone(), ..ResultFile::default() };
        result.engines = plan.engines.iter().map(|engine| engine.info.clone()).collect();
        let mut run_engine =
            |engine: &SelectedEngine, request: &RunRequest, on_message: &mut dyn FnMut(Message)| {
                let injected = engines.iter().find(|(id, _)| *id == engine.entry_id).expect("one of them");
                let mut runner = PhaseRunner::new(&injected.1, request.dir.clone(), Settings::default());
                for phase in &request.phases {
                    let result = runner.run(&phase.workload, &AtomicU64::new(0))?;
                    on_message(Message::Result(Box::new(PhaseResult { row: phase.row, ..result })));
                }
                Ok(())
            };
        run(&plan, &mut result, &mut run_engine, &StopSignal::never(), &mut NoObserver);
        let lines = result.results.iter().map(|r| {
            let error = r.error.split(": found \"").next().unwrap_or_default();
            format!("{} {} {} {error}", r.round, r.engine, r.row).trim().to_owned()
        });
        assert_eq!(lines.collect::<Vec<_>>(), expect);
        assert_eq!(fs::read_dir(dir.path()).expect("it is there").count(), 0, "databases were not removed");
        let refused = result.results.iter().filter(|r| !r.error.is_empty());
        for PhaseResult { engine, row, .. } in refused {
            let summary = result.summary.iter().find(|s| s.engine == *engine && s.row == *row);
            assert_eq!(summary.and_then(|summary| summary.median_ops_per_second), None, "{engine} {row}");
        }
    }

    #[test]
    fn engines_run_engines() {
        check(
            &[("a", FaultyEngine::default()), ("b", FaultyEngine::default())],
            &[
                "0 a 0", "0 a 1", "0 a 2", "0 b 0", "0 b 1", "0 b 2", "1 a 0", "1 a 1", "1 a 2", "1 b 0",
                "1 b 1", "1 b 2",
            ],
        );
    }

    #[test]
    fn wrong_value_stops_only_its_engine() {
        check(
            &[
                ("a", FaultyEngine { corrupt_key: Some(7), ..FaultyEngine::default() }),
                ("b", FaultyEngine::default()),
            ],
            &[
                "0 a 0",
                "0 a 1",
                "0 a 2 wrong value at key 7",
                "0 b 0",
                "0 b 1",
                "0 b 2",
                "1 b 0",
                "1 b 1",
                "1 b 2",
            ],
        );
    }

    #[test]
    fn existing_directory_is_not_removed() {
        let dir = tempfile::tempdir().expect("a directory for the test");
        let existing = dir.path().join("a-0");
        fs::create_dir(&existing).expect("it is writable");
        fs::write(existing.join("file"), "contents").expect("it is writable");
        let plan = plan(&["a"], dir.path());
        let mut result = ResultFile { phases: plan.phases.clone(), ..ResultFile::default() };
        let mut no_run = |_: &SelectedEngine, _: &RunRequest, _: &mut dyn FnMut(Message)| Ok(());
        run(&plan, &mut result, &mut no_run, &StopSignal::never(), &mut NoObserver);
        let expect = format!("{}: already exists; remove it or", existing.display());
        assert!(result.results[0].error.starts_with(&expect), "{}", result.results[0].error);
        assert_eq!(fs::read_to_string(existing.join("file")).expect("it is there"), "contents");
    }

    #[test]
    fn timed_gets_find_the_expected_share() {
        let phase = PhaseSpec { kind: Kind::Get, order: Order::Random, num: 1000, ..PhaseSpec::default() };
        let timed = PhaseSpec { duration_limit_s: 1, ..phase.clone() };
        for (spec, ops, found, error) in [
            (&phase, 1000, 630, ""),
            (&phase, 1000, 629, "wrong answer: found 629 keys, expected 630"),
            (&timed, 40_000, 25_000, ""),
            (&timed, 40_000, 20_000, "wrong answer: found 20000 keys, expected 630 of 1000, not of 40000"),
            (&timed, 0, 0, ""),
        ] {
            let mut result = PhaseResult { ops, found, ..PhaseResult::default() };
            check_result(&mut result, spec, ExpectedResult { found: Some(630), live: 1 });
            assert_eq!(result.error, error);
        }
    }

    /// Regression: the no-op compaction of LMDB was 435 times as fast as a compaction.
    #[test]
    fn engine_without_compaction_is_not_compared() {
        let dir = tempfile::tempdir().expect("a directory for the test");
        let mut plan = plan(&["a", "b"], dir.path());
        plan.engines[1].info.has_compaction = true;
        for phase in &mut plan.phases {
            phase.workload.kind = Kind::Compact;
        }
        plan.expected = vec![None; plan.phases.len()];
        let mut result = ResultFile { phases: plan.phases.clone(), ..ResultFile::default() };
        result.engines = plan.engines.iter().map(|engine| engine.info.clone()).collect();
        let mut run_engine =
            |_: &SelectedEngine, request: &RunRequest, on_message: &mut dyn FnMut(Message)| {
                for phase in &request.phases {
                    on_message(Message::Result(Box::new(PhaseResult {
                        row: phase.row,
                        ..PhaseResult::default()
                    })));
                }
                Ok(())
            };
        run(&plan, &mut result, &mut run_engine, &StopSignal::never(), &mut NoObserver);
        assert!(result.results.iter().all(|result| result.engine == "b" && result.error.is_empty()));
        assert!(result.summary.iter().all(|summary| summary.ratio_to_first.is_none()));
    }

    #[test]
    fn lost_key_is_rejected() {
        check(
            &[("a", FaultyEngine { lost_key: Some(499), ..FaultyEngine::default() })],
            &[
                "0 a 0",
                "0 a 1 wrong answer: found 498 keys, expected 500",
                "0 a 2 wrong answer: found 499 keys, expected 500",
                "1 a 0",
                "1 a 1 wrong answer: found 498 keys, expected 500",
                "1 a 2 wrong answer: found 499 keys, expected 500",
            ],
        );
    }
}
