//! `terrace compact`: deleted and replaced entries gone from the disk, levels merged.

use std::ffi::OsString;
use std::io::Write;

use clap::Args;
use terrace::Db;
use terrace_env::Clock;

use crate::cli::Run;
use crate::database::{Database, Tables, Words};
use crate::failure::Outcome;
use crate::progress::Progress;
use crate::{picture, terminal, units};

/// Merge the tables of a range of keys and drop what was deleted or replaced
#[derive(Args)]
pub(crate) struct Compact {
    #[command(flatten)]
    database: Database,
    /// First key of the range [default: the first of all]
    #[arg(long, value_name = "KEY")]
    from: Option<OsString>,
    /// Last key of the range [default: the last of all]
    #[arg(long, value_name = "KEY")]
    to: Option<OsString>,
    #[command(flatten)]
    words: Words,
    #[command(flatten)]
    tables: Tables,
}

impl Run for Compact {
    fn run(self) -> Outcome {
        let from = self.words.optional(self.from.as_ref())?;
        let to = self.words.optional(self.to.as_ref())?;
        let db = self.database.open_to_write(&self.tables, None)?;
        db.flush()?;
        let before = tables(&db);
        let started = terrace_env::SystemClock.monotonic();
        let progress = Progress::spinner("compacting");
        db.compact_range(from.as_deref(), to.as_deref())?;
        drop(progress);
        let took = terrace_env::SystemClock.monotonic().saturating_sub(started);
        let mut out = terminal::output();
        writeln!(out, "{before} -> {} in {}", tables(&db), units::time(took))?;
        out.flush()?;
        Ok(db.close()?)
    }
}

fn tables(db: &Db) -> String {
    let levels = db.levels();
    let files = levels.iter().map(|level| level.files.len() as u64).sum();
    format!("{}, {}", units::plural(files, "table"), units::size(levels.iter().map(picture::bytes).sum()))
}
