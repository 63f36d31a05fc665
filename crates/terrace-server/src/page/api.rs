//! Table of the API. `docs/format/page-api.md` describes each path.

use hyper::body::Bytes;
use serde::de::DeserializeOwned;

use super::http::{ApiError, ApiResult, json};
use super::query::Query;
use super::{Page, keys, levels, state, value};

/// Request of the API that has passed all checks.
pub(super) struct ApiRequest {
    pub(super) query: Query,
    pub(super) body: Bytes,
}

impl ApiRequest {
    /// Decodes the JSON of the body.
    pub(super) fn content<T: DeserializeOwned>(&self) -> ApiResult<T> {
        serde_json::from_slice(&self.body)
            .map_err(|error| ApiError::bad_request(format!("The body of the request: {error}.")))
    }
}

/// Kind of a path, which decides about the checks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EndpointKind {
    Read,
    /// POST that needs no right to write.
    Post,
    /// POST that needs `--page-writes`.
    Write,
}

/// Path of the API with its function.
pub(super) struct Endpoint {
    pub(super) name: &'static str,
    pub(super) kind: EndpointKind,
    pub(super) run: fn(&Page, &ApiRequest) -> ApiResult,
}

const fn read(name: &'static str, run: fn(&Page, &ApiRequest) -> ApiResult) -> Endpoint {
    Endpoint { name, kind: EndpointKind::Read, run }
}

/// Returns the path `name`.
pub(super) fn find(name: &str) -> Option<&'static Endpoint> {
    ENDPOINTS.iter().find(|endpoint| endpoint.name == name)
}

/// All paths below `/api/v1/`.
pub(super) static ENDPOINTS: &[Endpoint] = &[
    read("state", state::state),
    read("sample", |page, _| Ok(json(&*page.latest()))),
    read("history", state::history),
    // The router opens the stream.
    read("events", |_, _| Ok(Bytes::new())),
    read("levels", levels::levels),
    read("keys", keys::keys),
    read("value", value::value),
];
