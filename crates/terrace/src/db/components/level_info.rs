//! Description of the levels and their tables, for callers.

use std::fmt;

use crate::sync::Arc;
use crate::version::{FileMeta, Version};

/// Level of a database with its tables.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LevelInfo {
    /// Number of the level, 0 to 6.
    pub level: usize,
    /// Tables of the level.
    pub files: Vec<TableInfo>,
}

/// Table file of a level.
#[derive(Clone, PartialEq, Eq)]
pub struct TableInfo {
    /// File number, which is in the name of the file.
    pub number: u64,
    /// File size in bytes.
    pub size: u64,
    /// Smallest user key.
    pub smallest: Vec<u8>,
    /// Largest user key.
    pub largest: Vec<u8>,
}

impl fmt::Debug for TableInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TableInfo { number, size, smallest, largest } = self;
        let smallest = smallest.escape_ascii();
        let largest = largest.escape_ascii();
        write!(f, "TableInfo({number}: {size} bytes, '{smallest}' to '{largest}')")
    }
}

pub(crate) fn level_infos(version: &Version) -> Vec<LevelInfo> {
    let levels = version.levels.iter().enumerate();
    levels.map(|(level, files)| LevelInfo { level, files: files.iter().map(table_info).collect() }).collect()
}

fn table_info(file: &Arc<FileMeta>) -> TableInfo {
    TableInfo {
        number: file.number,
        size: file.size,
        smallest: file.smallest.user_key().to_vec(),
        largest: file.largest.user_key().to_vec(),
    }
}
