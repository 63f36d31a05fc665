//! Path of a request: checks first, then the file or the function of the API.
//!
//! ```text
//!   host ── token ── cookie ── origin and header of a change ── --page-writes ── handler
//! ```
//!
//! A request that fails a check reaches no handler.

use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use hyper::header::{
    COOKIE, HOST, HeaderMap, HeaderName, HeaderValue, IF_NONE_MATCH, LOCATION, ORIGIN, SET_COOKIE,
};
use hyper::{Method, Request, StatusCode};

use super::access::is_same_origin;
use super::api::{ApiRequest, Endpoint, EndpointKind, find};
use super::api_result::{ApiError, json_response};
use super::query::Query;
use super::{Page, assets};
use crate::http::{HttpBody, HttpResponse, response, single_header, status_response};

/// Maximum size of the body of a request, in bytes.
const MAX_BODY: usize = 4 << 20;
/// Maximum time of the body of a request.
const MAX_BODY_TIME: Duration = Duration::from_secs(10);
/// Header of a change. Another site cannot send it without permission.
const CHANGE_HEADER: HeaderName = HeaderName::from_static("x-terrace");
/// Prefix of the paths of the API.
const API: &str = "/api/v1/";

/// Answers a request.
pub(super) async fn respond(page: &Arc<Page>, request: Request<Incoming>) -> HttpResponse {
    let headers = request.headers();
    let Some(host) = single_header(headers, &HOST).filter(|host| page.access.is_own_host(host)) else {
        return status_response(StatusCode::MISDIRECTED_REQUEST);
    };
    if request.uri().path() == "/"
        && let Some(token) = token(request.uri().query())
    {
        return exchange(page, token);
    }
    if !single_header(headers, &COOKIE).is_some_and(|cookies| page.access.has_access(cookies)) {
        return if request.uri().path().starts_with(API) {
            json_response(Err(ApiError::new(
                StatusCode::UNAUTHORIZED,
                "This browser has no access to the page; the server prints a link.",
            )))
        } else {
            assets::no_access()
        };
    }
    match request.uri().path().strip_prefix(API) {
        Some(name) => match find(name, request.method()) {
            Some(endpoint) => match check(page, endpoint, request.method(), headers, host) {
                Ok(()) => run(page, endpoint, request).await,
                Err(error) => json_response(Err(error)),
            },
            None => json_response(Err(ApiError::not_found("The API has no such path."))),
        },
        None => file(&request),
    }
}

fn token(query: Option<&str>) -> Option<&str> {
    query?.split('&').find_map(|pair| pair.strip_prefix("token="))
}

/// Exchanges a token for a cookie. The address of the page has no token, so that it stays out of
/// the browser's history.
fn exchange(page: &Page, token: &str) -> HttpResponse {
    let Some(cookie) = page.access.exchange(token) else { return assets::no_access() };
    let name = page.access.cookie_name();
    let mut found = response(StatusCode::SEE_OTHER, "text/plain; charset=utf-8", HttpBody::Bytes(None));
    let cookie = format!("{name}={cookie}; HttpOnly; SameSite=Strict; Path=/");
    if let Ok(cookie) = HeaderValue::from_str(&cookie) {
        found.headers_mut().insert(SET_COOKIE, cookie);
    }
    found.headers_mut().insert(LOCATION, HeaderValue::from_static("/"));
    found
}

fn file(request: &Request<Incoming>) -> HttpResponse {
    if request.method() != Method::GET {
        return status_response(StatusCode::METHOD_NOT_ALLOWED);
    }
    let name = match request.uri().path() {
        "/" => "index.html",
        path => path.strip_prefix("/assets/").unwrap_or_default(),
    };
    let known_tag = single_header(request.headers(), &IF_NONE_MATCH);
    assets::respond(name, known_tag).unwrap_or_else(|| status_response(StatusCode::NOT_FOUND))
}

/// Checks whether the request may call the function of the API.
fn check(
    page: &Page,
    endpoint: &Endpoint,
    method: &Method,
    headers: &HeaderMap,
    host: &str,
) -> Result<(), ApiError> {
    let forbidden = |text: &'static str| Err(ApiError::new(StatusCode::FORBIDDEN, text));
    let expected = endpoint.kind.method();
    if *method != expected {
        let text = format!("The path needs the method {expected}.");
        return Err(ApiError::new(StatusCode::METHOD_NOT_ALLOWED, text));
    }
    if endpoint.kind == EndpointKind::Read {
        return Ok(());
    }
    if single_header(headers, &CHANGE_HEADER) != Some("1") {
        return forbidden("A change needs the header X-Terrace: 1.");
    }
    if !single_header(headers, &ORIGIN).is_some_and(|origin| is_same_origin(origin, host)) {
        return forbidden("A change needs the header Origin of the page.");
    }
    if endpoint.kind == EndpointKind::Write && !page.can_write() {
        return forbidden("The server was started without --page-writes.");
    }
    Ok(())
}

/// Calls the function of the API on a thread that may wait.
async fn run(page: &Arc<Page>, endpoint: &'static Endpoint, request: Request<Incoming>) -> HttpResponse {
    let Some(query) = Query::parse(request.uri().query().unwrap_or_default()) else {
        return json_response(Err(ApiError::bad_request("The address has a wrong percent-encoding.")));
    };
    if endpoint.name == "events" {
        return events(page);
    }
    let body = match tokio::time::timeout(MAX_BODY_TIME, Limited::new(request, MAX_BODY).collect()).await {
        Ok(Ok(body)) => body.to_bytes(),
        Ok(Err(_)) => {
            let text = "The body of the request exceeds 4 MiB, or ended early.";
            return json_response(Err(ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, text)));
        }
        Err(_) => return status_response(StatusCode::REQUEST_TIMEOUT),
    };
    let page = Arc::clone(page);
    let called = tokio::task::spawn_blocking(move || (endpoint.run)(&page, &ApiRequest { query, body }));
    match called.await {
        Ok(result) => json_response(result),
        Err(_) => status_response(StatusCode::INTERNAL_SERVER_ERROR),
    }
}

fn events(page: &Page) -> HttpResponse {
    match page.streams.open() {
        Some(messages) => response(StatusCode::OK, "text/event-stream", HttpBody::Events(messages)),
        None => {
            let text = "64 pages are open; close one of them.";
            json_response(Err(ApiError::new(StatusCode::SERVICE_UNAVAILABLE, text)))
        }
    }
}
