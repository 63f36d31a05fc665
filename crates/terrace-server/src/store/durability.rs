//! Durability of acknowledged writes: when the log is synced.
//!
//! ```text
//!   worker        commit; request() -> ticket; wait(ticket).await; send the replies
//!   sync thread   last requested ticket; Db::sync(); publish the ticket
//! ```
//!
//! One sync serves all clients that wait. Every write survives the end of the process in all modes,
//! because it is in the mapped log before its reply.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering, fence};
use std::time::Duration;

use terrace_sync::native_locks::{Condvar, Mutex};
use tokio::sync::watch;

use super::Backend;

/// Moment at which writes become safe against a power cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SyncMode {
    /// Writes are safe before their replies.
    Always,
    /// Writes are safe after at most about one second.
    #[default]
    EverySecond,
    /// Writes are safe when the system has written the file.
    No,
}

/// All modes, with their names in Redis.
static MODES: &[(SyncMode, &str)] =
    &[(SyncMode::Always, "always"), (SyncMode::EverySecond, "everysec"), (SyncMode::No, "no")];

impl SyncMode {
    /// Returns the mode with the name `name`.
    pub fn by_name(name: &str) -> Option<SyncMode> {
        MODES.iter().find(|(_, known)| known.eq_ignore_ascii_case(name)).map(|(mode, _)| *mode)
    }

    /// Name of the mode.
    pub fn name(self) -> &'static str {
        MODES.iter().find(|(mode, _)| *mode == self).map_or("", |(_, name)| name)
    }
}

impl fmt::Display for SyncMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Progress of the sync thread.
#[derive(Debug, Clone, Default)]
struct SyncProgress {
    done: u64,
    failure: Option<String>,
}

#[derive(Debug, Default)]
struct SyncRequests {
    last: u64,
    /// Ticket of the sync that has begun last.
    begun: u64,
    is_stopped: bool,
}

/// Number of counters. Threads with the same counter share a cache line.
const BYTE_COUNTERS: usize = 16;

/// Counter in a cache line of its own.
#[derive(Debug, Default)]
#[repr(align(128))]
struct ByteCounter(AtomicU64);

/// Shared state of the workers and the sync thread.
#[derive(Debug)]
pub(crate) struct Durability {
    mode: AtomicU8,
    /// True if a write came after the last sync.
    is_dirty: AtomicBool,
    requests: Mutex<SyncRequests>,
    requested: Condvar,
    /// Bytes of all batches, by thread.
    written_bytes: [ByteCounter; BYTE_COUNTERS],
    /// Bytes of the batches before the last sync.
    synced_bytes: AtomicU64,
    progress: watch::Sender<SyncProgress>,
    has_failed: AtomicBool,
}

impl Durability {
    pub(crate) fn new(mode: SyncMode) -> Durability {
        Durability {
            mode: AtomicU8::new(mode as u8),
            is_dirty: AtomicBool::new(false),
            requests: Mutex::new(SyncRequests::default()),
            requested: Condvar::new(),
            written_bytes: Default::default(),
            synced_bytes: AtomicU64::new(0),
            progress: watch::Sender::new(SyncProgress::default()),
            has_failed: AtomicBool::new(false),
        }
    }

    /// Current mode.
    pub(crate) fn mode(&self) -> SyncMode {
        // Relaxed: a change of the mode takes effect at some write after it.
        let mode = self.mode.load(Ordering::Relaxed);
        MODES.iter().map(|(known, _)| *known).find(|known| *known as u8 == mode).unwrap_or_default()
    }

    /// Changes the mode.
    pub(crate) fn set_mode(&self, mode: SyncMode) {
        self.mode.store(mode as u8, Ordering::Relaxed);
        self.requested.notify_one();
    }

    /// Records a commit. The caller executes a fence between the commit and this call:
    /// [`Store::record_commit`](super::Store::record_commit).
    pub(super) fn record_write(&self) {
        // A load is enough while the flag is set, so that threads share its cache line.
        if !self.is_dirty.load(Ordering::Relaxed) {
            self.is_dirty.store(true, Ordering::Relaxed);
        }
    }

    /// Clears the flag. Returns true if a commit came after the last call.
    fn take_dirty(&self) -> bool {
        let is_dirty = self.is_dirty.swap(false, Ordering::Relaxed);
        // Pairs with the fence of a writer. A writer that loads the old flag has committed before
        // this fence, and the sync after it sees the commit. Without the fences, the writer could
        // load the flag before its commit, and the commit would stay without a sync.
        fence(Ordering::SeqCst);
        is_dirty
    }

