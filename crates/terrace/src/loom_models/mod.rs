//! Loom models: small programs of two or three threads, of which loom explores every schedule.
//!
//! ```text
//!   model = a type of the engine + two or three threads + an invariant
//! ```
//!
//! A protocol of several steps, or one without a lock, is a type that knows no other part of the
//! engine. So a model runs the code of the engine itself. A new protocol needs a model: a file or a
//! function here, and a row in [`MODELS`]. The models of whole databases are too large for all
//! schedules. They explore all schedules with few preemptions, which reveal most bugs.
//!
//! Loom does not see the counts inside of `Arc`, the steps of arc_swap, or the kernel. It knows
//! only the latest access to an atomic. If a thread loads it directly before a store or an
//! exchange, schedules with this store before the earlier loads of other threads are missing. So a
//! model that needs such a schedule stores without a load. Break the invariant of a new model once
//! to see it fail.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a model fails by a panic, and its own records are no part of a schedule"
)]

mod background_error;
mod cache;
mod commit_publisher;
mod exclusive_writer;
mod follower;
mod hazard;
mod memtable;
mod obsolete_tables;
mod pool;
mod read_state;
mod restart_index;
mod shared_budget;
mod snapshot;
mod sticky_sync;
mod table_cache;
mod task_group;
mod transaction;
mod wal_sync;
mod whole_database;
mod write_group;

/// Loom model of a protocol.
#[derive(Debug)]
pub struct Model {
    /// Name on the command line.
    pub name: &'static str,
    /// Property of every execution.
    pub invariant: &'static str,
    /// Maximum number of explored preemptions. None means all.
    max_preemptions: Option<usize>,
    run: fn(),
}

impl Model {
    const fn exhaustive(name: &'static str, invariant: &'static str, run: fn()) -> Model {
        Model { name, invariant, max_preemptions: None, run }
    }

    const fn bounded(
        max_preemptions: usize,
        name: &'static str,
        invariant: &'static str,
        run: fn(),
    ) -> Model {
        Model { name, invariant, max_preemptions: Some(max_preemptions), run }
    }

    /// Explores the model and returns the number of executions. Panics in the first execution that
    /// violates the invariant.
    pub fn explore(&self) -> u64 {
        terrace_sync::explore(self.max_preemptions, self.run)
    }
}

