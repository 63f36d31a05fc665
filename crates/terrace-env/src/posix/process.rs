//! Processor times of this process, and groups of processes.

use std::mem::MaybeUninit;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Duration;

use crate::process::ProcessTimes;

/// Returns the processor times of all threads, or `None` if the system does not know them.
#[allow(unsafe_code)] // No safe wrapper supports getrusage.
pub(crate) fn process_times() -> Option<ProcessTimes> {
    let mut usage = MaybeUninit::<libc::rusage>::uninit();
    // SAFETY: the pointer is valid for the `rusage` that the call writes.
    if unsafe { libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr()) } != 0 {
        return None;
    }
    // SAFETY: the call succeeded, so it initialised the whole `rusage`.
    let usage = unsafe { usage.assume_init() };
    let time = |time: libc::timeval| Duration::new(time.tv_sec as u64, time.tv_usec as u32 * 1000);
    Some(ProcessTimes { user: time(usage.ru_utime), system: time(usage.ru_stime) })
}

/// Starts `command` in a process group of its own.
pub(crate) fn set_own_group(command: &mut Command) -> &mut Command {
    command.process_group(0)
}
