//! Replacement of the database between two of its writers.
//!
//! ```text
//!   repair            the same state, in the same directory
//!   restore           an earlier copy of the files, in the same directory
//!   exchange          an earlier copy, in another directory that gets the name
//!   create again      an empty database, in a directory that gets the name
//! ```

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use terrace::{Options, RepairOptions};
use terrace_testkit::rng::Rng;

/// Way to replace a database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Replacement {
    Repair,
    Restore,
    Exchange,
    CreateAgain,
}

/// Copy of the files of a closed database.
#[derive(Debug, Clone)]
pub(super) struct SavedDatabase {
    pub(super) directory: PathBuf,
    /// Number of its last write.
    pub(super) last_write: u64,
}

impl Replacement {
    /// Draws a replacement. Two of them need a saved database.
    pub(super) fn draw(rng: &mut Rng, has_saved: bool) -> Replacement {
        match has_saved {
            true => rng.pick(&[
                Replacement::Repair,
                Replacement::Restore,
                Replacement::Exchange,
                Replacement::CreateAgain,
            ]),
            false => rng.pick(&[Replacement::Repair, Replacement::CreateAgain]),
        }
    }

    /// Replaces the database, which is closed. Returns the number of its last write if that has
    /// changed.
    pub(super) fn execute(
        self,
        database: &Path,
        saved: Option<&SavedDatabase>,
        options: &Options,
    ) -> Result<Option<u64>, String> {
        let io = |error: std::io::Error| format!("{self:?}: {error}");
        match (self, saved) {
            (Replacement::Repair, _) => {
                terrace::repair(database, options, &RepairOptions::default())
                    .map_err(|error| format!("repair: {error}"))?;
                Ok(None)
            }
            (Replacement::Restore, Some(saved)) => {
                for entry in std::fs::read_dir(database).map_err(io)? {
                    let path = entry.map_err(io)?.path();
                    // A repair leaves a subdirectory with files.
                    let removed = if path.is_dir() {
                        std::fs::remove_dir_all(&path)
                    } else {
                        std::fs::remove_file(&path)
                    };
                    removed.map_err(io)?;
                }
                copy_files(&saved.directory, database).map_err(io)?;
                Ok(Some(saved.last_write))
            }
            (Replacement::Exchange, Some(saved)) => {
                let next = database.with_extension("next");
                let old = database.with_extension("old");
                copy_files(&saved.directory, &next).map_err(io)?;
                std::fs::rename(database, &old).map_err(io)?;
                std::fs::rename(&next, database).map_err(io)?;
                std::fs::remove_dir_all(&old).map_err(io)?;
                Ok(Some(saved.last_write))
            }
            (Replacement::CreateAgain | Replacement::Restore | Replacement::Exchange, _) => {
                std::fs::remove_dir_all(database).map_err(io)?;
                Ok(Some(0))
            }
        }
    }
}

/// Shortens the MANIFEST of a closed database, so that a repair writes another one.
pub(super) fn damage_manifest(database: &Path, rng: &mut Rng) -> Result<(), String> {
    let io = |error: std::io::Error| error.to_string();
    let name = std::fs::read_to_string(database.join("CURRENT")).map_err(io)?;
    let manifest = std::fs::File::options().write(true).open(database.join(name.trim_end())).map_err(io)?;
    manifest.set_len(rng.below(20)).map_err(io)
}

/// Copies the files of a directory, without its subdirectories.
pub(super) fn copy_files(from: &Path, to: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        if entry.file_type()?.is_file() {
            std::fs::copy(entry.path(), to.join(entry.file_name()))?;
        }
    }
    Ok(())
}

/// Databases that had the path, counted. A follower of an earlier one must not show a state of a
/// later one as if it continued.
#[derive(Debug, Default)]
pub(super) struct DatabaseCount {
    /// Twice the number of replacements, and odd during one.
    current: AtomicU64,
    /// Value of `current` after another directory got the path.
    last_directory: AtomicU64,
    /// Value of `current` after the last repair whose mark is in the MANIFEST.
    last_marked_repair: AtomicU64,
    /// Number of replacements by a repair.
    repairs: AtomicU64,
}

impl DatabaseCount {
    /// Returns the count, or None during a replacement.
    pub(super) fn current(&self) -> Option<u64> {
        let current = self.current.load(Ordering::SeqCst);
        current.is_multiple_of(2).then_some(current)
    }

    /// Returns true if a follower of database `opened` must have noticed a replacement.
    pub(super) fn is_surely_replaced(&self, opened: u64) -> bool {
        let last = self.last_directory.load(Ordering::SeqCst);
        last.max(self.last_marked_repair.load(Ordering::SeqCst)) > opened
    }

    /// Accepts that followers miss earlier repairs: the next writer does not copy their mark to its
    /// MANIFEST.
    pub(super) fn forget_marks(&self) {
        self.last_marked_repair.store(0, Ordering::SeqCst);
    }

    /// Counts a repair, before it begins.
    pub(super) fn count_repair(&self) {
        self.repairs.fetch_add(1, Ordering::SeqCst);
    }

    pub(super) fn repairs(&self) -> u64 {
        self.repairs.load(Ordering::SeqCst)
    }

    pub(super) fn begin_replacement(&self) {
        self.current.fetch_add(1, Ordering::SeqCst);
    }

    /// Ends a replacement. Each follower of an earlier database notices another directory, and a
    /// repair as long as its mark exists. After a restore, a slow one may find a database with a
    /// longer history, and then shows its states.
    pub(super) fn end_replacement(&self, replacement: Replacement) {
        let next = self.current.load(Ordering::SeqCst) + 1;
        match replacement {
            Replacement::Exchange | Replacement::CreateAgain => {
                self.last_directory.store(next, Ordering::SeqCst);
            }
            Replacement::Repair => self.last_marked_repair.store(next, Ordering::SeqCst),
            Replacement::Restore => self.forget_marks(),
        }
        self.current.store(next, Ordering::SeqCst);
    }
}
