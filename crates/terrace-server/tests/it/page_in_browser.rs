//! The web page in a real browser: on a mock server with planted states, and on this server.
//!
//! `tests/page/install` installs the packages, and `.ci/setup` installs the browser. Without them,
//! these tests print a line and pass.

use std::io::Write;
use std::path::Path;
use std::process::Command;

use terrace_server::{IfBusy, PageConfig};

use crate::server::Server;

/// Exit code of the script if the browser or its packages are missing.
const NOT_TESTED: i32 = 3;

/// Runs `tests/page/run`.
#[track_caller]
fn check(args: &[&str]) {
    if cfg!(windows) {
        // Without a standard error, the test still passes.
        let _ = writeln!(std::io::stderr(), "NOT TESTED: the page in a browser: a script of bash starts it");
        return;
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/page/run");
    let output = Command::new(script).args(args).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    let is_missing = output.status.code() == Some(NOT_TESTED);
    for line in text.lines().filter(|line| is_missing || line.starts_with("MEASURED")) {
        // Without a standard error, the test still passes.
        let _ = writeln!(std::io::stderr(), "{line}");
    }
    assert!(is_missing || output.status.success(), "{text}");
}

#[test]
fn planted_states() {
    check(&["states"]);
}

#[test]
fn every_control() {
    check(&["controls"]);
}

#[test]
fn charts() {
    check(&["charts"]);
}

#[test]
fn limits() {
    check(&["limits"]);
}

#[test]
fn page_of_this_server() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), |config| {
        config.page = Some(PageConfig { port: 0, if_busy: IfBusy::NoPage, host: None, writes: true });
    });
    let mut client = server.client();
    for number in 0..10_000 {
        client.call(&["SET", &format!("city:{number:05}"), &format!("value of {number}")]);
    }
    for field in 0..300 {
        client.call(&["HSET", "hash", &format!("field:{field:03}"), "value"]);
    }
    client.call(&["RPUSH", "list", "a", "b", "c"]);
    client.call(&["SADD", "set", "a", "b", "c"]);
    client.call(&["ZADD", "zset", "1", "a", "2.5", "b"]);
    client.call(&["XADD", "stream", "*", "field", "value"]);
    client.call(&["SET", "<img src=x onerror=alert(1)>", "<script>alert(1)</script>"]);
    check(&["real", server.addresses.page.as_ref().unwrap()]);
}
