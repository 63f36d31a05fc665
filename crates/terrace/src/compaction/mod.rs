//! Merging tables, from the choice to the edit.
//!
//! ```text
//!   Version --policy--> Job --slices, run--> edit  (the database installs the edit)
//!   Memtable --------------flush--> table
//! ```
//!
//! Nothing here changes the database: a policy reads a version, a run writes new files and says what would replace
//! what.

mod compaction_job;
pub(crate) mod flush;
mod loser_tree;
pub(crate) mod picker;
mod subcompaction;

pub(crate) use compaction_job::{
    CompactionContext, CompactionOutput, remove_tables, run_subcompaction, table_options_for_level,
};
pub(crate) use subcompaction::{Subcompaction, split_into_subcompactions};

use std::fmt;

use terrace_format::key::InternalKey;
use terrace_format::version_edit::VersionEdit;

use crate::sync::Arc;
use crate::version::{FileMeta, total_size};

/// Why a merge is done: for the info log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CompactionReason {
    /// A level holds more than it should.
    LevelSize,
    /// There are too few levels for what is stored.
    AddLevel,
    /// Look-ups keep passing through a file in vain.
    ReadTriggered,
    /// Deletes, and what they hide, take space.
    Tombstones,
    /// Somebody asked: the number of the request.
    Manual(u64),
}

/// A merge to do: files of a level, and what they overlap on the way to another, into that one. Or files of the last level,
/// which are written anew without their deletes.
pub(crate) struct Compaction {
    pub(crate) reason: CompactionReason,
    /// By level, the shallowest (and so the newest) first. Each level from the one that gives to the one that receives
    /// has its entry, without files perhaps.
    pub(crate) inputs: Vec<(usize, Vec<Arc<FileMeta>>)>,
    /// Of the level below the receiving one, where they overlap the inputs.
    pub(crate) grandparents: Vec<Arc<FileMeta>>,
    /// Where the next merge of the giving level goes on.
    pub(crate) compact_pointer: Option<InternalKey>,
    /// For the receiving level.
    pub(crate) limits: picker::CompactionLimits,
}

impl Compaction {
    /// The level that gives.
    pub(crate) fn level(&self) -> usize {
        self.inputs.first().map_or(0, |(level, _)| *level)
    }

    /// The level that receives the outcome.
    pub(crate) fn output_level(&self) -> usize {
        self.inputs.last().map_or(0, |(level, _)| *level)
    }

    /// All inputs.
    pub(crate) fn input_files(&self) -> impl Iterator<Item = &Arc<FileMeta>> {
        self.inputs.iter().flat_map(|(_, files)| files)
    }

    /// True if the files may simply change their level.
    ///
    /// Not if they overlap much of the level below that: the next merge would be a dear one.
    pub(crate) fn is_trivial_move(&self) -> bool {
        let [(level, given), rest @ ..] = &self.inputs[..] else { return false };
        (given.len() == 1 || *level > 0)
            && !rest.is_empty()
            && rest.iter().all(|(_, files)| files.is_empty())
            && total_size(&self.grandparents) <= self.limits.max_grandparent_overlap_bytes()
    }

    /// The edit that replaces the inputs; the outputs are added by who has them.
    pub(crate) fn version_edit(&self) -> VersionEdit {
        let mut edit = VersionEdit::default();
        edit.compact_pointers.extend(self.compact_pointer.clone().map(|key| (self.level(), key)));
        for (level, files) in &self.inputs {
            edit.deleted_files.extend(files.iter().map(|file| (*level, file.number)));
        }
        edit
    }
}

/// For the info log: `files=4@0+0@1+23@2 reason=SuiteSize`.
impl fmt::Display for Compaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, (level, files)) in self.inputs.iter().enumerate() {
            write!(f, "{}{}@{level}", if i == 0 { "files=" } else { "+" }, files.len())?;
        }
        write!(f, " reason={:?}", self.reason)
    }
}
