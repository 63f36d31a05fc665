//! Compactions and flushes, from the choice of the inputs to the version edit.
//!
//! ```text
//!   Version --picker--> Compaction --job--> VersionEdit   (the database installs it)
//!   Memtable --flush--> table
//! ```
//!
//! This module does not change the database: a picker reads a version, and a job writes new files.
//! The version edit says which tables the new ones replace.

mod compaction_job;
mod compaction_plan;
pub(crate) mod flush;
pub(crate) mod flush_partitioner;
mod loser_tree;
pub(crate) mod picker;
mod subcompaction;
#[cfg(test)]
pub(crate) mod tree_simulation;
mod version_filter;

pub(crate) use compaction_job::{
    CompactionContext, CompactionOutput, remove_tables, run_subcompaction, table_options_for_level,
};
pub(crate) use compaction_plan::{Compaction, Subcompaction};
pub(crate) use loser_tree::LoserTree;
pub(crate) use subcompaction::split_into_subcompactions;
