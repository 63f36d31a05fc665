//! Calls of Linux and Android.

use std::fs::File;
use std::io;
use std::num::NonZeroU64;
#[cfg(target_os = "android")]
use std::os::android::net::SocketAddrExt;
use std::os::fd::BorrowedFd;
#[cfg(target_os = "linux")]
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::SocketAddr;
use std::time::Duration;

use memmap2::{Advice, MmapMut};
use rustix::fs::FallocateFlags;

/// Makes the data of `file` durable, with the part of its metadata that reads need.
pub(crate) fn sync_file(file: &File) -> io::Result<()> {
    file.sync_data()
}

/// Allocates space for `len` bytes from `start`, without a change of the file's length. A signal
/// may interrupt the call.
pub(crate) fn allocate(file: &File, start: u64, len: u64) -> rustix::io::Result<()> {
    rustix::fs::fallocate(file, FallocateFlags::KEEP_SIZE, start, len)
}

/// Asks the system to read a part of `file` into the page cache.
pub(crate) fn prefetch(file: &File, offset: u64, len: u64) {
    // Without the hint, the read is only slower.
    let _ = rustix::fs::fadvise(file, offset, NonZeroU64::new(len), rustix::fs::Advice::WillNeed);
}

/// Returns the offset of the first data at or after `offset`, and `end` if there are none. Returns
/// `offset` if the file system does not know.
pub(crate) fn next_data(file: &File, offset: u64, end: u64) -> u64 {
    match rustix::fs::seek(file, rustix::fs::SeekFrom::Data(offset)) {
        Ok(data) => data,
        Err(rustix::io::Errno::NXIO) => end,
        Err(_) => offset,
    }
}

/// Returns the memory of the machine in bytes.
pub(crate) fn physical_memory() -> u64 {
    let info = rustix::system::sysinfo();
    #[allow(clippy::useless_conversion, reason = "32 bits on some machines")]
    let units = u64::from(info.totalram);
    units.saturating_mul(u64::from(info.mem_unit.max(1)))
}

/// Returns a random number, or `None` if the system refuses.
pub(crate) fn random_seed() -> Option<u64> {
    let mut seed = [0; 8];
    let len = rustix::rand::getrandom(&mut seed, rustix::rand::GetRandomFlags::empty()).ok()?;
    (len == seed.len()).then(|| u64::from_ne_bytes(seed))
}

/// Asks the system for huge pages.
pub(crate) fn use_huge_pages(map: &MmapMut) {
    // Without huge pages, the mapping is only slower.
    let _ = map.advise(Advice::HugePage);
}

/// Returns the address of a socket with a name outside of the file system.
pub(crate) fn abstract_address(name: &[u8]) -> io::Result<SocketAddr> {
    SocketAddr::from_abstract_name(name)
}

/// Limits the time in which the peer of a TCP connection acknowledges nothing.
pub(crate) fn set_unsent_timeout(socket: BorrowedFd<'_>, timeout: Duration) -> io::Result<()> {
    let milliseconds = u32::try_from(timeout.as_millis()).unwrap_or(u32::MAX);
    Ok(rustix::net::sockopt::set_tcp_user_timeout(socket, milliseconds)?)
}

/// Asks the kernel to kill this process when its parent ends.
pub(crate) fn end_with_parent() -> bool {
    use rustix::process::{Signal, set_parent_process_death_signal};
    set_parent_process_death_signal(Some(Signal::KILL)).is_ok()
}

/// Makes the allocator return large buffers at once, and share two heaps among all threads.
#[cfg(target_env = "gnu")]
#[allow(unsafe_code)] // No safe wrapper supports mallopt.
pub(crate) fn keep_heap_small() {
    /// Size from which a buffer is a mapping of its own, in bytes. Without a fixed size, glibc
    /// raises it up to 32 MiB, and compactions leave heaps with large holes.
    const MMAP_THRESHOLD: libc::c_int = 128 << 10;
    const MAX_HEAPS: libc::c_int = 2;
    for (parameter, value) in [(libc::M_MMAP_THRESHOLD, MMAP_THRESHOLD), (libc::M_ARENA_MAX, MAX_HEAPS)] {
        // SAFETY: the call takes two integers and changes settings under the allocator's own lock.
        // A refused value leaves the old one.
        unsafe { libc::mallopt(parameter, value) };
    }
}

/// Does nothing: the allocator has no such settings.
#[cfg(not(target_env = "gnu"))]
pub(crate) fn keep_heap_small() {}
