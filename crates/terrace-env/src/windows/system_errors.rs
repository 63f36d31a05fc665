//! Error codes of the system that the rest of the crate distinguishes.

use windows_sys::Win32::Foundation::{
    ERROR_ACCESS_DENIED, ERROR_CANT_RESOLVE_FILENAME, ERROR_CRC, ERROR_DEV_NOT_EXIST,
    ERROR_DEVICE_HARDWARE_ERROR, ERROR_DIRECTORY, ERROR_DISK_CORRUPT, ERROR_DISK_FULL,
    ERROR_DISK_QUOTA_EXCEEDED, ERROR_FILE_CORRUPT, ERROR_FILE_INVALID, ERROR_GEN_FAILURE,
    ERROR_INVALID_FUNCTION, ERROR_INVALID_NAME, ERROR_IO_DEVICE, ERROR_LOCK_VIOLATION,
    ERROR_NO_SYSTEM_RESOURCES, ERROR_NOT_READY, ERROR_NOT_SAME_DEVICE, ERROR_NOT_SUPPORTED,
    ERROR_OPERATION_ABORTED, ERROR_READ_FAULT, ERROR_SECTOR_NOT_FOUND, ERROR_SHARING_VIOLATION,
    ERROR_TOO_MANY_LINKS, ERROR_TOO_MANY_OPEN_FILES, ERROR_WRITE_PROTECT, WIN32_ERROR,
};

/// Converts a code of the system to the type of the standard library.
const fn code(error: WIN32_ERROR) -> i32 {
    error.cast_signed()
}

/// Error codes of bad sectors, of damaged file systems, of failed disks, and of links that form a
/// circle.
pub(crate) const UNREADABLE: &[i32] = &[
    code(ERROR_CRC),
    code(ERROR_SECTOR_NOT_FOUND),
    code(ERROR_READ_FAULT),
    code(ERROR_GEN_FAILURE),
    code(ERROR_NOT_READY),
    code(ERROR_DEV_NOT_EXIST),
    code(ERROR_DEVICE_HARDWARE_ERROR),
    code(ERROR_IO_DEVICE),
    code(ERROR_FILE_CORRUPT),
    code(ERROR_DISK_CORRUPT),
    code(ERROR_FILE_INVALID),
    code(ERROR_DIRECTORY),
    CIRCULAR_LINK,
];

/// Error codes of a full table of open files.
pub(crate) const NO_DESCRIPTORS: &[i32] = &[code(ERROR_TOO_MANY_OPEN_FILES), code(ERROR_NO_SYSTEM_RESOURCES)];

/// Links that lead back to themselves.
const CIRCULAR_LINK: i32 = code(ERROR_CANT_RESOLVE_FILENAME);

/// Names that lead to no file, beside missing ones: circular links, and characters that the system
/// refuses.
pub(super) const NO_FILE: &[i32] = &[CIRCULAR_LINK, code(ERROR_INVALID_NAME)];

/// Files on two volumes, a file with too many links, and a file system without links.
pub(super) const REFUSED_LINK: &[i32] = &[
    code(ERROR_NOT_SAME_DEVICE),
    code(ERROR_TOO_MANY_LINKS),
    code(ERROR_NOT_SUPPORTED),
    code(ERROR_INVALID_FUNCTION),
];

/// Another handle does not share the file, or has locked a part of it.
pub(super) const IN_USE: &[i32] = &[code(ERROR_SHARING_VIOLATION), code(ERROR_LOCK_VIOLATION)];

// Errors of a fault plan. The names are those of its grammar.
pub(crate) const EIO: i32 = code(ERROR_IO_DEVICE);
pub(crate) const ENOSPC: i32 = code(ERROR_DISK_FULL);
pub(crate) const EDQUOT: i32 = code(ERROR_DISK_QUOTA_EXCEEDED);
pub(crate) const EMFILE: i32 = code(ERROR_TOO_MANY_OPEN_FILES);
pub(crate) const EINTR: i32 = code(ERROR_OPERATION_ABORTED);
pub(crate) const EACCES: i32 = code(ERROR_ACCESS_DENIED);
pub(crate) const EROFS: i32 = code(ERROR_WRITE_PROTECT);
pub(crate) const ENOSYS: i32 = code(ERROR_NOT_SUPPORTED);
