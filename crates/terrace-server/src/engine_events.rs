//! Last events of the engine: flushes, compactions, stalls.

use std::collections::VecDeque;
use std::sync::Arc;

use terrace::{Event, EventListener};
use terrace_env::Clock;
use terrace_sync::native_locks::Mutex;

/// Maximum number of kept events.
const MAX_EVENTS: usize = 1000;

/// Event with its time.
#[derive(Debug, Clone)]
pub(crate) struct EngineEvent {
    /// Milliseconds since 1970.
    pub(crate) at_ms: u64,
    /// Line of the info log.
    pub(crate) text: String,
}

/// Last events of the engine. The engine calls it, so it returns at once.
pub(crate) struct EngineEvents {
    clock: Arc<dyn Clock>,
    recent: Mutex<VecDeque<EngineEvent>>,
    /// Listener of the caller of the server.
    next: Option<Arc<dyn EventListener>>,
}

impl std::fmt::Debug for EngineEvents {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("EngineEvents")
    }
}

impl EngineEvents {
    pub(crate) fn new(clock: Arc<dyn Clock>, next: Option<Arc<dyn EventListener>>) -> EngineEvents {
        EngineEvents { clock, recent: Mutex::default(), next }
    }

    /// Returns the last `count` events, the oldest one first.
    pub(crate) fn last(&self, count: usize) -> Vec<EngineEvent> {
        let recent = self.recent.lock();
        recent.iter().skip(recent.len().saturating_sub(count)).cloned().collect()
    }
}

impl EventListener for EngineEvents {
    fn on_event(&self, event: &Event) {
        let entry = EngineEvent { at_ms: self.clock.wall_us() / 1000, text: event.to_string() };
        let mut recent = self.recent.lock();
        if recent.len() == MAX_EVENTS {
            recent.pop_front();
        }
        recent.push_back(entry);
        drop(recent);
        if let Some(next) = &self.next {
            next.on_event(event);
        }
    }
}
