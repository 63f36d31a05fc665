//! `terrace repair`: a database that opens again, from whatever files are left.

use std::io::Write;
use std::path::PathBuf;

use clap::{Args, ValueHint};
use terrace::RepairOptions;

use crate::cli::Run;
use crate::database::{OrderFlag, Tables};
use crate::failure::{Failure, Outcome};
use crate::progress::Progress;
use crate::terminal;

/// Rebuild a damaged database from the files that can be read
///
/// Nothing is thrown away: files that are not used any more go to the folder lost inside of the database. Try
/// --dry-run first, and keep a copy of what matters.
#[derive(Args)]
pub(crate) struct Repair {
    /// Directory of the database
    #[arg(value_name = "DB", value_hint = ValueHint::DirPath)]
    dir: PathBuf,
    /// Only say what would be done
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    order: OrderFlag,
    #[command(flatten)]
    tables: Tables,
}

impl Run for Repair {
    fn run(self) -> Outcome {
        let options = self.order.to_write(&self.tables)?;
        // CURRENT may be what is missing, so the directory is all that is asked for.
        if !options.env.fs.is_dir(&self.dir).map_err(|e| Failure::Database(e.to_string()))? {
            return Err(Failure::Database(format!("{}: no such directory", self.dir.display())));
        }
        let progress = Progress::spinner("repairing");
        let report = terrace::repair(&self.dir, &options, &RepairOptions { dry_run: self.dry_run })?;
        drop(progress);
        let mut out = terminal::output();
        writeln!(out, "{}", terminal::harmless(&report).trim_end())?;
        Ok(out.flush()?)
    }
}
