//! Workloads on files in memory, and the check of the crash images that they may leave.
//!
//! ```text
//!   script               steps, such as writes, flushes and reopens; the state after each write
//!   contents             fingerprints of states; values that name their write
//!   store                interface of a store under test
//!   terrace              a Terrace database as such a store
//!   file_usage_checker   file system layer: checks removals, file numbers and leftover files
//!   script_runner        runs a script, and stops at every call at which a crash is possible
//!   image_checker        opens a crash image and compares its contents with the expected states
//! ```
//!
//! The tested promise: after a crash the store opens and holds exactly the state after some number
//! of writes. No durable write is missing, and later operations work.

pub mod contents;
pub mod file_usage_checker;
pub mod image_checker;
pub(crate) mod manifest;
pub mod script;
pub mod script_runner;
pub mod store;
pub mod terrace;
