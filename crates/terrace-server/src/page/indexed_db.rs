//! Tree of the IndexedDB databases of Chromium. Their keys are not in byte order.
//!
//! ```text
//!   tree                      prefix of a node
//!   database 1                00 01           sizes of the ids, database
//!     object store 2          00 01 02        .. and object store
//!       records               00 01 02 01     .. and index
//!         key                 the key
//! ```
//!
//! A prefix with all three ids sorts before all keys with these ids.

use serde_json::{Value, json};

use super::Page;
use super::api_result::ApiResult;
use super::json_bytes::KeyBytes;
use super::keys::{ListedKey, MAX_SCAN_TIME, cursor};
use crate::store::{Allowed, KeyRange, Scratch, Store, View};

/// Number of the first index of a program.
const FIRST_INDEX: u64 = 30;
/// Number of keys up to which the keys of a node are counted.
const MAX_COUNTED: u64 = 1000;

/// True if the database is one of Chromium's IndexedDB.
pub(super) fn is_indexed_db(store: &Store) -> bool {
    store.comparator().name() == "idb_cmp1"
}

/// Ids of the database, the object store and the index. A node of the tree has the first `len`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ids {
    numbers: [u64; 3],
    len: usize,
}

impl Ids {
    /// Parses the ids at the begin of a key or of the prefix of a node. Returns the other bytes,
    /// too. None for an unfinished id.
    pub(super) fn parse(bytes: &[u8]) -> Option<(Ids, &[u8])> {
        let mut ids = Ids { numbers: [0; 3], len: 0 };
        let Some((sizes, mut rest)) = bytes.split_first() else { return Some((ids, bytes)) };
        for size in [(sizes >> 5) + 1, (sizes >> 2 & 7) + 1, (sizes & 3) + 1] {
            if rest.is_empty() {
                break;
            }
            let (id, after) = rest.split_at_checked(size.into())?;
            ids.numbers[ids.len] = id.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte));
            ids.len += 1;
            rest = after;
        }
        (ids.len > 0).then_some((ids, rest))
    }

    /// Numbers of a key, which has all three.
    pub(super) fn of_key(key: &[u8]) -> Option<([u64; 3], &[u8])> {
        let (ids, rest) = Ids::parse(key)?;
        (ids.len == 3).then_some((ids.numbers, rest))
    }

    /// Bytes of the first `len` ids.
    fn encode(&self, len: usize) -> Vec<u8> {
        let bytes = self.numbers.map(u64::to_le_bytes);
        let sizes = self.numbers.map(|number| (64 - number.leading_zeros()).div_ceil(8).max(1) as u8);
        let size = |id: usize| if id < len { sizes[id] - 1 } else { 0 };
        let mut encoded = vec![size(0) << 5 | size(1) << 2 | size(2)];
        for id in 0..len {
            encoded.extend(&bytes[id][..sizes[id].into()]);
        }
        encoded
    }

    /// First possible key after those of this node. None if it is the last one.
    fn end(&self) -> Option<Vec<u8>> {
        let mut next = *self;
        let last = self.len.checked_sub(1)?;
        next.numbers[last] = next.numbers[last].checked_add(1)?;
        next.numbers[self.len..].fill(0);
        // Two bits hold the size of the index.
        let is_valid = next.numbers[2] <= u64::from(u32::MAX);
        is_valid.then(|| next.encode(3))
    }

    /// Keys of this node.
    pub(super) fn range(&self) -> KeyRange {
        let begin = (self.len > 0).then(|| self.encode(3));
        KeyRange { begin, end: self.end(), ..KeyRange::default() }
    }

    /// True if the children of the node are keys: metadata has no further ids.
    fn has_keys(&self) -> bool {
        let is_metadata = self.numbers[..self.len.min(2)].contains(&0);
        self.len == 3 || is_metadata
    }

    /// Child with the ids of a key.
    fn child_of(&self, key: &[u8]) -> Option<Ids> {
        let (numbers, _) = Ids::of_key(key)?;
        let len = self.len + 1;
        let mut child = Ids { numbers, len };
        child.numbers[len..].fill(0);
        Some(child)
    }

    /// Words for a node.
    fn name(&self, store: &Store) -> String {
        match (self.len, self.numbers) {
            (1, [0, ..]) => "global metadata".into(),
            (1, [database, ..]) => format!("database {database}"),
            (2, [_, 0, _]) => "metadata".into(),
            (2, [database, number, _]) => match object_store_name(store, database, number) {
                Some(name) => format!("object store {number}: {name}"),
                None => format!("object store {number}"),
            },
            (_, [.., 1]) => "records".into(),
            (_, [.., 2]) => "versions of records".into(),
            (_, [.., 3]) => "blobs of records".into(),
            (_, [.., index]) => format!("index {index}"),
        }
    }
}

