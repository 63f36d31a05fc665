//! `terrace completions`: scripts with which a shell completes command lines of `terrace`.

use std::io::Write;

use clap::Args;
use clap_complete::Shell;

use crate::cli::{self, Run};
use crate::failure::CommandResult;
use crate::terminal;

/// Print the completion script for a shell
#[derive(Args)]
pub(crate) struct Completions {
    /// Shell that will read the script
    shell: Shell,
}

impl Run for Completions {
    fn run(self) -> CommandResult {
        // The generator panics on a closed pipe, so it writes to memory.
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut cli::command_line(), "terrace", &mut script);
        let mut out = terminal::output();
        out.write_all(&script)?;
        Ok(out.flush()?)
    }
}
