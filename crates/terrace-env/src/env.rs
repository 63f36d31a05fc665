//! Env: the four interfaces to the operating system.

use std::sync::{Arc, OnceLock};

use crate::clock::{Clock, SystemClock};
use crate::fs::FileSystem;
use crate::mem::MemFs;
use crate::random::{Random, SystemRandom};
use crate::scheduler::{Scheduler, ThreadPool};
use crate::system::SystemFs;

/// Interfaces to the operating system. A clone shares them.
#[derive(Debug, Clone)]
pub struct Env {
    /// Files and directories.
    pub fs: Arc<dyn FileSystem>,
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// Background jobs.
    pub scheduler: Arc<dyn Scheduler>,
    /// Random numbers.
    pub random: Arc<dyn Random>,
}

impl Env {
    /// Returns the operating system's files, clock and threads. All databases of a process share
    /// one thread pool, and one handle to the file system.
    pub fn system() -> Env {
        static FILE_SYSTEM: OnceLock<Arc<SystemFs>> = OnceLock::new();
        let fs = terrace_sync::get_or_init_for_fork(&FILE_SYSTEM, || Arc::new(SystemFs::new()));
        Env::with_file_system(Arc::clone(fs) as _)
    }

    /// Returns an empty file system in memory, with the system's clock and threads. For tests and
    /// temporary data.
    pub fn in_memory() -> Env {
        Env::with_file_system(Arc::new(MemFs::new()))
    }

    /// Returns `fs` with the system's clock and threads.
    pub fn with_file_system(fs: Arc<dyn FileSystem>) -> Env {
        Env {
            fs,
            clock: Arc::new(SystemClock),
            scheduler: ThreadPool::shared(),
            random: Arc::new(SystemRandom::new()),
        }
    }
}

impl Default for Env {
    fn default() -> Env {
        Env::system()
    }
}
