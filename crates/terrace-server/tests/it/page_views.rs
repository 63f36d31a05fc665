//! Page of a directory that the server does not write: read-only, beside a writer, of a browser.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::json;
use terrace::{Db, Options};

use crate::http_client::Browser;
use crate::page::{create_cities, texts, wait_for};
use crate::page_trust::page;
use crate::server::Server;

/// Names, contents and times of the files of a directory.
fn files(dir: &Path) -> BTreeMap<String, (Vec<u8>, std::time::SystemTime)> {
    let entries = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    entries
        .map(|path| {
            let modified = std::fs::metadata(&path).unwrap().modified().unwrap();
            let content = std::fs::read(&path).unwrap();
            (path.file_name().unwrap().to_str().unwrap().to_owned(), (content, modified))
        })
        .collect()
}

/// Calls every path of the API that reads.
fn call_all(browser: &Browser) {
    call_all_but(browser, &[]);
}

/// Calls every path of the API that reads, except for `left_out`.
pub(crate) fn call_all_but(browser: &Browser, left_out: &[&str]) {
    let paths = [
        "state",
        "sample",
        "history",
        "levels",
        "edits",
        "keys",
        "tree?separator=/",
        "value?key=CH/Bern",
        "slowlog",
        "clients",
        "commands",
        "settings",
        "log",
    ];
    for path in paths.iter().filter(|path| !left_out.contains(path)) {
        browser.api(path);
    }
    browser.events().unwrap().next("second");
}

#[test]
fn view_changes_no_file() {
    let dir = tempfile::tempdir().unwrap();
    create_cities(dir.path());
    let before = files(dir.path());
    let server = Server::start(dir.path(), |config| {
        config.port = None;
        config.read_only = true;
        config.page = Some(page());
    });
    let browser = Browser::open(&server);
    let state = browser.api("state");
    assert_eq!((&state["readOnly"], &state["pageWrites"]), (&json!(true), &json!(false)));
    call_all(&browser);
    assert_eq!(texts(&browser.api("keys?count=1")), ["CH/Bern"]);
    for (path, body) in
        [("value", json!({ "key": "61", "value": "31" })), ("delete", json!({ "key": "43482f4265726e" }))]
    {
        assert_eq!(browser.post(path, &body).status, 403);
    }
    let reply = browser.post("console", &json!({ "line": "SET a 1" })).json();
    assert!(reply["reply"]["error"].is_string(), "{reply}");
    drop(server);
    assert!(files(dir.path()) == before, "a file has changed");
}

#[test]
fn view_follows_a_writer() {
    let dir = tempfile::tempdir().unwrap();
    create_cities(dir.path());
    let db = Db::open(dir.path(), &Options::default()).unwrap();
    let server = Server::start(dir.path(), |config| {
        config.port = None;
        config.read_only = true;
        config.follow = true;
        config.page = Some(page());
    });
    let browser = Browser::open(&server);
    assert_eq!(browser.api("state")["follower"], true);
    call_all(&browser);
    db.put("AT/Wien", "48.2").unwrap();
    wait_for(|| texts(&browser.api("keys?count=1")) == ["AT/Wien"]);
    let edits = browser.api("levels")["edits"].as_u64().unwrap();
    db.compact_range(None, None).unwrap();
    wait_for(|| browser.api("levels")["edits"].as_u64().unwrap() > edits);
    db.close().unwrap();
}
