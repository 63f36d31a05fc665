//! Compaction pickers: pure functions from a version to the next compaction, if one is due.

mod level_targets;
pub(crate) mod leveled;
pub(crate) mod tombstones;

pub(crate) use level_targets::{LevelTargets, pending_compaction_bytes};

pub(crate) use super::compaction_plan::{
    CompactionLimits, L0_COMPACTION_TRIGGER, L0_SLOWDOWN_WRITES_TRIGGER, L0_STOP_WRITES_TRIGGER,
};
