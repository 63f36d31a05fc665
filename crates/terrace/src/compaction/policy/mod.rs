//! Which files to merge next: pure functions of a version.

pub(crate) mod deletes;
pub(crate) mod leveled;
mod shape;

use shape::Shape;
pub(crate) use shape::debt;

/// The sizes that a policy goes by.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// The size at which a merge begins a new table, in bytes.
    pub(crate) file_size: u64,
    /// Whether tables may become larger than that where much is stored, so that there are not too many.
    pub(crate) file_size_grows: bool,
}

/// Files of level 0 at which they are merged.
pub(crate) const LEVEL_0_MERGE: usize = 4;
/// Files of level 0 from which on writers are slowed down, if their merge takes too long.
pub(crate) const LEVEL_0_SLOW: usize = 10;
/// Files of level 0 at which writes wait for a merge: the last resort.
pub(crate) const LEVEL_0_STOP: usize = 36;
/// The deepest level that a flush may go to directly.
pub(crate) const DEEPEST_FLUSH: usize = 2;

/// Where tables may grow, a level has about this many.
const TABLES_OF_A_LEVEL: u64 = 64;
/// Beyond this a merge of one table would take too long, in bytes.
const LARGEST_TABLE: u64 = 64 << 20;

impl Limits {
    /// The limits for a merge into a level of `level_size` bytes.
    pub(crate) fn for_level(self, level_size: u64) -> Limits {
        if !self.file_size_grows {
            return self;
        }
        let largest = LARGEST_TABLE.max(self.file_size);
        Limits { file_size: (level_size / TABLES_OF_A_LEVEL).clamp(self.file_size, largest), ..self }
    }

    /// An output table ends when it overlaps more than this of the level below its own: a later merge of it would be
    /// dear.
    pub(crate) fn grandparent_overlap(&self) -> u64 {
        self.file_size.saturating_mul(10)
    }

    /// Inputs are widened for nothing up to this size of the whole merge.
    pub(crate) fn expanded(&self) -> u64 {
        self.file_size.saturating_mul(25)
    }
}
