//! Files of the page, which are part of the program.
//!
//! Browsers get the page's own files without comments and indentation. A line keeps its number, so
//! that a place in a browser's report is a place in the source tree.

use std::sync::OnceLock;

use hyper::StatusCode;
use hyper::body::Bytes;
use hyper::header::{CACHE_CONTROL, ETAG, HeaderValue};

use crate::http::{HttpBody, HttpResponse, bytes_response, response};

/// File of the page.
pub(super) struct Asset {
    pub(super) name: &'static str,
    source: &'static [u8],
    /// False for the published files of others, which stay as they are.
    is_own: bool,
}

macro_rules! asset {
    ($name:literal) => {
        Asset { name: $name, source: include_bytes!(concat!("assets/", $name)), is_own: true }
    };
    ($name:literal, published) => {
        Asset { is_own: false, ..asset!($name) }
    };
}

/// File as browsers get it.
struct Served {
    content: Bytes,
    /// Checksum and length of the content.
    tag: String,
}

const HTML: &str = "text/html; charset=utf-8";

impl Asset {
    fn serve(&self) -> Served {
        let content = match self.is_own {
            true => Bytes::from(without_comments(self.source)),
            false => Bytes::from_static(self.source),
        };
        let tag = format!("\"{:08x}-{:x}\"", crc32c::crc32c(&content), content.len());
        Served { content, tag }
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
    asset!("preact-htm.js", published),
    asset!("store.js"),
    asset!("theme.js"),
    asset!("uplot.js", published),
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
    let Served { content, tag } = &served()[index];
    let mut found = if known_tag == Some(tag.as_str()) {
        response(StatusCode::NOT_MODIFIED, asset.media_type(), HttpBody::Bytes(None))
    } else {
        bytes_response(StatusCode::OK, asset.media_type(), content.clone())
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

/// All files, in the order of the table.
fn served() -> &'static [Served] {
    static SERVED: OnceLock<Vec<Served>> = OnceLock::new();
    SERVED.get_or_init(|| ASSETS.iter().map(Asset::serve).collect())
}

/// Returns the lines of a file without indentation, and comments that are lines as empty lines.
fn without_comments(source: &[u8]) -> Vec<u8> {
    let mut code = Vec::with_capacity(source.len());
    for line in source.split_inclusive(|byte| *byte == b'\n') {
        let line = line.trim_ascii_start();
        if line.is_empty() || is_comment(line) {
            code.push(b'\n');
        } else {
            code.extend_from_slice(line);
        }
    }
    code
}

/// True if the line has nothing but one comment.
fn is_comment(line: &[u8]) -> bool {
    let line = line.trim_ascii_end();
    let Some(block) = line.strip_prefix(b"/*") else { return line.starts_with(b"//") };
    memchr::memmem::find(block, b"*/").is_some_and(|end| end + 2 == block.len())
}

#[cfg(test)]
mod tests {
    // Tests look at the files of the source tree.
    #![allow(clippy::unwrap_used, clippy::disallowed_methods)]

    use std::path::{Path, PathBuf};
    use std::process::Command;

    use super::{ASSETS, served, without_comments};

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
    fn lines_keep_their_numbers() {
        let source =
            "/* x */\n  a { b: 1; } /* x */\n/* x */ c {} /* x */\n\n  // Not a // b\n  let a = 1;\n";
        let code = "\na { b: 1; } /* x */\n/* x */ c {} /* x */\n\n\nlet a = 1;\n";
        assert_eq!(String::from_utf8(without_comments(source.as_bytes())).unwrap(), code);
        let lines = |text: &[u8]| text.iter().filter(|byte| **byte == b'\n').count();
        for (asset, file) in ASSETS.iter().zip(served()) {
            assert_eq!(lines(&file.content), lines(asset.source), "{}", asset.name);
            assert!(asset.is_own || file.content == asset.source, "{}", asset.name);
        }
    }

    #[test]
    fn all_files_have_200_kib() {
        let bytes: usize = served().iter().map(|file| file.content.len()).sum();
        assert!(bytes <= MAX_BYTES, "{bytes} bytes");
    }

    #[test]
    fn the_page_contains_no_inline_code_and_no_other_host() {
        for asset in ASSETS.iter().filter(|asset| asset.is_own) {
            let text = std::str::from_utf8(asset.source).unwrap();
            assert!(!text.contains("https://") && !text.contains("innerHTML"), "{}", asset.name);
        }
        let page =
            std::str::from_utf8(ASSETS.iter().find(|asset| asset.name == "index.html").unwrap().source)
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
