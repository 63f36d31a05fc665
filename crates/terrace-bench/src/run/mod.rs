//! Measurement of engines.
//!
//! ```text
//!   plan                    engines and phases from the command line, validated
//!   rounds                  A B C, A B C, A B C: all engines in each round; checks the results
//!     measuring_process     one run in a new process; protocol, memory_cgroup, stop_signal
//!       phase               one phase: clock, resources, the end of background work
//!         worker            one thread: operations, checks, histogram, windows
//!         transactions      its operations in transactions; the check for lost updates
//!         copies            bulk loads and checkpoints
//!         followers         reads beside a writer
//! ```

mod clock;
mod copies;
mod followers;
pub mod histogram;
pub mod machine;
pub mod measuring_process;
mod memory_cgroup;
pub mod phase;
pub mod plan;
pub mod protocol;
pub mod resources;
pub mod rounds;
#[cfg_attr(windows, path = "without_stop_signal.rs")]
pub mod stop_signal;
mod transactions;
pub mod windows;
mod worker;
