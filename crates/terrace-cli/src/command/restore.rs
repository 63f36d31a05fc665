//! `terrace restore`: creates a database from a backup.

use std::path::PathBuf;

use clap::{Args, ValueHint};

use super::backup::{failure, open_existing};
use crate::cli::Run;
use crate::failure::{CommandResult, Failure};
use crate::progress::Progress;

/// Create a database from a backup, after a check of every file
///
/// The new directory is complete, or it does not exist. To replace a database, restore to a new
/// name, and then rename both directories.
#[derive(Args)]
pub(crate) struct Restore {
    /// Directory of the backups
    #[arg(value_hint = ValueHint::DirPath)]
    backups: PathBuf,
    /// Directory of the database; it must not exist
    #[arg(value_hint = ValueHint::DirPath)]
    target: PathBuf,
    /// Number of the backup [default: the newest]
    #[arg(long, value_name = "N")]
    id: Option<u64>,
}

impl Run for Restore {
    fn run(self) -> CommandResult {
        let backups = open_existing(&self.backups)?;
        let id = match self.id {
            Some(id) => id,
            // A damaged list of an older backup does not matter.
            None => match backups.ids().map_err(failure)?.last() {
                Some(newest) => *newest,
                None => return Err(Failure::Database(format!("{}: no backup", self.backups.display()))),
            },
        };
        let mut progress = Progress::bytes("restoring", Some(0));
        let restored = backups.restore_with_progress(id, &self.target, |done, total| {
            progress.set_position_and_total(done, total);
        });
        restored.map_err(failure)
    }
}
