//! Buffer of a file that is appended to. It passes whole chunks to the system.
//!
//! ```text
//!   | chunk: one write | chunk: one write | rest: one write |
//!   0               256 KiB            512 KiB            flush
//! ```

/// Size of a chunk in bytes. Four times LevelDB's size reduces the cost of page-cache writes of
/// tables by an eighth.
const CHUNK_SIZE: usize = 256 << 10;

/// Size of a chunk in a file with huge pages, in bytes.
///
/// Linux keeps a chunk that is written at once in one huge page of the page cache, if the file
/// system can (ext4 since Linux 6.16, XFS) and the chunk begins at a multiple of its size. Random
/// reads of a mapping of the file then miss the translation cache of the processor less often.
const HUGE_CHUNK_SIZE: usize = 2 << 20;

/// Bytes that are appended but not yet passed to the system.
#[derive(Debug)]
pub(crate) struct WriteBuffer {
    bytes: Vec<u8>,
    /// Size of a chunk, and maximum size of the buffer.
    chunk_size: usize,
}

impl Default for WriteBuffer {
    fn default() -> WriteBuffer {
        WriteBuffer { bytes: Vec::new(), chunk_size: CHUNK_SIZE }
    }
}

impl WriteBuffer {
    /// Makes the chunks as large as huge pages.
    pub(crate) fn use_huge_pages(&mut self) {
        self.chunk_size = HUGE_CHUNK_SIZE;
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Buffers `data`, and passes complete chunks to `write`. Fewer bytes since the last flush than
    /// a chunk are one write: after an error, no part of a small record stays in the file.
    #[inline]
    pub(crate) fn append<E>(
        &mut self,
        data: &[u8],
        mut write: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let room = self.chunk_size - self.bytes.len();
        if data.len() < room && self.reserve(data.len()) {
            self.bytes.extend_from_slice(data);
            return Ok(());
        }
        self.append_beyond_chunk(data, room, &mut write)
    }

    /// Appends `data` in parts. The first one fills the `room` of the current chunk.
    fn append_beyond_chunk<E>(
        &mut self,
        mut data: &[u8],
        room: usize,
        write: &mut impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        if !self.is_empty() && data.len() >= room && self.reserve(room) {
            self.bytes.extend_from_slice(&data[..room]);
            data = &data[room..];
        }
        self.flush(&mut *write)?;
        let rest = data.len() % self.chunk_size;
        // Without memory for the rest, the system gets it with the chunks.
        let buffered = if self.reserve(rest) { rest } else { 0 };
        let (chunks, rest) = data.split_at(data.len() - buffered);
        if !chunks.is_empty() {
            write(chunks)?;
        }
        self.bytes.extend_from_slice(rest);
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
        let wanted = (used + more).next_power_of_two().min(self.chunk_size);
        self.bytes.try_reserve_exact(wanted.saturating_sub(used)).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    /// Appends data of the sizes `appended`, flushes, and returns the sizes of the writes.
    fn write_sizes(buffer: &mut WriteBuffer, appended: impl IntoIterator<Item = usize>) -> Vec<usize> {
        let mut sizes = Vec::new();
        let mut expected = Vec::new();
        let mut found = Vec::new();
        let mut write = |bytes: &[u8]| {
            sizes.push(bytes.len());
            found.extend_from_slice(bytes);
            Ok::<(), Infallible>(())
        };
        for (number, size) in appended.into_iter().enumerate() {
            let data: Vec<u8> = (0..size).map(|i| (number + i) as u8).collect();
            expected.extend_from_slice(&data);
            buffer.append(&data, &mut write).unwrap();
        }
        buffer.flush(&mut write).unwrap();
        assert!(found == expected && buffer.is_empty());
        sizes
    }

    #[test]
    fn chunks_are_written_at_once() {
        let mut huge = WriteBuffer::default();
        huge.use_huge_pages();
        for (mut buffer, chunk) in [(WriteBuffer::default(), 256 << 10), (huge, 2 << 20)] {
            let rest = chunk / 5;
            let pieces = vec![1000; (2 * chunk + rest) / 1000];
            let total = 1000 * pieces.len();
            assert_eq!(write_sizes(&mut buffer, pieces), [chunk, chunk, total - 2 * chunk]);
            assert_eq!(write_sizes(&mut buffer, [10, 5 * chunk, 7]), [chunk, 4 * chunk, 17]);
            assert_eq!(write_sizes(&mut buffer, [chunk, chunk - 1, 1]), [chunk, chunk]);
            assert!(buffer.bytes.capacity() <= chunk);
        }
    }

    /// A record in two writes could stay in part, if the second one fails.
    #[test]
    fn small_record_is_one_write() {
        let mut buffer = WriteBuffer::default();
        for _ in 0..3 {
            assert_eq!(write_sizes(&mut buffer, [7, 200_000]), [200_007]);
        }
    }
}
