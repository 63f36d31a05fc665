//! Which process this is, for less than a system call.

#[cfg(unix)]
use crate::posix::forks;

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
pub struct Birth(usize);

impl Birth {
    /// Of this process.
    pub fn here() -> Birth {
        #[cfg(unix)]
        crate::posix::watch_forks();
        Birth(forks())
    }

    /// True in the process in which it was made.
    #[inline]
    pub fn is_here(self) -> bool {
        forks() == self.0
    }
}
