//! Keys of a store in etcd, and its creation.
//!
//! ```text
//!   PREFIX 00 'k' KEY           entry: byte 1, then the value
//!   PREFIX 00 'v'               layout record: "terrace-store 1"
//!   PREFIX 00 'd'               record of the last deletion: only its revision counts
//!   PREFIX 00 'c' CLIENT LANE   commit marker, with the lease of its client
//! ```
//!
//! A prefix contains no byte 0, so the keys of two stores never mix. A store is nevertheless not
//! created inside of another one, or around other keys: a person who deletes all keys below a
//! prefix should delete one program's data.

use etcd_client::{Compare, CompareOp, GetOptions, PutOptions, Txn, TxnOp, TxnOpResponse, TxnResponse};

use super::cluster::Cluster;
use crate::error::{Error, Result};
use crate::key_range::KeyRange;

/// Content of the layout record.
const LAYOUT: &str = "terrace-store 1";
/// First byte of a value: a plain value follows.
const PLAIN_VALUE: u8 = 1;

/// Keys below a prefix.
pub(super) struct Layout {
    prefix: String,
    /// Prefix and the byte 0.
    root: Vec<u8>,
}

impl Layout {
    pub(super) fn new(prefix: &str) -> Layout {
        Layout { prefix: prefix.to_owned(), root: root_of(prefix) }
    }

    fn key(&self, kind: u8, rest: &[u8]) -> Vec<u8> {
        let mut key = Vec::with_capacity(self.root.len() + 1 + rest.len());
        key.extend_from_slice(&self.root);
        key.push(kind);
        key.extend_from_slice(rest);
        key
    }

    /// Key in etcd of the user key `key`.
    pub(super) fn data_key(&self, key: &[u8]) -> Vec<u8> {
        self.key(b'k', key)
    }

    /// First key and excluded end in etcd of a range of user keys that is not empty.
    pub(super) fn data_range(&self, range: &KeyRange) -> (Vec<u8>, Vec<u8>) {
        let end = match &range.end {
            Some(end) => self.data_key(end),
            None => self.key(b'k' + 1, &[]),
        };
        (self.data_key(&range.start), end)
    }

    /// User key of a key in etcd.
    pub(super) fn user_key(&self, mut key: Vec<u8>) -> Vec<u8> {
        key.drain(..(self.root.len() + 1).min(key.len()));
        key
    }

    pub(super) fn last_deletion_key(&self) -> Vec<u8> {
        self.key(b'd', &[])
    }

    /// Key of the commit marker of a lane.
    pub(super) fn marker_key(&self, client: u64, lane: u64) -> Vec<u8> {
        self.key(b'c', format!("{client:016x}{lane:08x}").as_bytes())
    }

