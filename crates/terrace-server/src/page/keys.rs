//! Lists of keys, in both directions.

use std::cmp::Ordering;
use std::time::Duration;

use serde::Serialize;

use super::Page;
use super::api::ApiRequest;
use super::api_result::{ApiError, ApiResult, json};
use super::indexed_db::{self, Ids};
use super::json_bytes::KeyBytes;
use super::key_schemes::KeySchemes;
use super::query;
use crate::store::{
    Allowed, DATABASES, KeyRange, Layout, ScannedKey, Scratch, Store, ValueType, View, prefix_end,
};

/// Number of keys in a page, if the request names none.
const DEFAULT_COUNT: u64 = 200;
/// Maximum number of keys in a page.
const MAX_COUNT: u64 = 1000;
/// Maximum size of the keys in a page, in bytes, apart from the last one.
const MAX_BYTES: usize = 1 << 20;
/// Time after which a scan returns the part that it has.
pub(super) const MAX_SCAN_TIME: Duration = Duration::from_millis(50);

/// Key in a list.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ListedKey {
    pub(super) key: KeyBytes,
    /// Name of the type; `raw` in the raw layout.
    #[serde(rename = "type")]
    pub(super) type_name: &'static str,
    /// Bytes of a value, or number of members.
    pub(super) size: u64,
    /// Milliseconds until the expiry.
    pub(super) ttl_ms: Option<u64>,
    /// Meaning of the key in a known program.
    pub(super) scheme: Option<&'static str>,
}

/// Page of keys.
#[derive(Debug, Serialize)]
struct KeyPage {
    keys: Vec<ListedKey>,
    next: Option<String>,
    previous: Option<String>,
}

/// GET keys
pub(super) fn keys(page: &Page, request: &ApiRequest) -> ApiResult {
    let store = &page.shared.store;
    let query = &request.query;
    let database = database(store, request)?;
    let prefix = query.bytes("prefix");
    let is_reverse = match query.text("direction").unwrap_or("forward") {
        "forward" => false,
        "backward" => true,
        _ => {
            return Err(ApiError::bad_request("The argument \"direction\" is neither forward nor backward."));
        }
    };
    let count = query.number("count", DEFAULT_COUNT)?.clamp(1, MAX_COUNT) as usize;
    let from = from(store, request)?;
    let mut range = prefix_range(store, prefix);
    range.is_reverse = is_reverse;
    if let Some(from) = &from {
        narrow(store, &mut range, from);
    }
    let (keys, next) = scan(page, database, range, prefix, count)?;
    // In the other direction, a page begins before the first key of this one, and excludes it when
    // it goes backward.
    let previous = from.filter(|from| !from.is_empty() && from.as_slice() != prefix);
    let cursor = |key: Vec<u8>| cursor(store, key);
    Ok(json(&KeyPage { keys, next: next.map(cursor), previous: previous.map(cursor) }))
}

/// Range with all keys that begin with `prefix`. In another order than that of bytes, it has other
/// keys, too.
pub(super) fn prefix_range(store: &Store, prefix: &[u8]) -> KeyRange {
    if prefix.is_empty() {
        // In another order, the empty key may not be the first one.
        KeyRange::all()
    } else if store.is_bytewise() {
        KeyRange::prefix(prefix)
    } else {
        let ids = indexed_db::is_indexed_db(store).then(|| Ids::parse(prefix)).flatten();
        ids.map_or_else(KeyRange::all, |(ids, _)| ids.range())
    }
}

/// Lets a range begin at `from`, in the order of the scan.
fn narrow(store: &Store, range: &mut KeyRange, from: &[u8]) {
    let bound = if range.is_reverse { &mut range.end } else { &mut range.begin };
    let outside = if range.is_reverse { Ordering::Greater } else { Ordering::Less };
    let is_inside = bound.as_ref().is_none_or(|bound| store.comparator().compare(from, bound) != outside);
    if is_inside {
        *bound = Some(from.to_vec());
    }
}

/// Keys of a part of a range, and the position of the next page.
type ScannedKeys = (Vec<ListedKey>, Option<Vec<u8>>);