    /// Records the bytes of a batch that the thread with the slot `slot` has written.
    pub(crate) fn record_bytes(&self, slot: usize, bytes: usize) {
        let counter = &self.written_bytes[slot % BYTE_COUNTERS].0;
        // A plain addition: more threads than counters make the figure an estimate.
        counter.store(counter.load(Ordering::Relaxed).wrapping_add(bytes as u64), Ordering::Relaxed);
    }

    /// Bytes of the batches after the last sync. Those of EXEC and of the expiry job are not
    /// counted.
    pub(crate) fn unsynced_bytes(&self) -> u64 {
        self.all_bytes().saturating_sub(self.synced_bytes.load(Ordering::Relaxed))
    }

    fn all_bytes(&self) -> u64 {
        self.written_bytes.iter().map(|counter| counter.0.load(Ordering::Relaxed)).sum()
    }

    /// Requests a sync of all earlier commits. Returns the ticket for [`Durability::wait`]. It is
    /// that of an earlier request if its sync has not begun.
    pub(crate) fn request(&self) -> u64 {
        let mut requests = self.requests.lock();
        if requests.last == requests.begun {
            requests.last += 1;
            self.requested.notify_one();
        }
        requests.last
    }

    /// Waits until the commits before `ticket` are durable.
    ///
    /// # Errors
    ///
    /// The cause why the sync failed.
    pub(crate) async fn wait(&self, ticket: u64) -> Result<(), String> {
        let mut progress = self.progress.subscribe();
        let reached = progress.wait_for(|now| now.done >= ticket || now.failure.is_some()).await;
        match reached {
            Ok(now) => match &now.failure {
                Some(failure) if now.done < ticket => Err(failure.clone()),
                _ => Ok(()),
            },
            Err(_) => Err("the server ends".into()),
        }
    }

    /// Cause of a failed sync. Later syncs fail, too.
    pub(crate) fn failure(&self) -> Option<String> {
        // Relaxed: the engine refuses writes by itself, so a late answer is harmless.
        let has_failed = self.has_failed.load(Ordering::Relaxed);
        if has_failed { self.progress.borrow().failure.clone() } else { None }
    }

    /// Runs the sync thread until [`Durability::stop`].
    pub(crate) fn run(&self, backend: &Backend) {
        let mut done = 0;
        while let Some(ticket) = self.next_ticket(done) {
            let is_due = ticket > done || self.mode() != SyncMode::No;
            if is_due && (self.take_dirty() || ticket > done) {
                self.sync(backend, ticket);
            }
            done = ticket;
        }
    }

    /// Waits for a request, at most for a second. Returns None after the stop.
    fn next_ticket(&self, done: u64) -> Option<u64> {
        /// Time between two syncs in the mode `everysec`.
        const PERIOD: Duration = Duration::from_secs(1);
        let mut requests = self.requests.lock();
        if requests.last == done && !requests.is_stopped {
            self.requested.wait_for(&mut requests, PERIOD);
        }
        requests.begun = requests.last;
        (!requests.is_stopped).then_some(requests.last)
    }

    fn sync(&self, backend: &Backend, ticket: u64) {
        let bytes = self.all_bytes();
        let result = backend.sync();
        if result.is_ok() {
            self.synced_bytes.store(bytes, Ordering::Relaxed);
        } else {
            self.has_failed.store(true, Ordering::Relaxed);
        }
        self.progress.send_modify(|progress| match result {
            Ok(()) => progress.done = ticket,
            Err(error) => progress.failure = Some(error.to_string()),
        });
    }

    /// Ends the sync thread.
    pub(crate) fn stop(&self) {
        self.requests.lock().is_stopped = true;
        self.requested.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_modes() {
        assert_eq!(SyncMode::by_name("EverySec"), Some(SyncMode::EverySecond));
        assert_eq!(SyncMode::by_name("sometimes"), None);
        assert_eq!(SyncMode::Always.to_string(), "always");
    }

    #[test]
    fn mode_can_change() {
        let durability = Durability::new(SyncMode::No);
        durability.set_mode(SyncMode::Always);
        assert_eq!(durability.mode(), SyncMode::Always);
    }
}
