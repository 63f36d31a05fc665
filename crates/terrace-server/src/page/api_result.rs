//! Results of the API as responses.

use std::borrow::Cow;

use hyper::StatusCode;
use hyper::body::Bytes;
use serde::Serialize;

use crate::http::{HttpResponse, bytes_response};

/// Creates a response with JSON.
pub(super) fn json_response(result: ApiResult) -> HttpResponse {
    let (status, body) = match result {
        Ok(body) => (StatusCode::OK, body),
        Err(error) => (error.status, json(&serde_json::json!({ "error": error.text }))),
    };
    bytes_response(status, "application/json", body)
}

/// Result of a request of the API: JSON as bytes.
pub(super) type ApiResult<T = Bytes> = Result<T, ApiError>;

/// Reason why a request of the API has no result.
#[derive(Debug)]
pub(super) struct ApiError {
    pub(super) status: StatusCode,
    /// One sentence.
    pub(super) text: Cow<'static, str>,
}

impl ApiError {
    pub(super) fn new(status: StatusCode, text: impl Into<Cow<'static, str>>) -> ApiError {
        ApiError { status, text: text.into() }
    }

    /// Error of an argument.
    pub(super) fn bad_request(text: impl Into<Cow<'static, str>>) -> ApiError {
        ApiError::new(StatusCode::BAD_REQUEST, text)
    }

    /// Error for a thing that does not exist.
    pub(super) fn not_found(text: impl Into<Cow<'static, str>>) -> ApiError {
        ApiError::new(StatusCode::NOT_FOUND, text)
    }
}

impl From<crate::failure::Failure> for ApiError {
    fn from(failure: crate::failure::Failure) -> ApiError {
        ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, failure.text().into_owned())
    }
}

/// Encodes a value. The values of the API have only texts as the keys of objects.
pub(super) fn json(value: &impl Serialize) -> Bytes {
    serde_json::to_vec(value).unwrap_or_default().into()
}
