//! Rounds in turns: A B C, A B C, A B C. What changes on the machine meanwhile meets all engines alike.
//!
//! Every turn is a process of its own in a fresh directory, so memory, processor time and a crash belong to one
//! engine. An engine that fails is out; the others go on, and the result says why. A result that does not find what
//! must be there, or finds something else, is refused: it has no figures. A run that is asked to stop keeps the phases
//! that are done; the one that it was in is nobody's failure.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use super::plan::{Plan, SelectedEngine};
use super::protocol::{Message, ProgressTick, RunRequest};
use super::stop_signal::StopSignal;
use crate::report::model::{PhaseResult, ResultFile};
use crate::report::summary;
use crate::workload::expected_values::ExpectedResult;
use crate::workload::phase_spec::PhaseSpec;

/// Who watches a run.
pub trait Observer {
    /// `engine` is in round `round`, so far.
    fn on_tick(&mut self, engine: &str, round: u32, tick: ProgressTick);

    /// The result has grown. It is what should be kept if the run ends here.
    fn on_result(&mut self, result: &ResultFile);
}

/// Takes one engine's turn, and hands over what comes of it.
pub type RunEngine<'a> =
    dyn FnMut(&SelectedEngine, &RunRequest, &mut dyn FnMut(Message)) -> Result<(), String> + 'a;

/// Does all of `plan`, or what comes before `stop` is asked for, and completes `result` with what came of it.
pub fn run(
    plan: &Plan,
    result: &mut ResultFile,
    take_turn: &mut RunEngine<'_>,
    stop: &StopSignal,
    observer: &mut dyn Observer,
) {
    let mut out = vec![false; plan.engines.len()];
    for round in 0..plan.rounds {
        for (contender, out) in plan.engines.iter().zip(&mut out) {
            if contender.info.present && !*out && stop.signal().is_none() {
                let mut run = EngineRound { plan, contender, round, result, stop, observer };
                *out = !run.execute(take_turn);
            }
        }
    }
    result.summary = summary::summarise(result);
    observer.on_result(result);
}

/// One engine's turn.
struct EngineRound<'a> {
    plan: &'a Plan,
    contender: &'a SelectedEngine,
    round: u32,
    result: &'a mut ResultFile,
    stop: &'a StopSignal,
    observer: &'a mut dyn Observer,
}

impl EngineRound<'_> {
    /// False if it failed.
    fn execute(&mut self, take_turn: &mut RunEngine<'_>) -> bool {
        let contender = self.contender;
        let dir = self.plan.dir.join(format!("{}-{}", contender.info.id, self.round));
        let turn = RunRequest {
            engine: contender.entry_id.into(),
            path: contender.path.clone(),
            dir: dir.clone(),
            settings: contender.info.settings.clone(),
            phases: self.plan.phases.clone(),
        };
        let mut finished = 0;
        let taken = RoundDir::new(&dir).and_then(|_place| {
            take_turn(contender, &turn, &mut |message| match message {
                Message::Tick(tick) => self.observer.on_tick(&contender.info.id, self.round, tick),
                Message::Result(result) => {
                    finished = result.row + 1;
                    self.add_result(*result);
                }
                Message::Error(_) => {}
            })
        });
        let taken = taken.and_then(|()| match finished == self.plan.phases.len() {
            true => Ok(()),
            false => Err("the measuring process ended before its last phase".into()),
        });
        let failed = taken.is_err();
        if let (Err(error), None) = (taken, self.stop.signal()) {
            self.add_result(PhaseResult { row: finished, error, ..PhaseResult::default() });
        }
        !failed
    }

    fn add_result(&mut self, mut result: PhaseResult) {
        result.engine.clone_from(&self.contender.info.id);
        result.round = self.round;
        let phase = self.plan.phases.get(result.row);
        let expected = self.plan.expected.get(result.row).copied().flatten();
        if let (Some(phase), Some(expected), true) = (phase, expected, result.error.is_empty()) {
            check_result(&mut result, &phase.workload, expected);
        }
        self.result.results.push(result);
        self.result.summary = summary::summarise(self.result);
        self.observer.on_result(self.result);
    }
}

/// The directory of a turn, which was not there before, and is gone with this.
struct RoundDir<'a>(&'a Path);

