//! Events that exceeded the threshold of the latency monitor: LATENCY.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};

use terrace_sync::native_locks::Mutex;

/// Maximum number of samples of an event, one a second.
const MAX_SAMPLES: usize = 160;

/// Longest time of an event within a second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LatencySample {
    /// Seconds since 1970.
    pub(crate) at: u64,
    pub(crate) ms: u64,
}

/// Samples of an event.
#[derive(Debug, Clone, Default)]
struct Samples {
    recent: VecDeque<LatencySample>,
    max_ms: u64,
}

/// Samples of all events.
#[derive(Debug, Default)]
pub(crate) struct LatencyEvents {
    /// Milliseconds, or 0 if the monitor is off.
    threshold_ms: AtomicU64,
    events: Mutex<BTreeMap<&'static str, Samples>>,
}

impl LatencyEvents {
    /// Milliseconds from which on an event is recorded, or 0.
    pub(crate) fn threshold_ms(&self) -> u64 {
        self.threshold_ms.load(Ordering::Relaxed)
    }

    /// Changes the threshold.
    pub(crate) fn set_threshold_ms(&self, ms: u64) {
        self.threshold_ms.store(ms, Ordering::Relaxed);
    }

    /// Records an event of `ms` milliseconds at the second `at`.
    pub(crate) fn record(&self, event: &'static str, at: u64, ms: u64) {
        let threshold = self.threshold_ms();
        if threshold == 0 || ms < threshold {
            return;
        }
        let mut events = self.events.lock();
        let samples = events.entry(event).or_default();
        samples.max_ms = samples.max_ms.max(ms);
        match samples.recent.back_mut() {
            Some(last) if last.at == at => last.ms = last.ms.max(ms),
            _ => {
                if samples.recent.len() == MAX_SAMPLES {
                    samples.recent.pop_front();
                }
                samples.recent.push_back(LatencySample { at, ms });
            }
        }
    }

    /// Returns the last sample and the maximum of each event.
    pub(crate) fn latest(&self) -> Vec<(&'static str, LatencySample, u64)> {
        let events = self.events.lock();
        let rows = events.iter().filter_map(|(name, samples)| {
            let last = samples.recent.back()?;
            Some((*name, *last, samples.max_ms))
        });
        rows.collect()
    }

    /// Returns the samples of an event, the oldest one first.
    pub(crate) fn history(&self, event: &[u8]) -> Vec<LatencySample> {
        let events = self.events.lock();
        let found = events.iter().find(|(name, _)| name.as_bytes().eq_ignore_ascii_case(event));
        found.map_or(Vec::new(), |(_, samples)| samples.recent.iter().copied().collect())
    }

    /// Forgets the events for which `is_wanted` is true. Returns their number.
    pub(crate) fn reset(&self, is_wanted: impl Fn(&str) -> bool) -> usize {
        let mut events = self.events.lock();
        let before = events.len();
        events.retain(|name, _| !is_wanted(name));
        before - events.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_sample_a_second() {
        let events = LatencyEvents::default();
        events.record("command", 1, 50);
        assert!(events.latest().is_empty());
        events.set_threshold_ms(10);
        for (at, ms) in [(1, 9), (1, 20), (1, 30), (2, 15)] {
            events.record("command", at, ms);
        }
        let samples = [LatencySample { at: 1, ms: 30 }, LatencySample { at: 2, ms: 15 }];
        assert_eq!(events.history(b"COMMAND"), samples);
        assert_eq!(events.latest(), [("command", samples[1], 30)]);
        assert_eq!(events.reset(|_| true), 1);
    }

    #[test]
    fn oldest_sample_is_forgotten() {
        let events = LatencyEvents::default();
        events.set_threshold_ms(1);
        for at in 0..200 {
            events.record("command", at, 5);
        }
        let history = events.history(b"command");
        assert_eq!((history.len(), history[0].at), (MAX_SAMPLES, 40));
    }
}
