//! `terrace destroy`: a database gone, after a question.

use std::io::{self, IsTerminal, Write};

use clap::Args;

use crate::cli::Run;
use crate::database::{Database, Found};
use crate::failure::{Failure, Outcome};
use crate::terminal;

/// Remove a database with everything in it; other files in its directory stay
#[derive(Args)]
pub(crate) struct Destroy {
    #[command(flatten)]
    database: Database,
    /// Do not ask
    #[arg(long)]
    yes: bool,
}

impl Run for Destroy {
    fn run(self) -> Outcome {
        let options = self.database.order.to_read();
        match Found::at(&options, &self.database.dir)? {
            Found::Database | Found::Parts { .. } => {}
            other => return other.refuse(&self.database.dir, ""),
        }
        if !self.yes {
            self.ask()?;
        }
        Ok(terrace::destroy(&self.database.dir, &options)?)
    }
}

impl Destroy {
    fn ask(&self) -> Outcome {
        if !io::stdin().is_terminal() {
            return Err(Failure::Usage("destroy needs --yes where nobody can be asked".into()));
        }
        eprint!(
            "Remove the database {} for ever? Type yes: ",
            terminal::harmless(self.database.dir.display())
        );
        io::stderr().flush()?;
        let mut answer = String::new();
        io::stdin().read_line(&mut answer).map_err(|e| Failure::File(format!("standard input: {e}")))?;
        match answer.trim() {
            "yes" => Ok(()),
            _ => Err(Failure::No("nothing was removed".into())),
        }
    }
}
