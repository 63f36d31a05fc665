//! Lanes of conditional writes, each of which is a transaction of its own.
//!
//! ```text
//!   4 lanes at first     they take turns, so that the engine finishes a transaction before the
//!                        next one of the same lane
//!   more, up to a limit  a write that finds no free lane gets a new one
//!   beyond               a write waits for a lane, at most for the time of a call
//! ```

use std::collections::VecDeque;
use std::time::Duration;

use terrace_env::{Clock, SystemClock};
use terrace_sync::native_locks::{Condvar, Mutex};

use crate::error::{Error, Result};

/// Number of lanes that take turns. A client without concurrent writes has no more.
const FIRST_LANES: usize = 4;

/// Lanes of type `L`.
pub(super) struct Lanes<L> {
    max_wait: Duration,
    free: Mutex<Free<L>>,
    changed: Condvar,
}

struct Free<L> {
    /// The lane with the longest rest is the first one. None: a lane without a state.
    lanes: VecDeque<Option<L>>,
    /// Number of further lanes that no write has needed yet.
    unused: usize,
}

/// Error of a write that has waited for `max_wait`.
pub(super) fn no_free_lane(max_wait: Duration) -> Error {
    Error::Busy(format!("no transaction of this client has ended within {} seconds", max_wait.as_secs()))
}

impl<L> Lanes<L> {
    /// Creates up to `count` lanes without a state, but at least those that take turns. A write
    /// waits for a free one at most for `max_wait`.
    pub(super) fn new(count: usize, max_wait: Duration) -> Lanes<L> {
        let lanes = (0..FIRST_LANES).map(|_| None).collect();
        let free = Mutex::new(Free { lanes, unused: count.saturating_sub(FIRST_LANES) });
        Lanes { max_wait, free, changed: Condvar::new() }
    }

    /// Executes `commit` with a lane. It returns the lane for the next transaction.
    ///
    /// # Errors
    ///
    /// [`Error::Busy`] if no lane is free in time. Otherwise those of `commit`.
    pub(super) fn with_lane<T>(&self, commit: impl FnOnce(Option<L>) -> (Option<L>, Result<T>)) -> Result<T> {
        let (lane, outcome) = commit(self.take()?);
        self.free.lock().lanes.push_back(lane);
        self.changed.notify_one();
        outcome
    }

    fn take(&self) -> Result<Option<L>> {
        let deadline = SystemClock.monotonic() + self.max_wait;
        let mut free = self.free.lock();
        loop {
            if let Some(lane) = free.lanes.pop_front() {
                return Ok(lane);
            }
            if let Some(unused) = free.unused.checked_sub(1) {
                free.unused = unused;
                return Ok(None);
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
        self.free.lock().lanes.iter_mut().filter_map(Option::take).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::thread::scope;

    use super::*;

    const COUNT: usize = 12;

    #[test]
    fn writes_one_after_the_other_use_few_lanes() {
        let lanes = Lanes::new(COUNT, Duration::ZERO);
        let mut next = 0;
        let mut used = Vec::new();
        for _ in 0..3 * FIRST_LANES {
            let lane = lanes.with_lane(|lane| {
                next += 1;
                let lane = lane.unwrap_or(next);
                (Some(lane), Ok(lane))
            });
            used.push(lane.unwrap());
        }
        assert_eq!(used, [1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 4], "they take turns");
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
        let lanes = Lanes::new(COUNT, Duration::from_millis(20));
        let used = with_lanes_in_use(&lanes, COUNT, || {
            let outcome = lanes.with_lane(|_| (None, Ok(())));
            assert!(matches!(outcome, Err(Error::Busy(_))), "{outcome:?}");
        });
        assert_eq!(used.len(), COUNT, "each has a lane of its own");
        lanes.with_lane(|lane| (lane, Ok(()))).unwrap();
    }

    #[test]
    fn waiting_write_gets_the_lane_that_another_one_leaves() {
        let lanes = Lanes::new(COUNT, Duration::from_secs(60));
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
