//! A crash at every call that changes a file, under every kind of power loss.
//!
//! A workload runs on files in memory until call `k` and no further. From what is pending then, each profile makes what
//! a restart might find. The database must open, and hold exactly the state after some number of its writes: none that
//! was synced may be missing, none may be there without all before it, no batch may be there in part.

use std::collections::BTreeMap;
use std::sync::Arc;

use terrace::{Db, Env, Options, ReadOptions, WriteBatch, WriteOptions};
use terrace_env::mem::{Crash, MemFs, PROFILES};
use terrace_env::{Deterministic, ManualClock, SeededRandom};
use terrace_testkit::rng::Rng;

type State = BTreeMap<Vec<u8>, Vec<u8>>;

/// A workload, its writes numbered from 1.
struct Workload {
    seed: u64,
    steps: usize,
    reuse_logs: bool,
    /// What the database holds after each number of writes.
    states: Vec<State>,
    batches: Vec<WriteBatch>,
}

/// How far a run came.
#[derive(Debug, Default, Clone, Copy)]
struct Progress {
    /// Writes that returned.
    acknowledged: usize,
    /// The last write that had to be on the medium.
    durable: usize,
}

impl Workload {
    fn new(seed: u64, steps: usize, reuse_logs: bool) -> Workload {
        let mut rng = Rng::new(seed);
        let (mut states, mut batches, mut state) = (vec![State::new()], Vec::new(), State::new());
        for step in 0..steps {
            let mut batch = WriteBatch::new();
            for part in 0..1 + rng.below(3) {
                let key = format!("key{:02}", rng.below(24)).into_bytes();
                if rng.below(4) == 0 {
                    batch.delete(&key);
                    state.remove(&key);
                } else {
                    let value = format!("{step}.{part}.").repeat(1 + rng.below(600) as usize).into_bytes();
                    batch.put(&key, &value);
                    state.insert(key, value);
                }
            }
            batches.push(batch);
            states.push(state.clone());
        }
        Workload { seed, steps, reuse_logs, states, batches }
    }

    fn options(&self, fs: &Arc<MemFs>) -> Options {
        let env = Env {
            fs: Arc::clone(fs) as _,
            clock: Arc::new(ManualClock::new(0)),
            scheduler: Deterministic::new(self.seed),
            random: Arc::new(SeededRandom::new(self.seed)),
        };
        let (write_buffer_size, reuse_logs) = (64 << 10, self.reuse_logs);
        Options { create_if_missing: true, env, write_buffer_size, reuse_logs, ..Options::default() }
    }

    /// Runs until the end or the first error.
    fn run(&self, fs: &Arc<MemFs>) -> Progress {
        let mut progress = Progress::default();
        // The error is the crash.
        let _ = self.try_run(fs, &mut progress);
        progress
    }

    fn try_run(&self, fs: &Arc<MemFs>, progress: &mut Progress) -> terrace::Result<()> {
        let options = self.options(fs);
        let mut rng = Rng::new(self.seed ^ 0x5eed);
        let mut db = Db::open("db", &options)?;
        for batch in &self.batches {
            let sync = rng.below(9) == 0;
            db.write_with(batch, &WriteOptions { sync })?;
            progress.acknowledged += 1;
            match rng.below(40) {
                0 => db.flush()?,
                1 => db.compact_range(None, None)?,
                2 => {
                    db.close()?;
                    progress.durable = progress.acknowledged;
                    db = Db::open("db", &options)?;
                }
                _ if sync => {}
                _ => continue,
            }
            progress.durable = progress.acknowledged;
        }
        db.close()?;
        progress.durable = progress.acknowledged;
        Ok(())
    }

    /// Opens what a crash left, checks it, goes on writing, and checks again.
    fn check(&self, image: MemFs, least: usize, progress: Progress, what: &dyn Fn() -> String) {
        let fs = Arc::new(image);
        let options = self.options(&fs);
        let db = Db::open("db", &options).unwrap_or_else(|error| panic!("{}: open: {error}", what()));
        let mut state = contents(&db);
        // The write that the crash interrupted may be there.
        let most = (progress.acknowledged + 1).min(self.steps);
        let Some(found) = (least..=most).find(|&count| self.states[count] == state) else {
            let any = (0..=self.steps).find(|&count| self.states[count] == state);
            panic!("{}: the state of write {any:?}, expected one of {least} to {most}", what());
        };
        db.put_with(b"after", b"the crash", &WriteOptions { sync: true }).unwrap();
        state.insert(b"after".to_vec(), b"the crash".to_vec());
        db.close().unwrap();
        let db = Db::open("db", &options).unwrap_or_else(|error| panic!("{}: second open: {error}", what()));
        let again = contents(&db);
        assert!(
            again == state,
            "{}: write {found} and one more, then {}",
            what(),
            difference(&state, &again)
        );
    }
}

/// The keys in which two states differ.
fn difference(expected: &State, found: &State) -> String {
    let keys = expected.keys().chain(found.keys()).filter(|key| expected.get(*key) != found.get(*key));
    let mut keys: Vec<String> = keys.map(|key| String::from_utf8_lossy(key).into_owned()).collect();
    keys.dedup();
    format!("{} keys instead of {}; differing: {keys:?}", found.len(), expected.len())
}

fn contents(db: &Db) -> State {
    let scanned: State = db.iter().into_forward().collect::<terrace::Result<_>>().unwrap();
    for (key, value) in &scanned {
        assert_eq!(db.get_with(key, &ReadOptions::default()).unwrap().as_ref(), Some(value));
    }
    scanned
}

/// Crashes `workload` at every `stride`-th call, each profile with `seeds` choices.
fn crash_everywhere(workload: &Workload, stride: u64, seeds: u64) {
    let whole = Arc::new(MemFs::new());
    let done = workload.run(&whole);
    assert_eq!(done.acknowledged, workload.steps, "without a crash it runs to its end");
    let calls = whole.mutations();
    for call in (0..calls).step_by(stride as usize) {
        let fs = Arc::new(MemFs::new());
        fs.freeze_at(call);
        let progress = workload.run(&fs);
        let seed = workload.seed;
        let what = || format!("seed {seed}, call {call} of {calls}, kill, {progress:?}");
        workload.check(fs.crash(&Crash::Kill), progress.acknowledged, progress, &what);
        for profile in PROFILES {
            for choice in 0..seeds {
                let crash = profile.with_seed(choice ^ call);
                let what = || {
                    format!("seed {seed}, call {call} of {calls}, {}, {crash:?}, {progress:?}", profile.name)
                };
                workload.check(fs.crash(&crash), progress.durable, progress, &what);
            }
        }
    }
}

#[test]
fn at_every_call_of_a_short_life() {
    crash_everywhere(&Workload::new(1, 60, false), 1, 2);
}

#[test]
fn at_every_call_with_logs_that_are_gone_on_with() {
    crash_everywhere(&Workload::new(2, 60, true), 1, 2);
}

#[test]
fn here_and_there_in_longer_lives() {
    for seed in 3..9 {
        crash_everywhere(&Workload::new(seed, 400, seed % 2 == 0), 37, 2);
    }
}
