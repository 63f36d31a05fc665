//! Attacks on Terrace. A seed determines each case of an attack.
//!
//! ```text
//!   command                 the command line: `check`, `torture`, `fuzz`, `mutants`, `replay`
//!   harness/*               one module per attack; `HARNESSES` is the list
//!   seed                    seeds; each one names its attack, so it can be replayed alone
//!   runner                  runs cases on all cores, up to a number of cases or a time limit
//!   counters                counters of a run
//!   scoreboard              counters and violations of a run, as JSON and as a table
//!   mutants                 deliberate bugs, and the check that the attacks find them
//!   fuzz/*                  fuzz targets: every reader of bytes, as a function of bytes
//!   followed_history        writes whose state after each of them is known, for followers
//!   allocation_counter      memory that each thread allocates
//!   crash_workload/*        workloads on files in memory, and the check of their crash images
//!   database_under_test/*   a Terrace database that executes random operations
//! ```
//!
//! `cargo xtask check` runs a fixed number of cases of every attack. `cargo xtask torture` runs all
//! attacks for a given time. `cargo xtask replay --seed N` repeats one case. docs/trust.md
//! describes the attacks. They need a system of the POSIX family, because they kill processes, fork
//! and create links. On Windows, the crate has only the modules that other tests share.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests the database from outside, with real clocks, threads, processes and files"
)]

pub mod allocation_counter;
#[cfg(unix)]
pub mod command;
pub mod counters;
pub mod crash_workload;
pub mod database_under_test;
pub mod followed_history;
#[cfg(unix)]
pub mod fuzz;
#[cfg(unix)]
pub mod harness;
#[cfg(unix)]
pub mod mutants;
#[cfg(unix)]
pub mod runner;
#[cfg(unix)]
pub mod scoreboard;
#[cfg(unix)]
pub mod seed;
