//! Identity of the current process, without a system call, and its processor times.

use std::process::Command;
use std::time::Duration;

use crate::system::{fork_count, platform, process_times, set_own_group, watch_forks};

/// Processor times of all threads of a process since its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessTimes {
    /// Time in the program.
    pub user: Duration,
    /// Time in the kernel.
    pub system: Duration,
}

impl ProcessTimes {
    /// Returns the times of this process, or `None` if the system does not know them.
    ///
    /// ```
    /// let before = terrace_env::ProcessTimes::current();
    /// let sum: u64 = (0..1_000_000).fold(0, |sum, number| std::hint::black_box(sum ^ number));
    /// let after = terrace_env::ProcessTimes::current();
    /// if let (Some(before), Some(after)) = (before, after) {
    ///     assert!(after.user + after.system >= before.user + before.system, "{sum}");
    /// }
    /// ```
    pub fn current() -> Option<ProcessTimes> {
        process_times()
    }
}

/// Asks the system to kill this process when its parent ends. Returns false on a system that
/// cannot.
pub fn end_with_parent() -> bool {
    platform::end_with_parent()
}

/// Makes the allocator of this process keep little freed memory, at the price of slower buffers
/// above 128 KiB. Call it before the process starts threads.
///
/// It has an effect with glibc only.
pub fn keep_heap_small() {
    platform::keep_heap_small();
}

/// Starts `command` in a process group of its own, so that Ctrl-C does not reach it.
pub fn with_own_process_group(command: &mut Command) -> &mut Command {
    set_own_group(command)
}

/// Token of the process that created it.
///
/// A forked child has a copy, which reports that the process is another one. The child shares the
/// open files and mappings of its parent, and has none of its threads.
///
/// ```
/// let token = terrace_env::ProcessToken::current();
/// assert!(token.is_current());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessToken(usize);

impl ProcessToken {
    /// Returns the token of this process.
    pub fn current() -> ProcessToken {
        watch_forks();
        ProcessToken(fork_count())
    }

    /// Returns a token that is never current, for tests.
    #[cfg(all(test, unix))]
    pub(crate) fn of_other_process() -> ProcessToken {
        ProcessToken(usize::MAX)
    }

    /// Returns true in the process that created the token.
    #[inline]
    pub fn is_current(self) -> bool {
        fork_count() == self.0
    }
}
