//! Terrace and other engines, compared under the same workloads on the same machine, in turns.
//!
//! ```text
//!   workload/   the operations: table of workloads and suites; keys, values, expected results
//!   engine/     one adapter for each engine; C libraries are loaded from the system at run time
//!   run/        rounds in turns, a new process for each engine and round, all measurements
//!   report/     the result file, the table, the comparison, the page
//! ```
//!
//! A [`run`] creates a [`report::model::ResultFile`], and `report` reads only that.
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "measures real files, real time and real threads"
)]

pub mod engine;
pub mod report;
pub mod run;
pub mod workload;
