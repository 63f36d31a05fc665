//! Description of the levels and their tables, for callers.

use crate::sync::Arc;
use crate::table_info::TableInfo;
use crate::version::{FileMeta, Version};

/// Level of a database with its tables.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LevelInfo {
    /// Number of the level, 0 to 6.
    pub level: usize,
    /// Tables of the level.
    pub files: Vec<TableInfo>,
}

pub(crate) fn level_infos(version: &Version) -> Vec<LevelInfo> {
    let levels = version.levels.iter().enumerate();
    levels.map(|(level, files)| LevelInfo { level, files: files.iter().map(table_info).collect() }).collect()
}

fn table_info(file: &Arc<FileMeta>) -> TableInfo {
    TableInfo { entries: file.entries(), reads: file.table_handle.estimated_reads(), ..file.describe() }
}
