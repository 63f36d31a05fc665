//! Merging tables, from the choice to the edit.
//!
//! ```text
//!   Version --policy--> Job --run--> edit          (the database installs the edit)
//!   Memtable --------------flush--> table
//! ```
//!
//! Nothing here changes the database: a policy reads a version, a run writes new files and says what would replace
//! what.

pub(crate) mod flush;
pub(crate) mod policy;
mod run;

pub(crate) use run::{Environment, remove_tables, run};

use terrace_format::edit::VersionEdit;
use terrace_format::key::InternalKey;

use crate::sync::Arc;
use crate::version::FileMeta;

/// Why a merge is done: for the info log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reason {
    /// A level holds more than it should.
    Size,
    /// Look-ups keep passing through a file in vain.
    Seeks,
    /// Somebody asked: the number of the request.
    Manual(u64),
}

/// A merge to do: some files of a level into the next.
pub(crate) struct Job {
    pub(crate) reason: Reason,
    pub(crate) level: usize,
    /// Of `level` and of the level below it.
    pub(crate) inputs: [Vec<Arc<FileMeta>>; 2],
    /// Of the level below that, where they overlap the inputs.
    pub(crate) grandparents: Vec<Arc<FileMeta>>,
    /// Where the next merge of this level goes on.
    pub(crate) pointer: Option<InternalKey>,
}

impl Job {
    /// The level that receives the outcome.
    pub(crate) fn output_level(&self) -> usize {
        self.level + 1
    }

    /// True if a single file may simply change its level.
    ///
    /// Not if it overlaps much of the level below that: the next merge would be a dear one.
    pub(crate) fn is_move(&self, limits: &policy::Limits) -> bool {
        self.inputs[0].len() == 1
            && self.inputs[1].is_empty()
            && crate::version::total_size(&self.grandparents) <= limits.grandparent_overlap()
    }

    /// The edit that replaces the inputs; the outputs are added by who has them.
    pub(crate) fn edit(&self) -> VersionEdit {
        let mut edit = VersionEdit::default();
        edit.compact_pointers.extend(self.pointer.clone().map(|key| (self.level, key)));
        for (which, files) in self.inputs.iter().enumerate() {
            edit.deleted.extend(files.iter().map(|file| (self.level + which, file.number)));
        }
        edit
    }
}