/// Name of an object store, as the metadata of its database has it: UTF-16, big-endian.
fn object_store_name(store: &Store, database: u64, number: u64) -> Option<String> {
    /// Type of the metadata of object stores.
    const OBJECT_STORE: u8 = 50;
    /// Property "name" of an object store.
    const NAME: u8 = 0;
    let mut key = Ids { numbers: [database, 0, 0], len: 3 }.encode(3);
    key.push(OBJECT_STORE);
    terrace_format::coding::put_varint64(&mut key, number);
    key.push(NAME);
    let value = store.db().ok()?.get(&key).ok()??;
    let units = value.chunks_exact(2).map(|pair| u16::from_be_bytes([pair[0], pair[1]]));
    let name: Option<String> = char::decode_utf16(units).map(Result::ok).collect();
    name.filter(|name| !name.chars().any(char::is_control))
}

/// Children of a node that are nodes, from the key `from` on, and the position of the next page.
/// None if its children are keys.
pub(super) fn nodes(
    page: &Page,
    prefix: &[u8],
    from: Option<Vec<u8>>,
    count: usize,
) -> ApiResult<Option<(Vec<Value>, Option<String>)>> {
    let Some((node, [])) = Ids::parse(prefix) else { return Ok(None) };
    if node.has_keys() {
        return Ok(None);
    }
    let store = &page.shared.store;
    let end = page.shared.clock.monotonic() + MAX_SCAN_TIME;
    let mut range = node.range();
    range.begin = from.or(range.begin);
    let mut nodes = Vec::new();
    loop {
        let mut scratch = Scratch::new(0, Allowed::Long);
        let mut view = View::new(store, &mut scratch);
        let key = view.scan(0, range.clone())?.next()?.map(|found| found.key.to_vec());
        let Some(key) = key else { return Ok(Some((nodes, None))) };
        if nodes.len() == count || page.shared.clock.monotonic() > end {
            return Ok(Some((nodes, Some(cursor(store, key)))));
        }
        // A key without ids sorts after all others.
        let Some(child) = node.child_of(&key) else { return Ok(Some((nodes, None))) };
        nodes.push(node_json(page, &child)?);
        let Some(next) = child.end() else { return Ok(Some((nodes, None))) };
        range.begin = Some(next);
    }
}

fn node_json(page: &Page, node: &Ids) -> ApiResult<Value> {
    let store = &page.shared.store;
    let range = node.range();
    let begin = range.begin.clone().unwrap_or_default();
    let end = range.end.clone().unwrap_or_else(|| vec![0xff; 1024]);
    let sizes = page.db.approximate_sizes(&[(&begin, &end)]).map_err(crate::failure::Failure::from)?;
    let mut scratch = Scratch::new(0, Allowed::Long);
    let mut view = View::new(store, &mut scratch);
    let mut scan = view.scan(0, range)?;
    let mut keys = 0;
    while keys < MAX_COUNTED && scan.next()?.is_some() {
        keys += 1;
    }
    Ok(json!({
        "prefix": KeyBytes::new(store, &node.encode(node.len)),
        "name": node.name(store),
        "leaf": false,
        "keys": keys,
        "keysExact": keys < MAX_COUNTED,
        "bytes": sizes.first().copied().unwrap_or(0),
        "key": null,
    }))
}

/// Node of the tree for a key.
pub(super) fn leaf(row: ListedKey) -> Value {
    json!({
        "prefix": row.key,
        "leaf": true,
        "keys": 1,
        "keysExact": true,
        "bytes": row.size,
        "key": row,
    })
}

