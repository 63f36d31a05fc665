//! State that all threads of the server share.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use terrace_env::{Clock, Random};
use terrace_sync::native_locks::Mutex;
use tokio::sync::watch;

use crate::conn::{BlockedClients, ClientRegistry, LoginAttempts, Monitors, Pause, PubSub, SlowPool, Tls};
use crate::engine_events::EngineEvents;
use crate::metrics::{CommandTimes, ErrorCounts, LatencyEvents, LatencyPercentiles, SlowLog};
use crate::page::PageAccess;
use crate::script::Scripts;
use crate::settings::Settings;
use crate::store::{Snapshots, Store};
use crate::users::Users;

/// Phase of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Phase {
    Running,
    /// No new clients; the others end after their current turns.
    Draining,
}

/// State that all threads share.
pub(crate) struct Shared {
    pub(crate) store: Store,
    pub(crate) settings: Settings,
    pub(crate) users: Users,
    pub(crate) tls: Option<Tls>,
    /// Number of connections before the end of their TLS handshake.
    pub(crate) handshakes: AtomicUsize,
    pub(crate) snapshots: Snapshots,
    pub(crate) engine_events: Arc<EngineEvents>,
    /// Held during a checkpoint or a requested compaction.
    pub(crate) maintenance: Mutex<()>,
    /// Seconds since 1970 of the last SAVE or checkpoint, or of the start.
    pub(crate) last_save: AtomicU64,
    pub(crate) clients: ClientRegistry,
    pub(crate) blocked: BlockedClients,
    pub(crate) pubsub: Arc<PubSub>,
    pub(crate) monitors: Monitors,
    pub(crate) pause: Pause,
    pub(crate) slow_pool: SlowPool,
    /// Queue of the script thread.
    pub(crate) script_queue: SlowPool,
    pub(crate) scripts: Scripts,
    pub(crate) login_attempts: LoginAttempts,
    pub(crate) counters: Counters,
    pub(crate) command_times: CommandTimes,
    pub(crate) error_counts: ErrorCounts,
    pub(crate) slow_log: SlowLog,
    pub(crate) latency_events: LatencyEvents,
    pub(crate) latency_percentiles: LatencyPercentiles,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) random: Arc<dyn Random>,
    /// Monotonic time of the start.
    pub(crate) started_at: Duration,
    /// Maximum size of the unfinished input and the unsent output of all clients, in bytes.
    pub(crate) client_memory: usize,
    /// Access to the page, if there is one.
    pub(crate) page_access: Option<Arc<PageAccess>>,
    /// Number that identifies this run of the server.
    pub(crate) run_id: String,
    pub(crate) phase: watch::Sender<Phase>,
    /// False while DEBUG has switched the expiry job off.
    pub(crate) is_expiry_job_on: AtomicBool,
}

impl Shared {
    /// True if the server ends.
    pub(crate) fn is_draining(&self) -> bool {
        *self.phase.borrow() != Phase::Running
    }

    /// True if a new client may run commands at once.
    pub(crate) fn needs_no_login(&self) -> bool {
        self.settings.password().is_none() && self.users.is_empty()
    }

    /// Advances the phase.
    pub(crate) fn advance_phase(&self, phase: Phase) {
        self.phase.send_modify(|now| *now = phase.max(*now));
    }
}

/// Counters for INFO. A thread adds once per turn.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    commands: AtomicU64,
    pub(crate) hits: AtomicU64,
    pub(crate) misses: AtomicU64,
    pub(crate) errors: AtomicU64,
    pub(crate) rejected_clients: AtomicU64,
    pub(crate) bytes_received: AtomicU64,
    pub(crate) bytes_sent: AtomicU64,
}

impl Counters {
    /// Counts the commands of a turn.
    pub(crate) fn record_turn(&self, commands: u64) {
        // Relaxed, here and below: only INFO reads the numbers.
        self.commands.fetch_add(commands, Ordering::Relaxed);
    }

    /// Number of commands.
    pub(crate) fn commands(&self) -> u64 {
        self.commands.load(Ordering::Relaxed)
    }

    /// Counts bytes.
    pub(crate) fn add_bytes(counter: &AtomicU64, bytes: usize) {
        counter.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Counts an event.
    pub(crate) fn add(counter: &AtomicU64) {
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// Sets all counters to zero.
    pub(crate) fn reset(&self) {
        let rejected = &self.rejected_clients;
        for counter in [&self.commands, &self.hits, &self.misses, &self.errors, rejected] {
            counter.store(0, Ordering::Relaxed);
        }
    }
}
