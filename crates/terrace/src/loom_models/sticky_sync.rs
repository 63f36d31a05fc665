//! Model of two threads that sync one log, on a system that reports a failed writeback once.

use std::sync::atomic::{AtomicBool as UntrackedAtomic, Ordering::Relaxed};

use terrace_env::{FileError, StickySync};
use terrace_sync::thread;

use crate::sync::Arc;

/// Open file with pages that a failed writeback has lost.
struct LostPages {
    is_reported: UntrackedAtomic,
    syncs: StickySync,
}

impl LostPages {
    fn sync(&self) -> bool {
        let synced = self.syncs.sync_with(|| match self.is_reported.swap(true, Relaxed) {
            true => Ok(()),
            false => Err(FileError::new("fdatasync", "1.log", std::io::ErrorKind::Other.into())),
        });
        synced.is_ok()
    }
}

pub(super) fn error_reported_once() {
    let file = Arc::new(LostPages { is_reported: UntrackedAtomic::new(false), syncs: StickySync::default() });
    let other = {
        let file = Arc::clone(&file);
        thread::spawn(move || file.sync())
    };
    let here = file.sync();
    let there = other.join().unwrap();
    assert!(!here && !there && !file.sync(), "no sync succeeds beside or after a failed one");
}
