//! `terrace destroy`: removes a database, after a confirmation.

use std::io::{self, IsTerminal, Write};

use clap::Args;

use crate::cli::Run;
use crate::database::{DatabaseArgs, PathContents};
use crate::failure::{CommandResult, Failure};
use crate::terminal;

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
        let options = self.database.comparator.options_for_reading();
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
        if !io::stdin().is_terminal() {
            return Err(Failure::Usage("destroy needs --yes when standard input is not a terminal".into()));
        }
        eprint!(
            "Permanently remove the database {}? Type yes: ",
            terminal::printable(self.database.dir.display())
        );
        io::stderr().flush()?;
        let mut answer = String::new();
        io::stdin().read_line(&mut answer).map_err(|e| Failure::File(format!("standard input: {e}")))?;
        match answer.trim() {
            "yes" => Ok(()),
            _ => Err(Failure::NegativeAnswer("nothing was removed".into())),
        }
    }
}
