//! The web page: an HTTP server on loopback that shows what the database does and contains.
//!
//! ```text
//!   listener ── router ── access: host, token, cookie, origin
//!                  ├── assets    files of the page
//!                  └── api ── state, levels, keys, value, ..   JSON, read on threads that may wait
//!
//!   sampler thread ── sample ── history, health      event_streams ── open pages
//! ```
//!
//! The page never runs on a worker, so it delays no client. `docs/format/page-api.md` describes the
//! requests.

mod access;
mod api;
mod assets;
mod changes;
mod console;
mod edit_log;
mod event_streams;
mod health;
mod history;
mod http;
mod jobs;
mod json_bytes;
mod key_positions;
mod key_schemes;
mod keys;
mod levels;
mod listener;
mod lists;
mod members;
mod query;
mod router;
mod sample;
mod sampler;
mod state;
mod tree;
mod value;

use std::sync::Arc;

use terrace_sync::native_locks::Mutex;

pub(crate) use access::PageAccess;
use changes::UndoLog;
pub(crate) use edit_log::EditLog;
use event_streams::EventStreams;
use history::History;
use levels::CachedTables;
pub(crate) use listener::{bind, run};
use sample::Sample;
pub(crate) use sampler::run as run_sampler;

use crate::shared::Shared;

/// The page of a server.
pub(crate) struct Page {
    shared: Arc<Shared>,
    access: Arc<PageAccess>,
    has_writes: bool,
    streams: EventStreams,
    history: Mutex<History>,
    latest: Mutex<Arc<Sample>>,
    undo_log: Mutex<UndoLog>,
    /// Description of the current tables.
    tables: Mutex<CachedTables>,
}

impl Page {
    pub(crate) fn new(shared: Arc<Shared>, access: Arc<PageAccess>, has_writes: bool) -> Page {
        Page {
            shared,
            access,
            has_writes,
            streams: EventStreams::default(),
            history: Mutex::default(),
            latest: Mutex::default(),
            undo_log: Mutex::default(),
            tables: Mutex::default(),
        }
    }

    /// True if the page may change data.
    fn can_write(&self) -> bool {
        self.has_writes && !self.shared.store.is_read_only
    }

    /// Figures of the last second.
    fn latest(&self) -> Arc<Sample> {
        Arc::clone(&self.latest.lock())
    }
}
