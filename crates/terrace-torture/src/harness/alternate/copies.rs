//! Copies of a directory before a turn, as evidence about lost batches.

use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::engine::{Engine, EngineSettings};
use super::engine_process::{Answer, EngineProcess};
use super::history::{Batch, Contents};
use super::known_losses::Evidence;
use super::log_scan::LogScan;
use crate::harness::readers::format_reader::copy_files;

/// Copy of the files of a database.
pub(super) struct DirectoryCopy {
    dir: TempDir,
}

impl DirectoryCopy {
    pub(super) fn of(database: &Path) -> Result<DirectoryCopy, String> {
        let describe = |error: std::io::Error| format!("copy: {error}");
        let shared_memory = Path::new("/dev/shm");
        let dir = match shared_memory.is_dir() {
            true => tempfile::tempdir_in(shared_memory).map_err(describe)?,
            false => tempfile::tempdir().map_err(describe)?,
        };
        copy_files(database, dir.path()).map_err(describe)?;
        Ok(DirectoryCopy { dir })
    }

    /// Keeps the copy for an examination and returns its path.
    pub(super) fn keep(self) -> PathBuf {
        self.dir.keep()
    }

    /// Returns the evidence about a batch. `scan` is that of the directory.
    pub(super) fn evidence(&self, batch: &Batch, scan: &LogScan) -> Result<Evidence, String> {
        let record = batch.witness_key().and_then(|key| scan.find(key, batch.is_deletion()));
        Ok(Evidence {
            leveldb_finds: self.shows(Engine::LevelDb, batch)?,
            goleveldb_finds: self.shows(Engine::Goleveldb, batch)?,
            has_record: record.is_some(),
            is_below_manifest: record.is_some_and(|record| record.sequence < scan.manifest_sequence),
            has_hidden_table: scan.has_hidden_table,
            follows_torn_record: record.is_some_and(|record| record.follows_torn_record),
        })
    }

    /// Returns true if an engine finds a batch in this copy.
    pub(super) fn shows(&self, engine: Engine, batch: &Batch) -> Result<bool, String> {
        let (Some(contents), Some(key)) = (self.read_with(engine)?, batch.witness_key()) else {
            return Ok(false);
        };
        Ok(contents.contains_key(key) != batch.is_deletion())
    }

    /// Returns the contents that an engine finds in a further copy, or None if it cannot open it.
    pub(super) fn read_with(&self, engine: Engine) -> Result<Option<Contents>, String> {
        if engine.program().is_err() {
            return Ok(None);
        }
        let further = DirectoryCopy::of(self.dir.path())?;
        let (mut process, opened) =
            EngineProcess::open(&EngineSettings::for_reading(engine), further.dir.path())?;
        Ok((opened == Answer::Ok).then(|| process.read_all().ok()).flatten())
    }
}
