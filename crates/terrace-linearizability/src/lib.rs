//! Threads that race on a database, what each of them saw, and a judge who says whether that can be.
//!
//! ```text
//!   scenario   who does what: drawn from a seed
//!   play       does it, on a database of its own, and records every operation with its times
//!   judge      looks for an order of the operations, one after the other, that explains all that was seen
//! ```
//!
//! The threads are those of `terrace_sync`: real ones, and then the system draws the schedule; or, in the program
//! `schedules`, shuttle's, and then the seed does. The program `models` runs the small models of the engine's protocols
//! under loom.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "stands outside the database and watches it: its clock and its records must be no part of a schedule"
)]

pub mod checker;
pub mod runner;
pub mod scenario;
