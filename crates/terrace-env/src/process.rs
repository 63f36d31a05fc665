//! Which process this is, for less than a system call.

#[cfg(unix)]
use crate::posix::fork_count;

#[cfg(not(unix))]
fn forks() -> usize {
    0
}

/// The process in which it was made. A child that is forked has a copy, which tells that it is another one: with open files and
/// mappings that are its parent's too, and with none of its threads.
///
/// ```
/// let birth = terrace_env::Birth::here();
/// assert!(birth.is_here());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessToken(usize);

impl ProcessToken {
    /// Of this process.
    pub fn current() -> ProcessToken {
        #[cfg(unix)]
        crate::posix::start_counting_forks();
        ProcessToken(fork_count())
    }

    /// True in the process in which it was made.
    #[inline]
    pub fn is_current(self) -> bool {
        fork_count() == self.0
    }
}
