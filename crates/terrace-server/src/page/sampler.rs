//! Thread that samples the figures each second, and sends events to the open pages.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;

use super::Page;
use super::health::Health;
use super::sample::Totals;

/// Pause between two looks at the events. Pages get at most so many messages about a job.
const PAUSE: Duration = Duration::from_millis(250);
/// Time of a sample.
const SECOND: Duration = Duration::from_secs(1);

/// Runs until the server ends.
pub(crate) fn run(page: &Page) {
    let shared = &page.shared;
    let mut before = Totals::read(shared, &shared.store.db.stats());
    let mut next = shared.clock.monotonic() + SECOND;
    let mut seen = shared.engine_events.count();
    while !shared.is_draining() {
        let now = shared.clock.monotonic();
        crate::threads::pause(PAUSE.min(next.saturating_sub(now)));
        seen = send_events(page, seen);
        if shared.clock.monotonic() >= next {
            before = sample(page, &before);
            // After a suspension of the machine, no second is made up for.
            next = (next + SECOND).max(shared.clock.monotonic());
        }
    }
}

/// Takes a sample of the time since `before`.
fn sample(page: &Page, before: &Totals) -> Totals {
    let shared = &page.shared;
    let stats = shared.store.db.stats();
    let now = Totals::read(shared, &stats);
    let mut sample = now.since(before, shared, &stats);
    let misses = now.cache_misses_since(before);
    sample.health = Health::of(shared, &stats, &sample, misses, &page.latest().health);
    page.history.lock().push(&sample);
    page.streams.send("second", &sample);
    *page.latest.lock() = Arc::new(sample);
    now
}

/// Sends the events after the first `seen`. Returns the number of all events.
fn send_events(page: &Page, seen: u64) -> u64 {
    let (count, events) = page.shared.engine_events.since(seen);
    for event in events {
        page.streams
            .send("event", &json!({ "at": event.at_ms, "kind": event.kind, "words": event.text }));
    }
    count
}
