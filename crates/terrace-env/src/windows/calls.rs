//! Calls of the system that the standard library lacks.
#![allow(unsafe_code)] // Calls the system.

use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::os::windows::ffi::OsStrExt;
use std::os::windows::io::{AsRawHandle, AsRawSocket, BorrowedSocket, RawHandle};
use std::path::Path;
use std::time::Duration;

use windows_sys::Win32::Foundation::FILETIME;
use windows_sys::Win32::Networking::WinSock::{IPPROTO_TCP, TCP_MAXRT, WSAENOPROTOOPT, setsockopt};
use windows_sys::Win32::Storage::FileSystem::{
    BY_HANDLE_FILE_INFORMATION, FILE_DISPOSITION_FLAG_DELETE,
    FILE_DISPOSITION_FLAG_IGNORE_READONLY_ATTRIBUTE, FILE_DISPOSITION_FLAG_POSIX_SEMANTICS,
    FILE_DISPOSITION_INFO_EX, FileDispositionInfoEx, GetDiskFreeSpaceExW, GetFileInformationByHandle,
    LOCKFILE_EXCLUSIVE_LOCK, LOCKFILE_FAIL_IMMEDIATELY, LockFileEx, SetFileInformationByHandle, UnlockFileEx,
};
use windows_sys::Win32::System::IO::OVERLAPPED;
use windows_sys::Win32::System::JobObjects::{
    JOB_OBJECT_LIMIT_JOB_MEMORY, JOB_OBJECT_LIMIT_PROCESS_MEMORY, JOBOBJECT_EXTENDED_LIMIT_INFORMATION,
    JobObjectExtendedLimitInformation, QueryInformationJobObject,
};
use windows_sys::Win32::System::SystemInformation::{GlobalMemoryStatusEx, MEMORYSTATUSEX};
use windows_sys::Win32::System::Threading::{GetCurrentProcess, GetProcessTimes};
use windows_sys::core::BOOL;

use crate::process::ProcessTimes;

/// Information about an open file.
pub(super) struct FileInformation {
    /// Serial number of the volume.
    pub(super) volume: u64,
    /// Number of the file on its volume. NTFS counts the uses of each number in its upper bits.
    pub(super) index: u64,
    /// Number of names.
    pub(super) links: u32,
}

