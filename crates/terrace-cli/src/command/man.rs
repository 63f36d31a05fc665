//! `terrace man`: manual pages.

use std::io::Write;

use clap::Args;
use clap::builder::PossibleValuesParser;

use crate::cli::{self, COMMANDS, Run};
use crate::failure::CommandResult;
use crate::terminal;

/// Print the manual page of the program or of a command
#[derive(Args)]
pub(crate) struct Man {
    /// Command that the page describes
    #[arg(value_parser = PossibleValuesParser::new(COMMANDS.iter().map(|row| row.name)))]
    command: Option<String>,
}

impl Run for Man {
    fn run(self) -> CommandResult {
        let mut program = cli::command_line();
        // Gives every command the full name that its page shows.
        program.build();
        let page = self.command.and_then(|name| program.find_subcommand(name).cloned()).unwrap_or(program);
        let mut out = terminal::output();
        let source = concat!("terrace ", env!("CARGO_PKG_VERSION"));
        clap_mangen::Man::new(page).source(source).render(&mut out)?;
        Ok(out.flush()?)
    }
}
