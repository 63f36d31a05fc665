//! Lanes of writes with conditions on ranges, each of which is a transaction of its own.
//!
//! Lanes take turns, so that the engine finishes a transaction before the next one of the same
//! lane. A write that finds no free lane waits for one, at most for the time of a call.

use std::collections::VecDeque;
use std::time::Duration;

use terrace_env::{Clock, SystemClock};
use terrace_sync::native_locks::{Condvar, Mutex};

use crate::error::{Error, Result};

/// Number of transactions at the same time. Such writes are rare, and they exclude each other.
const COUNT: usize = 4;

/// Lanes of type `L`.
pub(super) struct Lanes<L> {
    max_wait: Duration,
    /// The lane with the longest rest is the first one. None: a lane without a state.
    free: Mutex<VecDeque<Option<L>>>,
    changed: Condvar,
}

/// Lane in use. Drop gives it back, also if the commit panics.
struct LaneGuard<'a, L> {
    lanes: &'a Lanes<L>,
    /// Lane for the next transaction.
    lane: Option<L>,
}

impl<L> Drop for LaneGuard<'_, L> {
    fn drop(&mut self) {
        self.lanes.free.lock().push_back(self.lane.take());
        self.lanes.changed.notify_one();
    }
}

/// Error of a write that has waited for `max_wait`.
pub(super) fn no_free_lane(max_wait: Duration) -> Error {
    Error::Busy(format!("no transaction of this client has ended within {} seconds", max_wait.as_secs()))
}

impl<L> Lanes<L> {
    /// Creates lanes without a state. A write waits for a free one at most for `max_wait`.
    pub(super) fn new(max_wait: Duration) -> Lanes<L> {
        let free = Mutex::new((0..COUNT).map(|_| None).collect());
        Lanes { max_wait, free, changed: Condvar::new() }
    }

    /// Executes `commit` with a lane. It returns the lane for the next transaction.
    ///
    /// # Errors
    ///
    /// [`Error::Busy`] if no lane is free in time. Otherwise those of `commit`.
    pub(super) fn with_lane<T>(&self, commit: impl FnOnce(Option<L>) -> (Option<L>, Result<T>)) -> Result<T> {
        let lane = self.take()?;
        let mut guard = LaneGuard { lanes: self, lane: None };
        let committed = commit(lane);
        guard.lane = committed.0;
        committed.1
    }

    fn take(&self) -> Result<Option<L>> {
        let deadline = SystemClock.monotonic() + self.max_wait;
        let mut free = self.free.lock();
        loop {
            if let Some(lane) = free.pop_front() {
                return Ok(lane);
            }
            let left = deadline.saturating_sub(SystemClock.monotonic());
            if left.is_zero() {
                return Err(no_free_lane(self.max_wait));
            }
            self.changed.wait_for(&mut free, left);
        }
    }

    /// Takes the states of all free lanes, for the end of the client.
    #[cfg(feature = "tikv")]
    pub(super) fn take_states(&self) -> Vec<L> {
        self.free.lock().iter_mut().filter_map(Option::take).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::thread::scope;

    use super::*;

    #[test]
    fn lanes_take_turns() {
        let lanes = Lanes::new(Duration::ZERO);
        let mut next = 0;
        let mut used = Vec::new();
        for _ in 0..3 * COUNT {
            let lane = lanes.with_lane(|lane| {
                next += 1;
                let lane = lane.unwrap_or(next);
                (Some(lane), Ok(lane))
            });
            used.push(lane.unwrap());
        }
        assert_eq!(used, [1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 4]);
    }

    #[test]
    fn commit_that_panics_gives_its_lane_back() {
        let lanes: Lanes<u32> = Lanes::new(Duration::ZERO);
        for _ in 0..2 * COUNT {
            let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                lanes.with_lane(|_| -> (Option<u32>, Result<()>) { panic!("planned") })
            }));
            assert!(caught.is_err());
        }
        lanes.with_lane(|lane| (lane, Ok(()))).unwrap();
    }

    /// Enters `count` lanes at the same time, and calls `body` meanwhile.
    fn with_lanes_in_use(lanes: &Lanes<u32>, count: usize, body: impl FnOnce()) -> BTreeSet<u32> {
        let entered = Barrier::new(count + 1);
        let left = Barrier::new(count + 1);
        let next = AtomicU32::new(0);
        scope(|scope| {
            let threads: Vec<_> = (0..count)
                .map(|_| {
                    scope.spawn(|| {
                        let lane = lanes.with_lane(|lane| {
                            let lane = lane.unwrap_or_else(|| next.fetch_add(1, Ordering::Relaxed));
                            entered.wait();
                            left.wait();
                            (Some(lane), Ok(lane))
                        });
                        lane.unwrap()
                    })
                })
                .collect();
            entered.wait();
            body();
            left.wait();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        })
    }

    #[test]
    fn write_without_a_free_lane_ends() {
        let lanes = Lanes::new(Duration::from_millis(20));
        let used = with_lanes_in_use(&lanes, COUNT, || {
            let outcome = lanes.with_lane(|_| (None, Ok(())));
            assert!(matches!(outcome, Err(Error::Busy(_))), "{outcome:?}");
        });
        assert_eq!(used.len(), COUNT, "each has a lane of its own");
        lanes.with_lane(|lane| (lane, Ok(()))).unwrap();
    }

    #[test]
    fn waiting_write_gets_the_lane_that_another_one_leaves() {
        let lanes = Lanes::new(Duration::from_secs(60));
        let ended = AtomicU32::new(0);
        scope(|scope| {
            with_lanes_in_use(&lanes, COUNT, || {
                for _ in 0..3 {
                    scope.spawn(|| {
                        lanes.with_lane(|lane| (lane, Ok(()))).unwrap();
                        ended.fetch_add(1, Ordering::Relaxed);
                    });
                }
            });
        });
        assert_eq!(ended.into_inner(), 3);
    }
}
