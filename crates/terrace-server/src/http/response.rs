//! Responses of the HTTP listeners.
//!
//! Every response has the headers of [`response`]: without them, other sites could frame or read
//! it.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use hyper::body::{Body, Bytes, Frame};
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue};
use hyper::{Response, StatusCode};
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
pub(crate) enum HttpBody {
    Bytes(Option<Bytes>),
    Events(Receiver<Bytes>),
}

impl Body for HttpBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match &mut *self {
            HttpBody::Bytes(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            HttpBody::Events(messages) => {
                messages.poll_recv(cx).map(|message| message.map(|bytes| Ok(Frame::data(bytes))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, HttpBody::Bytes(None))
    }

    fn size_hint(&self) -> hyper::body::SizeHint {
        match self {
            HttpBody::Bytes(bytes) => {
                hyper::body::SizeHint::with_exact(bytes.as_ref().map_or(0, Bytes::len) as u64)
            }
            HttpBody::Events(_) => hyper::body::SizeHint::default(),
        }
    }
}

/// Response to a request.
pub(crate) type HttpResponse = Response<HttpBody>;

/// Creates a response with the headers of all responses.
pub(crate) fn response(status: StatusCode, media_type: &'static str, body: HttpBody) -> HttpResponse {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    for (name, value) in HEADERS {
        headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// Creates a response with the bytes `body`.
pub(crate) fn bytes_response(status: StatusCode, media_type: &'static str, body: Bytes) -> HttpResponse {
    response(status, media_type, HttpBody::Bytes(Some(body)))
}

/// Creates a response with the text of its status.
pub(crate) fn status_response(status: StatusCode) -> HttpResponse {
    let text = Bytes::from(format!("{status}\n"));
    bytes_response(status, "text/plain; charset=utf-8", text)
}
