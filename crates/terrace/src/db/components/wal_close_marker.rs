//! Close marker at the end of a reused log. It stays until the first write.
//!
//! ```text
//!   [ r r r r | marker ]   as at close     nothing was written: the log stays closed
//!   [ r r r r | 0...   ]   invalidated   before the first record and the first MANIFEST edit
//! ```
//!
//! Only the marker itself may not be durable, now or ever: a sync may have failed since, in a run
//! that wrote nothing. So it is overwritten with zeros before any other write. A run that writes
//! therefore never leaves a log that seems closed.

use terrace_env::LogFile;
use terrace_format::batch::BATCH_HEADER_SIZE;
use terrace_format::log::FRAGMENT_HEADER_SIZE;

use crate::error::Result;
use crate::sync::{Arc, Mutex};

/// Bytes of the close marker: one fragment with an empty batch.
pub(crate) const CLOSE_MARKER_LEN: usize = FRAGMENT_HEADER_SIZE + BATCH_HEADER_SIZE;

/// Close marker of the reused log, if there is one and it is present.
#[derive(Default)]
pub(crate) struct CloseMarker {
    position: Mutex<Option<CloseMarkerPosition>>,
}

struct CloseMarkerPosition {
    file: Arc<dyn LogFile>,
    offset: u64,
}

impl CloseMarker {
    /// Creates the state for the marker at `offset` of `file`.
    pub(crate) fn new(file: &Arc<dyn LogFile>, at: u64) -> CloseMarker {
        CloseMarker { position: Mutex::new(Some(CloseMarkerPosition { file: Arc::clone(file), offset: at })) }
    }

    /// Returns true while the marker is present.
    pub(crate) fn is_present(&self) -> bool {
        self.position.lock().is_some()
    }

    /// Overwrites the marker with zeros. After an error it may still be present.
    pub(crate) fn invalidate(&self) -> Result<()> {
        let mut standing = self.position.lock();
        if let Some(mark) = &*standing {
            // Clears the type and the length, and one byte of the checksum. So a crash leaves
            // either the marker or no record, but never a damaged one.
            mark.file.write_at(mark.offset + (FRAGMENT_HEADER_SIZE - 4) as u64, &[0; 4], &[])?;
            *standing = None;
        }
        Ok(())
    }
}
