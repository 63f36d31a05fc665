//! Page of a directory of a known program: a browser, a game, a node. The keys are those that the
//! programs document.

use std::path::Path;
use std::sync::Arc;

use serde_json::Value;
use terrace::{Comparator, Db, Options};
use terrace_format::coding::put_varint64;
use terrace_format::comparator::IndexedDb;

use crate::http_client::Browser;
use crate::page_trust::page;
use crate::page_views::call_all_but;
use crate::server::Server;

/// Creates a directory with these entries, and opens its page.
fn open(dir: &Path, options: &Options, entries: &[(Vec<u8>, Vec<u8>)]) -> (Server, Browser) {
    let db = Db::open(dir, &options.clone().create_if_missing(true)).unwrap();
    for (key, value) in entries {
        db.put(key, value).unwrap();
    }
    db.flush().unwrap();
    db.close().unwrap();
    let server = Server::start(dir, |config| {
        config.engine = options.clone();
        config.port = None;
        config.read_only = true;
        config.page = Some(page());
    });
    let browser = Browser::open(&server);
    (server, browser)
}

/// Checks the names of the keys in a directory in byte order. Each key has a name.
fn check_names(mut expected: Vec<(Vec<u8>, &str)>) {
    let dir = tempfile::tempdir().unwrap();
    let entries: Vec<_> = expected.iter().map(|(key, _)| (key.clone(), vec![7; 4])).collect();
    let (_server, browser) = open(dir.path(), &Options::default(), &entries);
    expected.sort();
    let found = browser.api("keys?count=1000");
    let names: Vec<&str> =
        found["keys"].as_array().unwrap().iter().map(|row| row["scheme"].as_str().unwrap_or("-")).collect();
    assert_eq!(names, expected.iter().map(|(_, name)| *name).collect::<Vec<_>>());
}

fn key(parts: &[&[u8]]) -> Vec<u8> {
    parts.concat()
}

#[test]
fn chain_state_of_bitcoin() {
    let transaction: Vec<u8> = (0..32).collect();
    check_names(vec![
        (key(&[b"\x0e\0obfuscate_key"]), "Bitcoin: key that hides the values"),
        (key(&[b"B"]), "Bitcoin: best block"),
        (key(&[b"C", &transaction, &[0]]), "Bitcoin: unspent output"),
        // The number of an output of more than one byte.
        (key(&[b"C", &transaction, &[0x80, 0x7f]]), "Bitcoin: unspent output"),
        (key(&[b"c", &transaction]), "Bitcoin: unspent outputs of a transaction"),
        (key(&[b"H"]), "Bitcoin: blocks of an unfinished flush"),
    ]);
}

#[test]
fn block_index_of_bitcoin() {
    let hash: Vec<u8> = (0..32).rev().collect();
    check_names(vec![
        (key(&[b"b", &hash]), "Bitcoin: block index"),
        (key(&[b"f", &4021_u32.to_le_bytes()]), "Bitcoin: block file"),
        (key(&[b"t", &hash]), "Bitcoin: transaction"),
        (key(&[b"F\x07txindex"]), "Bitcoin: flag"),
        (key(&[b"F\x10prunedblockfiles"]), "Bitcoin: flag"),
        (key(&[b"l"]), "Bitcoin: last block file"),
        (key(&[b"R"]), "Bitcoin: reindexing"),
    ]);
}

