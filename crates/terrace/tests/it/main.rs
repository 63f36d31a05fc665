//! The engine from outside: one binary, a module for each claim.
//!
//! ```text
//!   crash       what was acknowledged survives a crash at any call, and nothing else appears
//!   model       every answer is that of an ordered map, under any options
//!   stock       stock LevelDB opens what Terrace wrote, and the other way round, at any moment
//!   tolerance   files that no LevelDB writes are read as stock LevelDB reads them
//!   repair      a database that lost a file, or the end of one, holds what it held
//!   stories     what users of LevelDB met: damage, lost files, deletes that came back
//!   faults_of_leveldb   what LevelDB 1.23 gets wrong and Terrace does not
//! ```

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

mod crash;
mod engine;
mod faults_of_leveldb;
mod files;
mod model;
mod process;
mod repair;
mod stock;
mod stories;
mod tolerance;
