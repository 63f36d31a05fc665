//! Thread that samples the figures each second, and sends events to the open pages.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;

use super::Page;
use super::health::Health;
use super::jobs::jobs;
use super::levels::{follow_tables, start_edit_log};
use super::sample::Totals;

/// Pause between two looks at the events. It limits the number of messages that pages get about a
/// job.
const PAUSE: Duration = Duration::from_millis(250);
/// Time of a sample.
const SECOND: Duration = Duration::from_secs(1);

/// Progress of the messages to the open pages.
#[derive(Debug, Default)]
struct Sent {
    /// Number of events.
    events: u64,
    /// Number of edits of the set of tables.
    edits: u64,
    /// True if the last list of jobs was not empty.
    has_jobs: bool,
}

/// Runs until the server ends.
pub(super) fn run(page: &Page) {
    let shared = &page.shared;
    start_edit_log(page);
    let mut before = Totals::read(shared, &page.db.stats());
    let mut next = shared.clock.monotonic() + SECOND;
    let mut sent = Sent { events: shared.engine_events.count(), ..Sent::default() };
    let mut shape = Vec::new();
    while !shared.is_draining() {
        let now = shared.clock.monotonic();
        crate::threads::pause(PAUSE.min(next.saturating_sub(now)));
        if shared.store.is_follower {
            follow(page, &mut shape);
        }
        send_changes(page, &mut sent);
        if shared.clock.monotonic() >= next {
            before = sample(page, &before);
            // After a suspension of the machine, no second is made up for.
            next = (next + SECOND).max(shared.clock.monotonic());
        }
    }
}

/// Reads the changes by another process. `shape` is the number and size of the tables by level.
fn follow(page: &Page, shape: &mut Vec<(usize, u64)>) {
    let db = &page.db;
    // The next read reports the error.
    if db.catch_up().is_err() {
        return;
    }
    let now = db.stats().levels.iter().map(|level| (level.files, level.bytes)).collect();
    if std::mem::replace(shape, now) != *shape {
        follow_tables(page);
    }
}

/// Takes a sample of the time since `before`.
fn sample(page: &Page, before: &Totals) -> Totals {
    let shared = &page.shared;
    let stats = page.db.stats();
    let now = Totals::read(shared, &stats);
    let mut sample = now.since(before, shared, &stats);
    let misses = now.cache_misses_since(before);
    sample.health = Health::of(shared, &stats, &sample, misses, &page.latest().health);
    if let Some(cause) = sample.health.refusal() {
        shared.engine_events.mark_refusal(sample.at, cause);
    }
    page.history.lock().push(&sample);
    page.streams.send("second", &sample);
    *page.latest.lock() = Arc::new(sample);
    now
}

/// Sends events, edits and jobs that the open pages do not know yet.
fn send_changes(page: &Page, sent: &mut Sent) {
    let shared = &page.shared;
    let (count, events) = shared.engine_events.since(sent.events);
    sent.events = count;
    for event in events {
        page.streams.send("event", &json!({ "at": event.at_ms, "kind": event.kind, "words": event.text }));
    }
    let (total, len) = {
        let edits = shared.engine_events.edits.lock();
        (edits.total(), edits.len())
    };
    if std::mem::replace(&mut sent.edits, total) != total {
        page.streams.send("levels", &json!({ "edit": len - 1 }));
    }
    if page.streams.is_empty() {
        return;
    }
    let jobs = jobs(page, &page.db.stats());
    let has_jobs = !jobs.is_empty();
    if std::mem::replace(&mut sent.has_jobs, has_jobs) || has_jobs {
        page.streams.send("job", &jobs);
    }
}
