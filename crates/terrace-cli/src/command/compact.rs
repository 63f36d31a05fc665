//! `terrace compact`: compacts a key range, which drops deleted and replaced entries from the
//! tables.

use std::ffi::OsString;
use std::io::Write;

use clap::Args;
use terrace::Db;
use terrace_env::Clock;

use crate::cli::Run;
use crate::database::{DatabaseArgs, FileFormatArgs, KeyEncodingArgs};
use crate::failure::CommandResult;
use crate::progress::Progress;
use crate::{level_chart, terminal, units};

/// Compact a key range, and drop deleted and replaced entries
#[derive(Args)]
pub(crate) struct Compact {
    #[command(flatten)]
    database: DatabaseArgs,
    /// First key of the range [default: the first key of the database]
    #[arg(long, value_name = "KEY")]
    from: Option<OsString>,
    /// Last key of the range [default: the last key of the database]
    #[arg(long, value_name = "KEY")]
    to: Option<OsString>,
    #[command(flatten)]
    encoding: KeyEncodingArgs,
    #[command(flatten)]
    file_format: FileFormatArgs,
}

impl Run for Compact {
    fn run(self) -> CommandResult {
        let from = self.encoding.decode_optional(self.from.as_ref())?;
        let to = self.encoding.decode_optional(self.to.as_ref())?;
        let options = self.file_format.apply_to(self.database.comparator.options_for_writing()?);
        let db = self.database.open_writable(options, None)?;
        db.flush()?;
        let before = table_summary(&db);
        let started = terrace_env::SystemClock.monotonic();
        let mut progress = Progress::share("compacting");
        db.compact_range_with_progress(from.as_deref(), to.as_deref(), |done, total| {
            progress.set_position_and_total(done, total);
        })?;
        drop(progress);
        let took = terrace_env::SystemClock.monotonic().saturating_sub(started);
        let mut out = terminal::output();
        writeln!(out, "{before} -> {} in {}", table_summary(&db), units::time(took))?;
        out.flush()?;
        Ok(db.close()?)
    }
}

fn table_summary(db: &Db) -> String {
    let levels = db.levels();
    let files = levels.iter().map(|level| level.files.len() as u64).sum();
    format!(
        "{}, {}",
        units::plural(files, "table"),
        units::size(levels.iter().map(level_chart::level_bytes).sum())
    )
}
