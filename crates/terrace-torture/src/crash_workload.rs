//! The life of a store on files in memory, and what a crash in it may leave.
//!
//! ```text
//!   script     what is done: writes, numbered; flushes, merges, reopenings, repairs; and the state after each write
//!   contents   states as fingerprints, values that say which write they are of
//!   store      what a store must be able to do; a Terrace database as one
//!   guard      the file system between the two: no live file is removed, no number used twice, nothing left over
//!   play       runs a script, and shows every point at which a crash can find it
//!   judge      opens what a crash left, and compares
//! ```
//!
//! The promise that is judged: after a crash a store opens, holds exactly the state after some number of writes, none
//! of those that had to be durable is missing, and it goes on working.

pub mod contents;
pub mod file_usage_checker;
pub mod image_checker;
mod manifest;
pub mod script;
pub mod script_runner;
pub mod store;
pub mod terrace;
