//! Publish and subscribe.

use crate::server::Server;

#[test]
fn messages_of_channels_and_patterns() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), |_| {});
    let mut reader = server.client();
    let mut writer = server.client();
    reader
        .check(&[("SUBSCRIBE news", "['subscribe' 'news' :1]"), ("PSUBSCRIBE n*", "['psubscribe' 'n*' :2]")]);
    writer.check(&[
        ("PUBLISH news hello", ":2"),
        ("PUBLISH other hello", ":0"),
        ("PUBSUB CHANNELS", "['news']"),
        ("PUBSUB NUMSUB news x", "['news' :1 'x' :0]"),
        ("PUBSUB NUMPAT", ":1"),
    ]);
    assert_eq!(reader.reply(), "['message' 'news' 'hello']");
    assert_eq!(reader.reply(), "['pmessage' 'n*' 'news' 'hello']");
    reader.check(&[
        ("PING", "['pong' '']"),
        (
            "GET a",
            "-ERR Can't execute 'get': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context",
        ),
        ("UNSUBSCRIBE", "['unsubscribe' 'news' :1]"),
        ("PUNSUBSCRIBE n*", "['punsubscribe' 'n*' :0]"),
        ("UNSUBSCRIBE", "['unsubscribe' nil :0]"),
        ("GET a", "nil"),
    ]);
}

#[test]
fn version_3_of_the_protocol() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), |_| {});
    let mut reader = server.client();
    assert!(reader.run("HELLO 3").starts_with("{'server' 'redis' 'version' '7.0.15' 'proto' :3 'id' :"));
    reader.check(&[("SUBSCRIBE news", ">['subscribe' 'news' :1]"), ("GET a", "nil"), ("SET a 1", "OK")]);
    server.client().check(&[("PUBLISH news x", ":1")]);
    assert_eq!(reader.reply(), ">['message' 'news' 'x']");
}

#[test]
fn shard_channels() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), |_| {});
    let mut reader = server.client();
    reader.check(&[("SSUBSCRIBE news", "['ssubscribe' 'news' :1]")]);
    server.client().check(&[("PUBLISH news x", ":0"), ("SPUBLISH news x", ":1")]);
    assert_eq!(reader.reply(), "['smessage' 'news' 'x']");
}

#[test]
fn subscription_ends_with_the_connection() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), |_| {});
    let mut reader = server.client();
    reader.check(&[("SUBSCRIBE news", "['subscribe' 'news' :1]"), ("QUIT", "OK")]);
    assert!(reader.is_closed());
    let mut writer = server.client();
    let is_gone = (0..100).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(10));
        writer.run("PUBLISH news x") == ":0"
    });
    assert!(is_gone);
}

/// A subscriber that read a key after the message of a script or an EXEC got the value before it,
/// because the message was sent before the commit. The messages of a transaction follow its writes.
#[test]
fn messages_of_a_transaction_follow_its_writes() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), |_| {});
    let mut reader = server.client();
    reader.run("HELLO 3");
    reader.check(&[("SUBSCRIBE news", ">['subscribe' 'news' :1]")]);
    // The loop takes longer than the message.
    let pause = "local sum = 0 for i = 1, 30000000 do sum = sum + 1 end";
    let script =
        format!("redis.call('set', 'a', '1') local n = redis.call('publish', 'news', 'x') {pause} return n");
    let mut writer = server.client();
    writer.send(&["EVAL", &script, "0"]);
    assert_eq!(reader.reply(), ">['message' 'news' 'x']");
    assert_eq!(reader.run("GET a"), "'1'");
    assert_eq!(writer.reply(), ":1");
    for line in ["MULTI", "SET a 2", "PUBLISH news y"] {
        writer.run(line);
    }
    writer.call(&["EVAL", pause, "0"]);
    writer.send(&["EXEC"]);
    assert_eq!(reader.reply(), ">['message' 'news' 'y']");
    assert_eq!(reader.run("GET a"), "'2'");
    assert_eq!(writer.reply(), "[OK :1 nil]");
}
