//! `terrace shell`: commands from a terminal or a script, with transactions.
//!
//! ```text
//!   line  -->  words (`shell/words.rs`)  -->  row of COMMANDS  -->  session (`shell/session.rs`)
//! ```
//!
//! A script ends at its first error, and an open transaction is rolled back. On a terminal, the
//! next line may correct the error. The terminal itself edits lines.

mod session;
mod words;

use std::io::{self, IsTerminal, Write};
use std::path::Path;

use clap::Args;

use crate::cli::Run;
use crate::database::{DatabaseArgs, FileFormatArgs, MemoryArgs, SyncArg};
use crate::failure::{CommandResult, Failure};
use crate::input::Input;
use crate::key_args::KeyEncodingArgs;
use crate::terminal;
use session::Session;

/// Run commands from standard input, with transactions
///
/// One command per line. Words have the escapes \t \n \\ \xNN; a word in double quotes may contain
/// blanks or be empty. A line that begins with # is a comment. `help` lists the commands. A
/// script ends at its first error, and rolls back an open transaction.
#[derive(Args)]
pub(crate) struct Shell {
    #[command(flatten)]
    database: DatabaseArgs,
    #[command(flatten)]
    encoding: KeyEncodingArgs,
    /// Create the database if it does not exist
    #[arg(long)]
    create: bool,
    #[command(flatten)]
    sync: SyncArg,
}

impl Run for Shell {
    fn run(self) -> CommandResult {
        let db = self.database.open_writable(
            &FileFormatArgs::default(),
            &MemoryArgs::default(),
            Some(self.create),
        )?;
        let session = Session::new(db.clone(), self.encoding, self.sync.write_options());
        let outcome = if io::stdin().is_terminal() { converse(session) } else { run_script(session) };
        outcome.and(db.close().map_err(Failure::from))
    }
}

/// Executes the lines of standard input up to the first error.
fn run_script(mut session: Session) -> CommandResult {
    let mut input = Input::open(Path::new("-"))?;
    let mut out = terminal::output();
    let mut line = Vec::new();
    while input.next_line(&mut line)? {
        let executed = session.execute(&line, &mut out);
        if let Err(failure) = executed {
            out.flush()?;
            return Err(failure.at_line(&input));
        }
        if session.has_ended() {
            break;
        }
    }
    out.flush()?;
    match session.has_transaction() {
        true => Err(input.error_at_line("end of the script in a transaction, which is rolled back")),
        false => Ok(()),
    }
}

/// Executes the lines that a user types. An error does not end the program.
fn converse(mut session: Session) -> CommandResult {
    let mut input = Input::terminal();
    let mut line = Vec::new();
    while !session.has_ended() {
        eprint!("{}", if session.has_transaction() { "terrace*> " } else { "terrace> " });
        io::stderr().flush()?;
        if !input.next_line(&mut line)? {
            // Ends the line of the prompt.
            eprintln!();
            break;
        }
        let mut out = terminal::output();
        let executed = session.execute(&line, &mut out);
        out.flush()?;
        if let Err(failure) = executed {
            terminal::note(terminal::printable(failure.message().unwrap_or_default()));
        }
    }
    if session.has_transaction() {
        terminal::note("the open transaction is rolled back");
    }
    Ok(())
}
