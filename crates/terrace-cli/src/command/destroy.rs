//! `terrace destroy`: removes a database, after a confirmation.

use std::path::PathBuf;

use clap::Args;
use terrace::DestroyOptions;

use crate::cli::Run;
use crate::confirmation;
use crate::database::{DatabaseArgs, PathContents};
use crate::failure::CommandResult;
use crate::{terminal, units};

/// Remove a database with all entries; other files are kept
#[derive(Args)]
pub(crate) struct Destroy {
    #[command(flatten)]
    database: DatabaseArgs,
    /// Do not ask for confirmation
    #[arg(long)]
    yes: bool,
    /// Remove the subdirectory lost, too: files that an earlier repair has replaced
    #[arg(long)]
    with_lost: bool,
}

impl Run for Destroy {
    fn run(self) -> CommandResult {
        let options = self.database.options_for_reading();
        match PathContents::inspect(&options, &self.database.dir)? {
            PathContents::Database | PathContents::DatabaseWithoutCurrent { .. } => {}
            // An earlier call has left the subdirectory.
            PathContents::Directory if self.with_lost && options.env.fs.is_dir(&self.lost_dir())? => {}
            other => return other.not_a_database(&self.database.dir, ""),
        }
        if !self.yes {
            self.confirm()?;
        }
        let destroy_options = DestroyOptions::default().with_lost(self.with_lost);
        let report = terrace::destroy_with(&self.database.dir, &options, &destroy_options)?;
        if let Some(remaining) = report.lost_entries {
            self.report_lost(remaining);
        }
        Ok(())
    }
}

impl Destroy {
    fn lost_dir(&self) -> PathBuf {
        self.database.dir.join("lost")
    }

    /// Reports the `remaining` entries of the subdirectory lost.
    fn report_lost(&self, remaining: u64) {
        let lost = self.lost_dir();
        let lost = terminal::printable(lost.display());
        let files = units::plural(remaining, "file");
        let advice = match self.with_lost {
            true => "names of no database file",
            false => "files that a repair has replaced; --with-lost removes them",
        };
        terminal::note(format_args!("{lost} remains, with {files}: {advice}"));
    }

    fn confirm(&self) -> CommandResult {
        let question = format!("Permanently remove the database {}?", self.database.dir.display());
        confirmation::ask("destroy", &question, "nothing was removed")
    }
}
