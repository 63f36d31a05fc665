//! `terrace completions`: what makes a shell complete our command lines.

use std::io::Write;

use clap::Args;
use clap_complete::Shell;

use crate::cli::{self, Run};
use crate::failure::CommandResult;
use crate::terminal;

/// Print the completions of a shell
#[derive(Args)]
pub(crate) struct Completions {
    /// Shell that will read them
    shell: Shell,
}

impl Run for Completions {
    fn run(self) -> CommandResult {
        // Made in memory, because the generator does not survive a closed pipe.
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut cli::command_line(), "terrace", &mut script);
        let mut out = terminal::output();
        out.write_all(&script)?;
        Ok(out.flush()?)
    }
}
