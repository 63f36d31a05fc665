//! Buffer of a file that is appended to.

/// Size of the buffer, in bytes. Four times LevelDB's size reduces the cost of page-cache writes of
/// tables by an eighth. Larger buffers gain nothing more.
const WRITABLE_FILE_BUFFER_SIZE: usize = 256 * 1024;

/// Bytes that are appended but not yet passed to the system.
#[derive(Debug, Default)]
pub(crate) struct WriteBuffer {
    bytes: Vec<u8>,
}

impl WriteBuffer {
    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Buffers `data`, or passes the buffer and large data to `write`.
    #[inline]
    pub(crate) fn append<E>(
        &mut self,
        data: &[u8],
        mut write: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        if self.bytes.len() + data.len() > WRITABLE_FILE_BUFFER_SIZE {
            self.flush(&mut write)?;
        }
        if data.len() >= WRITABLE_FILE_BUFFER_SIZE {
            return write(data);
        }
        if !self.reserve(data.len()) {
            self.flush(&mut write)?;
            return write(data);
        }
        self.bytes.extend_from_slice(data);
        Ok(())
    }

    /// Passes all bytes to `write`. Empties the buffer even after an error: an unknown part of it
    /// was written, and must not be written twice.
    pub(crate) fn flush<E>(&mut self, write: impl FnOnce(&[u8]) -> Result<(), E>) -> Result<(), E> {
        if self.bytes.is_empty() {
            return Ok(());
        }
        let written = write(&self.bytes);
        self.bytes.clear();
        written
    }

    /// Returns false if there is no memory for `more` buffered bytes.
    fn reserve(&mut self, more: usize) -> bool {
        let used = self.bytes.len();
        // The size doubles, so that a small file has a small buffer, up to exactly the maximum.
        let wanted = (used + more).next_power_of_two().min(WRITABLE_FILE_BUFFER_SIZE);
        self.bytes.try_reserve_exact(wanted.saturating_sub(used)).is_ok()
    }
}
