//! Opening a database: recovery of its version from the MANIFEST and of its memtables from the
//! logs.

mod db_builder;
mod directory_checks;
mod hidden_entries;
mod log_replay;
mod lost_edits;
mod open;
mod open_follower;
mod parallel_insert;
