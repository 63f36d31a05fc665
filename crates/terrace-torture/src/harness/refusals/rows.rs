//! Table of the refusals.

use rustix::process::Resource;

use super::seccomp::{ArgumentMatch, RefusedCall};

/// Thing that the system refuses to a child process.
#[derive(Debug)]
pub(super) struct Refusal {
    /// Name in the job of the child, and in violations.
    pub(super) name: &'static str,
    pub(super) kind: RefusalKind,
    pub(super) workload: Workload,
    /// Error numbers with which an operation may fail. With other ones, every operation succeeds. A
    /// limit has the number 0.
    pub(super) may_fail_with: &'static [i32],
    /// Text that the info log must contain if every operation succeeds.
    pub(super) info_log: &'static str,
}

#[derive(Debug)]
pub(super) enum RefusalKind {
    /// Every such call fails, with each of [`ERRNOS`].
    Calls(&'static [RefusedCall]),
    /// Limit of a resource of the process in bytes. A limit on memory is added to the size of the
    /// process at its start.
    Limit(Resource, u64),
}

/// Operations of the child.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Workload {
    /// Thousands of small values, two memtables, a flush and a compaction.
    SmallValues,
    /// Values of several MiB.
    LargeValues,
}

/// Error numbers with which a sandbox, a container or a system without resources refuses calls.
pub(super) const ERRNOS: &[i32] = &[libc::EPERM, libc::ENOSYS, libc::EINVAL, libc::EAGAIN, libc::ENOMEM];

const fn every(number: libc::c_long) -> RefusedCall {
    RefusedCall { number, argument: None }
}

const fn with_argument(number: libc::c_long, index: u32, mask: u32, value: u32) -> RefusedCall {
    RefusedCall { number, argument: Some(ArgumentMatch { index, mask, value }) }
}

/// Flags of `mmap` with the kind of the mapping.
const MAP_TYPE: u32 = 0x0f;

const fn fcntl(command: libc::c_int) -> RefusedCall {
    with_argument(libc::SYS_fcntl, 1, u32::MAX, command as u32)
}

/// Creates the row of calls that no operation needs.
const fn calls(name: &'static str, calls: &'static [RefusedCall]) -> Refusal {
    Refusal {
        name,
        kind: RefusalKind::Calls(calls),
        workload: Workload::SmallValues,
        may_fail_with: &[],
        info_log: "",
    }
}

const fn limit(name: &'static str, resource: Resource, bytes: u64) -> Refusal {
    Refusal {
        name,
        kind: RefusalKind::Limit(resource, bytes),
        workload: Workload::SmallValues,
        may_fail_with: &[],
        info_log: "",
    }
}

/// All refusals.
pub(super) static REFUSALS: &[Refusal] = &[
    Refusal {
        info_log: "appended: the system refuses a mapping: ",
        ..calls("mmap-shared", &[with_argument(libc::SYS_mmap, 3, MAP_TYPE, libc::MAP_SHARED as u32)])
    },
    Refusal {
        info_log: "appended: the system allocates no space: ",
        ..calls("fallocate", &[every(libc::SYS_fallocate)])
    },
    // EAGAIN means that another process holds the lock.
    Refusal {
        may_fail_with: &[libc::EAGAIN],
        info_log: "Locking with fcntl only, without flock: ",
        ..calls("flock", &[every(libc::SYS_flock)])
    },
    Refusal {
        may_fail_with: &[libc::EAGAIN],
        info_log: "Locking with F_SETLK instead of F_OFD_SETLK: ",
        ..calls("fcntl-ofd", &[fcntl(libc::F_OFD_SETLK)])
    },
    // LevelDB's lock: without it two processes could open the database.
    Refusal {
        may_fail_with: ERRNOS,
        ..calls("fcntl-lock", &[fcntl(libc::F_OFD_SETLK), fcntl(libc::F_SETLK)])
    },
    calls("statx", &[every(libc::SYS_statx)]),
    calls("madvise", &[every(libc::SYS_madvise)]),
    calls("fadvise", &[every(libc::SYS_fadvise64)]),
    calls("getrandom", &[every(libc::SYS_getrandom)]),
    calls("clone", &[every(libc::SYS_clone), every(libc::SYS_clone3)]),
    // The name of a file may not be durable. A system without such a sync is no error, nor one that
    // does not permit it.
    Refusal {
        may_fail_with: &[libc::EAGAIN, libc::ENOMEM],
        info_log: "Directories are not synced: ",
        ..calls("fsync-directory", &[every(libc::SYS_fsync)])
    },
    limit("address-space", Resource::As, 160 << 20),
    limit("data", Resource::Data, 48 << 20),
    Refusal { may_fail_with: &[0], ..limit("file-size", Resource::Fsize, 1 << 20) },
    Refusal {
        workload: Workload::LargeValues,
        may_fail_with: &[0],
        ..limit("address-space-large-values", Resource::As, 64 << 20)
    },
    Refusal {
        workload: Workload::LargeValues,
        may_fail_with: &[0],
        ..limit("data-large-values", Resource::Data, 48 << 20)
    },
];
