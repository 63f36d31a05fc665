//! Value of a key: parts of strings, and members of objects.

use data_encoding::HEXLOWER;
use serde_json::{Map, Value, json};

use super::Page;
use super::api::ApiRequest;
use super::api_result::{ApiError, ApiResult, json};
use super::json_bytes::{self, JsonBytes};
use super::keys::{database, key, type_name};
use super::members::members;
use crate::store::{Allowed, Scratch, ValueType, View, damaged_record};

/// Number of bytes of a string in a response, if the request names none.
const DEFAULT_COUNT: u64 = 64 << 10;
/// Maximum number of bytes of a string in a response.
const MAX_COUNT: u64 = 1 << 20;

/// GET value
pub(super) fn value(page: &Page, request: &ApiRequest) -> ApiResult {
    let store = &page.shared.store;
    let database = database(store, request)?;
    let key = key(store, request)?;
    let mut scratch = Scratch::new(0, Allowed::Long);
    let mut view = View::new(store, &mut scratch);
    // The record of an object and its members are of one state.
    view.pin_state();
    let now_ms = view.now_ms();
    let entry = view.get(database, &key)?.ok_or_else(|| ApiError::not_found("The key does not exist."))?;
    let value_type = entry.header.value_type;
    let mut reply = Map::new();
    reply.insert("key".into(), json!(json_bytes::KeyBytes::new(store, &key)));
    reply.insert("type".into(), json!(type_name(store.layout, value_type)));
    reply.insert("ttlMs".into(), json!(entry.expires_at().map(|at| at.saturating_sub(now_ms))));
    if value_type == ValueType::String {
        let bytes = entry.string()?;
        reply.insert("size".into(), json!(bytes.len()));
        reply.insert("value".into(), part(bytes, request)?);
    } else {
        let object = entry.object().ok_or_else(|| damaged_record(&key))?;
        reply.insert("size".into(), json!(object.count));
        let (members, next) = members(page, &mut view, &object, request)?;
        reply.insert("members".into(), Value::Array(members));
        reply.insert("next".into(), json!(next));
    }
    Ok(json(&reply))
}

/// Part of a string that the request wants.
fn part(bytes: &[u8], request: &ApiRequest) -> ApiResult<Value> {
    let offset = usize::try_from(request.query.number("offset", 0)?).unwrap_or(usize::MAX).min(bytes.len());
    let count = request.query.number("count", DEFAULT_COUNT)?.min(MAX_COUNT) as usize;
    let part = &bytes[offset..bytes.len().min(offset.saturating_add(count))];
    let mut value = Map::new();
    // All parts of a value have the same form.
    match json_bytes::text(bytes).and_then(|_| json_bytes::text(part)) {
        Some(text) => value.insert("text".into(), json!(text)),
        None => value.insert("hex".into(), json!(HEXLOWER.encode(part))),
    };
    value.insert("total".into(), json!(bytes.len()));
    value.insert("offset".into(), json!(offset));
    Ok(Value::Object(value))
}

/// Bytes as JSON.
pub(super) fn bytes(bytes: &[u8]) -> Value {
    json!(JsonBytes(bytes))
}
