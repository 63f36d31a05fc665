//! `terrace tour`: shows the main operations of the engine on real data, in a few seconds.
//!
//! ```text
//!   file --> model (an ordered map in memory)
//!        \-> database: load, reads, ranges, batch, snapshot, reopen, each compared with the model
//! ```
//!
//! The tour measures every number that it prints and checks every answer. The first wrong answer
//! ends the tour with exit code 3. The database is kept for further commands.

mod steps;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, ValueHint};
use terrace::Options;
use terrace_env::{Clock, SystemClock};

use self::steps::{Model, TourRunner};
use crate::cli::Run;
use crate::database::ComparatorArg;
use crate::entry_format::EntryReader;
use crate::failure::{CommandResult, Failure};
use crate::terminal::{self, Colour, Style};
use crate::units;

/// Show the main operations on a new database, loaded from a file
///
/// The database is kept afterwards. The next tour replaces it, but never a directory that no tour
/// has created.
#[derive(Args)]
pub(crate) struct Tour {
    /// File of entries, in a format of load; it must fit into memory
    #[arg(value_hint = ValueHint::FilePath)]
    file: PathBuf,
    /// Directory of the database [default: target/tour, or terrace-tour in the system's temporary
    /// directory]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    dir: Option<PathBuf>,
}

/// File that marks the directory of a tour. The engine ignores files with unknown names.
const TOUR_MARKER_FILE: &str = "TOUR";

/// Contents of the marker file, for people.
const TOUR_MARKER_TEXT: &[u8] =
    b"Created by `terrace tour`, which replaces this database each time it runs.\n";

impl Run for Tour {
    fn run(self) -> CommandResult {
        let options = ComparatorArg::default().options_for_reading(Path::new("")).create_if_missing(true);
        let dir = self.dir.unwrap_or_else(|| default_dir(&options));
        let style = Style::of_stdout();
        let mut out = terminal::output();

        writeln!(out, "{}\n", style.paint(Colour::Bold, format_args!("A tour of {}", self.file.display())))?;
        out.flush()?;
        let (model, took) = read_entries(&self.file)?;
        prepare_directory(&options, &dir)?;
        let mut runner = TourRunner::new(out, style, options, dir, model)?;
        runner.print_step(
            "read",
            "the file, into an ordered map that checks every answer",
            &units::time(took),
        )?;
        runner.run_all()
    }
}

fn default_dir(options: &Options) -> PathBuf {
    let target = Path::new("target");
    match options.env.fs.is_dir(target) {
        Ok(true) => target.join("tour"),
        _ => std::env::temp_dir().join("terrace-tour"),
    }
}

/// Reads all entries of the file, and returns them with the time that it took.
fn read_entries(file: &Path) -> Result<(Model, Duration), Failure> {
    let started = SystemClock.monotonic();
    let mut entries = EntryReader::open(file, None)?;
    let mut model = Model::new();
    while let Some((key, value)) = entries.next()? {
        model.insert(key, value);
    }
    Ok((model, SystemClock.monotonic().saturating_sub(started)))
}

/// Makes `dir` an empty directory with the marker file. Removes only a database that a tour
/// created.
fn prepare_directory(options: &Options, dir: &Path) -> CommandResult {
    let fs = &options.env.fs;
    if !fs.exists(dir)? {
        fs.create_dir(dir)?;
    } else if fs.exists(&dir.join(TOUR_MARKER_FILE))? {
        terrace::destroy(dir, options)?;
    } else if !fs.list(dir)?.is_empty() {
        let reason = "not empty and not created by a tour; choose another directory with --dir";
        return Err(Failure::Database(format!("{}: {reason}", dir.display())));
    }
    let mut marker = fs.create(&dir.join(TOUR_MARKER_FILE))?;
    Ok(marker.append(TOUR_MARKER_TEXT).and_then(|()| marker.close())?)
}
