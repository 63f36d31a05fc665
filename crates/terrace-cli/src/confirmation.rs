//! Confirmation of a step that cannot be undone, or that other programs notice.

use std::io::{self, IsTerminal, Write};

use crate::failure::{CommandResult, Failure};
use crate::terminal;

/// Asks `question` on the terminal. Returns `refusal` as the failure unless the user types yes, and
/// an error without a terminal, where `command` needs its flag `--yes`.
pub(crate) fn ask(command: &str, question: &str, refusal: &str) -> CommandResult {
    if !io::stdin().is_terminal() {
        return Err(Failure::Usage(format!("{command} needs --yes when standard input is not a terminal")));
    }
    eprint!("{} Type yes: ", terminal::printable(question));
    io::stderr().flush()?;
    let mut answer = String::new();
    io::stdin().read_line(&mut answer).map_err(|e| Failure::File(format!("standard input: {e}")))?;
    match answer.trim() {
        "yes" => Ok(()),
        _ => Err(Failure::NegativeAnswer(refusal.into())),
    }
}
