//! The four stalls of the guide in a real `terrace serve`: the web page names each cause.
//!
//! A slow disk starves the flushes or the compactions, a small file system is full, and readers
//! want more blocks than the cache holds. The script is that of the tests of the page.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests start processes, and a failed step is a failed test"
)]

use std::io::Write;
use std::path::Path;
use std::process::Command;

/// Exit code of the script if the browser or its packages are missing.
const NOT_TESTED: i32 = 3;

#[test]
fn the_page_names_the_cause_of_a_stall() {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../terrace-server/tests/page/run");
    let output = Command::new(script).args(["stalls", env!("CARGO_BIN_EXE_terrace")]).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    for line in text.lines().filter(|line| line.starts_with("MEASURED") || line.starts_with("NOT TESTED")) {
        // Without a standard error, the test still passes.
        let _ = writeln!(std::io::stderr(), "{line}");
    }
    assert!(output.status.success() || output.status.code() == Some(NOT_TESTED), "{text}");
}