/// Every model. The longest is first, so that a thread explores it while others explore the rest.
pub static MODELS: &[Model] = &[
    Model::exhaustive(
        "hazard_pointer",
        "a protected value is not freed, and a replaced value does not return",
        hazard::replaced_value,
    ),
    Model::exhaustive(
        "snapshot",
        "no compaction drops a version that a new snapshot needs",
        snapshot::snapshot_beside_compaction,
    ),
    Model::exhaustive(
        "read_state",
        "a reader's sequence number is not too old for its read state",
        read_state::reader_beside_install,
    ),
    Model::exhaustive(
        "follower",
        "a reader of a follower finds each record of its state, and no later reader an earlier state",
        follower::reader_beside_catch_up,
    ),
    Model::exhaustive(
        "one_moment",
        "a reader of several keys that sees a write sees every ingest before it",
        read_state::reader_of_one_moment,
    ),
    Model::exhaustive(
        "state_stamp",
        "reads between two equal stamps see one state",
        read_state::reader_with_stamp,
    ),
    Model::exhaustive(
        "obsolete_tables",
        "a table is removed after its last reader, and it is removed",
        obsolete_tables::reader_keeps_table,
    ),
    Model::exhaustive(
        "allowed_seeks",
        "every charge after the last allowed seek reports it",
        obsolete_tables::allowed_seeks,
    ),
    Model::bounded(
        1,
        "memtable",
        "visible writes are in the memtable, and a reader sees a batch whole",
        memtable::reader_sees_whole_batches,
    ),
    Model::exhaustive(
        "memtable_bloom",
        "the Bloom filter of a memtable holds all visible keys",
        memtable::bloom_filter,
    ),
    Model::bounded(2, "leaf_split", "a get beside a split finds all keys", memtable::leaf_split),
    Model::bounded(
        1,
        "split_under_iterator",
        "an iterator beside a split finds all keys",
        memtable::split_under_iterator,
    ),
    Model::bounded(2, "concurrent_splits", "two writers can split one node", memtable::concurrent_splits),
    Model::bounded(
        2,
        "version_chain",
        "the versions of a key are in the order of their sequence numbers",
        memtable::version_chain,
    ),
    Model::bounded(
        1,
        "commit_publisher",
        "every write becomes visible, in order, after its insertion",
        commit_publisher::three_writers,
    ),
    Model::bounded(
        2,
        "exclusive_writer",
        "an exclusive writer needs no atomic read-modify-write, whichever writer follows",
        exclusive_writer::exclusive_beside_concurrent,
    ),
    Model::exhaustive(
        "commit_ring_wraparound",
        "two writes never share a slot of the ring",
        commit_publisher::ring_wraparound,
    ),
    Model::exhaustive(
        "commit_poisoned",
        "no writer waits for a write that panicked",
        commit_publisher::poisoned,
    ),
    Model::exhaustive("group_commit", "a sync write is durable on return", wal_sync::two_writers),
    Model::exhaustive(
        "wal_switch",
        "a sync write is durable on return with all earlier writes, in all logs",
        wal_sync::wal_switch,
    ),
    Model::exhaustive("failed_sync", "no sync write succeeds after a failed sync", wal_sync::failed_sync),
    Model::exhaustive(
        "sticky_sync",
        "no sync of a log succeeds beside or after a failed one",
        sticky_sync::error_reported_once,
    ),
    Model::exhaustive("panicking_sync", "a sync that panics blocks no writer", wal_sync::panicking_sync),
    Model::bounded(4, "background_error", "the first error stays", background_error::two_errors),
    Model::bounded(
        3,
        "table_cache",
        "a reader can read a table while others open and close it",
        table_cache::two_readers,
    ),
    Model::exhaustive(
        "restart_index",
        "a reader sees a block as not verified, or with its whole restart index",
        restart_index::reader_beside_verification,
    ),
    Model::exhaustive(
        "block_cache",
        "a slot holds its own value or none, and the total charge is that of the values",
        cache::two_readers,
    ),
    Model::exhaustive(
        "hazard_retire",
        "a value that is protected when it is retired is freed later",
        hazard::retired_value,
    ),
    Model::exhaustive(
        "task_group",
        "each task runs once, and none runs after the end of the group",
        task_group::helping_thread,
    ),
    Model::exhaustive(
        "panicking_task",
        "a group with a panicked task fails, and its opener does not wait for ever",
        task_group::panicking_task,
    ),
    Model::exhaustive(
        "shared_budget",
        "no database that has left the shared budget is used for another one",
        shared_budget::writer_beside_leaving_databases,
    ),
    Model::exhaustive(
        "early_flush",
        "memtables over the shared budget are flushed, the largest first",
        shared_budget::two_writers,
    ),
    Model::exhaustive("pool", "every job runs once, before the end of the pool", pool::jobs),
    Model::bounded(4, "closing", "a database closes beside flushes and compactions", whole_database::closing),
    Model::bounded(2, "writing", "a sync write beside a flush is durable on return", whole_database::writing),
    Model::bounded(1, "reading", "a reader beside a compaction finds every key", whole_database::reading),
    Model::bounded(
        1,
        "write_group",
        "each batch is in the log once, whole, and in the order in which it becomes visible",
        write_group::three_writers,
    ),
    Model::bounded(
        1,
        "write_beside_group",
        "a write that is too large for the queue is in order with those of the queue",
        write_group::large_write,
    ),
    Model::bounded(
        2,
        "consecutive_groups",
        "a writer of one group returns once, and its next write is in another group",
        write_group::consecutive_groups,
    ),
    Model::bounded(
        1,
        "failed_write_group",
        "an error reaches every member of its group and no other writer, and takes no sequence number",
        write_group::full_disk,
    ),
    Model::bounded(
        2,
        "conditional_write",
        "no conditional write overwrites a change that its condition excludes",
        transaction::two_increments,
    ),
    Model::bounded(
        2,
        "watched_range",
        "a conditional write that watches a range notices a write to it",
        transaction::watched_range,
    ),
    Model::exhaustive(
        "opposite_lock_orders",
        "of two transactions that wait for each other, one is refused",
        transaction::opposite_lock_orders,
    ),
];
