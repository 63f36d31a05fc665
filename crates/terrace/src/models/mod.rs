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

mod alone;
mod cache;
mod crew;
mod doomed;
mod durable;
mod hazard;
mod memtable;
mod pool;
mod present;
mod publication;
mod refusal;
mod snapshot;
mod tables;
mod whole;

/// A protocol under loom.
#[derive(Debug)]
pub struct Model {
    /// What a command line calls it.
    pub name: &'static str,
    /// What holds in every execution.
    pub shows: &'static str,
    /// The most preemptions that are explored; None for all.
    preemptions: Option<usize>,
    run: fn(),
}

impl Model {
    const fn all(name: &'static str, shows: &'static str, run: fn()) -> Model {
        Model { name, shows, preemptions: None, run }
    }

    const fn up_to(preemptions: usize, name: &'static str, shows: &'static str, run: fn()) -> Model {
        Model { name, shows, preemptions: Some(preemptions), run }
    }

    /// Explores it, and says in how many executions. Panics in the first that shows something else.
    pub fn explore(&self) -> u64 {
        terrace_sync::explore(self.preemptions, self.run)
    }
}

/// Every model.
pub static MODELS: &[Model] = &[
    Model::all("snapshot", "no merge drops what a snapshot that is being taken needs", snapshot::merge),
    Model::all("present", "a reader's number is not too old for its view", present::merge),
    Model::all("doomed", "no file is removed that somebody reads, and none stays for ever", doomed::reader),
    Model::all("wear", "a file is worn out once", doomed::wear),
    Model::up_to(
        1,
        "memtable",
        "what is visible is in the memtable, and a batch is seen whole",
        memtable::reader,
    ),
    Model::all("memtable_filter", "the filter of a memtable has what is visible", memtable::filter),
    Model::up_to(2, "split", "a look-up beside a split finds what is there", memtable::split),
    Model::up_to(1, "split_under_iterator", "so does a walk", memtable::split_under_iterator),
    Model::up_to(2, "two_splits", "two writers may split the same node", memtable::two_writers),
    Model::up_to(2, "versions", "versions stand in the order of their numbers", memtable::versions),
    Model::up_to(
        1,
        "publication",
        "every write becomes visible, in order, when it is there",
        publication::three_writers,
    ),
    Model::up_to(
        2,
        "alone",
        "a writer who finds nobody at work needs no exchanges, whoever comes behind him",
        alone::beside,
    ),
    Model::all("publication_round", "the ring holds no two writes in one place", publication::round),
    Model::all("publication_stopped", "nobody waits for a write that panicked", publication::stopped),
    Model::all("group_commit", "a sync write returns when it is durable", durable::two_writers),
    Model::all(
        "log_switch",
        "a sync write is durable with all before it, whatever log it is in",
        durable::log_switch,
    ),
    Model::all("failed_sync", "no sync write returns well behind a sync that failed", durable::failed_sync),
    Model::all("panicking_sync", "a sync that panics keeps nobody waiting", durable::panicking_sync),
    Model::up_to(4, "refusal", "the first cause stays", refusal::two_causes),
    Model::up_to(3, "tables", "a table is read whoever opens and closes it", tables::two_readers),
    Model::all(
        "cache",
        "a place holds its own value or none, and what is counted is there",
        cache::two_readers,
    ),
    Model::all("hazard", "no value is freed that somebody holds, and none comes back", hazard::replaced),
    Model::all("hazard_retired", "what is held when it is retired goes later, and goes", hazard::retired),
    Model::all("crew", "each task is done once, and nothing runs when the opener goes on", crew::helper),
    Model::all(
        "panicking_crew",
        "a task that panics is no success, and nobody waits for it",
        crew::panicking_helper,
    ),
    Model::all("pool", "every job runs once, before the pool is gone", pool::jobs),
    Model::up_to(4, "closing", "a database closes beside flushes and merges", whole::closing),
    Model::up_to(2, "writing", "a sync write beside a flush is there when it returns", whole::writing),
    Model::up_to(1, "reading", "a reader beside a merge finds every key", whole::reading),
];
