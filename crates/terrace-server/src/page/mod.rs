//! The web page: an HTTP server on loopback that shows what the database does and contains.
//!
//! ```text
//!   http ── router ── access: host, token, cookie, origin
//!              ├── assets    files of the page
//!              └── api ── state, levels, keys, value, ..   JSON, read on threads that may wait
//!
//!   sampler thread ── sample ── history, health      event_streams ── open pages
//! ```
//!
//! The page never runs on a worker, so it delays no client. `docs/format/page-api.md` describes the
//! requests.

mod access;
mod api;
mod api_result;
mod assets;
mod changes;
mod console;
mod edit_log;
mod event_streams;
mod health;
mod history;
mod indexed_db;
mod jobs;
mod json_bytes;
mod key_positions;
mod key_schemes;
mod keys;
mod levels;
mod lists;
mod members;
mod query;
mod router;
mod sample;
mod sampler;
mod start;
mod state;
mod tree;
mod value;

use std::io;
use std::net::TcpListener;
use std::sync::Arc;

use terrace::Db;
use terrace_sync::native_locks::Mutex;

pub(crate) use access::PageAccess;
use changes::UndoLog;
pub(crate) use edit_log::EditLog;
use event_streams::EventStreams;
use history::History;
use levels::CachedTables;
use sample::Sample;
pub(crate) use start::{bind, start};

use crate::http;
use crate::shared::Shared;

/// Answers requests until the server ends.
fn run(page: &Arc<Page>, listener: TcpListener) -> io::Result<()> {
    let answering = Arc::clone(page);
    let ended = http::run(&page.shared, listener, move |request| {
        let page = Arc::clone(&answering);
        async move { router::respond(&page, request).await }
    });
    page.streams.close();
    ended
}

/// The page of a server.
struct Page {
    shared: Arc<Shared>,
    /// Database of the server. A front end of a shared store has no page.
    db: Db,
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
    fn new(shared: Arc<Shared>, db: Db, access: Arc<PageAccess>, has_writes: bool) -> Page {
        Page {
            shared,
            db,
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
