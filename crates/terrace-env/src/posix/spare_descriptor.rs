//! Descriptor in reserve, for the sync of a directory.
//!
//! The sync opens the directory. The database has to refuse writes after a failed one, so a process
//! that is short of descriptors for a moment must not make it fail. Databases open the spare
//! descriptor with their logs: LevelDB's tests count the descriptors that a lock or a file opens.

use std::fs::File;
use std::io;

use terrace_sync::native_locks::Mutex;

use super::system_errors::NO_DESCRIPTORS;

/// Descriptor that the process can give up.
#[derive(Debug, Default)]
pub(super) struct SpareDescriptor(Mutex<Option<File>>);

impl SpareDescriptor {
    /// Opens the spare descriptor, if it is not open and the system has one left.
    pub(super) fn refill(&self) {
        // A child that was forked while another thread had the lock could wait for ever.
        if let Some(mut spare) = self.0.try_lock()
            && spare.is_none()
        {
            *spare = open_spare();
        }
    }

    /// Calls `use_file` with the result of `open`. Without another descriptor for it, gives up the
    /// spare one until the end of the call.
    pub(super) fn with_file<T>(
        &self,
        open: impl Fn() -> io::Result<File>,
        use_file: impl FnOnce(io::Result<File>) -> T,
    ) -> T {
        let opened = open();
        if !is_out_of_descriptors(&opened) {
            return use_file(opened);
        }
        let Some(mut spare) = self.0.try_lock() else { return use_file(opened) };
        drop(spare.take());
        let result = use_file(open());
        *spare = open_spare();
        result
    }
}

/// Opens a file that needs one descriptor, and that is harmless in a process that calls `chroot`
/// later.
fn open_spare() -> Option<File> {
    File::open("/dev/null").ok()
}

fn is_out_of_descriptors(opened: &io::Result<File>) -> bool {
    let code = opened.as_ref().err().and_then(io::Error::raw_os_error);
    code.is_some_and(|code| NO_DESCRIPTORS.contains(&code))
}
