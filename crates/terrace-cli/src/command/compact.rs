//! `terrace compact`: compacts a key range, which drops deleted and replaced entries from the
//! tables.

use std::ffi::OsString;
use std::io::Write;

use clap::Args;
use terrace::Db;
use terrace_env::Clock;

use crate::cli::Run;
use crate::database::{AcceptedCodecs, DatabaseArgs, FileFormatArgs, MemoryArgs};
use crate::failure::CommandResult;
use crate::key_args::KeyEncodingArgs;
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
    fn run(mut self) -> CommandResult {
        let rewrites_all = self.file_format.compression.is_some() && self.from.is_none() && self.to.is_none();
        if rewrites_all {
            self.file_format.accepted_codecs = AcceptedCodecs::LevelDbForAllTables;
        }
        let from = self.encoding.decode_optional(self.from.as_ref())?;
        let to = self.encoding.decode_optional(self.to.as_ref())?;
        self.database.comparator.check_bounds(&self.database.dir, from.as_deref(), to.as_deref())?;
        let db = self.database.open_writable(&self.file_format, &MemoryArgs::default(), None)?;
        db.flush()?;
        let before = table_summary(&db);
        let started = terrace_env::SystemClock.monotonic();
        if rewrites_all {
            let progress = Progress::line("compacting");
            db.rewrite_tables()?;
            drop(progress);
        } else {
            let mut progress = Progress::share("compacting");
            db.compact_range_with_progress(from.as_deref(), to.as_deref(), |done, total| {
                progress.set_position_and_total(done, total);
            })?;
        }
        let took = terrace_env::SystemClock.monotonic().saturating_sub(started);
        let mut out = terminal::output();
        writeln!(out, "{before} -> {} in {}", table_summary(&db), units::time(took))?;
        out.flush()?;
        Ok(db.close()?)
    }
}

/// Returns the number of tables and their size.
pub(super) fn table_summary(db: &Db) -> String {
    let levels = db.levels();
    let files = levels.iter().map(|level| level.files.len() as u64).sum();
    format!("{}, {}", units::plural(files, "table"), units::size(level_chart::total_bytes(&levels)))
}
