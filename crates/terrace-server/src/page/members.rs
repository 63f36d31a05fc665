//! Members of an object as JSON.

use data_encoding::HEXLOWER_PERMISSIVE;
use serde_json::{Value, json};

use super::Page;
use super::api::ApiRequest;
use super::api_result::{ApiError, ApiResult};
use super::value::bytes;
use crate::command::{MemberValue, list_members};
use crate::store::{Object, View};

/// Maximum number of members in a response.
const MAX_MEMBERS: usize = 200;
/// Size of the members after which a response has no more of them, in bytes.
const MAX_BYTES: usize = 1 << 20;

/// Returns a page of members, and the cursor of the next one.
pub(super) fn members(
    page: &Page,
    view: &mut View<'_>,
    object: &Object,
    request: &ApiRequest,
) -> ApiResult<(Vec<Value>, Option<String>)> {
    let store = &page.shared.store;
    let begin =
        match request.query.get("from").filter(|from| !from.is_empty()) {
            Some(from) => Some(HEXLOWER_PERMISSIVE.decode(from).map_err(|_| {
                ApiError::bad_request("The argument \"from\" is not a cursor of this value.")
            })?),
            None => super::keys::from(store, request)?,
        };
    let (found, next) = list_members(view, object, begin, MAX_MEMBERS, MAX_BYTES)?;
    let members = found.into_iter().map(|(name, value)| {
        json!([
            bytes(&name),
            match value {
                MemberValue::None => Value::Null,
                MemberValue::Bytes(value) => bytes(&value),
                // JSON has no infinite numbers.
                MemberValue::Score(score) if score.is_finite() => json!(score),
                MemberValue::Score(score) => json!(if score > 0.0 { "inf" } else { "-inf" }),
            }
        ])
    });
    let next = next.map(|position| {
        if position.len() > super::json_bytes::MAX_KEY_BYTES {
            return super::keys::cursor(store, position);
        }
        data_encoding::HEXLOWER.encode(&position)
    });
    Ok((members.collect(), next))
}