/// Returns an error if the system reports one by the value 0.
fn check(result: BOOL) -> io::Result<()> {
    if result == 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

fn size_of_u32<T>() -> u32 {
    // The structures of these calls have some hundred bytes at most.
    size_of::<T>() as u32
}

pub(super) fn file_information(file: &File) -> io::Result<FileInformation> {
    let mut information = MaybeUninit::<BY_HANDLE_FILE_INFORMATION>::uninit();
    // SAFETY: `file` keeps the handle open during the call, and the pointer is valid for the
    // structure that the call writes.
    check(unsafe { GetFileInformationByHandle(file.as_raw_handle(), information.as_mut_ptr()) })?;
    // SAFETY: the call succeeded, so it initialised the whole structure.
    let information = unsafe { information.assume_init() };
    Ok(FileInformation {
        volume: information.dwVolumeSerialNumber.into(),
        index: join(information.nFileIndexHigh, information.nFileIndexLow),
        links: information.nNumberOfLinks,
    })
}

/// Frees the name of `file`, which has the access right `DELETE`. Other handles stay usable. An
/// older system or another file system returns an error.
pub(super) fn remove_at_once(file: &File) -> io::Result<()> {
    let request = FILE_DISPOSITION_INFO_EX {
        Flags: FILE_DISPOSITION_FLAG_DELETE
            | FILE_DISPOSITION_FLAG_POSIX_SEMANTICS
            | FILE_DISPOSITION_FLAG_IGNORE_READONLY_ATTRIBUTE,
    };
    // SAFETY: `file` keeps the handle open during the call, which only reads `request`: a structure
    // of the class and size that the other arguments name.
    check(unsafe {
        SetFileInformationByHandle(
            file.as_raw_handle(),
            FileDispositionInfoEx,
            (&raw const request).cast(),
            size_of_u32::<FILE_DISPOSITION_INFO_EX>(),
        )
    })
}

/// Locks the bytes that LevelDB's Windows port locks: all from the first one on.
pub(super) fn lock_all_bytes(file: &File, is_exclusive: bool) -> io::Result<()> {
    let mode = if is_exclusive { LOCKFILE_EXCLUSIVE_LOCK } else { 0 };
    let mut start = OVERLAPPED::default();
    // SAFETY: `file` keeps the handle open. The handle is synchronous, so that the call is done
    // with `start` when it returns.
    check(unsafe {
        LockFileEx(file.as_raw_handle(), mode | LOCKFILE_FAIL_IMMEDIATELY, 0, u32::MAX, u32::MAX, &mut start)
    })
}

pub(super) fn unlock_all_bytes(file: &File) -> io::Result<()> {
    let mut start = OVERLAPPED::default();
    // SAFETY: `file` keeps the handle open. The handle is synchronous, so that the call is done
    // with `start` when it returns.
    check(unsafe { UnlockFileEx(file.as_raw_handle(), 0, u32::MAX, u32::MAX, &mut start) })
}

/// Returns the number of bytes that this user can still store in `dir`.
pub(super) fn free_space(dir: &Path) -> io::Result<u64> {
    // Absolute paths above 260 characters need the prefix. It is valid for shorter ones, too.
    let dir = std::path::absolute(dir)?;
    let prefix = if dir.as_os_str().as_encoded_bytes().get(1) == Some(&b':') { r"\\?\" } else { "" };
    let name: Vec<u16> = prefix.encode_utf16().chain(dir.as_os_str().encode_wide()).chain([0]).collect();
    let mut free = 0;
    // SAFETY: `name` ends with a zero, and `free` is a valid output pointer. The call accepts null
    // for the other outputs.
    check(unsafe {
        GetDiskFreeSpaceExW(name.as_ptr(), &mut free, std::ptr::null_mut(), std::ptr::null_mut())
    })?;
    Ok(free)
}

/// Returns the smallest of the memory of the machine and the limits of the process's job.
pub(super) fn memory_limit() -> Option<u64> {
    physical_memory().into_iter().chain(job_limits()).min()
}

fn physical_memory() -> Option<u64> {
    let mut status =
        MEMORYSTATUSEX { dwLength: size_of_u32::<MEMORYSTATUSEX>(), ..MEMORYSTATUSEX::default() };
    // SAFETY: `status` is a valid output pointer, and its first field has its size.
    check(unsafe { GlobalMemoryStatusEx(&mut status) }).ok()?;
    // Probably, Wine answers 0 to a thread while another one asks.
    Some(status.ullTotalPhys).filter(|&bytes| bytes > 0)
}

/// Returns the limits of the job that contains this process: of containers, for example.
fn job_limits() -> Vec<u64> {
    let mut limits = JOBOBJECT_EXTENDED_LIMIT_INFORMATION::default();
    let no_job: RawHandle = std::ptr::null_mut();
    // SAFETY: `limits` is a valid output pointer for a structure of the class and size that the
    // other arguments name. A null handle means the job of this process, and the call accepts a
    // null pointer for the returned size.
    let queried = check(unsafe {
        QueryInformationJobObject(
            no_job,
            JobObjectExtendedLimitInformation,
            (&raw mut limits).cast(),
            size_of_u32::<JOBOBJECT_EXTENDED_LIMIT_INFORMATION>(),
            std::ptr::null_mut(),
        )
    });
    if queried.is_err() {
        return Vec::new();
    }
    let flags = limits.BasicLimitInformation.LimitFlags;
    let known = [
        (JOB_OBJECT_LIMIT_PROCESS_MEMORY, limits.ProcessMemoryLimit),
        (JOB_OBJECT_LIMIT_JOB_MEMORY, limits.JobMemoryLimit),
    ];
    known.iter().filter(|(flag, _)| flags & flag != 0).map(|(_, limit)| *limit as u64).collect()
}

/// Returns the processor times of all threads, or `None` if the system does not know them.
pub(crate) fn process_times() -> Option<ProcessTimes> {
    let [mut created, mut exited, mut kernel, mut user] = [FILETIME::default(); 4];
    // SAFETY: the function has no precondition, and its result needs no close.
    let process = unsafe { GetCurrentProcess() };
    // SAFETY: the handle is that of this process, and the four output pointers are valid.
    check(unsafe { GetProcessTimes(process, &mut created, &mut exited, &mut kernel, &mut user) }).ok()?;
    let time = |time| Duration::from_nanos(ticks(time).saturating_mul(100));
    Some(ProcessTimes { user: time(user), system: time(kernel) })
}

/// Limits the time for retransmissions of a TCP socket to a number of seconds.
pub(super) fn set_retransmit_timeout(socket: BorrowedSocket<'_>, seconds: u32) -> io::Result<()> {
    let value = seconds.to_ne_bytes();
    let socket = socket.as_raw_socket() as usize;
    // SAFETY: the borrow keeps the socket open during the call, which only reads the four bytes of
    // `value`.
    let result = unsafe { setsockopt(socket, IPPROTO_TCP, TCP_MAXRT, value.as_ptr(), value.len() as i32) };
    // The error of a socket is that of the thread. A system without the option keeps its own limit.
    match io::Error::last_os_error() {
        error if result != 0 && error.raw_os_error() != Some(WSAENOPROTOOPT) => Err(error),
        _ => Ok(()),
    }
}

fn ticks(time: FILETIME) -> u64 {
    join(time.dwHighDateTime, time.dwLowDateTime)
}

fn join(high: u32, low: u32) -> u64 {
    u64::from(high) << 32 | u64::from(low)
}