impl RoundDir<'_> {
    fn new(dir: &Path) -> Result<RoundDir<'_>, String> {
        match fs::create_dir(dir) {
            Ok(()) => Ok(RoundDir(dir)),
            Err(e) if e.kind() == ErrorKind::AlreadyExists => Err(format!(
                "{}: is there already, and may be somebody's; remove it, or name another place with --dir",
                dir.display()
            )),
            Err(e) => Err(format!("{}: {e}", dir.display())),
        }
    }
}

impl Drop for RoundDir<'_> {
    fn drop(&mut self) {
        // The next turn needs the room more than this one needs an error about it.
        let _ = fs::remove_dir_all(self.0);
    }
}

/// Compares a result with what it must come to, and fills in what follows from that.
fn check_result(result: &mut PhaseResult, phase: &PhaseSpec, expected: ExpectedResult) {
    if let Some(found) = expected.found.filter(|found| *found != result.found) {
        result.error = format!("wrong answer: found {} keys, expected {found}", result.found);
    }
    let live = expected.live as f64 * (phase.key_size + phase.value_size) as f64;
    if live > 0.0 {
        result.space_amplification = result.space_bytes.map(|bytes| bytes as f64 / live);
    }
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

    struct Nobody;

    impl Observer for Nobody {
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

    /// Runs the engines in this process, each with the faults that are planted in it. Lines of what came out: round,
    /// engine, row, and the error if there is one.
    #[track_caller]
    fn check(engines: &[(&'static str, FaultyEngine)], expect: &[&str]) {
        let dir = tempfile::tempdir().expect("a directory for the test");
        let plan = plan(&engines.iter().map(|(id, _)| *id).collect::<Vec<_>>(), dir.path());
        let mut result = ResultFile { phases: plan.phases.clone(), ..ResultFile::default() };
        result.engines = plan.engines.iter().map(|contender| contender.info.clone()).collect();
        let mut take_turn =
            |contender: &SelectedEngine, turn: &RunRequest, heard: &mut dyn FnMut(Message)| {
                let planted = engines.iter().find(|(id, _)| *id == contender.entry_id).expect("one of them");
                let mut place = PhaseRunner::new(&planted.1, turn.dir.clone(), Settings::default());
                for phase in &turn.phases {
                    let result = place.run(&phase.workload, &AtomicU64::new(0))?;
                    heard(Message::Result(Box::new(PhaseResult { row: phase.row, ..result })));
                }
                Ok(())
            };
        run(&plan, &mut result, &mut take_turn, &StopSignal::never(), &mut Nobody);
        let lines = result.results.iter().map(|r| {
            let error = r.error.split(": found \"").next().unwrap_or_default();
            format!("{} {} {} {error}", r.round, r.engine, r.row).trim().to_owned()
        });
        assert_eq!(lines.collect::<Vec<_>>(), expect);
        assert_eq!(fs::read_dir(dir.path()).expect("it is there").count(), 0, "databases are left behind");
        let refused = result.results.iter().filter(|r| !r.error.is_empty());
        for PhaseResult { engine, row, .. } in refused {
            let summary = result.summary.iter().find(|s| s.engine == *engine && s.row == *row);
            assert_eq!(summary.and_then(|summary| summary.median_ops_per_second), None, "{engine} {row}");
        }
    }

    #[test]
    fn engines_take_turns() {
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
        let theirs = dir.path().join("a-0");
        fs::create_dir(&theirs).expect("it is writable");
        fs::write(theirs.join("letter"), "dear").expect("it is writable");
        let plan = plan(&["a"], dir.path());
        let mut result = ResultFile { phases: plan.phases.clone(), ..ResultFile::default() };
        let mut nothing = |_: &SelectedEngine, _: &RunRequest, _: &mut dyn FnMut(Message)| Ok(());
        run(&plan, &mut result, &mut nothing, &StopSignal::never(), &mut Nobody);
        let expect = format!("{}: is there already, and may be somebody's; remove it, or", theirs.display());
        assert!(result.results[0].error.starts_with(&expect), "{}", result.results[0].error);
        assert_eq!(fs::read_to_string(theirs.join("letter")).expect("it is there"), "dear");
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
