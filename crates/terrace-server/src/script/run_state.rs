//! State of the running script, which other threads read and change.
//!
//! ```text
//!   begin -> running -> end
//!               |  time limit   other clients get BUSY
//!               |  SCRIPT KILL  the script ends with an error, unless it has written
//!               |  abort        the server ends: the script ends, and its writes are discarded
//! ```

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use terrace_env::Clock;
use terrace_sync::native_locks::{Condvar, Mutex};

/// Time limit without a setting, in milliseconds: the default of Redis.
const DEFAULT_TIME_LIMIT_MS: u64 = 5000;

/// Reason to end a script before its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ScriptEnd {
    /// SCRIPT KILL.
    Killed,
    /// The server ends.
    Aborted,
}

#[derive(Debug, Default)]
struct Running {
    is_running: bool,
    has_written: bool,
    started_at: Duration,
}

/// State of the running script. At most one script runs at a time.
#[derive(Debug)]
pub(crate) struct RunState {
    clock: Arc<dyn Clock>,
    running: Mutex<Running>,
    changed: Condvar,
    // Copies of the state that a thread reads without the lock. Relaxed: they only decide earlier.
    is_running: AtomicBool,
    is_busy: AtomicBool,
    is_killed: AtomicBool,
    is_aborted: AtomicBool,
    time_limit_ms: AtomicU64,
}

impl RunState {
    /// Creates the state without a script.
    pub(crate) fn new(clock: Arc<dyn Clock>) -> RunState {
        RunState {
            clock,
            running: Mutex::default(),
            changed: Condvar::default(),
            is_running: AtomicBool::new(false),
            is_busy: AtomicBool::new(false),
            is_killed: AtomicBool::new(false),
            is_aborted: AtomicBool::new(false),
            time_limit_ms: AtomicU64::new(DEFAULT_TIME_LIMIT_MS),
        }
    }

    /// Begins a script.
    pub(crate) fn begin(&self) {
        let mut running = self.running.lock();
        *running = Running { is_running: true, has_written: false, started_at: self.clock.monotonic() };
        self.is_killed.store(false, Ordering::Relaxed);
        self.is_running.store(true, Ordering::SeqCst);
    }

    /// Ends the script, and wakes the threads that wait for its end.
    pub(crate) fn end(&self) {
        let mut running = self.running.lock();
        running.is_running = false;
        self.is_running.store(false, Ordering::SeqCst);
        self.is_busy.store(false, Ordering::Relaxed);
        self.changed.notify_all();
    }

    /// True while a script runs.
    pub(crate) fn is_running(&self) -> bool {
        self.is_running.load(Ordering::SeqCst)
    }

    /// True if a script runs for longer than the time limit.
    pub(crate) fn is_busy(&self) -> bool {
        self.is_busy.load(Ordering::Relaxed)
    }

    /// Waits until no script runs. Returns false if the script has exceeded its time limit.
    pub(crate) fn wait_for_end(&self) -> bool {
        let mut running = self.running.lock();
        while running.is_running {
            if self.is_busy() {
                return false;
            }
            self.changed.wait(&mut running);
        }
        true
    }

    /// Returns why the script has to end now.
    pub(super) fn requested_end(&self) -> Option<ScriptEnd> {
        if self.is_aborted.load(Ordering::Relaxed) {
            Some(ScriptEnd::Aborted)
        } else if self.is_killed.load(Ordering::Relaxed) {
            Some(ScriptEnd::Killed)
        } else {
            None
        }
    }

    /// Looks at the clock. After the time limit, other clients get BUSY.
    pub(super) fn check_time(&self) {
        if self.is_busy() {
            return;
        }
        let running = self.running.lock();
        let limit = Duration::from_millis(self.time_limit_ms.load(Ordering::Relaxed));
        if !limit.is_zero() && self.clock.monotonic().saturating_sub(running.started_at) > limit {
            self.is_busy.store(true, Ordering::Relaxed);
            self.changed.notify_all();
        }
    }

    /// Records that the script writes. Returns false if it was killed before.
    pub(crate) fn begin_write(&self) -> bool {
        let mut running = self.running.lock();
        running.has_written = true;
        !self.is_killed.load(Ordering::Relaxed)
    }

    /// Ends the script soon.
    ///
    /// # Errors
    ///
    /// The text of the error reply: no script runs, or it has written.
    pub(crate) fn kill(&self) -> Result<(), &'static str> {
        let running = self.running.lock();
        if !running.is_running {
            return Err("NOTBUSY No scripts in execution right now.");
        }
        if running.has_written {
            return Err(
                "UNKILLABLE Sorry the script already executed write commands against the dataset. You can either wait the script termination or kill the server in a hard way using the SHUTDOWN NOSAVE command.",
            );
        }
        self.is_killed.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Ends the script soon, and every later one, because the server ends. Discards their writes.
    pub(crate) fn abort(&self) {
        self.is_aborted.store(true, Ordering::Relaxed);
    }

    /// Time after which other clients get BUSY, in milliseconds. 0 is no limit.
    pub(crate) fn time_limit_ms(&self) -> u64 {
        self.time_limit_ms.load(Ordering::Relaxed)
    }

    /// Sets the time after which other clients get BUSY, in milliseconds. 0 is no limit.
    pub(crate) fn set_time_limit_ms(&self, ms: u64) {
        self.time_limit_ms.store(ms, Ordering::Relaxed);
    }
}
