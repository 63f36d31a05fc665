//! Interface to the operating system: files, clocks, threads, randomness.
//!
//! An [`Env`] has four parts, and each part is replaceable:
//!
//! ```text
//!   Env
//!    +-- fs         FileSystem   posix | mem (crash images) | fault (fault plan) | custom
//!    +-- clock      Clock        system | manual
//!    +-- scheduler  Scheduler    thread pool | deterministic, single-threaded
//!    +-- random     Random       system | seeded
//! ```
//!
//! [`MemMapping`] is memory directly from the system, and [`prefetch`] loads memory into the
//! processor caches. `crc32c` is the checksum for aarch64, and [`sockets`] has options of sockets.
//! [`StickySync`] keeps the first error of the syncs of a file.
//!
//! No other crate uses a file, a clock, a thread or randomness directly. Tests with crashes, faults
//! and manual clocks are therefore complete.

mod clock;
mod env;
mod error;
mod fs;
mod lock_table;
mod mapped_slice;
mod mem_mapping;
mod prefetch;
mod process;
mod random;
mod scheduler;
mod sticky_sync;

#[cfg(target_arch = "aarch64")]
pub mod crc32c;
pub mod fault;
pub mod mem;
#[cfg(unix)]
pub mod posix;
#[cfg(unix)]
pub mod sockets;

pub use clock::{Clock, ManualClock, SystemClock};
pub use env::Env;
pub use error::{FileError, LockHolder, Result, UnexpectedFile};
pub use fs::{
    AccessMode, AppendingLog, DirectoryStamp, FileIdentity, FileLock, FileSystem, LiveFile, LockMode,
    LockOwner, LogFile, MappedLogs, RandomAccessFile, SequentialFile, WritableFile,
};
pub use mapped_slice::MappedSlice;
pub use mem_mapping::MemMapping;
pub use prefetch::prefetch;
pub use process::{ProcessTimes, ProcessToken};
pub use random::{Random, SeededRandom, SystemRandom};
pub use scheduler::{DeterministicScheduler, Priority, ScheduledJob, Scheduler, ThreadPool};
pub use sticky_sync::StickySync;
