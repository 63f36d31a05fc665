//! Codec of the tables of a version.

use std::path::Path;

use terrace_env::Env;
use terrace_format::compress::Codec;

use super::Version;
use crate::error::Result;
use crate::table::codec_of_tables;

/// Maximum number of tables of which the codec is read. All but the first matter only if the tables
/// before them are stored uncompressed.
const MAX_TABLES: usize = 4;

impl Version {
    /// Returns the codec of the tables in `directory`, or None if none of them shows one.
    ///
    /// The newest table of the deepest level decides, because Terrace compresses only that level.
    /// If it is stored uncompressed, the next newest table decides, and then the level above.
    pub(crate) fn codec(&self, env: &Env, directory: &Path) -> Result<Option<&'static Codec>> {
        let tables = self.levels.iter().rev().flat_map(|files| {
            let mut files: Vec<_> = files.iter().map(|file| (file.number, Some(file.size))).collect();
            files.sort_unstable_by(|a, b| b.cmp(a));
            files
        });
        codec_of_tables(env, directory, tables.take(MAX_TABLES))
    }
}
