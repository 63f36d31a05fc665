//! Iterator over the keys of a database, in order.

use terrace::ReadOptions;

use super::base_iter::BaseIter;
use super::layout::{Header, Layout, space_bounds};
use crate::failure::{CommandResult, Failure};

/// Range of Redis keys.
#[derive(Debug, Clone, Default)]
pub(crate) struct KeyRange {
    /// First key, included.
    pub(crate) begin: Option<Vec<u8>>,
    /// Key that is left out although it is in the range: the last key of an earlier scan.
    pub(crate) skipped: Option<Vec<u8>>,
    /// End, not included.
    pub(crate) end: Option<Vec<u8>>,
    /// True for descending order.
    pub(crate) is_reverse: bool,
}

impl KeyRange {
    /// All keys.
    pub(crate) fn all() -> KeyRange {
        KeyRange::default()
    }

    /// Keys that begin with `prefix`.
    pub(crate) fn prefix(prefix: &[u8]) -> KeyRange {
        KeyRange { begin: Some(prefix.to_vec()), end: prefix_end(prefix), ..KeyRange::default() }
    }

    /// Returns the range without the keys up to `position`, in the order of the scan.
    pub(crate) fn after(mut self, position: Vec<u8>) -> KeyRange {
        if self.is_reverse {
            self.end = Some(position);
        } else {
            self.begin = Some(position.clone()).max(self.begin);
            self.skipped = Some(position);
        }
        self
    }

    /// Options of an iterator over the range in the namespace `space`.
    pub(super) fn read_options(&self, layout: Layout, space: u16, base: &ReadOptions) -> ReadOptions {
        let mut options = base.clone().fill_cache(false);
        let (space_begin, space_end) = match layout {
            Layout::Raw => (None, None),
            Layout::Typed => {
                let (begin, end) = space_bounds(space);
                (Some(begin), Some(end))
            }
        };
        let record = |key: &Vec<u8>| {
            let mut record = Vec::new();
            layout.record_key(space, key, &mut record);
            record
        };
        options.lower_bound = self.begin.as_ref().map(record).or(space_begin);
        options.upper_bound = self.end.as_ref().map(record).or(space_end);
        options
    }
}

/// Returns the first key after all keys that begin with `prefix`, unless no key can be after them.
pub(crate) fn prefix_end(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|byte| *byte != 0xff)?;
    let mut end = prefix[..=last].to_vec();
    end[last] += 1;
    Some(end)
}

/// Iterator over keys that exist and have not expired.
pub(crate) struct KeyScan {
    iter: BaseIter,
    layout: Layout,
    skipped: Option<Vec<u8>>,
    now_ms: u64,
    /// Number of entries that the scan has read, expired ones included.
    pub(crate) examined: usize,
}

/// Key with its header and value.
#[derive(Debug)]
pub(crate) struct ScannedKey<'a> {
    pub(crate) key: &'a [u8],
    pub(crate) header: Header,
    pub(crate) value: &'a [u8],
}

impl KeyScan {
    pub(super) fn new(iter: BaseIter, layout: Layout, range: KeyRange, now_ms: u64) -> KeyScan {
        let KeyRange { skipped, is_reverse, .. } = range;
        KeyScan { iter: iter.reverse(is_reverse), layout, skipped, now_ms, examined: 0 }
    }

    /// Returns the next key, or None at the end.
    ///
    /// # Errors
    ///
    /// A block or a record is damaged.
    pub(crate) fn next(&mut self) -> CommandResult<Option<ScannedKey<'_>>> {
        let header = loop {
            if !self.iter.step()? {
                return Ok(None);
            }
            self.examined += 1;
            let key = &self.iter.key()[self.layout.prefix_len()..];
            if self.skipped.as_deref() == Some(key) {
                continue;
            }
            let Some(header) = self.layout.header(self.iter.value()) else {
                let key = key.escape_ascii();
                return Err(Failure::reply(format!("ERR damaged: the record of the key '{key}'")));
            };
            if header.expires_at.is_none_or(|at| at > self.now_ms) {
                break header;
            }
        };
        let key = &self.iter.key()[self.layout.prefix_len()..];
        let value = &self.iter.value()[header.len..];
        Ok(Some(ScannedKey { key, header, value }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_of_prefixes() {
        assert_eq!(prefix_end(b"CH/"), Some(b"CH0".to_vec()));
        assert_eq!(prefix_end(b"a\xff\xff"), Some(b"b".to_vec()));
        assert_eq!([prefix_end(b"\xff"), prefix_end(b"")], [None, None]);
    }

    #[test]
    fn range_after_a_position() {
        let range = KeyRange::prefix(b"CH/").after(b"CH/Bern".to_vec());
        assert_eq!(range.begin.as_deref(), Some(&b"CH/Bern"[..]));
        assert_eq!(range.end.as_deref(), Some(&b"CH0"[..]));
    }
}
