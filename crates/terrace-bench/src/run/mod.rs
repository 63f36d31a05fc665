//! How things are measured.
//!
//! ```text
//!   plan      words of a command line become engines, phases and flags that make sense
//!   rounds    A B C, A B C, A B C: the turns, what is kept of them, what is refused; until a signal says: stop
//!     child     one turn, in a process of its own; what is said between the two: protocol; how much memory it may have: group
//!       phase     one phase of it: the clock, what the system counts (resources), the end of background work
//!         worker    one thread: operations, checks, histogram, windows; the time by clock
//! ```

mod clock;
pub mod histogram;
pub mod machine;
pub mod measuring_process;
mod memory_cgroup;
pub mod phase;
pub mod plan;
pub mod protocol;
pub mod resources;
pub mod rounds;
pub mod stop_signal;
pub mod windows;
mod worker;
