//! Tree of keys: the children of a prefix, split at a separator.
//!
//! ```text
//!   prefix "FR/", separator "/"     FR/Bretagne/   inner node: a seek skips its keys
//!                                   FR/Corse       leaf: a key
//! ```
//!
//! The work for a child does not depend on the number of its keys.

use serde_json::{Value, json};

use super::Page;
use super::api::ApiRequest;
use super::api_result::{ApiError, ApiResult, json};
use super::indexed_db::{self, Ids};
use super::json_bytes::KeyBytes;
use super::key_schemes::KeySchemes;
use super::keys::{
    ListedKey, MAX_SCAN_TIME, cursor, database, from, listed_key, prefix_range, record_bounds, scan,
};
use super::state::SEPARATOR;
use crate::store::{Allowed, KeyRange, Scratch, View, prefix_end};

/// Number of children in a response, if the request names none.
const DEFAULT_COUNT: u64 = 200;
/// Maximum number of children in a response.
const MAX_COUNT: u64 = 1000;
/// Number of keys up to which the keys of a child are counted.
const MAX_COUNTED: u64 = 1000;
/// Maximum size of a separator, in bytes.
const MAX_SEPARATOR: usize = 16;

/// Child of a prefix.
struct Child {
    prefix: Vec<u8>,
    /// The key of a leaf.
    key: Option<ListedKey>,
}

/// GET tree
pub(super) fn tree(page: &Page, request: &ApiRequest) -> ApiResult {
    let store = &page.shared.store;
    let database = database(store, request)?;
    let prefix = request.query.bytes("prefix");
    let separator = request.query.get("separator").unwrap_or(SEPARATOR.as_bytes());
    if separator.is_empty() || separator.len() > MAX_SEPARATOR {
        return Err(ApiError::bad_request("The argument \"separator\" has no bytes, or more than 16."));
    }
    let count = request.query.number("count", DEFAULT_COUNT)?.clamp(1, MAX_COUNT) as usize;
    if !store.is_bytewise() {
        return tree_of_foreign_order(page, request, prefix, count);
    }
    let begin = from(store, request)?.unwrap_or_else(|| prefix.to_vec());
    let clock = &page.shared.clock;
    let end = clock.monotonic() + MAX_SCAN_TIME;
    let mut children = Children { page, database, prefix, separator, position: Some(begin) };
    let mut nodes: Vec<Value> = Vec::new();
    while let Some(child) = children.next()? {
        nodes.push(node(page, database, child, clock.monotonic() > end)?);
        if nodes.len() == count || clock.monotonic() > end {
            break;
        }
    }
    // A position after the last key has no further page.
    let next = match children.position {
        Some(position) if children.peek(&position)? => Some(cursor(store, position)),
        _ => None,
    };
    Ok(json(&json!({ "nodes": nodes, "next": next })))
}

/// Tree of keys that are not in byte order: that of IndexedDB, or a list of keys.
fn tree_of_foreign_order(page: &Page, request: &ApiRequest, prefix: &[u8], count: usize) -> ApiResult {
    let store = &page.shared.store;
    let from = from(store, request)?;
    if indexed_db::is_indexed_db(store)
        && let Some((nodes, next)) = indexed_db::nodes(page, prefix, from.clone(), count)?
    {
        return Ok(json(&json!({ "nodes": nodes, "next": next })));
    }
    let mut range = prefix_range(store, prefix);
    range.begin = from.or(range.begin);
    // The range of a node has its keys only.
    let is_node = indexed_db::is_indexed_db(store) && matches!(Ids::parse(prefix), Some((_, [])));
    let (keys, next) = scan(page, 0, range, if is_node { &[] } else { prefix }, count)?;
    let nodes: Vec<Value> = keys.into_iter().map(indexed_db::leaf).collect();
    Ok(json(&json!({ "nodes": nodes, "next": next.map(|key| cursor(store, key)) })))
}

/// Iterator over the children of a prefix.
struct Children<'a> {
    page: &'a Page,
    database: u8,
    prefix: &'a [u8],
    separator: &'a [u8],
    /// First key of the next child. None at the end.
    position: Option<Vec<u8>>,
}

impl Children<'_> {
    fn range(&self, begin: &[u8]) -> KeyRange {
        let mut range = KeyRange::prefix(self.prefix);
        range.begin = Some(begin.to_vec()).max(range.begin);
        range
    }

    /// True if a key of the prefix is at or after `begin`.
    fn peek(&self, begin: &[u8]) -> ApiResult<bool> {
        let mut scratch = Scratch::new(0, Allowed::Long);
        let mut view = View::new(&self.page.shared.store, &mut scratch);
        Ok(view.scan(self.database, self.range(begin))?.next()?.is_some())
    }

    /// Returns the next child.
    fn next(&mut self) -> ApiResult<Option<Child>> {
        let Some(begin) = self.position.take() else { return Ok(None) };
        let store = &self.page.shared.store;
        let mut scratch = Scratch::new(0, Allowed::Long);
        let mut view = View::new(store, &mut scratch);
        let now_ms = view.now_ms();
        let mut scan = view.scan(self.database, self.range(&begin))?;
        let Some(found) = scan.next()? else { return Ok(None) };
        let rest = found.key.get(self.prefix.len()..).unwrap_or_default();
        let at = memchr::memmem::find(rest, self.separator);
        Ok(Some(match at {
            Some(at) => {
                let len = self.prefix.len() + at + self.separator.len();
                let prefix = found.key.get(..len).unwrap_or_default().to_vec();
                self.position = prefix_end(&prefix);
                Child { prefix, key: None }
            }
            None => {
                self.position = Some([found.key, &[0]].concat());
                let key = listed_key(store, &KeySchemes::new(store), &found, now_ms);
                Child { prefix: found.key.to_vec(), key: Some(key) }
            }
        }))
    }
}

/// JSON of a child. Without time, its keys are not counted.
fn node(page: &Page, database: u8, child: Child, is_late: bool) -> ApiResult<Value> {
    let store = &page.shared.store;
    let (begin, end) = record_bounds(store, database, &child.prefix);
    let sizes = page.db.approximate_sizes(&[(&begin, &end)]).map_err(crate::failure::Failure::from)?;
    let bytes = sizes.first().copied().unwrap_or(0);
    let (keys, is_exact) = match &child.key {
        Some(_) => (Some(1), true),
        None if is_late => (None, false),
        None => count_keys(page, database, &child.prefix)?,
    };
    Ok(json!({
        "prefix": KeyBytes::new(store, &child.prefix),
        "leaf": child.key.is_some(),
        "keys": keys,
        "keysExact": is_exact,
        "bytes": bytes,
        "key": child.key,
    }))
}

/// Number of keys that begin with `prefix`, and whether it is exact. Counts up to a limit.
fn count_keys(page: &Page, database: u8, prefix: &[u8]) -> ApiResult<(Option<u64>, bool)> {
    let mut scratch = Scratch::new(0, Allowed::Long);
    let mut view = View::new(&page.shared.store, &mut scratch);
    let mut scan = view.scan(database, KeyRange::prefix(prefix))?;
    let mut count = 0;
    while count < MAX_COUNTED {
        if scan.next()?.is_none() {
            return Ok((Some(count), true));
        }
        count += 1;
    }
    Ok((Some(count), false))
}
