//! Load of eight clients with a ledger, for tests that end the server under it.
//!
//! Each client counts upwards in keys of its own, and notes the acknowledged numbers. A later state
//! has each acknowledged number, or the next one, and no half of a command or of a transaction.

use std::io;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use terrace_server::Layout;
use terrace_testkit::SetOnDrop;

use crate::client::{Client, encode};
use crate::process::ServerProcess;

pub(crate) const CLIENTS: usize = 8;

/// State of a client's keys.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Ledger {
    /// Number in a string.
    plain: u64,
    /// Number in two strings that one EXEC writes.
    pair: u64,
    /// Number in a string whose expiry changes. Even numbers expire in the typed layout.
    timed: u64,
    /// Last number that was appended to the list `from`.
    pushed: u64,
    /// Last number that was moved to the list `to`.
    moved: u64,
    /// Number in a hash, a sorted set and a string that one EXEC writes.
    objects: u64,
    /// Number of entries of a stream. It is the ID of the last one, too.
    entries: u64,
}

impl Ledger {
    /// State after one more round, acknowledged or not.
    fn after_next_round(self) -> Ledger {
        Ledger {
            plain: self.plain + 1,
            pair: self.pair + 1,
            timed: self.timed + 1,
            pushed: self.pushed + 1,
            moved: self.moved + 1,
            objects: self.objects + 1,
            entries: self.entries + 1,
        }
    }

    /// True if the client has written everything.
    pub(crate) fn is_used(&self, layout: Layout) -> bool {
        let typed = self.pushed > 0 && self.moved > 0 && self.objects > 0 && self.entries > 0;
        self.plain > 0 && self.pair > 0 && self.timed > 0 && (typed || layout == Layout::Raw)
    }
}

/// Ledgers of all clients.
pub(crate) type Ledgers = [Mutex<Ledger>; CLIENTS];

/// Runs the clients on `server` until its kill after `time`. Returns the acknowledged numbers.
pub(crate) fn write_until_kill(
    server: ServerProcess,
    layout: Layout,
    ledgers: [Ledger; CLIENTS],
    time: Duration,
) -> [Ledger; CLIENTS] {
    let shared = ledgers.map(Mutex::new);
    let is_stopped = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _set_at_end = SetOnDrop(&is_stopped);
        for (id, ledger) in shared.iter().enumerate() {
            let mut client = server.client();
            let is_stopped = &is_stopped;
            scope.spawn(move || write(&mut client, id, layout, ledger, is_stopped));
        }
        std::thread::sleep(time);
        server.kill();
    });
    copy(&shared)
}

/// Copies of the ledgers at some moments of the present.
pub(crate) fn copy(ledgers: &Ledgers) -> [Ledger; CLIENTS] {
    std::array::from_fn(|id| *ledgers[id].lock().unwrap())
}

/// Command, with the change of the ledger that its reply acknowledges.
type Step = (String, fn(&mut Ledger, &Ledger));

fn steps(id: usize, layout: Layout, next: &Ledger) -> Vec<Step> {
    let Ledger { plain, pair, timed, pushed, objects, entries, .. } = next;
    let nothing: fn(&mut Ledger, &Ledger) = |_, _| {};
    let expiry = if has_expiry(layout, *timed) { " EX 1000" } else { "" };
    let mut steps: Vec<Step> = vec![
        (format!("SET plain:{id} {plain}"), |ledger, next| ledger.plain = next.plain),
        ("MULTI".into(), nothing),
        (format!("SET left:{id} {pair}"), nothing),
        (format!("SET right:{id} {pair}"), nothing),
        ("EXEC".into(), |ledger, next| ledger.pair = next.pair),
        (format!("SET timed:{id} {timed}{expiry}"), |ledger, next| ledger.timed = next.timed),
    ];
    if layout == Layout::Typed {
        let typed: [Step; 9] = [
            (format!("SET brief:{id} {timed} PX 1"), nothing),
            (format!("RPUSH from:{id} {pushed}"), |ledger, next| ledger.pushed = next.pushed),
            (format!("LMOVE from:{id} to:{id} LEFT RIGHT"), |ledger, next| ledger.moved = next.moved),
            ("MULTI".into(), nothing),
            (format!("HSET hash:{id} number {objects} other {objects}"), nothing),
            (format!("ZADD scores:{id} {objects} number"), nothing),
            (format!("SET copy:{id} {objects}"), nothing),
            ("EXEC".into(), |ledger, next| ledger.objects = next.objects),
            (format!("XADD stream:{id} {entries}-0 f v"), |ledger, next| ledger.entries = next.entries),
        ];
        steps.extend(typed);
    }
    steps
}

/// Writes rounds until the server or the test ends.
pub(crate) fn write(
    client: &mut Client,
    id: usize,
    layout: Layout,
    ledger: &Mutex<Ledger>,
    is_stopped: &AtomicBool,
) {
    while !is_stopped.load(Ordering::Relaxed) && write_round(client, id, layout, ledger).is_ok() {}
}