    fn layout_key(&self) -> Vec<u8> {
        layout_key_of(&self.prefix)
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

/// Returns the stored form of a value.
pub(super) fn encode_value(value: &[u8]) -> Vec<u8> {
    let mut stored = Vec::with_capacity(value.len() + 1);
    stored.push(PLAIN_VALUE);
    stored.extend_from_slice(value);
    stored
}

/// Returns the value of a stored form.
pub(super) fn decode_value(key: &[u8], mut stored: Vec<u8>) -> Result<Vec<u8>> {
    if stored.first() != Some(&PLAIN_VALUE) {
        return Err(Error::Corruption(format!(
            "etcd: the value of '{}' begins with {:?}, expected the byte {PLAIN_VALUE}",
            key.escape_ascii(),
            stored.first()
        )));
    }
    stored.remove(0);
    Ok(stored)
}

/// Checks the layout record, and creates the store if it is missing and `may_create` is set.
pub(super) fn open(cluster: &Cluster, layout: &Layout, may_create: bool) -> Result<()> {
    if let Some(found) = stored_layout(cluster, layout)? {
        return check_layout(layout, &found);
    }
    if !may_create {
        return Err(Error::InvalidArgument(format!(
            "etcd: no store has the prefix '{}' (create_if_missing is false)",
            layout.prefix
        )));
    }
    let txn = creation(layout);
    let requester = cluster.requester();
    let answer = cluster.run(async move { Ok(requester.txn(&txn).await?) })?;
    if answer.succeeded() {
        return Ok(());
    }
    // Another client may have created the store meanwhile, or this one before a lost answer.
    match stored_layout(cluster, layout)? {
        Some(found) => check_layout(layout, &found),
        None => Err(occupied(layout, &answer)),
    }
}

fn stored_layout(cluster: &Cluster, layout: &Layout) -> Result<Option<Vec<u8>>> {
    let answer = cluster.get(layout.layout_key(), GetOptions::new())?;
    Ok(answer.kvs().first().map(|entry| entry.value().to_vec()))
}

fn check_layout(layout: &Layout, found: &[u8]) -> Result<()> {
    if found == LAYOUT.as_bytes() {
        return Ok(());
    }
    let shown = found[..found.len().min(40)].escape_ascii().to_string();
    Err(Error::NotSupported(format!(
        "etcd: the store '{}' has the layout '{shown}', expected '{LAYOUT}'",
        layout.prefix
    )))
}

/// Prefixes that contain `prefix`: each but the last name of it, and so on.
fn ancestors(prefix: &str) -> impl Iterator<Item = &str> {
    prefix.match_indices('/').map(|(at, _)| &prefix[..at])
}

/// Ranges of keys that belong to `prefix`: the prefix itself, keys after a slash, and the store.
fn occupied_ranges(prefix: &str) -> [(Vec<u8>, Vec<u8>); 2] {
    let with = |byte: u8| [prefix.as_bytes(), &[byte]].concat();
    [(prefix.as_bytes().to_vec(), with(1)), (with(b'/'), with(b'/' + 1))]
}

/// Transaction that stores the layout record if no other program uses the prefix.
fn creation(layout: &Layout) -> Txn {
    let mut compares = Vec::new();
    let mut reads = Vec::new();
    for (start, end) in occupied_ranges(&layout.prefix) {
        let absent = Compare::create_revision(start.clone(), CompareOp::Equal, 0);
        compares.push(absent.with_range(end.clone()));
        reads.push(TxnOp::get(start, Some(GetOptions::new().with_range(end).with_limit(1).with_keys_only())));
    }
    for ancestor in ancestors(&layout.prefix) {
        compares.push(Compare::create_revision(layout_key_of(ancestor), CompareOp::Equal, 0));
        reads.push(TxnOp::get(layout_key_of(ancestor), Some(GetOptions::new().with_keys_only())));
    }
    let record = TxnOp::put(layout.layout_key(), LAYOUT, Some(PutOptions::new()));
    Txn::new().when(compares).and_then([record]).or_else(reads)
}

/// Error for a prefix that another program uses.
fn occupied(layout: &Layout, answer: &TxnResponse) -> Error {
    let found = answer.op_responses().into_iter().find_map(|response| match response {
        TxnOpResponse::Get(found) => found.kvs().first().map(|entry| entry.key().to_vec()),
        _ => None,
    });
    let key = found.unwrap_or_default();
    Error::InvalidArgument(format!(
        "etcd: the prefix '{}' shares keys with another program, such as '{}'; nothing was written",
        layout.prefix,
        key.escape_ascii()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_and_ranges_of_keys() {
        let layout = Layout::new("app");
        assert_eq!(layout.data_key(b"a"), b"app\0ka");
        assert_eq!(layout.user_key(layout.data_key(b"a")), b"a");
        assert_eq!(layout.data_range(&KeyRange::all()), (b"app\0k".to_vec(), b"app\0l".to_vec()));
        assert!(layout.last_deletion_key() < layout.data_key(b""));
    }

    #[test]
    fn values_have_a_header() {
        assert_eq!(decode_value(b"k", encode_value(b"")).unwrap(), b"");
        assert_eq!(decode_value(b"k", encode_value(b"\x01")).unwrap(), b"\x01");
        assert!(decode_value(b"k", Vec::new()).is_err());
        assert!(decode_value(b"k", b"\x02v".to_vec()).is_err());
    }

    #[test]
    fn ancestors_of_a_prefix() {
        assert_eq!(ancestors("a/b/c").collect::<Vec<_>>(), ["a", "a/b"]);
        assert_eq!(ancestors("a").count(), 0);
    }
}
