//! Files of the page, which are part of the program.

use std::sync::OnceLock;

use hyper::StatusCode;
use hyper::body::Bytes;
use hyper::header::{CACHE_CONTROL, ETAG, HeaderValue};

use crate::http::{HttpBody, HttpResponse, bytes_response, response};

/// File of the page.
pub(super) struct Asset {
    pub(super) name: &'static str,
    content: &'static [u8],
}

macro_rules! asset {
    ($name:literal) => {
        Asset { name: $name, content: include_bytes!(concat!("assets/", $name)) }
    };
}

const HTML: &str = "text/html; charset=utf-8";

impl Asset {
    /// Tag of the content: its checksum and length.
    fn tag(&self) -> String {
        format!("\"{:08x}-{:x}\"", crc32c::crc32c(self.content), self.content.len())
    }

    /// Media type by the end of the name.
    fn media_type(&self) -> &'static str {
        match self.name.rsplit_once('.').map_or("", |(_, end)| end) {
            "html" => HTML,
            "css" => "text/css; charset=utf-8",
            "js" => "text/javascript; charset=utf-8",
            "svg" => "image/svg+xml",
            _ => "application/octet-stream",
        }
    }
}

/// Files of the page. `index.html` is the page itself.
pub(super) static ASSETS: &[Asset] = &[asset!("index.html")];

/// Page for a browser without access.
const NO_ACCESS: &str = "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<title>Terrace</title>\n\
<h1>No access</h1>\n<p>This browser has no access to the page. The server prints a link at its start. \
The command TERRACE.PAGE returns a new one. A link works once.</p>\n</html>\n";

/// Returns the response for the file `name`. The browser sends `known_tag` if it has the file.
pub(super) fn respond(name: &str, known_tag: Option<&str>) -> Option<HttpResponse> {
    let index = ASSETS.iter().position(|asset| asset.name == name)?;
    let asset = &ASSETS[index];
    let tag = &tags()[index];
    let mut found = if known_tag == Some(tag.as_str()) {
        response(StatusCode::NOT_MODIFIED, asset.media_type(), HttpBody::Bytes(None))
    } else {
        bytes_response(StatusCode::OK, asset.media_type(), Bytes::from_static(asset.content))
    };
    found.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    if let Ok(tag) = HeaderValue::from_str(tag) {
        found.headers_mut().insert(ETAG, tag);
    }
    Some(found)
}

/// Response for a browser without access.
pub(super) fn no_access() -> HttpResponse {
    bytes_response(StatusCode::UNAUTHORIZED, HTML, Bytes::from_static(NO_ACCESS.as_bytes()))
}

/// Tags of the files.
fn tags() -> &'static [String] {
    static TAGS: OnceLock<Vec<String>> = OnceLock::new();
    TAGS.get_or_init(|| ASSETS.iter().map(Asset::tag).collect())
}
