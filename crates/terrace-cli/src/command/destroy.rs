//! `terrace destroy`: removes a database, after a confirmation.

use clap::Args;

use crate::cli::Run;
use crate::confirmation;
use crate::database::{DatabaseArgs, PathContents};
use crate::failure::CommandResult;

/// Remove a database with all entries; other files are kept
#[derive(Args)]
pub(crate) struct Destroy {
    #[command(flatten)]
    database: DatabaseArgs,
    /// Do not ask for confirmation
    #[arg(long)]
    yes: bool,
}

impl Run for Destroy {
    fn run(self) -> CommandResult {
        let options = self.database.options_for_reading();
        match PathContents::inspect(&options, &self.database.dir)? {
            PathContents::Database | PathContents::DatabaseWithoutCurrent { .. } => {}
            other => return other.not_a_database(&self.database.dir, ""),
        }
        if !self.yes {
            self.confirm()?;
        }
        Ok(terrace::destroy(&self.database.dir, &options)?)
    }
}

impl Destroy {
    fn confirm(&self) -> CommandResult {
        let question = format!("Permanently remove the database {}?", self.database.dir.display());
        confirmation::ask("destroy", &question, "nothing was removed")
    }
}
