//! The mark at the end of a closed log that is gone on with: it stands until something is to be written.
//!
//! ```text
//!   [ r r r r | mark ]   as it was closed          nothing was written: it stays closed, for the next opener
//!   [ r r r r | 0... ]   broken                    before the first record, and before the first edit of the manifest
//! ```
//!
//! The mark is the one thing in the log that may not be durable, and never become so: a sync may have failed since, in a run
//! that wrote nothing. So it is wiped, and stored over. That comes before anything else is written, so that whatever a run
//! leaves that wrote does not count as closed.

use terrace_env::LogFile;
use terrace_format::batch::BATCH_HEADER_SIZE;
use terrace_format::log::FRAGMENT_HEADER_SIZE;

use crate::error::Result;
use crate::sync::{Arc, Mutex};

/// Bytes of the close marker: one fragment with an empty batch.
pub(crate) const CLOSE_MARKER_LEN: usize = FRAGMENT_HEADER_SIZE + BATCH_HEADER_SIZE;

/// At most one mark, and whether it stands.
#[derive(Default)]
pub(crate) struct CloseMarker {
    position: Mutex<Option<CloseMarkerPosition>>,
}

struct CloseMarkerPosition {
    file: Arc<dyn LogFile>,
    offset: u64,
}

impl CloseMarker {
    /// Of the mark at `at` of `file`.
    pub(crate) fn new(file: &Arc<dyn LogFile>, at: u64) -> CloseMarker {
        CloseMarker { position: Mutex::new(Some(CloseMarkerPosition { file: Arc::clone(file), offset: at })) }
    }

    /// True while there is a mark.
    pub(crate) fn is_present(&self) -> bool {
        self.position.lock().is_some()
    }

    /// Wipes the mark, if it stands. On an error it may stand.
    pub(crate) fn invalidate(&self) -> Result<()> {
        let mut standing = self.position.lock();
        if let Some(mark) = &*standing {
            // Type and length last, and nothing else but a byte of the checksum: at no instant is it a damaged record.
            mark.file.write_at(mark.offset + (FRAGMENT_HEADER_SIZE - 4) as u64, &[0; 4], &[])?;
            *standing = None;
        }
        Ok(())
    }
}
