//! The tree of levels, for those who look at it.

use crate::version::Version;

/// One level of the tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LevelInfo {
    /// 0 to 6.
    pub level: usize,
    /// Its tables.
    pub files: Vec<TableInfo>,
}

/// One table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableInfo {
    /// The number in its name.
    pub number: u64,
    /// In bytes.
    pub size: u64,
    /// Its least key.
    pub smallest: Vec<u8>,
    /// Its greatest key.
    pub largest: Vec<u8>,
}

pub(crate) fn level_infos(version: &Version) -> Vec<LevelInfo> {
    let info = |(level, files): (usize, &Vec<_>)| {
        let file = |file: &std::sync::Arc<crate::version::FileMeta>| TableInfo {
            number: file.number,
            size: file.size,
            smallest: file.smallest.user_key().to_vec(),
            largest: file.largest.user_key().to_vec(),
        };
        LevelInfo { level, files: files.iter().map(file).collect() }
    };
    version.levels.iter().enumerate().map(info).collect()
}
