//! Functions that other systems have in `posix/platform/`, and parts that Windows does not have.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::os::windows::io::BorrowedSocket;
use std::os::windows::process::CommandExt;
use std::process::Command;
use std::time::Duration;

use memmap2::MmapMut;
use windows_sys::Win32::System::Threading::CREATE_NEW_PROCESS_GROUP;

use super::calls;

/// Returns the number of forks between the first process and this one: Windows has no `fork`.
#[inline]
pub(crate) fn fork_count() -> usize {
    0
}

pub(crate) fn watch_forks() {}

/// Returns false: a process cannot limit its address space.
pub(crate) fn has_little_address_space() -> bool {
    cfg!(target_pointer_width = "32")
}

/// Does nothing: large pages need a right that few users have.
pub(crate) fn use_huge_pages(_map: &MmapMut) {}

/// Returns a random number. The standard library seeds its hash maps from the system, and the hash
/// of nothing with such a seed needs no dependency.
pub(crate) fn random_seed() -> Option<u64> {
    Some(RandomState::new().build_hasher().finish())
}

/// Limits the time in which the peer of a TCP connection acknowledges nothing. The system counts
/// seconds.
pub(crate) fn set_unsent_timeout(socket: BorrowedSocket<'_>, timeout: Duration) -> io::Result<()> {
    calls::set_retransmit_timeout(socket, u32::try_from(timeout.as_secs().max(1)).unwrap_or(u32::MAX))
}

/// Starts `command` in a process group of its own.
pub(crate) fn set_own_group(command: &mut Command) -> &mut Command {
    command.creation_flags(CREATE_NEW_PROCESS_GROUP)
}

/// Returns false: the system has no such call.
pub(crate) fn end_with_parent() -> bool {
    false
}

/// Does nothing: the allocator has no such settings.
pub(crate) fn keep_heap_small() {}
