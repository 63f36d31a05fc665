//! Compaction pickers: pure functions from a version to the next compaction, if one is due.
//!
//! ```text
//!   a load is running      lazy_leveled    fewer rewrites, more sorted runs
//!   after a load           settling        few sorted runs
//!   otherwise              leveled         the target sizes, or LevelDB's
//!   nothing is due         leveled, for reads; tombstones
//! ```

pub(crate) mod lazy_leveled;
mod level_targets;
pub(crate) mod leveled;
pub(crate) mod settling;
pub(crate) mod tombstones;

pub(crate) use lazy_leveled::SlicedCompaction;
pub(crate) use level_targets::{LevelTargets, pending_compaction_bytes};
pub(crate) use settling::Settling;

pub(crate) use super::compaction_plan::{CompactionLimits, L0_COMPACTION_TRIGGER, Level0Limits};
