//! Keys of the records of several Redis keys, in memory that a thread reuses.

use super::layout::Layout;

/// Size of the memory that a thread keeps, in bytes.
const MAX_KEPT: usize = 64 << 10;

/// Keys of records, one after the other.
#[derive(Debug, Default)]
pub(super) struct RecordKeys {
    bytes: Vec<u8>,
    /// End of each key in `bytes`.
    ends: Vec<usize>,
}

impl RecordKeys {
    /// Takes the keys of the records of `keys` in `space`.
    pub(super) fn set<'k>(&mut self, layout: Layout, space: u16, keys: impl Iterator<Item = &'k [u8]>) {
        self.clear();
        for key in keys {
            layout.append_record_key(space, key, &mut self.bytes);
            self.ends.push(self.bytes.len());
        }
    }

    /// Keys of the records.
    pub(super) fn iter(&self) -> impl Iterator<Item = &[u8]> + Clone {
        let begins = std::iter::once(&0).chain(&self.ends);
        begins.zip(&self.ends).map(|(begin, end)| self.bytes.get(*begin..*end).unwrap_or_default())
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.bytes.shrink_to(MAX_KEPT);
        self.ends.clear();
        self.ends.shrink_to(MAX_KEPT / size_of::<usize>());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_in_order() {
        let mut keys = RecordKeys::default();
        for layout in [Layout::Typed, Layout::Raw] {
            keys.set(layout, 1, [&b"Bern"[..], b"", b"Chur"].into_iter());
            let expected = [&b"Bern"[..], b"", b"Chur"].map(|key| {
                let mut record = Vec::new();
                layout.record_key(1, key, &mut record);
                record
            });
            assert!(keys.iter().eq(expected.iter().map(Vec::as_slice)), "{layout:?}");
        }
    }
}
