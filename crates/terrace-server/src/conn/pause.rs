//! CLIENT PAUSE: a time in which commands wait.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use terrace_sync::native_locks::Mutex;
use tokio::sync::watch;

/// Commands that wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum PauseKind {
    /// Commands that may write.
    Write,
    All,
}

/// State of the pause.
#[derive(Debug)]
pub(crate) struct Pause {
    /// Kind and monotonic end.
    current: Mutex<Option<(PauseKind, Duration)>>,
    /// True during a pause, until its end is noticed.
    is_active: AtomicBool,
    /// Number of ended pauses.
    ends: watch::Sender<u64>,
    /// Number of waiting clients.
    waiting: AtomicUsize,
}

impl Default for Pause {
    fn default() -> Pause {
        Pause {
            current: Mutex::new(None),
            is_active: AtomicBool::new(false),
            ends: watch::Sender::new(0),
            waiting: AtomicUsize::new(0),
        }
    }
}

impl Pause {
    /// Begins a pause until `end`, or extends the current one. The stricter kind remains.
    pub(crate) fn begin(&self, kind: PauseKind, end: Duration, now: Duration) {
        let mut current = self.current.lock();
        let running = current.filter(|(_, end)| *end > now);
        let (kind, end) = running.map_or((kind, end), |(old, old_end)| (old.max(kind), old_end.max(end)));
        *current = Some((kind, end));
        // Relaxed: a command that runs beside CLIENT PAUSE may run before or after it.
        self.is_active.store(true, Ordering::Relaxed);
    }

    /// Ends the pause.
    pub(crate) fn end(&self) {
        let mut current = self.current.lock();
        *current = None;
        // With the lock: a pause that begins meanwhile stays active.
        self.is_active.store(false, Ordering::Relaxed);
        drop(current);
        self.ends.send_modify(|ends| *ends += 1);
    }

    /// Returns the kind of the pause, and the time until its end. Costs a load without a pause.
    pub(crate) fn current(&self, now: Duration) -> Option<(PauseKind, Duration)> {
        if !self.is_active.load(Ordering::Relaxed) {
            return None;
        }
        let mut current = self.current.lock();
        let running = current.filter(|(_, end)| *end > now);
        if running.is_none() {
            *current = None;
            self.is_active.store(false, Ordering::Relaxed);
        }
        running.map(|(kind, end)| (kind, end.saturating_sub(now)))
    }

    /// Returns the kind of the pause. Without a pause, it costs one load and reads no clock.
    pub(crate) fn current_kind(&self, now: impl FnOnce() -> Duration) -> Option<PauseKind> {
        if !self.is_active.load(Ordering::Relaxed) {
            return None;
        }
        self.current(now()).map(|(kind, _)| kind)
    }

    /// Waits for the end of the pause, at most for `time`.
    pub(crate) async fn wait(&self, time: Duration) {
        let mut ends = self.ends.subscribe();
        // Relaxed: only INFO reads the number.
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let _waiting = Waiting(&self.waiting);
        // After the time, the caller looks again.
        let _ = tokio::time::timeout(time, ends.changed()).await;
    }

    /// Number of clients that wait for the end of the pause.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }
}

/// Waiting client. A wait may also end with its connection.
struct Waiting<'a>(&'a AtomicUsize);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stricter_and_longer_pause_remains() {
        let pause = Pause::default();
        let ms = Duration::from_millis;
        assert_eq!(pause.current(ms(0)), None);
        pause.begin(PauseKind::All, ms(10), ms(0));
        pause.begin(PauseKind::Write, ms(20), ms(5));
        assert_eq!(pause.current(ms(5)), Some((PauseKind::All, ms(15))));
        assert_eq!(pause.current(ms(20)), None);
        pause.begin(PauseKind::Write, ms(50), ms(30));
        assert_eq!(pause.current(ms(30)), Some((PauseKind::Write, ms(20))));
        pause.end();
        assert_eq!(pause.current(ms(30)), None);
    }
}
