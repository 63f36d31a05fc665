//! The world as Terrace sees it: files, clocks, threads, randomness.
//!
//! An [`Env`] is four parts that can be replaced one by one:
//!
//! ```text
//!   Env
//!    +-- fs         FileSystem   posix | mem (crash images) | fault (written plan) | a caller's own
//!    +-- clock      Clock        system | manual
//!    +-- scheduler  Scheduler    thread pool | deterministic, single-threaded
//!    +-- random     Random       system | seeded
//! ```
//!
//! [`HugePages`] is memory straight from the system; [`fetch_ahead`] tells the processor what will be read.
//!
//! Nothing outside this crate touches a file, a clock, a thread or randomness. That is what makes crash,
//! fault and fake-clock tests honest: there is no other door.

mod clock;
mod env;
mod error;
mod fs;
mod huge_pages;
mod lock_table;
mod prefetch;
mod process;
mod random;
mod scheduler;

pub mod fault;
pub mod mem;
#[cfg(unix)]
pub mod posix;

pub use clock::{Clock, ManualClock, SystemClock};
pub use env::Env;
pub use error::{FileError, LockHolder, Result};
pub use fs::{
    AccessMode, AppendingLog, FileLock, FileSystem, LockMode, LogFile, RandomAccessFile, SequentialFile,
    WritableFile,
};
pub use huge_pages::HugePages;
pub use prefetch::prefetch;
pub use process::ProcessToken;
pub use random::{Random, SeededRandom, SystemRandom};
pub use scheduler::{DeterministicScheduler, Priority, ScheduledJob, Scheduler, ThreadPool};