/// Reads a page of the keys that begin with `prefix`. It may be empty before the end of the range.
pub(super) fn scan(
    page: &Page,
    database: u8,
    range: KeyRange,
    prefix: &[u8],
    count: usize,
) -> ApiResult<ScannedKeys> {
    let store = &page.shared.store;
    let clock = &page.shared.clock;
    let end = clock.monotonic() + MAX_SCAN_TIME;
    let is_reverse = range.is_reverse;
    let schemes = KeySchemes::new(store);
    let mut scratch = Scratch::new(0, Allowed::Long);
    let mut view = View::new(store, &mut scratch);
    let now_ms = view.now_ms();
    let mut scan = view.scan(database, range)?;
    let mut found = Vec::new();
    let mut bytes = 0;
    let mut last: Option<Vec<u8>> = None;
    while let Some(next) = scan.next()? {
        let is_full = found.len() == count || bytes > MAX_BYTES || clock.monotonic() > end;
        if let (Some(last), true) = (&mut last, is_full) {
            let position = if is_reverse { std::mem::take(last) } else { next.key.to_vec() };
            return Ok((found, Some(position)));
        }
        let last = last.get_or_insert_default();
        last.clear();
        last.extend(next.key);
        if next.key.starts_with(prefix) {
            bytes += next.key.len();
            found.push(listed_key(store, &schemes, &next, now_ms));
        }
    }
    Ok((found, None))
}

/// Row of a key in a list.
pub(super) fn listed_key(
    store: &Store,
    schemes: &KeySchemes,
    found: &ScannedKey<'_>,
    now_ms: u64,
) -> ListedKey {
    ListedKey {
        key: KeyBytes::new(store, found.key),
        type_name: type_name(store.layout, found.header.value_type),
        size: size(found.header.value_type, found.value),
        ttl_ms: found.header.expires_at.map(|at| at.saturating_sub(now_ms)),
        scheme: schemes.name(found.key),
    }
}

/// Name of a type in the API.
pub(super) fn type_name(layout: Layout, value_type: ValueType) -> &'static str {
    if layout == Layout::Raw { "raw" } else { value_type.name() }
}

/// Bytes of a string, or number of members.
fn size(value_type: ValueType, value: &[u8]) -> u64 {
    if value_type == ValueType::String {
        return value.len() as u64;
    }
    // The number of the object precedes the count; a damaged record has no members.
    value.get(8..).and_then(<[u8]>::first_chunk).map_or(0, |bytes| u64::from_be_bytes(*bytes))
}

/// Number of databases.
pub(super) fn database_count(store: &Store) -> usize {
    if store.layout == Layout::Raw { 1 } else { DATABASES }
}

/// Database of the argument `db`.
pub(super) fn database(store: &Store, request: &ApiRequest) -> ApiResult<u8> {
    let count = database_count(store) as u64;
    let number = request.query.number("db", 0)?;
    if number >= count {
        return Err(ApiError::bad_request(format!(
            "The argument \"db\" is {number}, expected less than {count}."
        )));
    }
    Ok(number as u8)
}

/// Position of the argument `from`, or of the stored position that `fromId` names.
pub(super) fn from(store: &Store, request: &ApiRequest) -> ApiResult<Option<Vec<u8>>> {
    if request.query.get("fromId").is_some() {
        return stored_key(store, request.query.number("fromId", 0)?).map(Some);
    }
    Ok(request.query.get("from").filter(|from| !from.is_empty()).map(<[u8]>::to_vec))
}

/// Key of the argument `key`, or the stored key that `keyId` names.
pub(super) fn key(store: &Store, request: &ApiRequest) -> ApiResult<Vec<u8>> {
    if request.query.get("keyId").is_some() {
        return stored_key(store, request.query.number("keyId", 0)?);
    }
    let key = request.query.get("key");
    Ok(key.ok_or_else(|| ApiError::bad_request("The argument \"key\" is missing."))?.to_vec())
}

/// Stored key `id`.
pub(super) fn stored_key(store: &Store, id: u64) -> ApiResult<Vec<u8>> {
    let key = store.page_keys.get(id);
    key.ok_or_else(|| ApiError::not_found("The server has forgotten the position; reload the list."))
}

/// Cursor of a position. A long one is stored on the server, because addresses are limited.
pub(super) fn cursor(store: &Store, key: Vec<u8>) -> String {
    if key.len() <= super::json_bytes::MAX_KEY_BYTES {
        return query::encode(&key);
    }
    format!("&fromId={}", store.page_keys.insert(key))
}

/// Bounds of the records of the keys that begin with `prefix`.
pub(super) fn record_bounds(store: &Store, database: u8, prefix: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let space = store.namespaces.space(database);
    let record = |key: &[u8]| {
        let mut record = Vec::new();
        store.layout.record_key(space, key, &mut record);
        record
    };
    let end = match (prefix_end(prefix), store.layout) {
        (Some(end), _) => record(&end),
        (None, Layout::Typed) => crate::store::space_bounds(space).1,
        // No key of a database is after these bytes, unless it is longer and begins with them.
        (None, Layout::Raw) => vec![0xff; 1024],
    };
    (record(prefix), end)
}
