//! The four parts of the world, held together.

use std::sync::Arc;

use crate::clock::{Clock, SystemClock};
use crate::fs::FileSystem;
use crate::mem::MemFs;
#[cfg(unix)]
use crate::posix::PosixFs;
use crate::random::{Random, SystemRandom};
use crate::scheduler::{Scheduler, ThreadPool};

/// Everything a database may touch. Cloning shares the parts.
#[derive(Debug, Clone)]
pub struct Env {
    /// Files and directories.
    pub fs: Arc<dyn FileSystem>,
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// Background work.
    pub scheduler: Arc<dyn Scheduler>,
    /// Randomness.
    pub random: Arc<dyn Random>,
}

impl Env {
    /// The machine's own files, clock and threads. All databases of a process share one thread pool.
    #[cfg(unix)]
    pub fn system() -> Env {
        Env::with_file_system(Arc::new(PosixFs::new()))
    }

    /// Files in memory, empty at first; the machine's clock and threads. For tests and for data that need not last.
    pub fn in_memory() -> Env {
        Env::with_file_system(Arc::new(MemFs::new()))
    }

    /// A given file system with the machine's clock and threads.
    pub fn with_file_system(fs: Arc<dyn FileSystem>) -> Env {
        Env {
            fs,
            clock: Arc::new(SystemClock),
            scheduler: ThreadPool::shared(),
            random: Arc::new(SystemRandom::new()),
        }
    }
}

#[cfg(unix)]
impl Default for Env {
    fn default() -> Env {
        Env::system()
    }
}
