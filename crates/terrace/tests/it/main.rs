//! The engine from outside: one binary, a module for each claim.
//!
//! ```text
//!   bad_input   what is wrong with a directory, a file, a disk or an argument is said, and nothing is lost
//!   mended      what once was wrong with Terrace, and now is not
//!   stock       stock LevelDB and Terrace refuse the same databases, and exclude each other
//!   erase       a range of keys goes, whole tables at once, and nothing comes back
//!   space       what is deleted gives its space back by itself
//!   upkeep      what a long life asks for: small manifests, space that comes back, shared caches
//!   memory      what a database holds in memory stays within its budget
//!   waits       what writers waited for is counted and told
//!   wishes      look-ups in vain have tables merged, for what that is worth, and come to an end
//!   look_ups    every way to look a key up gives what was put
//!   codecs      a build without a codec says so, and loses nothing
//!   tolerance   files that no LevelDB writes are read as stock LevelDB reads them
//!   repair      a database that lost a file, or the end of one, holds what it held
//!   threads     what each of many threads sees is a state that was
//!   stories     what users of LevelDB met: damage, lost files, deletes that came back
//!   faults_of_leveldb   what LevelDB 1.23 gets wrong and Terrace does not
//! ```

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

mod bad_input;
mod codecs;
mod delete_range;
mod files;
mod leftover_files;
mod leveldb_bugs;
mod leveldb_interop;
mod leveldb_user_reports;
mod maintenance;
mod memory_budget;
mod nonstandard_files;
mod opening;
mod point_reads;
mod process;
mod read_compaction;
mod regressions;
mod repair;
mod space_reclaim;
mod subcompactions;
mod threads;
mod write_stalls;
