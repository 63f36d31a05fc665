//! Linearizability checks of concurrent operations on a database.
//!
//! ```text
//!   scenario   draws the operations of each thread from a seed
//!   runner     executes them on a new database and records each operation with its times
//!   checker    searches for a sequential order of the operations that explains all results
//!   transactions, serializability   the same for transactions, whose order is known
//!   server_clients                  histories of clients of a server, also under faults
//! ```
//!
//! The threads come from `terrace_sync`. Real threads leave the schedule to the operating system.
//! In the program `schedules`, shuttle's threads follow a schedule that the seed fixes. The program
//! `loom_models` runs the small models of the engine's protocols under loom.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "stands outside the database and watches it: its clock and its records must be no part of a schedule"
)]

pub mod checker;
pub mod runner;
pub mod scenario;
pub mod serializability;
pub mod server_clients;
pub mod transactions;
