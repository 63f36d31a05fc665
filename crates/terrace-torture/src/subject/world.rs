//! A world in memory of which everything can be taken apart: files that lose power, threads or none, no real time.

use std::path::Path;
use std::sync::Arc;

use terrace::Env;
use terrace_env::mem::{Crash, MemFs};
use terrace_env::{Deterministic, FileSystem, ManualClock, Pool, Scheduler, SeededRandom, SystemClock};
use terrace_testkit::fabricate::Fabricated;

/// Who does the work in the background.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Threads {
    /// The thread that waits for it, in an order that the seed chooses: everything repeats to the last byte.
    None,
    /// One for flushes and that many for merges.
    Some(usize),
}

/// The files of a database, and what its env is made of besides.
pub struct World {
    files: Arc<MemFs>,
    threads: Threads,
    seed: u64,
}

impl World {
    /// Where the database is.
    pub const PATH: &str = "/db";

    /// Without files.
    pub fn new(threads: Threads, seed: u64) -> World {
        World { files: Arc::new(MemFs::new()), threads, seed }
    }

    /// With the files of a database, all of them durable.
    pub fn with(self, database: &Fabricated) -> terrace_env::Result<World> {
        let (path, files) = (Path::new(World::PATH), &self.files);
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

    /// Its files.
    pub fn files(&self) -> Arc<MemFs> {
        Arc::clone(&self.files)
    }

    /// An env on it.
    pub fn env(&self) -> Env {
        let fs = Arc::clone(&self.files) as Arc<dyn FileSystem>;
        let random = Arc::new(SeededRandom::new(self.seed));
        match self.threads {
            Threads::None => Env {
                fs,
                clock: Arc::new(ManualClock::new(0)),
                scheduler: Deterministic::new(self.seed),
                random,
            },
            Threads::Some(merges) => {
                let scheduler = Arc::new(Pool::new(2, merges)) as Arc<dyn Scheduler>;
                Env { fs, clock: Arc::new(SystemClock), scheduler, random }
            }
        }
    }

    /// What it is after a crash at this moment.
    pub(super) fn crash(&self, how: &Crash) -> World {
        let seed = self.seed.wrapping_add(1);
        World { files: Arc::new(self.files.crash(how)), threads: self.threads, seed }
    }
}