#[test]
fn world_of_bedrock() {
    let x = (-12_i32).to_le_bytes();
    let z = 345_i32.to_le_bytes();
    let nether = 1_i32.to_le_bytes();
    let end = 2_i32.to_le_bytes();
    let id = b"01234567-89ab-cdef-0123-456789abcdef";
    check_names(vec![
        (key(&[&x, &z, &[43]]), "Bedrock: heights and biomes (3D)"),
        (key(&[&x, &z, &[44]]), "Bedrock: chunk version"),
        (key(&[&x, &z, &[47, 0]]), "Bedrock: blocks of a subchunk"),
        // Below the zero level, the number of a subchunk is negative.
        (key(&[&x, &z, &[47, 0xfc]]), "Bedrock: blocks of a subchunk"),
        (key(&[&x, &z, &nether, &[49]]), "Bedrock: block entities"),
        (key(&[&x, &z, &nether, &[47, 5]]), "Bedrock: blocks of a subchunk"),
        (key(&[&x, &z, &end, &[54]]), "Bedrock: finalized state"),
        (key(&[&x, &z, &[65]]), "Bedrock: version of the entities"),
        (key(&[b"~local_player"]), "Bedrock: local player"),
        (key(&[b"player_server_", id]), "Bedrock: player"),
        (key(&[b"map_-4294967295"]), "Bedrock: map"),
        (key(&[b"actorprefix", &[0, 0, 0, 1, 0, 0, 0, 9]]), "Bedrock: entity"),
        (key(&[b"digp", &x, &z]), "Bedrock: entities of a chunk"),
        (key(&[b"VILLAGE_Overworld_", id, b"_INFO"]), "Bedrock: village"),
        (key(&[b"AutonomousEntities"]), "Bedrock: entities of the world"),
        (key(&[b"BiomeData"]), "Bedrock: biomes"),
        (key(&[b"mobevents"]), "Bedrock: events of mobs"),
        (key(&[b"Nether"]), "Bedrock: dimension"),
        (key(&[b"portals"]), "Bedrock: portals"),
        (key(&[b"scoreboard"]), "Bedrock: scoreboard"),
    ]);
}

#[test]
fn storages_of_chromium() {
    check_names(vec![
        (key(&[b"VERSION"]), "Local Storage: version"),
        (key(&[b"META:https://example.org"]), "Local Storage: size of an origin"),
        (key(&[b"METAACCESS:https://example.org"]), "Local Storage: last access of an origin"),
        // The byte 1 begins text in Latin-1, and 0 begins UTF-16.
        (key(&[b"_https://example.org\0\x01theme"]), "Local Storage: item of an origin"),
        (key(&[b"_https://example.org\0\0\x14\x04"]), "Local Storage: item of an origin"),
    ]);
    check_names(vec![
        (key(&[b"next-map-id"]), "Session Storage: next map"),
        (key(&[b"version"]), "Session Storage: version"),
        (
            key(&[b"namespace-01234567_89ab_cdef_0123_456789abcdef-https://example.org/"]),
            "Session Storage: map of an origin",
        ),
        (key(&[b"map-0-theme"]), "Session Storage: item"),
    ]);
}

/// Text as IndexedDB stores it: the number of units, and UTF-16 with the high bytes first.
fn utf16(text: &str, has_length: bool) -> Vec<u8> {
    let mut bytes = Vec::new();
    if has_length {
        put_varint64(&mut bytes, text.encode_utf16().count() as u64);
    }
    bytes.extend(text.encode_utf16().flat_map(u16::to_be_bytes));
    bytes
}

fn indexed_db() -> Options {
    let order: Arc<dyn Comparator> = Arc::new(IndexedDb);
    Options::default().comparator(order)
}

/// Rows of a branch of the tree: name or key, number of keys.
fn children(browser: &Browser, prefix: &str, count: usize) -> Vec<(String, u64)> {
    let mut rows = Vec::new();
    let mut cursor = String::new();
    loop {
        let part = browser.api(&format!("tree?prefix={prefix}&count={count}&from={cursor}"));
        let nodes = part["nodes"].as_array().unwrap().clone();
        assert!(nodes.len() <= count && !nodes.is_empty());
        rows.extend(nodes.iter().map(|node| {
            let name = match &node["name"] {
                Value::String(name) => name.clone(),
                _ => node["key"]["scheme"].as_str().unwrap().to_owned(),
            };
            (name, node["keys"].as_u64().unwrap())
        }));
        let Some(next) = part["next"].as_str() else { return rows };
        cursor = next.to_owned();
    }
}

