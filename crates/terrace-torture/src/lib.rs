//! Attacks on Terrace, each of them a function of a seed.
//!
//! ```text
//!   command      what `cargo xtask check`, `torture` and `replay` do
//!   harness/*    one room an attack; `HARNESSES` is the list
//!   seed         a seed names its attack, so that any seed that is printed can be replayed alone
//!   fuzz/*       everything that reads bytes, as functions of bytes
//!   memory       what a thread holds, counted
//!   tally        what was done, counted; what went wrong, kept
//!   mutants      deliberate bugs, and whether the attacks find them
//!   runner       cases on every core until a count or a time is reached
//!   scoreboard   the figures of a run, as JSON and as a table
//!   life         lives of stores on files in memory, and what a crash may leave of them
//!   subject      a Terrace database as the subject of random operations
//! ```
//!
//! `cargo xtask check` runs a fixed share of every attack, `cargo xtask torture` runs them for a time,
//! `cargo xtask replay --seed N` repeats one case. docs/trust.md tells what they are for.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "stands outside the database and watches it: real clocks, threads, processes and files"
)]

pub mod allocation_counter;
pub mod command;
pub mod counters;
pub mod crash_workload;
pub mod database_under_test;
pub mod fuzz;
pub mod harness;
pub mod mutants;
pub mod runner;
pub mod scoreboard;
pub mod seed;
