//! Content of the page: each path of its API on real data.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use terrace::{Db, Options};
use terrace_server::Layout;

use crate::http_client::Browser;
use crate::page_trust::start;

/// Waits until `condition` holds.
#[track_caller]
pub(crate) fn wait_for(mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !condition() {
        assert!(Instant::now() < deadline, "waited too long");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Creates a database of another program with the keys `FR/000` to `FR/999` and three others.
pub(crate) fn create_cities(dir: &Path) {
    let db = Db::open(dir, &Options::default().create_if_missing(true)).unwrap();
    for number in 0..1000 {
        db.put(format!("FR/{number:03}"), format!("value {number}")).unwrap();
    }
    for key in ["CH/Bern", "CH/Chur", "top"] {
        db.put(key, "46.95").unwrap();
    }
    db.flush().unwrap();
    db.close().unwrap();
}

/// Texts of the keys in a page.
pub(crate) fn texts(page: &Value) -> Vec<String> {
    let keys = page["keys"].as_array().unwrap().iter();
    keys.map(|key| key["key"]["text"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn state_of_the_server() {
    let dir = tempfile::tempdir().unwrap();
    let server = start(dir.path());
    server.client().check(&[("SET a 1", "OK"), ("SELECT 3", "OK"), ("SET b 1", "OK")]);
    let state = Browser::open(&server).api("state");
    for (name, expected) in [
        ("layout", json!("typed")),
        ("comparator", json!("leveldb.BytewiseComparator")),
        ("readOnly", json!(false)),
        ("follower", json!(false)),
        ("pageWrites", json!(true)),
        ("version", json!(env!("CARGO_PKG_VERSION"))),
        ("sync", json!("everysec")),
        ("separator", json!(":")),
        ("databases", json!([0, 3])),
        ("path", json!(dir.path().to_str().unwrap())),
    ] {
        assert_eq!(state[name], expected, "{name}");
    }
    let commands = state["commands"].as_array().unwrap();
    let get = commands.iter().find(|command| command["name"] == "get").unwrap();
    assert_eq!(get["arity"], 2);
    assert_eq!((&get["group"], &get["write"]), (&json!("string"), &json!(false)));
    assert!(commands.iter().all(|command| command["summary"].as_str().is_some_and(|text| !text.is_empty())));
}

#[test]
fn figures_of_a_second() {
    let dir = tempfile::tempdir().unwrap();
    let server = start(dir.path());
    let browser = Browser::open(&server);
    let mut events = browser.events().unwrap();
    let mut client = server.client();
    // Commands of one moment may belong to two seconds.
    let mut sums = BTreeMap::new();
    for _ in 0..100 {
        client.check(&[("SET a 1", "OK"), ("GET a", "'1'"), ("GET a", "'1'")]);
        // A failed write is no write.
        client.run("LPUSH a 1");
    }
    for _ in 0..4 {
        let second = events.next("second");
        for name in ["reads", "writes", "failedWrites", "commands", "bytesIn"] {
            *sums.entry(name).or_insert(0.0) += second[name].as_f64().unwrap();
        }
        assert_eq!(second["clients"], 1);
        assert!(second["memory"]["total"].as_u64().unwrap() > 0);
        assert_eq!(second["health"]["words"], "healthy");
    }
    // Rates: a second may last a little longer than a second.
    assert!((150.0..=210.0).contains(&sums["reads"]), "{sums:?}");
    assert!((75.0..=105.0).contains(&sums["writes"]), "{sums:?}");
    assert!((75.0..=105.0).contains(&sums["failedWrites"]), "{sums:?}");
    assert!(sums["commands"] >= 300.0 && sums["bytesIn"] > 3000.0, "{sums:?}");
    let history = browser.api("history?range=hour");
    let columns: Vec<&str> =
        history["columns"].as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect();
    assert_eq!((columns[0], columns.len()), ("at", 18));
    let rows = history["rows"].as_array().unwrap();
    assert!(rows.len() >= 4 && history["from"] == rows[0][0]);
    let reads: f64 = rows.iter().map(|row| row[1].as_f64().unwrap()).sum();
    assert!((150.0..=210.0).contains(&reads), "{reads}");
    let times: Vec<u64> = rows.iter().map(|row| row[0].as_u64().unwrap()).collect();
    assert!(times.windows(2).all(|pair| (900..2000).contains(&(pair[1] - pair[0]))), "{times:?}");
    // Another browser sees the past, too.
    let reply = client.run("TERRACE.PAGE");
    let other = Browser::follow(reply.trim_matches('\''));
    assert!(other.api("history?range=hour")["rows"].as_array().unwrap().len() >= rows.len());
    assert_eq!(other.api("history?range=week")["step"], 60);
    assert_eq!(other.api("history?range=week")["rows"].as_array().unwrap().len(), 1);
}

#[test]
fn levels_and_their_edits() {
    let dir = tempfile::tempdir().unwrap();
    let server = start(dir.path());
    let browser = Browser::open(&server);
    let mut events = browser.events().unwrap();
    let mut client = server.client();
    wait_for(|| browser.api("levels")["edits"] == 1);
    for round in 0..3 {
        for number in 0..500 {
            client.run(&format!("SET {round}:{number:04} {}", "x".repeat(100)));
        }
        client.check(&[("TERRACE.COMPACT", "OK")]);
    }
    let edit = events.next("levels")["edit"].as_u64().unwrap();
    assert!(edit >= 1);
    let levels = browser.api("levels");
    let edits = levels["edits"].as_u64().unwrap();
    assert!(edits >= 4, "{edits}");
    assert_eq!(levels["edit"], edits - 1);
    let tables = levels["tables"].as_array().unwrap();
    for level in levels["levels"].as_array().unwrap() {
        let inside = tables.iter().filter(|table| table[1] == level["level"]);
        let files = inside.clone().count() as u64;
        let bytes: u64 = inside.map(|table| table[4].as_u64().unwrap()).sum();
        assert_eq!((level["files"].as_u64(), level["bytes"].as_u64()), (Some(files), Some(bytes)), "{level}");
    }
    let level_0 = &levels["levels"][0];
    assert_eq!(level_0["runsLimit"], 36);
    assert!(level_0["runs"].as_u64() <= level_0["files"].as_u64(), "{level_0}");
    assert_eq!(levels["memtables"][0]["state"], "active");
    let now = levels["at"].as_u64().unwrap();
    for table in tables {
        let left = table[2].as_f64().unwrap();
        let right = table[3].as_f64().unwrap();
        assert!(0.0 <= left && left < right && right <= 1.0, "{table}");
        assert!((now - 60_000..=now).contains(&table[6].as_u64().unwrap()), "{table}");
        let about = browser.api(&format!("table?number={}", table[0]));
        assert_eq!((&about["bytes"], &about["entries"]), (&table[4], &table[5]));
    }
    // The edits lead from the first state to the last one.
    let list = browser.api("edits?from=0&count=1000");
    let list = list.as_array().unwrap();
    assert_eq!(list.len() as u64, edits);
    let mut numbers: Vec<u64> = Vec::new();
    for (index, edit) in list.iter().enumerate() {
        let changed = |name: &str| -> Vec<u64> {
            edit[name].as_array().unwrap().iter().map(|number| number.as_u64().unwrap()).collect()
        };
        numbers.retain(|number| !changed("removed").contains(number));
        numbers.extend(changed("added"));
        numbers.sort_unstable();
        let past = browser.api(&format!("levels?edit={index}"));
        let shown = past["tables"].as_array().unwrap().iter().map(|table| table[0].as_u64().unwrap());
        assert_eq!(shown.collect::<Vec<u64>>(), numbers, "edit {index}: {edit}");
    }
    let kinds: Vec<&str> = list.iter().map(|edit| edit["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds[0], "open");
    assert!(kinds.contains(&"flush") && kinds.contains(&"compaction"), "{kinds:?}");
    let log = browser.api("log?count=1000");
    assert!(log.as_array().unwrap().iter().any(|event| event["kind"] == "compaction"), "{log}");
    let marks = browser.api("history")["marks"].clone();
    assert!(marks.as_array().unwrap().iter().any(|mark| mark["kind"] == "flush"), "{marks}");
}

#[test]
fn reads_of_tables_are_estimated() {
    let dir = tempfile::tempdir().unwrap();
    create_cities(dir.path());
    let server = start(dir.path());
    let browser = Browser::open(&server);
    let mut client = server.client();
    for number in 0..20_000 {
        client.run(&format!("GET FR/{:03}", number % 1000));
    }
    let read_tables = || {
        let levels = browser.api("levels");
        levels["tables"].as_array().unwrap().iter().map(|table| table[7].as_u64().unwrap()).sum::<u64>()
    };
    wait_for(|| read_tables() > 0);
    wait_for(|| (10_000..40_000).contains(&read_tables()));
}

#[test]
fn keys_in_both_directions() {
    let dir = tempfile::tempdir().unwrap();
    create_cities(dir.path());
    let server = start(dir.path());
    assert_eq!(server.addresses.layout, Layout::Raw);
    let browser = Browser::open(&server);
    let first = browser.api("keys?count=3");
    assert_eq!(texts(&first), ["CH/Bern", "CH/Chur", "FR/000"]);
    let row =
        json!({ "key": { "text": "CH/Bern" }, "type": "raw", "size": 5, "ttlMs": null, "scheme": null });
    assert_eq!(first["keys"][0], row);
    assert_eq!(first["previous"], Value::Null);
    for (direction, expected) in [("forward", false), ("backward", true)] {
        let mut found = Vec::new();
        let mut cursor = String::new();
        loop {
            let page = browser.api(&format!("keys?direction={direction}&count=170&from={cursor}"));
            found.extend(texts(&page));
            let Some(next) = page["next"].as_str() else { break };
            cursor = next.to_owned();
        }
        if expected {
            found.reverse();
        }
        let mut sorted = found.clone();
        sorted.sort();
        sorted.dedup();
        assert_eq!((found.len(), &sorted), (1003, &found), "{direction}");
    }
    let prefix = browser.api("keys?prefix=FR%2F99");
    assert_eq!((texts(&prefix).len(), &prefix["next"]), (10, &Value::Null));
    assert_eq!(
        texts(&browser.api("keys?prefix=FR/&from=FR%2F500&direction=backward&count=2")),
        ["FR/499", "FR/498"]
    );
    assert_eq!(texts(&browser.api("keys?prefix=FR/&from=FR%2F500&count=2")), ["FR/500", "FR/501"]);
    assert_eq!(browser.api("keys?prefix=none"), json!({ "keys": [], "next": null, "previous": null }));
}

#[test]
fn tree_of_keys() {
    let dir = tempfile::tempdir().unwrap();
    create_cities(dir.path());
    let server = start(dir.path());
    let browser = Browser::open(&server);
    let root = browser.api("tree?separator=/");
    let nodes = root["nodes"].as_array().unwrap();
    let shown: Vec<_> = nodes
        .iter()
        .map(|node| {
            (node["prefix"]["text"].as_str().unwrap(), node["leaf"] == true, node["keys"].as_u64().unwrap())
        })
        .collect();
    assert_eq!(shown, [("CH/", false, 2), ("FR/", false, 1000), ("top", true, 1)]);
    assert_eq!((&nodes[0]["keysExact"], &nodes[2]["key"]["size"]), (&json!(true), &json!(5)));
    assert!(nodes[1]["bytes"].as_u64().unwrap() > nodes[0]["bytes"].as_u64().unwrap());
    let mut found = 0;
    let mut cursor = String::new();
    loop {
        let part = browser.api(&format!("tree?separator=/&prefix=FR/&count=300&from={cursor}"));
        found += part["nodes"].as_array().unwrap().len();
        let Some(next) = part["next"].as_str() else { break };
        cursor = next.to_owned();
    }
    assert_eq!(found, 1000);
}

#[test]
fn values_of_every_type() {
    let dir = tempfile::tempdir().unwrap();
    let server = start(dir.path());
    let browser = Browser::open(&server);
    let mut client = server.client();
    client.check(&[
        ("SET s Bern PX 100000", "OK"),
        ("HSET h f v", ":1"),
        ("RPUSH l a b", ":2"),
        ("SADD set m", ":1"),
        ("ZADD z 1.5 low", ":1"),
        ("ZADD z +inf high", ":1"),
        ("XADD x 1-2 f v", "'1-2'"),
    ]);
    let string = browser.api("value?key=s");
    assert_eq!((&string["type"], &string["size"]), (&json!("string"), &json!(4)));
    assert!((1..=100_000).contains(&string["ttlMs"].as_u64().unwrap()));
    assert_eq!(string["value"], json!({ "text": "Bern", "total": 4, "offset": 0 }));
    let part = browser.api("value?key=s&offset=1&count=2");
    assert_eq!(part["value"], json!({ "text": "er", "total": 4, "offset": 1 }));
    for (key, value_type, size, members) in [
        ("h", "hash", 1, json!([[{ "text": "f" }, { "text": "v" }]])),
        ("l", "list", 2, json!([[{ "text": "0" }, { "text": "a" }], [{ "text": "1" }, { "text": "b" }]])),
        ("set", "set", 1, json!([[{ "text": "m" }, null]])),
        ("z", "zset", 2, json!([[{ "text": "low" }, 1.5], [{ "text": "high" }, "inf"]])),
        ("x", "stream", 1, json!([[{ "text": "1-2" }, { "text": "f v" }]])),
    ] {
        let value = browser.api(&format!("value?key={key}"));
        assert_eq!((&value["type"], &value["size"]), (&json!(value_type), &json!(size)), "{key}");
        assert_eq!((&value["members"], &value["next"]), (&members, &Value::Null), "{key}");
    }
    let listed = browser.api("keys");
    let sizes: Vec<_> =
        listed["keys"].as_array().unwrap().iter().map(|key| key["size"].as_u64().unwrap()).collect();
    assert_eq!((texts(&listed).join(" "), sizes), ("h l s set x z".into(), vec![1, 2, 4, 1, 1, 2]));
    for number in 0..450 {
        client.run(&format!("HSET many f{number:03} {number}"));
    }
    let mut found = Vec::new();
    let mut cursor = String::new();
    loop {
        let part = browser.api(&format!("value?key=many&from={cursor}"));
        assert!(part["members"].as_array().unwrap().len() <= 200);
        found.extend(part["members"].as_array().unwrap().iter().map(|member| member[0]["text"].to_string()));
        let Some(next) = part["next"].as_str() else { break };
        cursor = next.to_owned();
    }
    found.dedup();
    assert_eq!(found.len(), 450);
}

/// Percent-encoding of bytes.
fn encode(key: &[u8]) -> String {
    key.iter().map(|byte| format!("%{byte:02x}")).collect()
}

#[test]
fn hostile_keys_and_values() {
    let dir = tempfile::tempdir().unwrap();
    let server = start(dir.path());
    let browser = Browser::open(&server);
    let mut client = server.client();
    let all_bytes: Vec<u8> = (0..=255).collect();
    let long = vec![b'z'; 1 << 20];
    let keys: [&[u8]; 7] = [
        b"",
        b"<script>alert(1)</script>",
        "\u{202e}right to left".as_bytes(),
        b"\xff\xfe",
        b"line\nend\r\0",
        &all_bytes,
        &long,
    ];
    for key in keys {
        assert_eq!(client.call(&[b"SET", key, key]), "OK");
    }
    let bytes_of = |value: &Value| match value["text"].as_str() {
        Some(text) => text.as_bytes().to_vec(),
        None => data_encoding::HEXLOWER.decode(value["hex"].as_str().unwrap().as_bytes()).unwrap(),
    };
    // The long key ends a page.
    let first = browser.api("keys");
    let second = browser.api(&format!("keys?from={}", first["next"].as_str().unwrap()));
    let rows = [&first, &second].map(|page| page["keys"].as_array().unwrap().clone()).concat();
    assert_eq!(rows.len(), keys.len());
    for key in keys {
        let found = rows.iter().find(|row| {
            let shown = bytes_of(&row["key"]);
            key.starts_with(&shown) && (shown.len() == key.len() || row["key"]["total"] == key.len())
        });
        let found = found.unwrap_or_else(|| panic!("{}", key.escape_ascii()));
        let value = match found["key"]["id"].as_u64() {
            Some(id) => browser.api(&format!("value?keyId={id}")),
            None => browser.api(&format!("value?key={}", encode(key))),
        };
        assert_eq!(value["size"], key.len());
        let shown = bytes_of(&value["value"]);
        assert!(key.starts_with(&shown) && shown.len() == key.len().min(65_536), "{}", value["size"]);
    }
    // The cursor of a long key is a number.
    let backward = browser.api("keys?direction=backward&count=3");
    let next = backward["next"].as_str().unwrap();
    assert!(next.starts_with("&fromId=") && next.len() < 40, "{next}");
    let rest = browser.api(&format!("keys?direction=backward&from={next}"));
    assert_eq!(rest["keys"].as_array().unwrap().len() + 3, keys.len());
    // Members, too.
    client.call(&[b"SADD" as &[u8], b"set", &long, b"\xff"]);
    assert_eq!(browser.api("value?key=set")["members"].as_array().unwrap().len(), 2);
    assert!(browser.get("/api/v1/keys?count=1000").body.len() < 100_000);
}

#[test]
fn lists_of_the_server() {
    let dir = tempfile::tempdir().unwrap();
    let server = start(dir.path());
    let browser = Browser::open(&server);
    let mut client = server.client();
    client.check(&[
        ("CLIENT SETNAME worker", "OK"),
        ("CONFIG SET slowlog-log-slower-than 0", "OK"),
        ("SET a 1", "OK"),
        ("CONFIG SET requirepass secret", "OK"),
        ("GET a", "'1'"),
    ]);
    let slow = browser.api("slowlog");
    let set = slow.as_array().unwrap().iter().find(|row| row["command"][0]["text"] == "SET").unwrap();
    assert_eq!((&set["command"][1]["text"], &set["name"]), (&json!("a"), &json!("worker")));
    assert!(!slow.to_string().contains("secret"));
    let clients = browser.api("clients");
    assert_eq!(clients.as_array().unwrap().len(), 1);
    assert_eq!((&clients[0]["name"], &clients[0]["command"]), (&json!("worker"), &json!("get")));
    let commands = browser.api("commands");
    let set = commands.as_array().unwrap().iter().find(|row| row["name"] == "set").unwrap();
    assert_eq!((&set["calls"], &set["failed"]), (&json!(1), &json!(0)));
    let settings = browser.api("settings");
    assert!(!settings.to_string().contains("secret"));
    let found =
        settings.as_array().unwrap().iter().find(|row| row["name"] == "slowlog-log-slower-than").unwrap();
    assert_eq!((&found["value"], &found["changeable"]), (&json!("0"), &json!(true)));
}
