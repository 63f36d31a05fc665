//! Requests and responses of the page.
//!
//! Every response has the headers of [`response`]: without them, other sites could frame or read
//! the page.

use std::borrow::Cow;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use hyper::body::{Body, Bytes, Frame};
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue};
use hyper::{Response, StatusCode};
use serde::Serialize;
use tokio::sync::mpsc::Receiver;

/// Headers of every response.
static HEADERS: &[(&str, &str)] = &[
    (
        "content-security-policy",
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; \
         frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    ),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
    ("referrer-policy", "no-referrer"),
    ("x-content-type-options", "nosniff"),
    ("x-frame-options", "DENY"),
];

/// Body of a response: bytes, or the messages of an event stream.
pub(super) enum PageBody {
    Bytes(Option<Bytes>),
    Events(Receiver<Bytes>),
}

impl Body for PageBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match &mut *self {
            PageBody::Bytes(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            PageBody::Events(messages) => {
                messages.poll_recv(cx).map(|message| message.map(|bytes| Ok(Frame::data(bytes))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, PageBody::Bytes(None))
    }

    fn size_hint(&self) -> hyper::body::SizeHint {
        match self {
            PageBody::Bytes(bytes) => {
                hyper::body::SizeHint::with_exact(bytes.as_ref().map_or(0, Bytes::len) as u64)
            }
            PageBody::Events(_) => hyper::body::SizeHint::default(),
        }
    }
}

/// Response to a request.
pub(super) type PageResponse = Response<PageBody>;

/// Creates a response with the headers of all responses.
pub(super) fn response(status: StatusCode, media_type: &'static str, body: PageBody) -> PageResponse {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let headers = response.headers_mut();
    for (name, value) in HEADERS {
        headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// Creates a response with the bytes `body`.
pub(super) fn bytes_response(status: StatusCode, media_type: &'static str, body: Bytes) -> PageResponse {
    response(status, media_type, PageBody::Bytes(Some(body)))
}

/// Creates a response with JSON.
pub(super) fn json_response(result: ApiResult) -> PageResponse {
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
