//! The program `terrace`: LevelDB databases from a terminal.
//!
//! ```text
//!   main          parses one command line and returns one exit code
//!   cli           the table of commands; parsing, help, completions and man pages come from it
//!   command/      one file per command
//!   database      arguments that name a database, and the options to open it
//!   confirmation  question before a step that cannot be undone
//!   failure       failures of commands: message and exit code
//!   lock_holder   processes that have a database open
//!   escape        keys and values as text
//!   entry_format  an entry as a line (TSV, JSON Lines)
//!   input         input files, plain or compressed
//!   terminal      standard output: width, characters, colours
//!   progress      progress bars for long commands
//!   units         numbers, sizes and times for people
//!   level_chart   drawing of the levels
//!   key_range     a range of keys in a limited width
//!   store         commands on a store that an address names
//!   file_dump/    decoded contents of single files
//! ```
//!
//! Commands use databases through the crate `terrace` only; `terrace-format` decodes single files.
//! This crate translates between the command line and the engine and has no logic of its own.

/// Allocator of the static program: the one of musl makes threads wait for each other.
#[cfg(target_env = "musl")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

mod cli;
mod command;
mod condition;
mod confirmation;
mod database;
mod entry_format;
mod escape;
mod failure;
mod file_dump;
mod input;
mod key_args;
mod key_range;
mod level_chart;
mod lock_holder;
mod progress;
#[cfg(feature = "store")]
mod store;
mod terminal;
mod units;

use std::io::Write;
use std::process::ExitCode;

fn main() -> ExitCode {
    match cli::run(std::env::args_os()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            if let Some(message) = failure.message() {
                // One write call, so that the line is not mixed with output of other programs.
                let line = format!("terrace: {}\n", terminal::printable(message));
                // The message may not be writable (closed terminal, full disk). The exit code stays
                // the same.
                let _ = std::io::stderr().write_all(line.as_bytes());
            }
            ExitCode::from(failure.exit_code())
        }
    }
}
