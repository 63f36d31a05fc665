//! Measurements of the server: counts, durations, slow commands.
//!
//! ```text
//!   turn   one look at the clock per command,  -> CommandTimes -> INFO, LATENCY, /metrics
//!          or per group of short commands      \-> SlowLog, LatencyEvents
//! ```
//!
//! Each thread counts in memory of its own, so that threads share no cache line here.

mod command_times;
mod duration_histogram;
mod error_counts;
mod latency_events;
mod latency_percentiles;
mod listener;
mod prometheus;
mod slow_log;

pub(crate) use command_times::CommandTimes;
pub(crate) use duration_histogram::DurationHistogram;
pub(crate) use error_counts::ErrorCounts;
pub(crate) use latency_events::{LatencyEvents, LatencySample};
pub(crate) use latency_percentiles::LatencyPercentiles;
pub(crate) use listener::run;
pub(crate) use slow_log::{SlowCommand, SlowLog};
