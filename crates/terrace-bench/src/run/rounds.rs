//! Rounds in turns: A B C, A B C, A B C. What changes on the machine meanwhile meets all engines alike.
//!
//! Every turn is a process of its own in a fresh directory, so memory, processor time and a crash belong to one
//! engine. An engine that fails is out; the others go on, and the result says why. A result that does not find what
//! must be there, or finds something else, is refused: it has no figures. A run that is asked to stop keeps the phases
//! that are done; the one that it was in is nobody's failure.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use super::plan::{Contender, Plan};
use super::protocol::{Message, Tick, Turn};
use super::stop::Stop;
use crate::report::model::{PhaseResult, ResultFile};
use crate::report::summary;
use crate::workload::description::Description;
use crate::workload::expect::Expected;

/// Who watches a run.
pub trait Observer {
    /// `engine` is in round `round`, so far.
    fn tick(&mut self, engine: &str, round: u32, tick: Tick);

    /// The result has grown. It is what should be kept if the run ends here.
    fn grown(&mut self, result: &ResultFile);
}

/// Takes one engine's turn, and hands over what comes of it.
pub type TakeTurn<'a> = dyn FnMut(&Contender, &Turn, &mut dyn FnMut(Message)) -> Result<(), String> + 'a;

/// Does all of `plan`, or what comes before `stop` is asked for, and completes `result` with what came of it.
pub fn run(
    plan: &Plan,
    result: &mut ResultFile,
    take_turn: &mut TakeTurn<'_>,
    stop: &Stop,
    observer: &mut dyn Observer,
) {
    let mut out = vec![false; plan.engines.len()];
    for round in 0..plan.rounds {
        for (contender, out) in plan.engines.iter().zip(&mut out) {
            if contender.info.present && !*out && stop.asked().is_none() {
                let mut run = Run { plan, contender, round, result, stop, observer };
                *out = !run.turn(take_turn);
            }
        }
    }
    result.summary = summary::summarise(result);
    observer.grown(result);
}

/// One engine's turn.
struct Run<'a> {
    plan: &'a Plan,
    contender: &'a Contender,
    round: u32,
    result: &'a mut ResultFile,
    stop: &'a Stop,
    observer: &'a mut dyn Observer,
}

impl Run<'_> {
    /// False if it failed.
    fn turn(&mut self, take_turn: &mut TakeTurn<'_>) -> bool {
        let contender = self.contender;
        let dir = self.plan.dir.join(format!("{}-{}", contender.info.id, self.round));
        let turn = Turn {
            engine: contender.engine.into(),
            path: contender.path.clone(),
            dir: dir.clone(),
            settings: contender.info.settings.clone(),
            phases: self.plan.phases.clone(),
        };
        let mut finished = 0;
        let taken = Fresh::new(&dir).and_then(|_place| {
            take_turn(contender, &turn, &mut |message| match message {
                Message::Tick(tick) => self.observer.tick(&contender.info.id, self.round, tick),
                Message::Result(result) => {
                    finished = result.row + 1;
                    self.keep(*result);
                }
                Message::Error(_) => {}
            })
        });
        let taken = taken.and_then(|()| match finished == self.plan.phases.len() {
            true => Ok(()),
            false => Err("the measuring process ended before its last phase".into()),
        });
        let failed = taken.is_err();
        if let (Err(error), None) = (taken, self.stop.asked()) {
            self.keep(PhaseResult { row: finished, error, ..PhaseResult::default() });
        }
        !failed
    }

    fn keep(&mut self, mut result: PhaseResult) {
        result.engine.clone_from(&self.contender.info.id);
        result.round = self.round;
        let phase = self.plan.phases.get(result.row);
        let expected = self.plan.expected.get(result.row).copied().flatten();
        if let (Some(phase), Some(expected), true) = (phase, expected, result.error.is_empty()) {
            judge(&mut result, &phase.workload, expected);
        }
        self.result.results.push(result);
        self.result.summary = summary::summarise(self.result);
        self.observer.grown(self.result);
    }
}

/// The directory of a turn, which was not there before, and is gone with this.
struct Fresh<'a>(&'a Path);

impl Fresh<'_> {
    fn new(dir: &Path) -> Result<Fresh<'_>, String> {
        match fs::create_dir(dir) {
            Ok(()) => Ok(Fresh(dir)),
            Err(e) if e.kind() == ErrorKind::AlreadyExists => Err(format!(
                "{}: is there already, and may be somebody's; remove it, or name another place with --dir",
                dir.display()
            )),
            Err(e) => Err(format!("{}: {e}", dir.display())),
        }
    }
}

