//! Calls of macOS and Apple's other systems.
#![allow(unsafe_code)] // These calls have no safe wrapper.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::net::SocketAddr;
use std::time::Duration;

use memmap2::MmapMut;
use rustix::io::Errno;

/// Errors of a file system without `F_FULLFSYNC`, such as a share of the network.
const REFUSALS: [i32; 5] = [libc::ENOTSUP, libc::EOPNOTSUPP, libc::ENOTTY, libc::EINVAL, libc::ENOSYS];

/// Makes `file` durable: with `F_FULLFSYNC`, which also empties the cache of the disk. Where the
/// file system refuses that, `fsync` is all that it offers.
pub(crate) fn sync_file(file: &File) -> io::Result<()> {
    match file.sync_data() {
        Err(error) if error.raw_os_error().is_some_and(|errno| REFUSALS.contains(&errno)) => {
            Ok(rustix::io::retry_on_intr(|| rustix::fs::fsync(file))?)
        }
        synced => synced,
    }
}

/// Allocates space for `len` bytes from `start`, the end of the allocated space, without a change
/// of the file's length. A signal may interrupt the call.
pub(crate) fn allocate(file: &File, _start: u64, len: u64) -> rustix::io::Result<()> {
    let mut request = libc::fstore_t {
        fst_flags: libc::F_ALLOCATEALL,
        // From the end of the allocated space.
        fst_posmode: libc::F_PEOFPOSMODE,
        fst_offset: 0,
        fst_length: to_offset(len)?,
        fst_bytesalloc: 0,
    };
    // SAFETY: `file` keeps the descriptor open during the call. For this command, `fcntl` reads and
    // writes `request`, which lives until the call returns.
    let result = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_PREALLOCATE, &raw mut request) };
    if result == -1 { Err(last_error()) } else { Ok(()) }
}

/// Asks the system to read a part of `file` into its cache.
pub(crate) fn prefetch(file: &File, offset: u64, len: u64) {
    let Ok(offset) = to_offset(offset) else { return };
    let mut advice = libc::radvisory {
        ra_offset: offset,
        ra_count: libc::c_int::try_from(len).unwrap_or(libc::c_int::MAX),
    };
    // SAFETY: `file` keeps the descriptor open during the call. For this command, `fcntl` only
    // reads `advice`, which lives until the call returns. A failure means that the read is slower.
    unsafe { libc::fcntl(file.as_raw_fd(), libc::F_RDADVISE, &raw mut advice) };
}

/// Returns `offset`: holes are read as zeros on this system.
pub(crate) fn next_data(_file: &File, offset: u64, _end: u64) -> u64 {
    offset
}

/// Returns the memory of the machine in bytes, or the greatest number if the system does not tell.
pub(crate) fn physical_memory() -> u64 {
    let mut memory = 0u64;
    let mut len = size_of::<u64>();
    // SAFETY: the name ends with a zero byte. The call writes at most `len` bytes to `memory`, and
    // reads no new value.
    let result = unsafe {
        libc::sysctlbyname(
            c"hw.memsize".as_ptr(),
            (&raw mut memory).cast(),
            &raw mut len,
            std::ptr::null_mut(),
            0,
        )
    };
    if result == 0 && len == size_of::<u64>() { memory } else { u64::MAX }
}

/// Returns a random number, or `None` if the system refuses.
pub(crate) fn random_seed() -> Option<u64> {
    let mut seed = [0u8; 8];
    // SAFETY: the call writes `seed.len()` bytes to `seed`.
    let result = unsafe { libc::getentropy(seed.as_mut_ptr().cast(), seed.len()) };
    (result == 0).then(|| u64::from_ne_bytes(seed))
}

/// Does nothing: the system chooses the size of its pages.
pub(crate) fn use_huge_pages(_map: &MmapMut) {}

/// Fails: all sockets have a path on this system.
pub(crate) fn abstract_address(_name: &[u8]) -> io::Result<SocketAddr> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Option of `netinet/tcp.h`: seconds of retransmissions before the system drops a connection.
const TCP_RXT_CONNDROPTIME: libc::c_int = 0x80;

/// Limits the time in which the peer of a TCP connection acknowledges nothing, in whole seconds.
pub(crate) fn set_unsent_timeout(socket: BorrowedFd<'_>, timeout: Duration) -> io::Result<()> {
    let seconds = libc::c_int::try_from(timeout.as_secs().max(1)).unwrap_or(libc::c_int::MAX);
    // SAFETY: the descriptor is open during the call, which reads `size_of::<c_int>()` bytes of
    // `seconds`.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            TCP_RXT_CONNDROPTIME,
            (&raw const seconds).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Returns false: the system has no such call.
pub(crate) fn end_with_parent() -> bool {
    false
}

/// Does nothing: the allocator has no such settings.
pub(crate) fn keep_heap_small() {}

fn to_offset(value: u64) -> rustix::io::Result<libc::off_t> {
    libc::off_t::try_from(value).map_err(|_| Errno::FBIG)
}

fn last_error() -> Errno {
    Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO)
}
