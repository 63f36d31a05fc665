//! Redis databases of the typed layout.

use crate::server::{Server, with_client};

#[test]
fn select_move_and_swap() {
    with_client(|client| {
        client.check(&[
            ("SET a 1", "OK"),
            ("SELECT 3", "OK"),
            ("GET a", "nil"),
            ("SET b 2", "OK"),
            ("MOVE b 0", ":1"),
            ("MOVE b 0", ":0"),
            ("SWAPDB 0 3", "OK"),
            ("MGET a b", "['1' '2']"),
            ("COPY a c DB 5", ":1"),
            ("SELECT 5", "OK"),
            ("GET c", "'1'"),
            ("SELECT 16", "-ERR DB index is out of range"),
            ("SELECT x", "-ERR value is not an integer or out of range"),
            ("SWAPDB 0 x", "-ERR invalid second DB index"),
        ]);
    });
}

#[test]
fn flushes() {
    with_client(|client| {
        client.check(&[
            ("SET a 1", "OK"),
            ("SELECT 1", "OK"),
            ("SET a 2", "OK"),
            ("FLUSHDB", "OK"),
            ("GET a", "nil"),
            ("SET a 3", "OK"),
            ("FLUSHDB ASYNC", "OK"),
            ("DBSIZE", ":0"),
            ("SELECT 0", "OK"),
            ("GET a", "'1'"),
            ("FLUSHALL", "OK"),
            ("DBSIZE", ":0"),
            ("FLUSHALL x", "-ERR syntax error"),
        ]);
    });
}

#[test]
fn databases_survive_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), |_| {});
    server.client().check(&[("SET a 1", "OK"), ("SWAPDB 0 9", "OK"), ("SET a 2", "OK")]);
    drop(server);
    let server = Server::start(dir.path(), |_| {});
    server.client().check(&[("GET a", "'2'"), ("SELECT 9", "OK"), ("GET a", "'1'"), ("FLUSHALL", "OK")]);
    drop(server);
    let server = Server::start(dir.path(), |_| {});
    server.client().check(&[("DBSIZE", ":0"), ("SELECT 9", "OK"), ("DBSIZE", ":0")]);
}

#[test]
fn second_server_for_one_directory() {
    let dir = tempfile::tempdir().unwrap();
    let _first = Server::start(dir.path(), |_| {});
    let second = Server::try_start(dir.path(), |_| {});
    assert!(second.is_err_and(|error| error.to_string().contains("lock")));
}
