//! Interface to the operating system: files, clocks, threads, randomness.
//!
//! An [`Env`] has four parts, and each part is replaceable:
//!
//! ```text
//!   Env
//!    +-- fs         FileSystem   posix, windows | mem (crash images) | fault (fault plan) | custom
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
mod path;
mod path_bytes;
mod prefetch;
mod process;
mod random;
mod scheduler;
mod shared_files;
mod sticky_sync;
mod system_files;
mod write_buffer;

#[cfg(target_arch = "aarch64")]
pub mod crc32c;
pub mod fault;
pub mod mem;
#[cfg(unix)]
pub mod posix;
pub mod sockets;
#[cfg(windows)]
pub mod windows;

// The system of this build.
#[cfg(unix)]
use posix as system;
#[cfg(windows)]
use windows as system;

pub use clock::{Clock, ManualClock, SystemClock};
pub use env::Env;
pub use error::{FileError, LockHolder, Result, UnexpectedFile};
pub use fs::{
    AccessMode, AppendingLog, DirectoryStamp, FileIdentity, FileLock, FileSystem, LiveFile, LockMode,
    LockOwner, LogFile, MappedLogs, RandomAccessFile, SequentialFile, WritableFile,
};
pub use mapped_slice::MappedSlice;
pub use mem_mapping::MemMapping;
pub use path::normalized_path;
pub use path_bytes::path_from_bytes;
pub use prefetch::prefetch;
pub use process::{ProcessTimes, ProcessToken, end_with_parent, keep_heap_small, with_own_process_group};
pub use random::{Random, SeededRandom, SystemRandom};
pub use scheduler::{DeterministicScheduler, Priority, ScheduledJob, Scheduler, ThreadPool};
pub use sticky_sync::StickySync;
pub use system::SystemFs;
