//! Identity of the current process, without a system call.

#[cfg(unix)]
use crate::posix::fork_count;

#[cfg(not(unix))]
fn fork_count() -> usize {
    0
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
        #[cfg(unix)]
        crate::posix::watch_forks();
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
