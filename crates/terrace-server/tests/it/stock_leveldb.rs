//! Stock LevelDB opens a directory that the server has written.

use terrace_testkit::settings::Settings;
use terrace_testkit::stock_leveldb::stock_leveldb_or_skip;

use crate::server::Server;

#[test]
fn served_directory() {
    let Some(stock) = stock_leveldb_or_skip() else { return };
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), |_| {});
    server.client().check(&[
        ("SET Bern 46.95", "OK"),
        ("SET Chur 46.85 PXAT 9000000000000", "OK"),
        ("SET x 1", "OK"),
        ("DEL x", ":1"),
        ("HSET Zug lat 47.17", ":1"),
        ("SADD Zürich a", ":1"),
    ]);
    drop(server);
    let db = stock.open(dir.path(), &Settings::default()).unwrap();
    let entries = db.scan().unwrap();
    let keys: Vec<String> = entries.iter().map(|(key, _)| key.escape_ascii().to_string()).collect();
    assert_eq!(
        keys,
        [
            r"\x00terrace.serve",
            r"\x00terrace.serve\x01",
            r"\x00terrace.serve\x02",
            r"\x01\x00\x00Bern",
            r"\x01\x00\x00Chur",
            r"\x01\x00\x00Zug",
            r"\x01\x00\x00Z\xc3\xbcrich",
            r"\x02\x00\x00\x08/y\xcd\x90\x00\x00\x00Chur",
            r"\x10\x00\x00\x00\x00\x00\x00\x00\x01lat",
            r"\x11\x00\x00\x00\x00\x00\x00\x00\x02a",
        ]
    );
    db.put(b"\x01\x00\x00Uster", b"\x0147.35").unwrap();
    db.close();
    let server = Server::start(dir.path(), |_| {});
    server.client().check(&[
        ("MGET Bern Chur Uster", "['46.95' '46.85' '47.35']"),
        ("HGETALL Zug", "['lat' '47.17']"),
        ("TYPE Uster", "string"),
    ]);
}
