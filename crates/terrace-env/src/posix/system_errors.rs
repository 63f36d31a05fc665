//! Error numbers of the system that the rest of the crate distinguishes.

/// Error numbers of bad sectors, of damaged file systems, of failed disks, and of links that form a
/// circle.
pub(crate) const UNREADABLE: &[i32] = &[
    libc::EIO,
    libc::ENXIO,
    libc::ENODEV,
    libc::ELOOP,
    libc::EISDIR,
    #[cfg(target_os = "linux")]
    libc::ENODATA,
    #[cfg(target_os = "linux")]
    libc::EBADMSG,
    #[cfg(target_os = "linux")]
    libc::EUCLEAN,
    #[cfg(target_os = "linux")]
    libc::EREMOTEIO,
];

/// Error numbers of a full table of open files: that of the process, that of the system.
pub(crate) const NO_DESCRIPTORS: &[i32] = &[libc::EMFILE, libc::ENFILE];

// Errors of a fault plan.
pub(crate) use libc::{EACCES, EDQUOT, EINTR, EIO, EMFILE, ENOSPC, ENOSYS, EROFS};
