//! Slow log: the last commands that took longer than a threshold.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::time::Duration;

use terrace_sync::native_locks::Mutex;

/// Maximum number of arguments of an entry, the note about missing ones included.
const MAX_ARGS: usize = 32;
/// Maximum length of an argument of an entry, in bytes.
const MAX_ARG_LEN: usize = 128;

/// Entry of the slow log.
#[derive(Debug, Clone)]
pub(crate) struct SlowCommand {
    pub(crate) id: u64,
    /// Seconds since 1970.
    pub(crate) at: u64,
    pub(crate) time: Duration,
    pub(crate) args: Vec<Vec<u8>>,
    pub(crate) peer: String,
    pub(crate) client_name: Vec<u8>,
}

#[derive(Debug, Default)]
struct SlowEntries {
    next_id: u64,
    recent: VecDeque<SlowCommand>,
}

/// Last slow commands.
#[derive(Debug)]
pub(crate) struct SlowLog {
    /// Microseconds. A negative value switches the log off.
    threshold_us: AtomicI64,
    max_len: AtomicUsize,
    entries: Mutex<SlowEntries>,
}

impl Default for SlowLog {
    fn default() -> SlowLog {
        SlowLog {
            threshold_us: AtomicI64::new(10_000),
            max_len: AtomicUsize::new(128),
            entries: Mutex::default(),
        }
    }
}

impl SlowLog {
    /// Threshold in microseconds, or a negative number.
    pub(crate) fn threshold_us(&self) -> i64 {
        self.threshold_us.load(Ordering::Relaxed)
    }

    pub(crate) fn set_threshold_us(&self, us: i64) {
        self.threshold_us.store(us, Ordering::Relaxed);
    }

    /// Maximum number of entries.
    pub(crate) fn max_len(&self) -> usize {
        self.max_len.load(Ordering::Relaxed)
    }

    pub(crate) fn set_max_len(&self, len: usize) {
        self.max_len.store(len, Ordering::Relaxed);
    }

    /// True if a command of the duration `time` belongs into the log.
    pub(crate) fn wants(&self, time: Duration) -> bool {
        let threshold = self.threshold_us();
        threshold >= 0 && time >= Duration::from_micros(threshold.unsigned_abs())
    }

    /// Adds an entry and gives it its number.
    pub(crate) fn push(&self, mut entry: SlowCommand) {
        let mut entries = self.entries.lock();
        entry.id = entries.next_id;
        entries.next_id += 1;
        entries.recent.push_front(entry);
        entries.recent.truncate(self.max_len());
    }

    /// Returns the last `count` entries, the newest one first.
    pub(crate) fn last(&self, count: usize) -> Vec<SlowCommand> {
        self.entries.lock().recent.iter().take(count).cloned().collect()
    }

    /// Number of entries.
    pub(crate) fn len(&self) -> usize {
        self.entries.lock().recent.len()
    }

    /// Forgets all entries. The numbers continue.
    pub(crate) fn reset(&self) {
        self.entries.lock().recent.clear();
    }
}

impl SlowCommand {
    /// Copies the beginnings of the arguments.
    pub(crate) fn shorten<'a>(args: impl ExactSizeIterator<Item = &'a [u8]>) -> Vec<Vec<u8>> {
        let count = args.len();
        let kept = if count > MAX_ARGS { MAX_ARGS - 1 } else { count };
        let mut short: Vec<Vec<u8>> = args.take(kept).map(shorten_arg).collect();
        if kept < count {
            short.push(format!("... ({} more arguments)", count - kept).into_bytes());
        }
        short
    }
}

fn shorten_arg(arg: &[u8]) -> Vec<u8> {
    match arg.get(..MAX_ARG_LEN) {
        Some(begin) if arg.len() > MAX_ARG_LEN => {
            [begin, format!("... ({} more bytes)", arg.len() - MAX_ARG_LEN).as_bytes()].concat()
        }
        _ => arg.to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(arg: &str) -> SlowCommand {
        SlowCommand {
            id: 0,
            at: 0,
            time: Duration::ZERO,
            args: vec![arg.into()],
            peer: String::new(),
            client_name: Vec::new(),
        }
    }

    #[test]
    fn newest_entries_remain() {
        let log = SlowLog::default();
        log.set_max_len(2);
        for arg in ["a", "b", "c"] {
            log.push(entry(arg));
        }
        let ids: Vec<u64> = log.last(10).iter().map(|entry| entry.id).collect();
        assert_eq!((ids, log.len()), (vec![2, 1], 2));
        log.reset();
        log.push(entry("d"));
        assert_eq!(log.last(1)[0].id, 3);
    }

    #[test]
    fn threshold() {
        let log = SlowLog::default();
        assert!(log.wants(Duration::from_millis(10)) && !log.wants(Duration::from_micros(9_999)));
        log.set_threshold_us(-1);
        assert!(!log.wants(Duration::from_secs(10)));
        log.set_threshold_us(0);
        assert!(log.wants(Duration::ZERO));
    }

    #[test]
    fn long_commands() {
        let long = [b'x'; 200];
        let args: Vec<&[u8]> = std::iter::repeat_n(&long[..], 40).collect();
        let short = SlowCommand::shorten(args.into_iter());
        assert_eq!(short.len(), 32);
        assert!(short[0].ends_with(b"x... (72 more bytes)"));
        assert_eq!(short[31], b"... (9 more arguments)");
    }
}
