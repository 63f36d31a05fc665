//! Listener of `GET /metrics`.

use std::io;
use std::net::TcpListener;
use std::sync::Arc;

use hyper::body::Bytes;
use hyper::header::{CONNECTION, HOST, HeaderMap, HeaderValue};
use hyper::{Method, StatusCode};

use super::prometheus;
use crate::http::{self, bytes_response, is_own_host, status_response};
use crate::shared::Shared;

/// Media type of the response.
const MEDIA_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Answers requests until the server ends.
pub(crate) fn run(shared: &Arc<Shared>, listener: TcpListener) -> io::Result<()> {
    let answering = Arc::clone(shared);
    http::run(shared, listener, move |request| {
        let mut response = match check(request.method(), request.uri().path(), request.headers()) {
            Ok(()) => bytes_response(StatusCode::OK, MEDIA_TYPE, Bytes::from(prometheus::text(&answering))),
            Err(status) => status_response(status),
        };
        // Scrapes are rare, and a scraper may read until the end of the connection.
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        std::future::ready(response)
    })
}

/// Checks a request. The error is the status of the response.
fn check(method: &Method, path: &str, headers: &HeaderMap) -> Result<(), StatusCode> {
    // A web page under another name cannot read the metrics through a name that it controls.
    if !headers.get_all(HOST).iter().all(is_loopback) {
        return Err(StatusCode::MISDIRECTED_REQUEST);
    }
    match (method, path) {
        (&Method::GET, "/metrics") => Ok(()),
        (&Method::GET, _) => Err(StatusCode::NOT_FOUND),
        _ => Err(StatusCode::METHOD_NOT_ALLOWED),
    }
}

fn is_loopback(host: &HeaderValue) -> bool {
    host.to_str().is_ok_and(|host| is_own_host(host, None))
}
