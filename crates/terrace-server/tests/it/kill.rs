//! The end of the server process under load. No acknowledged write is missing afterwards, and no
//! transaction is half applied.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use terrace_server::{Layout, SyncMode};

use crate::client::Client;
use crate::process::ServerProcess;

const CLIENTS: usize = 8;

/// Acknowledged state of a client: the last number that it knows to be stored.
#[derive(Default, Clone, Copy)]
struct Ledger {
    plain: u64,
    pair: u64,
    /// Even numbers expire in the typed layout, odd numbers do not.
    timed: u64,
    /// Entries of a stream, only in the typed layout.
    entries: u64,
}

/// Writes numbers until the server ends.
fn write(client: &mut Client, id: usize, layout: Layout, ledger: &mut Ledger, is_stopped: &AtomicBool) {
    while !is_stopped.load(Ordering::Relaxed) {
        let plain = ledger.plain + 1;
        let pair = ledger.pair + 1;
        let mut pipeline = crate::client::encode(&["SET", &format!("plain:{id}"), &plain.to_string()]);
        pipeline.extend(crate::client::encode(&["MULTI"]));
        for side in ["left", "right"] {
            pipeline.extend(crate::client::encode(&["SET", &format!("{side}:{id}"), &pair.to_string()]));
        }
        pipeline.extend(crate::client::encode(&["EXEC"]));
        let timed = ledger.timed + 1;
        let set = ["SET", &format!("timed:{id}"), &timed.to_string(), "EX", "1000"];
        pipeline.extend(crate::client::encode(&set[..if has_expiry(layout, timed) { 5 } else { 3 }]));
        let entry = format!("{}-0", ledger.entries + 1);
        let replies = ["OK", "OK", "QUEUED", "QUEUED", "[OK OK]", "OK", &format!("'{entry}'")];
        if layout == Layout::Typed {
            pipeline.extend(crate::client::encode(&["XADD", &format!("stream:{id}"), &entry, "f", "v"]));
        }
        if client.try_send(&pipeline).is_err() {
            return;
        }
        let replies = &replies[..if layout == Layout::Typed { 7 } else { 6 }];
        for (step, expected) in replies.iter().enumerate() {
            match client.try_reply() {
                Ok(reply) => assert_eq!(reply, *expected),
                Err(_) => return,
            }
            match step {
                0 => ledger.plain = plain,
                4 => ledger.pair = pair,
                5 => ledger.timed = timed,
                6 => ledger.entries += 1,
                _ => {}
            }
        }
    }
}

fn number(client: &mut Client, key: &str) -> u64 {
    let reply = client.call(&["GET", key]);
    reply.trim_matches('\'').parse().unwrap_or(0)
}

/// True if the number `timed` is stored with an expiry. The raw layout has none.
fn has_expiry(layout: Layout, timed: u64) -> bool {
    layout == Layout::Typed && timed.is_multiple_of(2)
}

/// Number of the entries of a stream. It is the ID of the last one, too.
fn stream_entries(client: &mut Client, id: usize, layout: Layout) -> u64 {
    if layout == Layout::Raw {
        return 0;
    }
    let key = format!("stream:{id}");
    let count: u64 = client.call(&["XLEN", &key]).trim_start_matches(':').parse().unwrap();
    let range = client.call(&["XRANGE", &key, "-", "+"]);
    assert_eq!(range.matches("['f' 'v']").count() as u64, count, "a stream has a wrong count");
    let last = client.call(&["XREVRANGE", &key, "+", "-", "COUNT", "1"]);
    assert!(count == 0 || last.contains(&format!("'{count}-0'")), "{last} of {count} entries");
    count
}

fn verify(server: &ServerProcess, layout: Layout, ledgers: &mut [Ledger; CLIENTS]) {
    let mut client = server.client();
    for (id, ledger) in ledgers.iter_mut().enumerate() {
        let plain = number(&mut client, &format!("plain:{id}"));
        assert!((ledger.plain..=ledger.plain + 1).contains(&plain), "plain {plain} of {}", ledger.plain);
        let left = number(&mut client, &format!("left:{id}"));
        let right = number(&mut client, &format!("right:{id}"));
        assert_eq!(left, right, "a transaction is half applied");
        assert!((ledger.pair..=ledger.pair + 1).contains(&left), "pair {left} of {}", ledger.pair);
        let timed = number(&mut client, &format!("timed:{id}"));
        assert!((ledger.timed..=ledger.timed + 1).contains(&timed), "timed {timed} of {}", ledger.timed);
        let ttl = client.call(&["TTL", &format!("timed:{id}")]);
        let is_right = (ttl != ":-1") == has_expiry(layout, timed);
        assert!(timed == 0 || is_right, "an expiry is half applied: {timed} has the TTL {ttl}");
        let entries = stream_entries(&mut client, id, layout);
        let expected = ledger.entries..=ledger.entries + 1;
        assert!(expected.contains(&entries), "{entries} entries of {}", ledger.entries);
        *ledger = Ledger { plain, pair: left, timed, entries };
    }
}

fn kills(layout: Layout, sync: SyncMode, rounds: u32) {
    let dir = tempfile::tempdir().unwrap();
    let mut ledgers = [Ledger::default(); CLIENTS];
    for round in 0..rounds {
        let server = ServerProcess::start(dir.path(), layout, sync);
        verify(&server, layout, &mut ledgers);
        let is_stopped = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for (id, ledger) in ledgers.iter_mut().enumerate() {
                let mut client = server.client();
                let is_stopped = &is_stopped;
                scope.spawn(move || write(&mut client, id, layout, ledger, is_stopped));
            }
            std::thread::sleep(Duration::from_millis(20 + u64::from(round) * 17 % 100));
            server.kill();
            is_stopped.store(true, Ordering::Relaxed);
        });
    }
    let server = ServerProcess::start(dir.path(), layout, sync);
    verify(&server, layout, &mut ledgers);
    assert!(ledgers.iter().all(|ledger| ledger.plain > 0 && ledger.pair > 0), "the load was no load");
}

#[test]
fn typed_directory_without_syncs() {
    kills(Layout::Typed, SyncMode::No, 5);
}

#[test]
fn raw_directory_with_a_sync_each_second() {
    kills(Layout::Raw, SyncMode::EverySecond, 3);
}

#[test]
fn typed_directory_with_syncs() {
    kills(Layout::Typed, SyncMode::Always, 3);
}
