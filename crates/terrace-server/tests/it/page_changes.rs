//! Changes through the page: the console, and values with an undo.

use serde_json::{Value, json};

use crate::http_client::{Browser, Response};
use crate::page::create_cities;
use crate::page_trust::start;

fn reply(response: &Response) -> Value {
    assert_eq!(response.status, 200, "{}", String::from_utf8_lossy(&response.body));
    response.json()["reply"].clone()
}

#[test]
fn console() {
    let dir = tempfile::tempdir().unwrap();
    let server = start(dir.path());
    let browser = Browser::open(&server);
    for (line, expected) in [
        ("PING", json!({ "status": "PONG" })),
        ("SET a 'one two'", json!({ "status": "OK" })),
        ("get a", json!({ "bulk": { "text": "one two" } })),
        (r#"SET b "\xff\x00""#, json!({ "status": "OK" })),
        ("GET b", json!({ "bulk": { "hex": "ff00" } })),
        ("GET none", json!({ "null": true })),
        ("DEL a none", json!({ "integer": 1 })),
        ("HSET h f v", json!({ "integer": 1 })),
        ("HGETALL h", json!({ "array": [{ "bulk": { "text": "f" } }, { "bulk": { "text": "v" } }] })),
        ("EVAL 'return {1, {2}}' 0", json!({ "array": [{ "integer": 1 }, { "array": [{ "integer": 2 }] }] })),
        ("GET", json!({ "error": "ERR wrong number of arguments for 'get' command" })),
        ("", json!({ "null": true })),
        ("SET \"a", json!({ "error": "ERR Protocol error: unbalanced quotes in request" })),
    ] {
        assert_eq!(reply(&browser.post("console", &json!({ "line": line }))), expected, "{line}");
    }
    for line in [
        "SUBSCRIBE c",
        "PSUBSCRIBE c",
        "MONITOR",
        "BLPOP l 0",
        "MULTI",
        "WATCH a",
        "HELLO 3",
        "CLIENT REPLY OFF",
        "XREAD BLOCK 0 STREAMS x $",
    ] {
        let reply = reply(&browser.post("console", &json!({ "line": line })));
        let error = reply["error"].as_str().unwrap_or_default();
        assert!(error.contains("needs a connection"), "{line}: {reply}");
    }
    let other = browser.post("console", &json!({ "line": "SET c 1", "db": 4 }));
    assert_eq!(reply(&other), json!({ "status": "OK" }));
    let mut client = server.client();
    client.check(&[("GET c", "nil"), ("SELECT 4", "OK"), ("GET c", "'1'")]);
    // The client of the console is not in the list.
    assert_eq!(client.run("CLIENT LIST").matches("id=").count(), 1);
}

#[test]
fn changes_have_an_undo() {
    let dir = tempfile::tempdir().unwrap();
    let server = start(dir.path());
    let browser = Browser::open(&server);
    let mut client = server.client();
    let hex = |text: &str| data_encoding::HEXLOWER.encode(text.as_bytes());
    let set = |key: &str, value: &str, ttl: Value| {
        browser.post("value", &json!({ "key": hex(key), "value": hex(value), "ttlMs": ttl, "db": 0 }))
    };
    let undo = |response: &Response| {
        assert_eq!(response.status, 200, "{}", String::from_utf8_lossy(&response.body));
        browser.post("undo", &json!({ "undo": response.json()["undo"] }))
    };
    // A new key.
    let changed = set("new", "1", Value::Null);
    client.check(&[("GET new", "'1'")]);
    assert_eq!(undo(&changed).status, 200);
    client.check(&[("EXISTS new", ":0")]);
    assert_eq!(undo(&changed).status, 409);
    // A value with an expiry, which returns.
    client.check(&[("SET s old PX 1000000", "OK")]);
    let changed = set("s", "new", json!(5000));
    client.check(&[("GET s", "'new'")]);
    let ttl: u64 = client.run("PTTL s")[1..].parse().unwrap();
    assert!((1..=5000).contains(&ttl), "{ttl}");
    assert_eq!(undo(&changed).status, 200);
    client.check(&[("GET s", "'old'")]);
    let ttl: u64 = client.run("PTTL s")[1..].parse().unwrap();
    assert!((900_000..=1_000_000).contains(&ttl), "{ttl}");
    // Deletions of every type.
    client.check(&[("RPUSH l a b c", ":3"), ("ZADD z 1 m", ":1")]);
    for (key, check, expected) in [("l", "LRANGE l 0 -1", "['a' 'b' 'c']"), ("z", "ZSCORE z m", "'1'")] {
        let changed = browser.post("delete", &json!({ "key": hex(key), "db": 0 }));
        assert_eq!(client.run(&format!("EXISTS {key}")), ":0");
        assert_eq!(undo(&changed).status, 200);
        assert_eq!(client.run(check), expected);
    }
    // Another client was faster.
    let changed = set("s", "mine", Value::Null);
    client.check(&[("SET s theirs", "OK")]);
    assert_eq!(undo(&changed).status, 409);
    client.check(&[("GET s", "'theirs'")]);
    assert_eq!(browser.post("undo", &json!({ "undo": "77" })).status, 409);
}

#[test]
fn changes_in_the_raw_layout() {
    let dir = tempfile::tempdir().unwrap();
    create_cities(dir.path());
    let server = start(dir.path());
    let browser = Browser::open(&server);
    let key = data_encoding::HEXLOWER.encode(b"CH/Bern");
    let changed = browser.post("value", &json!({ "key": key, "value": "ff", "ttlMs": null }));
    assert_eq!(changed.status, 200);
    server.client().check(&[("GET CH/Bern", "'\\xff'")]);
    assert_eq!(browser.post("undo", &changed.json()).status, 200);
    server.client().check(&[("GET CH/Bern", "'46.95'")]);
    let expiry = browser.post("value", &json!({ "key": key, "value": "ff", "ttlMs": 1000 }));
    assert_eq!(expiry.status, 400);
    assert!(expiry.json()["error"].as_str().unwrap().contains("not in raw mode"));
    server.client().check(&[("GET CH/Bern", "'46.95'")]);
}
