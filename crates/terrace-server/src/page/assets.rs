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
pub(super) static ASSETS: &[Asset] = &[
    asset!("activity.js"),
    asset!("api.js"),
    asset!("app.css"),
    asset!("app.js"),
    asset!("bytes.js"),
    asset!("chart-list.js"),
    asset!("chart.js"),
    asset!("charts.js"),
    asset!("clipboard.js"),
    asset!("console.js"),
    asset!("format.js"),
    asset!("header.js"),
    asset!("health.js"),
    asset!("icon.svg"),
    asset!("index.html"),
    asset!("key-edit.js"),
    asset!("key-list.js"),
    asset!("key-row.js"),
    asset!("key-tree.js"),
    asset!("keys.js"),
    asset!("levels-canvas.js"),
    asset!("levels-history.js"),
    asset!("levels-model.js"),
    asset!("levels-table.js"),
    asset!("levels.js"),
    asset!("notice.js"),
    asset!("palette.js"),
    asset!("preact-htm.js"),
    asset!("store.js"),
    asset!("theme.js"),
    asset!("uplot.js"),
    asset!("viewer.js"),
    asset!("virtual-list.js"),
    asset!("widgets.js"),
];

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

#[cfg(test)]
mod tests {
    // Tests look at the files of the source tree.
    #![allow(clippy::unwrap_used, clippy::disallowed_methods)]

    use std::path::{Path, PathBuf};
    use std::process::Command;

    use super::ASSETS;

    /// Limit of the design for all files together.
    const MAX_BYTES: usize = 200 * 1024;

    fn directory(name: &str) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("src/page").join(name)
    }

    #[test]
    fn the_table_lists_every_file() {
        let files = std::fs::read_dir(directory("assets")).unwrap();
        let mut names: Vec<String> =
            files.map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        let listed: Vec<&str> = ASSETS.iter().map(|asset| asset.name).collect();
        assert_eq!(listed, names);
    }

    #[test]
    fn all_files_have_200_kib() {
        let bytes: usize = ASSETS.iter().map(|asset| asset.content.len()).sum();
        assert!(bytes <= MAX_BYTES, "{bytes} bytes");
    }

    #[test]
    fn the_page_contains_no_inline_code_and_no_other_host() {
        for asset in ASSETS.iter().filter(|asset| !["preact-htm.js", "uplot.js"].contains(&asset.name)) {
            let text = std::str::from_utf8(asset.content).unwrap();
            assert!(!text.contains("https://") && !text.contains("innerHTML"), "{}", asset.name);
        }
        let page =
            std::str::from_utf8(ASSETS.iter().find(|asset| asset.name == "index.html").unwrap().content)
                .unwrap();
        assert!(!page.contains("<style") && !page.contains("style=") && !page.contains("onload="));
        assert!(
            page.match_indices("<script").all(|(at, _)| page[at..]
                .split('>')
                .next()
                .unwrap()
                .contains("src="))
        );
    }

    /// `src/page/vendored` holds the hashes and licences of the published files.
    #[test]
    fn libraries_are_the_published_files() {
        let check = Command::new("sha256sum")
            .args(["--check", "--strict", "--quiet", "../vendored/SHA256SUMS"])
            .current_dir(directory("assets"))
            .output()
            .unwrap();
        assert!(check.status.success(), "{}", String::from_utf8_lossy(&check.stdout));
    }
}
