//! Range of keys: a first key and an excluded end.

/// Keys from `start` to `end`, `end` excluded, in bytewise order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KeyRange {
    /// First key of the range.
    pub start: Vec<u8>,
    /// First key after the range. None: the range has no end.
    pub end: Option<Vec<u8>>,
}

impl KeyRange {
    /// All keys.
    pub fn all() -> KeyRange {
        KeyRange::default()
    }

    /// Keys from `start` to `end`, `end` excluded.
    pub fn new(start: impl Into<Vec<u8>>, end: impl Into<Vec<u8>>) -> KeyRange {
        KeyRange { start: start.into(), end: Some(end.into()) }
    }

    /// Keys that begin with `prefix`.
    ///
    /// ```
    /// use terrace_store::KeyRange;
    ///
    /// assert_eq!(KeyRange::prefix(b"CH/"), KeyRange::new(b"CH/", b"CH0"));
    /// assert_eq!(KeyRange::prefix(b"\xff").end, None);
    /// ```
    pub fn prefix(prefix: impl AsRef<[u8]>) -> KeyRange {
        let start = prefix.as_ref().to_vec();
        let end = prefix_end(&start);
        KeyRange { start, end }
    }

    /// Returns true if the range contains `key`.
    pub fn contains(&self, key: &[u8]) -> bool {
        key >= self.start.as_slice() && self.is_before_end(key)
    }

    /// Returns true if the range contains no key.
    pub fn is_empty(&self) -> bool {
        self.end.as_ref().is_some_and(|end| *end <= self.start)
    }

    /// Returns true if `key` is not after the range.
    pub(crate) fn is_before_end(&self, key: &[u8]) -> bool {
        self.end.as_ref().is_none_or(|end| key < end.as_slice())
    }
}

/// Returns the first key after all keys with `prefix`. None: there is none.
pub(crate) fn prefix_end(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|byte| *byte != 0xff)?;
    let mut end = prefix[..=last].to_vec();
    end[last] += 1;
    Some(end)
}

/// Returns the first key after `key`.
pub(crate) fn successor(key: &[u8]) -> Vec<u8> {
    let mut next = Vec::with_capacity(key.len() + 1);
    next.extend_from_slice(key);
    next.push(0);
    next
}