impl Drop for Fresh<'_> {
    fn drop(&mut self) {
        // The next turn needs the room more than this one needs an error about it.
        let _ = fs::remove_dir_all(self.0);
    }
}

/// Compares a result with what it must come to, and fills in what follows from that.
fn judge(result: &mut PhaseResult, phase: &Description, expected: Expected) {
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
    use crate::engine::planted::Planted;
    use crate::report::model::{EngineInfo, PhaseInfo, Settings};
    use crate::run::phase::Place;
    use crate::workload::expect::expect;
    use crate::workload::suites;
    use std::sync::atomic::AtomicU64;

    struct Nobody;

    impl Observer for Nobody {
        fn tick(&mut self, _: &str, _: u32, _: Tick) {}
        fn grown(&mut self, _: &ResultFile) {}
    }

    fn plan(engines: &[&'static str], dir: &Path) -> Plan {
        let phases = ["fillseq", "readrandom", "readseq"].into_iter().enumerate().map(|(row, name)| {
            let workload = suites::by_name(name).expect("in the table").phase(500);
            PhaseInfo { row, name: name.into(), workload: Description { settle: false, ..workload } }
        });
        let engines = engines.iter().map(|id| Contender {
            info: EngineInfo { id: (*id).into(), present: true, ..EngineInfo::default() },
            engine: id,
            path: None,
            program: None,
        });
        let phases: Vec<PhaseInfo> = phases.collect();
        let expected = expect(phases.iter().map(|phase| &phase.workload));
        Plan { engines: engines.collect(), phases, expected, rounds: 2, dir: dir.into() }
    }

    /// Runs the engines in this process, each with the faults that are planted in it. Lines of what came out: round,
    /// engine, row, and the error if there is one.
    #[track_caller]
    fn check(engines: &[(&'static str, Planted)], expect: &[&str]) {
        let dir = tempfile::tempdir().expect("a directory for the test");
        let plan = plan(&engines.iter().map(|(id, _)| *id).collect::<Vec<_>>(), dir.path());
        let mut result = ResultFile { phases: plan.phases.clone(), ..ResultFile::default() };
        result.engines = plan.engines.iter().map(|contender| contender.info.clone()).collect();
        let mut take_turn = |contender: &Contender, turn: &Turn, heard: &mut dyn FnMut(Message)| {
            let planted = engines.iter().find(|(id, _)| *id == contender.engine).expect("one of them");
            let mut place = Place::new(&planted.1, turn.dir.clone(), Settings::default());
            for phase in &turn.phases {
                let result = place.run(&phase.workload, &AtomicU64::new(0))?;
                heard(Message::Result(Box::new(PhaseResult { row: phase.row, ..result })));
            }
            Ok(())
        };
        run(&plan, &mut result, &mut take_turn, &Stop::never(), &mut Nobody);
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
            &[("a", Planted::default()), ("b", Planted::default())],
            &[
                "0 a 0", "0 a 1", "0 a 2", "0 b 0", "0 b 1", "0 b 2", "1 a 0", "1 a 1", "1 a 2", "1 b 0",
                "1 b 1", "1 b 2",
            ],
        );
    }

    #[test]
    fn a_wrong_value_is_refused_and_the_others_go_on() {
        check(
            &[("a", Planted { wrong_value_of: Some(7), ..Planted::default() }), ("b", Planted::default())],
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
    fn what_a_turn_did_not_make_stays() {
        let dir = tempfile::tempdir().expect("a directory for the test");
        let theirs = dir.path().join("a-0");
        fs::create_dir(&theirs).expect("it is writable");
        fs::write(theirs.join("letter"), "dear").expect("it is writable");
        let plan = plan(&["a"], dir.path());
        let mut result = ResultFile { phases: plan.phases.clone(), ..ResultFile::default() };
        let mut nothing = |_: &Contender, _: &Turn, _: &mut dyn FnMut(Message)| Ok(());
        run(&plan, &mut result, &mut nothing, &Stop::never(), &mut Nobody);
        let expect = format!("{}: is there already, and may be somebody's; remove it, or", theirs.display());
        assert!(result.results[0].error.starts_with(&expect), "{}", result.results[0].error);
        assert_eq!(fs::read_to_string(theirs.join("letter")).expect("it is there"), "dear");
    }

    #[test]
    fn a_lost_key_is_refused() {
        check(
            &[("a", Planted { lost: Some(499), ..Planted::default() })],
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
