//! Directories of other programs.

use terrace::{Db, Options};
use terrace_server::Layout;

use crate::server::Server;

const EXPIRY: &str =
    "-ERR not in raw mode: expiry needs entries of its own, and this directory belongs to another program";

#[test]
fn keys_and_values_are_those_of_the_entries() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options::default().create_if_missing(true);
    let db = Db::open(dir.path(), &options).unwrap();
    db.put("CH/Bern", "46.95").unwrap();
    db.close().unwrap();
    let server = Server::start(dir.path(), |_| {});
    assert_eq!(server.addresses.layout, Layout::Raw);
    server.client().check(&[
        ("GET CH/Bern", "'46.95'"),
        ("SET CH/Chur 46.85", "OK"),
        ("SET a 1 EX 10", EXPIRY),
        ("EXPIRE CH/Bern 10", EXPIRY),
        ("TTL CH/Bern", ":-1"),
        ("GETEX CH/Bern PERSIST", "'46.95'"),
        (
            "SELECT 1",
            "-ERR not in raw mode: a database other than 0 needs entries of its own, and this directory belongs to another program",
        ),
        ("SELECT 0", "OK"),
        (
            "FLUSHALL",
            "-ERR this directory belongs to another program: FLUSHALL and FLUSHDB need the option --allow-flush",
        ),
    ]);
    drop(server);
    let db = Db::open(dir.path(), &options).unwrap();
    let entries: Vec<_> = db.iter().map(Result::unwrap).collect();
    let expected = [("CH/Bern", "46.95"), ("CH/Chur", "46.85")];
    assert_eq!(entries, expected.map(|(key, value)| (key.as_bytes().to_vec(), value.as_bytes().to_vec())));
}

#[test]
fn permitted_flush() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), |config| {
        config.layout = Some(Layout::Raw);
        config.allow_flush = true;
    });
    server.client().check(&[("SET a 1", "OK"), ("FLUSHALL", "OK"), ("DBSIZE", ":0")]);
}

#[test]
fn read_only_server_writes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options::default().create_if_missing(true);
    let db = Db::open(dir.path(), &options).unwrap();
    db.put("a", "1").unwrap();
    db.close().unwrap();
    let names = || {
        let mut names: Vec<_> =
            std::fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    };
    let before = names();
    let server = Server::start(dir.path(), |config| config.read_only = true);
    server.client().check(&[
        ("GET a", "'1'"),
        ("SET a 2", "-READONLY You can't write against a read only database."),
        ("DEL a", "-READONLY You can't write against a read only database."),
        ("KEYS *", "['a']"),
    ]);
    drop(server);
    assert_eq!(names(), before);
}
