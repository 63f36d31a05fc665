//! Terrace beside what one would use instead: the same work, on the same machine, in turns.
//!
//! ```text
//!   workload/   what is done: the table of workloads and suites; keys, values, and what must be found
//!   engine/     to whom: one adapter for each engine; those of C are loaded from the system when they run
//!   run/        how: rounds in turns, a process of its own for each engine, and every measure
//!   report/     what came out: the result file, the table, the comparison, the page
//! ```
//!
//! A [`run`] makes a [`report::model::ResultFile`]; everything in `report` reads only that.
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "measures the world itself: real files, real time, real threads"
)]

pub mod engine;
pub mod report;
pub mod run;
pub mod workload;
