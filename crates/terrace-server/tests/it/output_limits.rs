//! Limits on the unsent output of clients that do not read: `client-output-buffer-limit`.

use crate::client::Client;
use crate::page::wait_for;
use crate::server::Server;

const MIB: usize = 1 << 20;

/// Publishes messages of 1 MiB until the channel has no subscriber. Returns their number.
fn publish_until_unheard(publisher: &mut Client) -> usize {
    let message = "x".repeat(MIB);
    (0..400).take_while(|_| publisher.call(&["PUBLISH", "c", &message]) == ":1").count()
}

/// The sockets of a connection hold a part of the messages, so the server keeps less than it sent.
#[test]
fn subscriber_that_never_reads() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), |_| {});
    let mut publisher = server.client();
    for (setting, max) in [(None, 60), (Some("pubsub 2mb 0 0"), 30)] {
        if let Some(limits) = setting {
            assert_eq!(publisher.call(&["CONFIG", "SET", "client-output-buffer-limit", limits]), "OK");
        }
        let mut subscriber = server.client();
        subscriber.run("SUBSCRIBE c");
        let count = publish_until_unheard(&mut publisher);
        assert!((2..max).contains(&count), "{setting:?}: disconnected after {count} MiB");
        wait_for(|| publisher.run("CLIENT LIST").matches("id=").count() == 1);
    }
}

#[test]
fn subscriber_above_the_soft_limit() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), |_| {});
    let mut publisher = server.client();
    let limits = "pubsub 0 1mb 1";
    assert_eq!(publisher.call(&["CONFIG", "SET", "client-output-buffer-limit", limits]), "OK");
    let mut subscriber = server.client();
    subscriber.run("SUBSCRIBE c");
    let message = "x".repeat(MIB);
    (0..20).for_each(|_| assert_eq!(publisher.call(&["PUBLISH", "c", &message]), ":1"));
    let list = publisher.run("CLIENT LIST");
    let unread = list.split("omem=").filter_map(|rest| rest.split(' ').next()?.parse().ok()).max();
    assert!(unread.is_some_and(|bytes: usize| bytes > MIB), "{list}");
    // The server disconnects it although no further message comes.
    let is_gone = (0..1000).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(10));
        publisher.run("PUBSUB NUMSUB c") == "['c' :0]"
    });
    assert!(is_gone);
}

/// Regression: a soft limit of more seconds than the clock has ended the server.
#[test]
fn soft_limit_without_end() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), |_| {});
    let mut publisher = server.client();
    let limits = format!("pubsub 0 1 {}", u64::MAX);
    assert_eq!(publisher.call(&["CONFIG", "SET", "client-output-buffer-limit", &limits]), "OK");
    let mut subscriber = server.client();
    subscriber.run("SUBSCRIBE c");
    let message = "x".repeat(MIB);
    (0..20).for_each(|_| assert_eq!(publisher.call(&["PUBLISH", "c", &message]), ":1"));
    let first = subscriber.reply();
    assert!(first.starts_with("['message' 'c' 'xxx"), "{}", &first[..40]);
    publisher.check(&[("PING", "PONG")]);
}

#[test]
fn reply_above_the_limit_of_normal_clients() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), |_| {});
    let mut client = server.client();
    let value = "x".repeat(60_000);
    client.call(&["SET", "big", &value]);
    assert_eq!(client.call(&["CONFIG", "SET", "client-output-buffer-limit", "normal 100000 0 0"]), "OK");
    let mut reader = server.client();
    assert_eq!(reader.run("GET big").len(), value.len() + 2);
    // The transaction is complete, and the client gets no part of its replies.
    reader.check(&[("MULTI", "OK"), ("SET a 1", "QUEUED"), ("GET big", "QUEUED")]);
    reader.check(&[("GET big", "QUEUED"), ("SET b 2", "QUEUED")]);
    reader.send(&["EXEC"]);
    assert!(reader.is_closed());
    client.check(&[("MGET a b", "['1' '2']")]);
}

#[test]
fn invalid_limits() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), |_| {});
    let mut client = server.client();
    let before = client.run("CONFIG GET client-output-buffer-limit");
    for (limits, reason) in [
        ("normal 1", "Wrong number of arguments"),
        ("master 1 1 1", "Invalid client class"),
        ("pubsub 1 1mbs 1", "Error in hard, soft or soft_seconds"),
    ] {
        let reply = client.call(&["CONFIG", "SET", "client-output-buffer-limit", limits]);
        assert!(reply.contains(reason), "{limits}: {reply}");
    }
    assert_eq!(client.run("CONFIG GET client-output-buffer-limit"), before);
}