/// Meaning of a key of IndexedDB. The first byte holds the sizes of three numbers: the database,
/// the object store and the index.
pub(super) fn key_name(key: &[u8]) -> Option<&'static str> {
    let (numbers, rest) = Ids::of_key(key)?;
    Some(match (numbers, rest.first()) {
        ([0, 0, 0], Some(0)) => "IndexedDB: schema version",
        ([0, 0, 0], Some(1)) => "IndexedDB: last database number",
        ([0, 0, 0], Some(2)) => "IndexedDB: data version",
        ([0, 0, 0], Some(201)) => "IndexedDB: database name",
        ([0, ..], _) => "IndexedDB: global metadata",
        ([_, 0, 0], Some(50)) => "IndexedDB: object store",
        ([_, 0, 0], Some(100)) => "IndexedDB: index",
        ([_, 0, 0], Some(200)) => "IndexedDB: object store name",
        ([_, 0, 0], Some(201)) => "IndexedDB: index name",
        ([_, 0, 0], _) => "IndexedDB: database metadata",
        ([_, _, 1], _) => "IndexedDB: record",
        ([_, _, 2], _) => "IndexedDB: version of a record",
        ([_, _, 3], _) => "IndexedDB: blobs of a record",
        ([_, _, index], _) if index >= FIRST_INDEX => "IndexedDB: index entry",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use std::cmp::Ordering;

    use terrace_format::comparator::{Comparator, IndexedDb};

    use super::*;

    #[test]
    fn names_of_keys() {
        assert_eq!(key_name(&[0, 0, 0, 0, 201]), Some("IndexedDB: database name"));
        assert_eq!(key_name(&[0, 1, 0, 0, 50, 1]), Some("IndexedDB: object store"));
        assert_eq!(key_name(&[0, 1, 1, 1, 3]), Some("IndexedDB: record"));
        assert_eq!(key_name(&[0, 1, 1, 30, 3]), Some("IndexedDB: index entry"));
        // A number of two bytes.
        assert_eq!(key_name(&[1 << 5, 0, 1, 1, 1, 3]), Some("IndexedDB: record"));
        assert_eq!(key_name(&[0xff, 1]), None);
    }

    #[test]
    fn prefixes_of_nodes() {
        for numbers in [[1, 0, 0], [7, 255, 30], [300, 70_000, 1], [u64::MAX, u64::MAX, u32::MAX.into()]] {
            for len in 1..=3 {
                let mut ids = Ids { numbers, len };
                ids.numbers[len..].fill(0);
                assert_eq!(Ids::parse(&ids.encode(len)), Some((ids, &[][..])), "{ids:?}");
            }
        }
        assert_eq!(Ids::parse(&[]), Some((Ids { numbers: [0; 3], len: 0 }, &[][..])));
        // Sizes without a number, and a number without its second byte.
        assert_eq!((Ids::parse(&[0]), Ids::parse(&[1 << 5, 0])), (None, None));
    }

    #[test]
    fn range_of_a_node_has_its_keys() {
        let node = Ids { numbers: [1, 255, 0], len: 2 };
        let range = node.range();
        let begin = range.begin.unwrap();
        let end = range.end.unwrap();
        let is_inside = |key: &[u8]| {
            IndexedDb.compare(&begin, key) != Ordering::Greater
                && IndexedDb.compare(key, &end) == Ordering::Less
        };
        for index in [1, 2, 3, 30, 200] {
            assert!(is_inside(&[0, 1, 255, index, 1, 1, 0, 65]), "{index}");
        }
        for other in [&[0, 1, 254, 30, 0][..], &[0, 2, 255, 1, 0], &[4, 1, 0, 1, 1, 0], &[0, 0, 0, 0, 1]] {
            assert!(!is_inside(other), "{other:?}");
        }
        let last = Ids { numbers: [u64::MAX, 0, 0], len: 1 };
        assert_eq!((last.range().end, Ids { numbers: [0; 3], len: 0 }.range().begin), (None, None));
    }
}
