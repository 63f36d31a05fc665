//! The program `terrace`: LevelDB databases from a terminal.
//!
//! ```text
//!   main       one command line in, one exit code out
//!   cli        the table of commands; parsing, help, completions and man pages are made from it
//!   command/   one file per command
//!   database   flags that say which database, and how to open it       failure  how a command ends when not well
//!   escape     keys and values as text                                 record   an entry as a line (TSV, JSON Lines)
//!   input      files that we read        terminal  what we print on    progress bars for what takes long
//!   units      numbers for people        picture   the levels, drawn   inspect/ single files, decoded
//! ```
//!
//! Databases are touched through the crate `terrace` alone, single files are decoded by `terrace-format`. What a
//! database *means* is decided in neither of the places here: commands translate.

mod cli;
mod command;
mod database;
mod entry_format;
mod escape;
mod failure;
mod file_dump;
mod input;
mod level_chart;
mod progress;
mod terminal;
mod units;

use std::io::Write;
use std::process::ExitCode;

fn main() -> ExitCode {
    match cli::run(std::env::args_os()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            if let Some(sentence) = failure.message() {
                // In one piece: others may be writing to the same terminal or file.
                let line = format!("terrace: {}\n", terminal::printable(sentence));
                // A terminal that is gone, or a full disk, changes nothing about how this ended.
                let _ = std::io::stderr().write_all(line.as_bytes());
            }
            ExitCode::from(failure.exit_code())
        }
    }
}
