//! Small models of what the engine's threads do to each other, each explored to its end by loom.
//!
//! ```text
//!   model = the product's own type + two or three threads + what must hold at the end
//! ```
//!
//! A protocol of several steps, or without a lock, is a type of its own that knows nothing else of the engine: then a
//! model can run that very code. Whoever writes a new one adds it here: a file, or a function in the file of its like, and
//! a row. The models of whole databases are too large for every schedule; they explore all with few preemptions, which
//! is where most faults are.
//!
//! What loom can't see: the counts inside of `Arc`, arc_swap's own steps, the kernel.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a model fails by panicking; its threads are loom's, and what it notes for itself is no part of a schedule"
)]

mod background_error;
mod cache;
mod commit_publisher;
mod exclusive_writer;
mod hazard;
mod memtable;
mod obsolete_tables;
mod pool;
mod read_state;
mod snapshot;
mod table_cache;
mod task_group;
mod wal_sync;
mod whole_database;

/// A protocol under loom.
#[derive(Debug)]
pub struct Model {
    /// What a command line calls it.
    pub name: &'static str,
    /// What holds in every execution.
    pub invariant: &'static str,
    /// The most preemptions that are explored; None for all.
    max_preemptions: Option<usize>,
    run: fn(),
}

impl Model {
    const fn exhaustive(name: &'static str, shows: &'static str, run: fn()) -> Model {
        Model { name, invariant: shows, max_preemptions: None, run }
    }

    const fn bounded(preemptions: usize, name: &'static str, shows: &'static str, run: fn()) -> Model {
        Model { name, invariant: shows, max_preemptions: Some(preemptions), run }
    }

    /// Explores it, and says in how many executions. Panics in the first that shows something else.
    pub fn explore(&self) -> u64 {
        terrace_sync::explore(self.max_preemptions, self.run)
    }
}

/// Every model.
pub static MODELS: &[Model] = &[
    Model::exhaustive(
        "snapshot",
        "no merge drops what a snapshot that is being taken needs",
        snapshot::snapshot_beside_compaction,
    ),
    Model::exhaustive(
        "present",
        "a reader's number is not too old for its view",
        read_state::reader_beside_install,
    ),
    Model::exhaustive(
        "doomed",
        "no file is removed that somebody reads, and none stays for ever",
        obsolete_tables::reader_keeps_table,
    ),
    Model::exhaustive("wear", "a file is worn out once", obsolete_tables::allowed_seeks),
    Model::bounded(
        1,
        "memtable",
        "what is visible is in the memtable, and a batch is seen whole",
        memtable::reader_sees_whole_batches,
    ),
    Model::exhaustive(
        "memtable_filter",
        "the filter of a memtable has what is visible",
        memtable::bloom_filter,
    ),
    Model::bounded(2, "split", "a look-up beside a split finds what is there", memtable::leaf_split),
    Model::bounded(1, "split_under_iterator", "so does a walk", memtable::split_under_iterator),
    Model::bounded(2, "two_splits", "two writers may split the same node", memtable::concurrent_splits),
    Model::bounded(2, "versions", "versions stand in the order of their numbers", memtable::version_chain),
    Model::bounded(
        1,
        "publication",
        "every write becomes visible, in order, when it is there",
        commit_publisher::three_writers,
    ),
    Model::bounded(
        2,
        "alone",
        "a writer who finds nobody at work needs no exchanges, whoever comes behind him",
        exclusive_writer::exclusive_beside_concurrent,
    ),
    Model::exhaustive(
        "publication_round",
        "the ring holds no two writes in one place",
        commit_publisher::ring_wraparound,
    ),
    Model::exhaustive(
        "publication_stopped",
        "nobody waits for a write that panicked",
        commit_publisher::poisoned,
    ),
    Model::exhaustive("group_commit", "a sync write returns when it is durable", wal_sync::two_writers),
    Model::exhaustive(
        "log_switch",
        "a sync write is durable with all before it, whatever log it is in",
        wal_sync::wal_switch,
    ),
    Model::exhaustive(
        "failed_sync",
        "no sync write returns well behind a sync that failed",
        wal_sync::failed_sync,
    ),
    Model::exhaustive("panicking_sync", "a sync that panics keeps nobody waiting", wal_sync::panicking_sync),
    Model::bounded(4, "refusal", "the first cause stays", background_error::two_errors),
    Model::bounded(3, "tables", "a table is read whoever opens and closes it", table_cache::two_readers),
    Model::exhaustive(
        "cache",
        "a place holds its own value or none, and what is counted is there",
        cache::two_readers,
    ),
    Model::exhaustive(
        "hazard",
        "no value is freed that somebody holds, and none comes back",
        hazard::replaced_value,
    ),
    Model::exhaustive(
        "hazard_retired",
        "what is held when it is retired goes later, and goes",
        hazard::retired_value,
    ),
    Model::exhaustive(
        "crew",
        "each task is done once, and nothing runs when the opener goes on",
        task_group::helping_thread,
    ),
    Model::exhaustive(
        "panicking_crew",
        "a task that panics is no success, and nobody waits for it",
        task_group::panicking_task,
    ),
    Model::exhaustive("pool", "every job runs once, before the pool is gone", pool::jobs),
    Model::bounded(4, "closing", "a database closes beside flushes and merges", whole_database::closing),
    Model::bounded(
        2,
        "writing",
        "a sync write beside a flush is there when it returns",
        whole_database::writing,
    ),
    Model::bounded(1, "reading", "a reader beside a merge finds every key", whole_database::reading),
];
