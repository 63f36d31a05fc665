//! Copies of the entries that a scan visits.

use std::ops::Range;

use super::{Cursor, Result};

/// Copies of the entries of the last steps of a scan.
#[derive(Default)]
pub struct ScannedEntries {
    /// Keys and values, and then arbitrary bytes.
    bytes: Vec<u8>,
    /// End of the key and end of the value of each entry in `bytes`.
    ends: Vec<(usize, usize)>,
}

impl ScannedEntries {
    /// Removes all entries.
    pub fn clear(&mut self) {
        self.ends.clear();
    }

    /// Returns the number of entries.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns true if there are no entries.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Moves `cursor`, which is at an entry, by `steps`, and copies the entry of each step. Stops
    /// at the last entry.
    ///
    /// The loop is compiled for each engine, so that its steps need no virtual call.
    #[inline(always)]
    pub(super) fn copy_steps(
        &mut self,
        cursor: &mut (impl Cursor + ?Sized),
        steps: u64,
        reverse: bool,
    ) -> Result<()> {
        for _ in 0..steps {
            if !(if reverse { cursor.prev()? } else { cursor.next()? }) {
                break;
            }
            self.push(cursor.entry());
        }
        Ok(())
    }

    /// Copies an entry.
    #[inline(always)]
    pub fn push(&mut self, (key, value): (&[u8], &[u8])) {
        let start = self.end();
        let key_end = start + key.len();
        let end = key_end + value.len();
        if self.bytes.len() < end {
            self.bytes.resize(2 * end, 0);
        }
        self.bytes[start..key_end].copy_from_slice(key);
        self.bytes[key_end..end].copy_from_slice(value);
        self.ends.push((key_end, end));
    }

    #[inline(always)]
    fn end(&self) -> usize {
        self.ends.last().map_or(0, |(_, end)| *end)
    }

    /// Returns the entries in the order of the scan.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let bytes = |range: Range<usize>| &self.bytes[range];
        let starts = std::iter::once(0).chain(self.ends.iter().map(|(_, end)| *end));
        let entries = starts.zip(&self.ends);
        entries.map(move |(start, (key_end, end))| (bytes(start..*key_end), bytes(*key_end..*end)))
    }
}
