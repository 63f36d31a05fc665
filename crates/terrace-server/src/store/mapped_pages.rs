//! Limit on the pages of mapped tables in the memory of the process.
//!
//! ```text
//!   random GETs   each maps up to 64 KiB of its table, until all tables count as memory
//!   once a second, above the limit: releases all pages; the page cache still has them
//! ```
//!
//! A limit on the memory of the process often is a limit on this sum. The pages return by short
//! page faults.

use std::time::Duration;

use super::{Backend, Store};

/// Size of the mapped pages above which they are released, in bytes.
const MAX_MAPPED: u64 = 256 << 20;
/// Time between two checks. A shorter one would slow down a server whose GETs need more pages.
const PERIOD: Duration = Duration::from_secs(1);

/// Job that keeps the limit.
#[derive(Debug, Default)]
pub(crate) struct MappedPagesJob {
    /// Monotonic time of the next check.
    next: Duration,
}

impl MappedPagesJob {
    /// Releases the pages of mapped tables if the process has too many.
    pub(crate) fn run(&mut self, store: &Store) {
        let now = store.clock.monotonic();
        let Backend::Database(db) = &store.backend else { return };
        if now >= self.next {
            self.next = now + PERIOD;
            if store.fs.resident_mapped_bytes().is_some_and(|bytes| bytes > MAX_MAPPED) {
                db.release_mapped_pages();
            }
        }
    }
}
