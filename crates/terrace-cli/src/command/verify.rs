//! `terrace verify`: reads and checks every byte of a database.

use std::io::Write;

use clap::Args;

use crate::cli::Run;
use crate::database::{DatabaseArgs, PathContents};
use crate::failure::{CommandResult, Failure};
use crate::progress::Progress;
use crate::{terminal, units};

/// Read and check every block; exit code 3 if there is a problem
#[derive(Args)]
pub(crate) struct Verify {
    #[command(flatten)]
    database: DatabaseArgs,
}

impl Run for Verify {
    fn run(self) -> CommandResult {
        let options = self.database.options_for_reading();
        match PathContents::inspect(&options, &self.database.dir)? {
            PathContents::Database | PathContents::DatabaseWithoutCurrent { .. } => {}
            other => return other.not_a_database(&self.database.dir, ""),
        }
        let mut progress = Progress::bytes("verifying", Some(0));
        let report = terrace::verify_with_progress(&self.database.dir, &options, |done, total| {
            progress.set_position_and_total(done, total)
        })?;
        drop(progress);

        let mut out = terminal::output();
        for problem in &report.problems {
            writeln!(out, "{}", terminal::printable(problem))?;
        }
        for note in &report.notes {
            writeln!(out, "note: {}", terminal::printable(note))?;
        }
        let files = units::plural(report.files, "file");
        let problems = match report.problems.len() as u64 {
            0 => "no problem".to_owned(),
            n => units::plural(n, "problem"),
        };
        writeln!(out, "{files}, {}, {}: {problems}", units::size(report.bytes), report.entry_counts())?;
        out.flush()?;
        if report.is_clean() {
            return Ok(());
        }
        let dir = self.database.dir.display();
        Err(Failure::Database(format!(
            "{dir}: {problems}; terrace repair --dry-run shows what can be recovered"
        )))
    }
}
