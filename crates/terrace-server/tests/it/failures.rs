//! Faults of the storage: a failed sync, a full disk, a damaged record.

use std::sync::Arc;
use std::time::Duration;

use terrace::env::FileSystem;
use terrace::env::fault::FaultFs;
use terrace::env::mem::MemFs;
use terrace::{Db, Env, Options};
use terrace_server::SyncMode;

use crate::client::{Client, encode};
use crate::server::Server;

/// Runs `body` with a client of a server on a file system with faults.
fn with_faults(sync: SyncMode, body: impl FnOnce(&mut Client, &FaultFs)) {
    let memory: Arc<dyn FileSystem> = Arc::new(MemFs::new());
    let faults = Arc::new(FaultFs::new(memory, "".parse().unwrap()));
    let env = Env::with_file_system(Arc::clone(&faults) as _);
    let server = Server::try_start("cities".as_ref(), |config| {
        config.engine = Options::default().env(env);
        config.sync = sync;
    });
    let server = server.unwrap();
    body(&mut server.client(), &faults);
    // The final sync of the server fails, too.
    server.handle.shut_down();
    assert!(server.join().is_err());
}

#[test]
fn failed_sync_before_the_reply() {
    with_faults(SyncMode::Always, |client, faults| {
        client.check(&[("SET a 1", "OK")]);
        faults.set_plan("sync .log #1 once EIO".parse().unwrap());
        // The pipeline is one turn: the reads keep their replies, and the writes get errors.
        let mut pipeline = Vec::new();
        for command in [&["GET", "a"][..], &["SET", "b", "2"], &["PING", "x"], &["DEL", "a"]] {
            pipeline.extend(encode(command));
        }
        client.send_bytes(&pipeline);
        let replies: Vec<String> = (0..4).map(|_| client.reply()).collect();
        assert_eq!((replies[0].as_str(), replies[2].as_str()), ("'1'", "'x'"));
        for reply in [&replies[1], &replies[3]] {
            assert!(reply.starts_with("-MISCONF Errors writing to the database: "), "{reply}");
        }
        assert!(client.run("SET c 1").starts_with("-MISCONF "));
        client.check(&[("MULTI", "OK")]);
        assert!(client.run("SET c 1").starts_with("-MISCONF "));
        client.check(&[
            ("EXEC", "-EXECABORT Transaction discarded because of previous errors."),
            ("GET c", "nil"),
        ]);
        assert!(client.run("INFO persistence").contains("aof_last_write_status:err"));
    });
}

#[test]
fn failed_sync_in_the_background() {
    with_faults(SyncMode::EverySecond, |client, faults| {
        faults.set_plan("sync .log #1 once EIO".parse().unwrap());
        client.check(&[("SET a 1", "OK")]);
        let is_refused = (0..200).any(|_| {
            std::thread::sleep(Duration::from_millis(20));
            client.run("SET a 2").starts_with("-MISCONF ")
        });
        assert!(is_refused);
        assert!(client.run("GET a").starts_with('\''));
    });
}

#[test]
fn damaged_record_hides_no_other_key() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), |_| {});
    server.client().check(&[("MSET a 1 b 2 c 3", "OK")]);
    drop(server);
    let db = Db::open(dir.path(), &Options::default()).unwrap();
    db.put(b"\x01\0\0b", b"\x7fdamage").unwrap();
    db.close().unwrap();
    let server = Server::start(dir.path(), |_| {});
    let mut client = server.client();
    client.check(&[
        ("GET a", "'1'"),
        ("GET b", "-ERR damaged: the record of the key 'b' has no valid header"),
        ("GET c", "'3'"),
        ("SET b 4", "OK"),
        ("MGET a b c", "['1' '4' '3']"),
    ]);
}
