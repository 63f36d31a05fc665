//! First entries of a scan, for its repetitions in the same state of the database.

/// Maximum size of the entries, in bytes.
const MAX_BYTES: usize = 4 << 10;

/// First entries of a scan in one direction.
#[derive(Debug, Default)]
pub(super) struct ScanStart {
    pub(super) is_reverse: bool,
    /// True if the scan has no further entries.
    pub(super) is_complete: bool,
    bytes: Vec<u8>,
    /// Ends of the key and of the value of each entry in `bytes`.
    ends: Vec<(usize, usize)>,
}

impl ScanStart {
    /// Returns a start without entries.
    pub(super) fn new(is_reverse: bool) -> ScanStart {
        ScanStart { is_reverse, ..ScanStart::default() }
    }

    /// Number of entries.
    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    /// Adds the next entry, unless the entries become too large.
    pub(super) fn push(&mut self, key: &[u8], value: &[u8]) {
        if self.bytes.len() + key.len() + value.len() > MAX_BYTES {
            return;
        }
        self.bytes.extend_from_slice(key);
        let key_end = self.bytes.len();
        self.bytes.extend_from_slice(value);
        self.ends.push((key_end, self.bytes.len()));
    }

    /// Key of the entry at `index`.
    pub(super) fn key(&self, index: usize) -> &[u8] {
        let end = self.ends.get(index).map_or(0, |(key_end, _)| *key_end);
        self.bytes.get(self.begin(index)..end).unwrap_or_default()
    }

    /// Value of the entry at `index`.
    pub(super) fn value(&self, index: usize) -> &[u8] {
        let (begin, end) = self.ends.get(index).copied().unwrap_or_default();
        self.bytes.get(begin..end).unwrap_or_default()
    }

    fn begin(&self, index: usize) -> usize {
        index.checked_sub(1).and_then(|before| self.ends.get(before)).map_or(0, |(_, end)| *end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_up_to_the_limit() {
        let mut start = ScanStart::default();
        start.push(b"a", b"");
        start.push(b"", b"1");
        start.push(b"b", &[0; MAX_BYTES]);
        start.push(b"c", b"23");
        let entries: Vec<_> = (0..4).map(|index| (start.key(index), start.value(index))).collect();
        assert_eq!(entries, [(&b"a"[..], &b""[..]), (b"", b"1"), (b"c", b"23"), (b"", b"")]);
        assert_eq!(start.len(), 3);
    }
}