fn write_round(client: &mut Client, id: usize, layout: Layout, ledger: &Mutex<Ledger>) -> io::Result<()> {
    let next = ledger.lock().unwrap().after_next_round();
    let steps = steps(id, layout, &next);
    let words = steps.iter().map(|(line, _)| line.split(' ').collect::<Vec<_>>());
    client.try_send(&words.flat_map(|words| encode(&words)).collect::<Vec<u8>>())?;
    for (line, acknowledge) in &steps {
        let reply = client.try_reply()?;
        assert!(!reply.starts_with('-') && !reply.contains(" -"), "{line}: {reply}");
        acknowledge(&mut ledger.lock().unwrap(), &next);
    }
    Ok(())
}

/// True if the number `timed` is stored with an expiry. The raw layout has none.
fn has_expiry(layout: Layout, timed: u64) -> bool {
    layout == Layout::Typed && timed.is_multiple_of(2)
}

fn numbers(reply: &str) -> Vec<u64> {
    let digits = reply.split(|c: char| !c.is_ascii_digit()).filter(|part| !part.is_empty());
    digits.map(|part| part.parse().unwrap()).collect()
}

fn number(client: &mut Client, line: &str) -> u64 {
    numbers(&client.run(line)).first().copied().unwrap_or(0)
}

/// Checks the keys of all clients. Their numbers are at least those of `acknowledged`, and at most
/// one more than those of `last`. Returns the found numbers.
pub(crate) fn verify(
    client: &mut Client,
    layout: Layout,
    acknowledged: &[Ledger; CLIENTS],
    last: &[Ledger; CLIENTS],
) -> [Ledger; CLIENTS] {
    std::array::from_fn(|id| {
        let low = &acknowledged[id];
        let high = last[id].after_next_round();
        let mut found = verify_strings(client, id, layout);
        if layout == Layout::Typed {
            verify_objects(client, id, &mut found);
        }
        let rows = [
            ("plain", low.plain, found.plain, high.plain),
            ("pair", low.pair, found.pair, high.pair),
            ("timed", low.timed, found.timed, high.timed),
            ("pushed", low.pushed, found.pushed, high.pushed),
            ("moved", low.moved, found.moved, high.moved),
            ("objects", low.objects, found.objects, high.objects),
            ("entries", low.entries, found.entries, high.entries),
        ];
        for (name, low, found, high) in rows {
            assert!((low..=high).contains(&found), "{name}:{id} is {found}, not {low} to {high}");
        }
        found
    })
}

fn verify_strings(client: &mut Client, id: usize, layout: Layout) -> Ledger {
    let pair = number(client, &format!("GET left:{id}"));
    let right = number(client, &format!("GET right:{id}"));
    assert_eq!(pair, right, "a transaction is half applied");
    let timed = number(client, &format!("GET timed:{id}"));
    let ttl = client.run(&format!("TTL timed:{id}"));
    let is_right = (ttl != ":-1") == has_expiry(layout, timed);
    assert!(timed == 0 || is_right, "an expiry is half applied: {timed} has the TTL {ttl}");
    Ledger { plain: number(client, &format!("GET plain:{id}")), pair, timed, ..Ledger::default() }
}

fn verify_objects(client: &mut Client, id: usize, found: &mut Ledger) {
    client.check(&[(&format!("TTL brief:{id}"), ":-2")]);
    let moved = numbers(&client.run(&format!("LRANGE to:{id} 0 -1")));
    let waiting = numbers(&client.run(&format!("LRANGE from:{id} 0 -1")));
    found.moved = moved.len() as u64;
    found.pushed = found.moved + waiting.len() as u64;
    assert!(moved.into_iter().chain(waiting).eq(1..=found.pushed), "a list move is half applied");
    found.objects = number(client, &format!("GET copy:{id}"));
    let score = number(client, &format!("ZSCORE scores:{id} number"));
    let fields = numbers(&client.run(&format!("HMGET hash:{id} number other")));
    let is_whole = fields.iter().all(|field| *field == found.objects) && score == found.objects;
    found.entries = number(client, &format!("XLEN stream:{id}"));
    let ids = numbers(&client.run(&format!("XRANGE stream:{id} - +")));
    assert!(ids.into_iter().step_by(2).eq(1..=found.entries), "a stream has a wrong count or a gap");
    assert!(is_whole, "a transaction of objects is half applied: {fields:?}, {score}, {}", found.objects);
}

/// Deletes the lists and the streams, so that they stay short.
pub(crate) fn delete_long_objects(client: &mut Client, ledgers: &mut [Ledger; CLIENTS]) {
    for (id, ledger) in ledgers.iter_mut().enumerate() {
        client.run(&format!("DEL from:{id} to:{id} stream:{id}"));
        ledger.pushed = 0;
        ledger.moved = 0;
        ledger.entries = 0;
    }
}
