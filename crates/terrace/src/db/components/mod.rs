//! Self-contained parts of a database. None of them knows the shared state in `db/inner.rs`.
//!
//! A component gets everything that it needs as an argument. So a test or a loom model can run it
//! without a database.

pub(crate) mod background_error;
pub(crate) mod background_jobs;
pub(crate) mod commit_publisher;
pub(crate) mod compaction_stats;
pub(crate) mod database_capture;
pub(crate) mod directory;
pub(crate) mod follower_tail;
pub(crate) mod level_info;
pub(crate) mod load_state;
pub(crate) mod lost_directory;
pub(crate) mod memory_budget;
pub(crate) mod memtable_size;
pub(crate) mod obsolete_tables;
pub(crate) mod pinned_value;
pub(crate) mod read_state;
pub(crate) mod recovery_flush;
pub(crate) mod recovery_report;
pub(crate) mod sorted_chunk;
pub(crate) mod subcompaction_queue;
pub(crate) mod task_group;
pub(crate) mod wal;
pub(crate) mod wal_sync;
pub(crate) mod wal_tail;
pub(crate) mod watched_keys;
pub(crate) mod write_contention;
pub(crate) mod write_controller;
pub(crate) mod write_queue;
pub(crate) mod write_stalls;
