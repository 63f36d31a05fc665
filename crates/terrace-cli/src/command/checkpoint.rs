//! `terrace checkpoint`: copies a database.

use std::path::PathBuf;

use clap::{Args, ValueHint};

use crate::cli::Run;
use crate::database::{DamageArgs, DatabaseArgs};
use crate::failure::CommandResult;
use crate::progress::Progress;

/// Copy a database into a new directory, which links its tables
///
/// The copy is a plain LevelDB directory. On the same file system it shares its tables with the
/// original, so it takes little time and space; both are damaged if that disk fails. On another
/// file system the tables are copied. The original does not change. No other process may have it
/// open for writing: a running program copies its own database.
#[derive(Args)]
pub(crate) struct Checkpoint {
    #[command(flatten)]
    database: DatabaseArgs,
    /// Directory of the copy; it must not exist
    #[arg(value_hint = ValueHint::DirPath)]
    target: PathBuf,
    #[command(flatten)]
    damage: DamageArgs,
}

impl Run for Checkpoint {
    fn run(self) -> CommandResult {
        let db = self.database.open_read_only(&self.damage)?;
        let mut progress = Progress::bytes("copying", Some(0));
        db.checkpoint_with_progress(&self.target, |done, total| {
            progress.set_position_and_total(done, total)
        })?;
        Ok(())
    }
}
