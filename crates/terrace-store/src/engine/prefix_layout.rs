//! Keys of a store below its prefix in a distributed engine.
//!
//! ```text
//!   PREFIX 00 'k' KEY           entry: the stored form of its value
//!   PREFIX 00 'v'               layout record: "terrace-store 1"
//!   PREFIX 00 'd'               record of the last deletion (etcd), or of the last new lane (TiKV)
//!   PREFIX 00 'c' CLIENT LANE   commit marker
//!   PREFIX 00 'g'               record of the last move of the safe point (TiKV)
//! ```
//!
//! A prefix contains no byte 0, so the keys of two stores never mix. A store is nevertheless not
//! created inside of another one, or around other keys: a person who deletes all keys below a
//! prefix should delete one program's data.

use crate::error::{Error, Result};
use crate::key_range::KeyRange;

/// Content of the layout record.
pub(super) const LAYOUT: &str = "terrace-store 1";

/// Keys below a prefix.
pub(super) struct Layout {
    /// Name of the engine in messages.
    engine: &'static str,
    pub(super) prefix: String,
    /// Prefix and the byte 0.
    root: Vec<u8>,
}

impl Layout {
    pub(super) fn new(engine: &'static str, prefix: &str) -> Layout {
        Layout { engine, prefix: prefix.to_owned(), root: root_of(prefix) }
    }

    fn key(&self, kind: u8, rest: &[u8]) -> Vec<u8> {
        let mut key = Vec::with_capacity(self.root.len() + 1 + rest.len());
        key.extend_from_slice(&self.root);
        key.push(kind);
        key.extend_from_slice(rest);
        key
    }

    /// Stored key of the user key `key`.
    pub(super) fn data_key(&self, key: &[u8]) -> Vec<u8> {
        self.key(b'k', key)
    }

    /// First stored key and excluded end of a range of user keys that is not empty.
    pub(super) fn data_range(&self, range: &KeyRange) -> (Vec<u8>, Vec<u8>) {
        let end = match &range.end {
            Some(end) => self.data_key(end),
            None => self.key(b'k' + 1, &[]),
        };
        (self.data_key(&range.start), end)
    }

    /// User key of a stored key.
    pub(super) fn user_key(&self, mut key: Vec<u8>) -> Vec<u8> {
        key.drain(..(self.root.len() + 1).min(key.len()));
        key
    }

    /// Returns `error` with the user key of the stored key in a conflict.
    pub(super) fn with_user_key(&self, error: Error) -> Error {
        match error {
            Error::Conflict { key: Some(key) } => Error::Conflict { key: Some(self.user_key(key)) },
            error => error,
        }
    }

    /// Key of the record that deletions change in etcd, and new lanes in TiKV.
    pub(super) fn change_record_key(&self) -> Vec<u8> {
        self.key(b'd', &[])
    }

    /// Key of the commit marker of a lane.
    pub(super) fn marker_key(&self, client: u64, lane: u64) -> Vec<u8> {
        self.key(b'c', format!("{client:016x}{lane:08x}").as_bytes())
    }

    /// Key of the record of the last move of the safe point.
    #[cfg(feature = "tikv")]
    pub(super) fn safe_point_key(&self) -> Vec<u8> {
        self.key(b'g', &[])
    }

    /// First key and excluded end of all commit markers and of the record of the last new lane.
    #[cfg(feature = "tikv")]
    pub(super) fn commit_record_range(&self) -> (Vec<u8>, Vec<u8>) {
        (self.key(b'c', &[]), self.key(b'd' + 1, &[]))
    }

    pub(super) fn layout_key(&self) -> Vec<u8> {
        layout_key_of(&self.prefix)
    }

    /// Layout records of the stores that would contain this one.
    pub(super) fn enclosing_layout_keys(&self) -> impl Iterator<Item = Vec<u8>> + '_ {
        ancestors(&self.prefix).map(layout_key_of)
    }

    /// Ranges of keys that belong to the prefix: the prefix itself with the store, and keys after a
    /// slash.
    pub(super) fn occupied_ranges(&self) -> [(Vec<u8>, Vec<u8>); 2] {
        let prefix = self.prefix.as_bytes();
        let with = |byte: u8| [prefix, &[byte]].concat();
        [(prefix.to_vec(), with(1)), (with(b'/'), with(b'/' + 1))]
    }

    /// Checks a layout record.
    pub(super) fn check(&self, found: &[u8]) -> Result<()> {
        if found == LAYOUT.as_bytes() {
            return Ok(());
        }
        let shown = found[..found.len().min(40)].escape_ascii();
        let Layout { engine, prefix, .. } = self;
        Err(Error::NotSupported(format!(
            "{engine}: the store '{prefix}' has the layout '{shown}', expected '{LAYOUT}'"
        )))
    }

    /// Error for a store that does not exist and may not be created.
    pub(super) fn missing(&self) -> Error {
        let Layout { engine, prefix, .. } = self;
        Error::Missing(format!("{engine}: no store has the prefix '{prefix}'"))
    }

    /// Error for a prefix that another program uses, by the key `found`.
    pub(super) fn occupied(&self, found: &[u8]) -> Error {
        let Layout { engine, prefix, .. } = self;
        Error::InvalidArgument(format!(
            "{engine}: the prefix '{prefix}' shares keys with another program, such as '{}'; nothing was written",
            found.escape_ascii()
        ))
    }
}

fn root_of(prefix: &str) -> Vec<u8> {
    let mut root = prefix.as_bytes().to_vec();
    root.push(0);
    root
}

fn layout_key_of(prefix: &str) -> Vec<u8> {
    let mut key = root_of(prefix);
    key.push(b'v');
    key
}

/// Prefixes that contain `prefix`: each but the last name of it, and so on.
fn ancestors(prefix: &str) -> impl Iterator<Item = &str> {
    prefix.match_indices('/').map(|(at, _)| &prefix[..at])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_and_ranges_of_keys() {
        let layout = Layout::new("etcd", "app");
        assert_eq!(layout.data_key(b"a"), b"app\0ka");
        assert_eq!(layout.user_key(layout.data_key(b"a")), b"a");
        assert_eq!(layout.data_range(&KeyRange::all()), (b"app\0k".to_vec(), b"app\0l".to_vec()));
        assert!(layout.change_record_key() < layout.data_key(b""));
    }

    #[test]
    fn ancestors_of_a_prefix() {
        assert_eq!(ancestors("a/b/c").collect::<Vec<_>>(), ["a", "a/b"]);
        assert_eq!(ancestors("a").count(), 0);
    }
}
