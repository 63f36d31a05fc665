//! A simulated environment in memory: files that can lose power, a choice of threads, and no real
//! time.

use std::path::Path;
use std::sync::Arc;

use terrace::Env;
use terrace_env::fault::{Fault, FaultFs, FaultPlan, FaultRule, FileOp};
use terrace_env::mem::{Crash, MemFs};
use terrace_env::{
    DeterministicScheduler, FileSystem, ManualClock, Scheduler, SeededRandom, SystemClock, ThreadPool,
};
use terrace_testkit::crafted::CraftedDb;
use terrace_testkit::rng::Rng;

/// Threads that run background jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BackgroundThreads {
    /// The waiting thread runs jobs in an order that the seed determines. Files repeat byte for
    /// byte.
    Inline,
    /// Two threads run flushes, and this number of threads runs compactions.
    Pool(usize),
    /// Same as `Pool`, and some syncs of tables take 10 ms. So flushes run while a compaction
    /// writes its tables. A manual compaction runs beside the operations that follow it, and each
    /// flush starts one.
    PoolWithSlowTables(usize),
}

/// Returns the maximum number of mapped files of a case: half of the cases have no limit, and some
/// reach their limit after the first tables.
pub fn max_mappings(seed: u64) -> usize {
    match seed % 8 {
        0 => 0,
        1 => 1,
        2 => 2,
        3 => 4,
        _ => usize::MAX,
    }
}

/// Returns a plan that delays some syncs of tables.
fn slow_table_syncs(seed: u64) -> FaultPlan {
    const SLOW_SYNCS: usize = 64;
    const DISTANCE_MAX: u64 = 12;
    let mut rng = Rng::new(seed);
    let calls = std::iter::successors(Some(1), |call| Some(call + 1 + rng.below(DISTANCE_MAX)));
    let rules = calls.take(SLOW_SYNCS).map(|first_call| FaultRule {
        op: FileOp::Sync,
        file_name: ".ldb".to_owned(),
        first_call,
        repeat: Some(1),
        fault: Fault::Delay,
    });
    FaultPlan { rules: rules.collect() }
}

/// Files of a database, and the other parts of its environment.
pub struct SimulatedEnv {
    files: Arc<MemFs>,
    background: BackgroundThreads,
    seed: u64,
}

impl SimulatedEnv {
    /// Path of the database.
    pub const DB_PATH: &str = "/db";

    /// Creates an environment without files.
    pub fn new(background: BackgroundThreads, seed: u64) -> SimulatedEnv {
        let files = Arc::new(MemFs::new());
        files.set_max_mappings(max_mappings(seed));
        SimulatedEnv { files, background, seed }
    }

    /// Adds the files of a database, all of them durable.
    pub fn with_files(self, database: &CraftedDb) -> terrace_env::Result<SimulatedEnv> {
        let path = Path::new(SimulatedEnv::DB_PATH);
        let files = &self.files;
        files.create_dir(path)?;
        for (name, bytes) in database.files() {
            let mut file = files.create(&path.join(name))?;
            file.append(&bytes)?;
            file.sync()?;
            file.close()?;
        }
        files.sync_dir(path)?;
        files.sync_dir(Path::new("/"))?;
        Ok(self)
    }

    /// Returns true if compactions take long beside the operations of a case.
    pub(super) fn has_slow_tables(&self) -> bool {
        matches!(self.background, BackgroundThreads::PoolWithSlowTables(_))
    }

    /// Returns the file system.
    pub fn files(&self) -> Arc<MemFs> {
        Arc::clone(&self.files)
    }

    /// Returns an environment with these files.
    pub fn env(&self) -> Env {
        let fs = Arc::clone(&self.files) as Arc<dyn FileSystem>;
        let random = Arc::new(SeededRandom::new(self.seed));
        let with_pool = |fs, compactions| {
            let scheduler = Arc::new(ThreadPool::new(2, compactions)) as Arc<dyn Scheduler>;
            Env { fs, clock: Arc::new(SystemClock), scheduler, random: Arc::clone(&random) as _ }
        };
        match self.background {
            BackgroundThreads::Inline => Env {
                fs,
                clock: Arc::new(ManualClock::new(0)),
                scheduler: DeterministicScheduler::new(self.seed),
                random,
            },
            BackgroundThreads::Pool(compactions) => with_pool(fs, compactions),
            BackgroundThreads::PoolWithSlowTables(compactions) => {
                let fs = FaultFs::new(fs, slow_table_syncs(self.seed)).with_mapped_files();
                with_pool(Arc::new(fs), compactions)
            }
        }
    }

    /// Returns the environment after a crash at this point.
    pub(super) fn crash(&self, crash: &Crash) -> SimulatedEnv {
        let seed = self.seed.wrapping_add(1);
        SimulatedEnv { files: Arc::new(self.files.crash_clone(crash)), background: self.background, seed }
    }
}
