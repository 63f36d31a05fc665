//! Trees that Terrace leaves in the middle of a load, with levels above LevelDB's limits: LevelDB
//! and goleveldb open, compact and continue them, and Terrace continues theirs.
//!
//! ```text
//!   Terrace      load of some thousand random puts and deletions; close or SIGKILL at once
//!   another one  open --> the same contents --> writes --> perhaps a full compaction --> the same
//!   Terrace      the next load, on the tree that the other engine has left
//! ```

use std::path::Path;

use tempfile::TempDir;
use terrace::{Db, Options};
use terrace_testkit::rng::Rng;

use super::engine::{self, EngineSettings};
use super::engine_process::{Answer, EngineProcess};
use super::history::{Contents, ValueId, value_bytes};
use crate::counters::{Counter, Counters};
use crate::harness::Harness;

/// Number of loads of a case. A turn of another engine follows each of them.
const LOADS_PER_CASE: usize = 4;
/// Number of keys of a case.
const KEYS: u64 = 6_000;
/// Maximum number of operations of a load: about 24 MB. LevelDB allows 10 MB on level 1.
const MAX_LOAD: u64 = 8_000;
/// Lengths of values in bytes.
const VALUE_LENS: [u64; 2] = [1_000, 5_000];
/// Number of writes of another engine.
const WRITES: u64 = 60;
/// Sizes of Terrace's memtables in bytes. Twelve of them become a run.
const WRITE_BUFFER_SIZES: [usize; 3] = [256 << 10, 1 << 20, 1 << 20];

pub(in crate::harness) const INTERRUPTED_LOADS: Harness = Harness {
    id: 54,
    name: "interrupted-loads",
    property: "LevelDB and goleveldb continue trees that were left in the middle of a load",
    check_cases: 4,
    time_share: 2,
    run,
};

/// Operations of a load, which both processes draw from its seed.
#[derive(Debug, Clone, Copy)]
pub(super) struct LoadPlan {
    pub(super) seed: u64,
    pub(super) count: u64,
}

impl LoadPlan {
    /// Calls `apply` with each key, and its value or None for a deletion.
    pub(super) fn for_each<E>(
        self,
        mut apply: impl FnMut(String, Option<Vec<u8>>) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut rng = Rng::new(self.seed);
        for _ in 0..self.count {
            let key = format!("load{:05}", rng.below(KEYS));
            let value = (!rng.one_in(8)).then(|| {
                let len = VALUE_LENS[0] + rng.below(VALUE_LENS[1] - VALUE_LENS[0]);
                // Codecs find nothing to compress, so that the levels have these sizes.
                (0..len).map(|_| rng.next_u64() as u8).collect()
            });
            apply(key, value)?;
        }
        Ok(())
    }
}

fn run(seed: u64, counters: &Counters) -> Result<(), String> {
    engine::report_missing_engines()?;
    let mut rng = Rng::new(seed);
    let shared_memory = Path::new("/dev/shm");
    let dir = if shared_memory.is_dir() { TempDir::new_in(shared_memory) } else { TempDir::new() };
    let dir = dir.map_err(|error| format!("setup failed: {error}"))?;
    let mut case = InterruptedLoads { database: &dir.path().join("db"), contents: Contents::new(), counters };
    for _ in 0..LOADS_PER_CASE {
        case.load(&mut rng).map_err(|message| format!("Terrace: {message}"))?;
        let settings = EngineSettings::draw_other_than_terrace(&mut rng);
        case.continue_with(settings, &mut rng).map_err(|message| format!("{settings}: {message}"))?;
    }
    Ok(())
}

/// Database of a case, and its contents.
struct InterruptedLoads<'a> {
    database: &'a Path,
    contents: Contents,
    counters: &'a Counters,
}

impl InterruptedLoads<'_> {
    /// Loads with Terrace, and ends its process before the tree can settle.
    fn load(&mut self, rng: &mut Rng) -> Result<(), String> {
        let settings = EngineSettings::of_terrace(rng.pick(&WRITE_BUFFER_SIZES));
        let mut process = self.open(&settings)?;
        let plan = LoadPlan { seed: rng.next_u64(), count: MAX_LOAD / 4 + rng.below(MAX_LOAD / 4 * 3) };
        expect_ok(process.call(&format!("load {} {}", plan.seed, plan.count)))?;
        plan.for_each(|key, value| {
            match value {
                Some(value) => drop(self.contents.insert(key, ValueId::of(&value))),
                None => drop(self.contents.remove(&key)),
            }
            Ok::<_, String>(())
        })?;
        self.end(process, rng)?;
        if !is_settled(self.database)? {
            self.counters.add(Counter::UnsettledTrees, 1);
        }
        Ok(())
    }

    /// Lets another engine check, write and compact.
    fn continue_with(&mut self, settings: EngineSettings, rng: &mut Rng) -> Result<(), String> {
        let mut process = self.open(&settings)?;
        for _ in 0..rng.below(WRITES) {
            let key = format!("load{:05}", rng.below(KEYS));
            let len = rng.below(VALUE_LENS[1]) as usize;
            let pattern = format!("{:016x}", rng.next_u64());
            let operation = match rng.one_in(4) {
                true => format!("delete {key}"),
                false => format!("put {key} {len} {pattern}"),
            };
            expect_ok(process.call(&format!("write nosync {operation}")))?;
            match operation.starts_with("put") {
                true => drop(self.contents.insert(key, ValueId::of(&value_bytes(len, &pattern)))),
                false => drop(self.contents.remove(&key)),
            }
        }
        if rng.one_in(2) {
            expect_ok(process.call("compact"))?;
        }
        self.check(&mut process)?;
        self.end(process, rng)?;
        self.counters.add(Counter::EngineTurns, 2);
        Ok(())
    }

    fn open(&self, settings: &EngineSettings) -> Result<EngineProcess, String> {
        let (mut process, opened) = EngineProcess::open(settings, self.database)?;
        expect_ok(opened)?;
        self.check(&mut process)?;
        Ok(process)
    }

    fn check(&self, process: &mut EngineProcess) -> Result<(), String> {
        let found = process.read_all().map_err(|answer| format!("a read failed: {answer:?}"))?;
        let mut keys = self.contents.keys().chain(found.keys());
        match keys.find(|&key| self.contents.get(key) != found.get(key)) {
            None => Ok(()),
            Some(key) => Err(format!(
                "\"{key}\": expected {:?}, found {:?}; {} of {} entries",
                self.contents.get(key),
                found.get(key),
                found.len(),
                self.contents.len()
            )),
        }
    }

    /// Ends the process by a close, or by a kill, which loses no acknowledged write.
    fn end(&self, mut process: EngineProcess, rng: &mut Rng) -> Result<(), String> {
        if rng.one_in(2) {
            expect_ok(process.call("close"))?;
            process.wait();
        } else {
            drop(process.kill());
            self.counters.add(Counter::ProcessKills, 1);
        }
        Ok(())
    }
}

fn expect_ok(answer: Answer) -> Result<(), String> {
    if answer == Answer::Ok { Ok(()) } else { Err(format!("unexpected answer: {answer:?}")) }
}

/// Returns true if all levels of a closed database have the sizes that LevelDB allows.
fn is_settled(database: &Path) -> Result<bool, String> {
    let db = Db::open_read_only(database, &Options::default()).map_err(|error| error.to_string())?;
    let settled = db.property("terrace.settled");
    db.close().map_err(|error| error.to_string())?;
    Ok(settled.as_deref() == Some("1"))
}
