//! `terrace count`: counts the entries of a range.

use std::io::Write;

use clap::Args;

use crate::cli::Run;
use crate::database::{DatabaseArgs, KeyEncodingArgs, KeyRangeArgs};
use crate::failure::CommandResult;
use crate::terminal;

/// Print the number of entries of a database or of a range
#[derive(Args)]
pub(crate) struct Count {
    #[command(flatten)]
    database: DatabaseArgs,
    #[command(flatten)]
    range: KeyRangeArgs,
    #[command(flatten)]
    encoding: KeyEncodingArgs,
}

impl Run for Count {
    fn run(self) -> CommandResult {
        let options = self.range.read_options(&self.encoding)?;
        let db = self.database.open_read_only()?;
        let mut entries = db.raw_iter_with(&options);
        entries.seek_to_first();
        let mut count: u64 = 0;
        while entries.valid() {
            count += 1;
            entries.next();
        }
        // An error ended the count early, so the number would be too small.
        entries.status()?;
        // Plain digits, for scripts.
        let mut out = terminal::output();
        writeln!(out, "{count}")?;
        Ok(out.flush()?)
    }
}
