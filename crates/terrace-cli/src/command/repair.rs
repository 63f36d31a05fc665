//! `terrace repair`: a database that opens again, from whatever files are left.

use std::io::Write;
use std::path::PathBuf;

use clap::{Args, ValueHint};
use terrace::RepairOptions;

use crate::cli::Run;
use crate::database::{Found, OrderFlag, Tables};
use crate::failure::Outcome;
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
        match Found::at(&options, &self.dir)? {
            Found::Database | Found::Parts { .. } => {}
            other => return other.refuse(&self.dir, ""),
        }
        let progress = Progress::spinner("repairing");
        let report = terrace::repair(&self.dir, &options, &RepairOptions { dry_run: self.dry_run })?;
        drop(progress);
        let mut out = terminal::output();
        writeln!(out, "{}", terminal::harmless(&report).trim_end())?;
        Ok(out.flush()?)
    }
}