#[test]
fn tree_of_indexed_db() {
    let dir = tempfile::tempdir().unwrap();
    let mut entries = vec![
        (vec![0, 0, 0, 0, 0], vec![5]),
        (key(&[&[0, 0, 0, 0, 201], &utf16("https_example.org_0", true), &utf16("mail", true)]), vec![1]),
        (vec![0, 1, 0, 0, 0], utf16("https_example.org_0", false)),
        (vec![0, 1, 0, 0, 50, 1, 0], utf16("messages", false)),
    ];
    for number in 0..250_u32 {
        let value = f64::from(number).to_le_bytes();
        entries.push((key(&[&[0, 1, 1, 1, 3], &value]), b"a message".to_vec()));
        entries.push((key(&[&[0, 1, 1, 30, 3], &value, &[0, 3], &value]), vec![1]));
    }
    // A number of two bytes.
    entries.push((vec![1 << 5, 44, 1, 1, 1, 3, 0, 0, 0, 0, 0, 0, 0, 0], b"another database".to_vec()));
    let (_server, browser) = open(dir.path(), &indexed_db(), &entries);
    let rows = |list: &[(&str, u64)]| -> Vec<(String, u64)> {
        list.iter().map(|(name, keys)| ((*name).to_owned(), *keys)).collect()
    };
    let top = rows(&[("global metadata", 2), ("database 1", 502), ("database 300", 1)]);
    for count in [1, 2, 100] {
        assert_eq!(children(&browser, "", count), top, "{count} in a page");
    }
    let names = rows(&[("IndexedDB: schema version", 1), ("IndexedDB: database name", 1)]);
    assert_eq!(children(&browser, "%00%00", 100), names);
    let stores = rows(&[("metadata", 2), ("object store 1: messages", 500)]);
    assert_eq!(children(&browser, "%00%01", 100), stores);
    assert_eq!(children(&browser, "%00%01%01", 1), rows(&[("records", 250), ("index 30", 250)]));
    for count in [7, 250, 1000] {
        let records = children(&browser, "%00%01%01%01", count);
        assert_eq!(records.len(), 250);
        assert!(records.iter().all(|row| *row == ("IndexedDB: record".to_owned(), 1)));
    }
    assert_eq!(children(&browser, "%20%2c%01%01%01", 10), rows(&[("IndexedDB: record", 1)]));
    // An unfinished number is a search for keys. No key has the other prefixes.
    for (prefix, count) in [("%20%2c", 1), ("%00%09", 0), ("x", 0)] {
        let part = browser.api(&format!("tree?prefix={prefix}"));
        let found = part["nodes"].as_array().unwrap().len();
        assert_eq!((found, &part["next"]), (count, &Value::Null), "{prefix}");
    }
}

#[test]
fn directory_of_a_browser() {
    let dir = tempfile::tempdir().unwrap();
    // The schema version, and records.
    let mut keys: Vec<Vec<u8>> = vec![vec![0, 0, 0, 0, 0]];
    keys.extend((1..100).map(|number| key(&[&[0, 1, 1, 1, 3], &f64::from(number).to_le_bytes()])));
    let entries: Vec<_> = keys.iter().map(|key| (key.clone(), b"value".to_vec())).collect();
    let (_server, browser) = open(dir.path(), &indexed_db(), &entries);
    assert_eq!(browser.api("state")["comparator"], "idb_cmp1");
    assert_eq!(browser.api("sample")["health"]["state"], "ok");
    call_all_but(&browser, &["value?key=CH/Bern"]);
    let mut lists = Vec::new();
    for direction in ["forward", "backward"] {
        let mut found: Vec<String> = Vec::new();
        let mut cursor = String::new();
        loop {
            let part = browser.api(&format!("keys?direction={direction}&count=7&from={cursor}"));
            found.extend(part["keys"].as_array().unwrap().iter().map(|row| row["key"].to_string()));
            let Some(next) = part["next"].as_str() else { break };
            cursor = next.to_owned();
        }
        assert_eq!(found.len(), keys.len(), "{direction}");
        lists.push(found);
    }
    lists[1].reverse();
    assert_eq!(lists[0], lists[1]);
    let first = browser.api("keys?count=2");
    assert_eq!(first["keys"][0]["scheme"], "IndexedDB: schema version");
    assert_eq!(first["keys"][1]["scheme"], "IndexedDB: record");
    assert_eq!(browser.api("keys?prefix=a")["keys"].as_array().unwrap().len(), 0);
    // The records with the prefix, in their order and through all pages.
    let found = browser.api("keys?prefix=%00%01%01%01%03&count=1000");
    assert_eq!(found["keys"].as_array().unwrap().len(), 99);
    assert_eq!(found["keys"][0]["key"], first["keys"][1]["key"]);
}
