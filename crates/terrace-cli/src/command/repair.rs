//! `terrace repair`: reconstructs a database from its readable files.

use std::io::Write;
use std::path::PathBuf;

use clap::{Args, ValueHint};
use terrace::RepairOptions;

use crate::cli::Run;
use crate::database::{ComparatorArg, FileFormatArgs, PathContents};
use crate::failure::{CommandResult, Failure};
use crate::progress::Progress;
use crate::terminal;

/// Rebuild a corrupt database from the files that can be read
///
/// No file is deleted: files that are no longer used are moved to the directory lost inside the
/// database. Try --dry-run first, and keep a copy of important data.
#[derive(Args)]
pub(crate) struct Repair {
    /// Directory of the database
    #[arg(value_name = "DB", value_hint = ValueHint::DirPath)]
    dir: PathBuf,
    /// Print the changes that repair would make, and make none
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    comparator: ComparatorArg,
    #[command(flatten)]
    file_format: FileFormatArgs,
}

impl Run for Repair {
    fn run(self) -> CommandResult {
        self.file_format.check_codec()?;
        let options = self.file_format.apply_to(self.comparator.options_for_writing(&self.dir)?);
        match PathContents::inspect(&options, &self.dir)? {
            // Repair of a database that cannot be opened keeps an explicit codec.
            PathContents::Database => {
                if let Err(failure @ Failure::Usage(_)) = self.file_format.check_codec_of(&self.dir, &options)
                {
                    return Err(failure);
                }
            }
            PathContents::DatabaseWithoutCurrent { .. } => {}
            other => return other.not_a_database(&self.dir, ""),
        }
        let progress = Progress::line("repairing");
        let report = terrace::repair(&self.dir, &options, &RepairOptions::default().dry_run(self.dry_run))?;
        drop(progress);
        let mut out = terminal::output();
        writeln!(out, "{}", terminal::printable(&report).trim_end())?;
        Ok(out.flush()?)
    }
}
