//! A database whose process was killed while it wrote.

use std::path::Path;

use terrace_testkit::differential::OpResult;
use terrace_testkit::rng::Rng;

use super::Writer;
use crate::harness::leveldb_interop::EngineKind;
use crate::harness::process_kill::killed_database;

pub(super) fn leave(writer: &Writer, rng: &mut Rng, dir: &Path) -> OpResult<Option<String>> {
    let by_leveldb = writer.engine == EngineKind::LevelDb;
    let origin = killed_database::leave(writer.seed, by_leveldb, rng, dir)?;
    // A process that is killed early has no database yet.
    Ok(dir.join("CURRENT").exists().then_some(origin))
}
