//! Table of the API. `docs/format/page-api.md` describes each path.

use hyper::Method;
use hyper::body::Bytes;
use serde::de::DeserializeOwned;

use super::api_result::{ApiError, ApiResult, json};
use super::query::Query;
use super::{Page, changes, console, keys, levels, lists, state, tree, value};

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

impl EndpointKind {
    /// Method of a request.
    pub(super) fn method(self) -> Method {
        if self == EndpointKind::Read { Method::GET } else { Method::POST }
    }
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

const fn post(name: &'static str, kind: EndpointKind, run: fn(&Page, &ApiRequest) -> ApiResult) -> Endpoint {
    Endpoint { name, kind, run }
}

/// Returns the function of the path `name` for the method `method`, or for another method.
pub(super) fn find(name: &str, method: &Method) -> Option<&'static Endpoint> {
    let mut named = ENDPOINTS.iter().filter(|endpoint| endpoint.name == name);
    let first = named.clone().next();
    named.find(|endpoint| endpoint.kind.method() == *method).or(first)
}

/// All paths below `/api/v1/`.
pub(super) static ENDPOINTS: &[Endpoint] = &[
    read("state", state::state),
    read("sample", |page, _| Ok(json(&*page.latest()))),
    read("history", state::history),
    // The router opens the stream.
    read("events", |_, _| Ok(Bytes::new())),
    read("levels", levels::levels),
    read("table", levels::table),
    read("edits", levels::edits),
    read("keys", keys::keys),
    read("tree", tree::tree),
    read("value", value::value),
    read("slowlog", lists::slowlog),
    read("clients", lists::clients),
    read("commands", lists::commands),
    read("settings", lists::settings),
    read("log", lists::log),
    post("console", EndpointKind::Post, console::console),
    post("value", EndpointKind::Write, changes::set_value),
    post("delete", EndpointKind::Write, changes::delete),
    post("undo", EndpointKind::Write, changes::undo),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_path_is_documented() {
        let document = include_str!("../../../../docs/format/page-api.md");
        for endpoint in ENDPOINTS {
            let title = format!("\n### {} /api/v1/{}", endpoint.kind.method(), endpoint.name);
            assert!(document.contains(&title), "{title}");
        }
        assert_eq!(document.matches("\n### ").count(), ENDPOINTS.len());
    }
}
