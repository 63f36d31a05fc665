//! Examples of `docs/format/page-api.md`: the server returns what the document shows.

use serde_json::Value;

use crate::http_client::Browser;
use crate::page_trust::start;

const DOCUMENT: &str = include_str!("../../../../docs/format/page-api.md");

/// Sections of the paths: method, path with its arguments, and the examples.
fn sections() -> Vec<(&'static str, &'static str, Vec<Value>)> {
    let sections = DOCUMENT.split("\n### ").skip(1);
    let parsed = sections.map(|section| {
        let (title, text) = section.split_once('\n').unwrap();
        let (method, path) = title.split_once(' ').unwrap();
        let examples = text.split("```json\n").skip(1).map(|block| {
            let block = block.split("```").next().unwrap();
            serde_json::from_str(block).unwrap_or_else(|error| panic!("{title}: {error}\n{block}"))
        });
        (method, path.strip_prefix("/api/v1/").unwrap(), examples.collect())
    });
    parsed.collect()
}

/// Sorted names of the fields. Bytes are text or hexadecimal digits.
fn names(map: &serde_json::Map<String, Value>) -> Vec<&str> {
    let mut names: Vec<&str> =
        map.keys().map(|name| if name == "text" || name == "hex" { "bytes" } else { name }).collect();
    names.sort_unstable();
    names
}

/// Checks that a response has the fields and the types of the example. Null fits every type.
#[track_caller]
fn check_shape(place: &str, shown: &Value, found: &Value) {
    match (shown, found) {
        (Value::Object(shown), Value::Object(found)) => {
            assert_eq!(names(shown), names(found), "{place}");
            for (name, value) in shown {
                if let Some(found) = found.get(name) {
                    check_shape(&format!("{place}.{name}"), value, found);
                }
            }
        }
        (Value::Array(shown), Value::Array(found)) => {
            // The examples of lists have one row.
            for (index, found) in found.iter().enumerate() {
                let shown = if shown.len() == 1 { shown.first() } else { shown.get(index) };
                shown.into_iter().for_each(|shown| check_shape(&format!("{place}[{index}]"), shown, found));
            }
        }
        (Value::Null, _) | (_, Value::Null) => {}
        (shown, found) => {
            let kind = |value: &Value| (value.is_string(), value.is_number(), value.is_boolean());
            assert_eq!(kind(shown), kind(found), "{place}: {found}");
        }
    }
}

#[test]
fn examples() {
    let dir = tempfile::tempdir().unwrap();
    let server = start(dir.path());
    let browser = Browser::open(&server);
    let mut events = browser.events().unwrap();
    server.client().check(&[
        ("CONFIG SET slowlog-log-slower-than 0", "OK"),
        ("SET CH/Bern 46.95", "OK"),
        ("SET CH/Chur 46.85", "OK"),
        ("SET a 0", "OK"),
        ("TERRACE.COMPACT", "OK"),
    ]);
    let client = server.client();
    events.next("levels");
    events.next("second");
    let mut undo = Value::Null;
    let mut count = 0;
    for (method, path, examples) in sections() {
        count += 1;
        if path == "events" {
            continue;
        }
        let (found, shown) = match (method, &examples[..]) {
            ("GET", [shown]) => {
                // The example of a table has a number that a test cannot choose.
                let first = browser.api("levels")["tables"][0][0].to_string();
                let path = path.replace("number=9", &format!("number={first}"));
                (browser.api(&path), shown)
            }
            ("POST", [body, shown]) => {
                let body = if path == "undo" { &undo } else { body };
                let response = browser.post(path, body);
                assert_eq!(response.status, 200, "{path}: {}", String::from_utf8_lossy(&response.body));
                (response.json(), shown)
            }
            other => panic!("{path}: {other:?}"),
        };
        check_shape(path, shown, &found);
        let is_list = found.as_array().is_some_and(|rows| !rows.is_empty());
        assert!(is_list || found.is_object(), "{path}: {found}");
        undo = found;
    }
    assert_eq!(count, 19);
    drop(client);
}
