//! `terrace tour`: what the engine does, shown on real data in a few seconds.
//!
//! ```text
//!   file --> memory (an ordered map, the judge)
//!        \-> database: load, reads, ranges, batch, snapshot, reopen, each compared with the judge
//! ```
//!
//! Every number on the screen was measured in this run, and every claim checked: the first that does not hold ends the
//! tour with exit code 3. The database stays, for the reader to go on with.

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

/// Load a file into a new database and show what can be done with it
///
/// The database stays afterwards. The next tour replaces it, but never a directory that no tour has made.
#[derive(Args)]
pub(crate) struct Tour {
    /// File of entries, as for load; small enough for the memory
    #[arg(value_hint = ValueHint::FilePath)]
    file: PathBuf,
    /// Directory of the database [default: target/tour, or in the system's temporary directory]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    dir: Option<PathBuf>,
}

/// The file that tells a tour's directory from any other. The engine leaves names alone that it does not know.
const TOUR_MARKER_FILE: &str = "TOUR";

/// What the mark says to people.
const TOUR_MARKER_TEXT: &[u8] =
    b"Made by `terrace tour`, which replaces this database each time it is run.\n";

impl Run for Tour {
    fn run(self) -> CommandResult {
        let options = Options { create_if_missing: true, ..ComparatorArg::default().options_for_reading() };
        let dir = self.dir.unwrap_or_else(|| default_dir(&options));
        let style = Style::of_stdout();
        let mut out = terminal::output();

        writeln!(out, "{}\n", style.paint(Colour::Bold, format_args!("A tour of {}", self.file.display())))?;
        out.flush()?;
        let (model, took) = read_entries(&self.file)?;
        prepare_directory(&options, &dir)?;
        let mut guide = TourRunner::new(out, style, options, dir, model)?;
        guide.print_step(
            "read",
            "the file, into an ordered map that will judge every answer",
            &units::time(took),
        )?;
        guide.run_all()
    }
}

fn default_dir(options: &Options) -> PathBuf {
    let target = Path::new("target");
    match options.env.fs.is_dir(target) {
        Ok(true) => target.join("tour"),
        _ => std::env::temp_dir().join("terrace-tour"),
    }
}

/// The entries of the file, and how long it took to read them.
fn read_entries(file: &Path) -> Result<(Model, Duration), Failure> {
    let started = SystemClock.monotonic();
    let mut entries = EntryReader::open(file, None)?;
    let mut model = Model::new();
    while let Some((key, value)) = entries.next()? {
        model.insert(key, value);
    }
    Ok((model, SystemClock.monotonic().saturating_sub(started)))
}

/// Makes `dir` an empty directory with the mark. Only what a tour has made before is removed.
fn prepare_directory(options: &Options, dir: &Path) -> CommandResult {
    let fs = &options.env.fs;
    if !fs.exists(dir)? {
        fs.create_dir(dir)?;
    } else if fs.exists(&dir.join(TOUR_MARKER_FILE))? {
        terrace::destroy(dir, options)?;
    } else if !fs.list(dir)?.is_empty() {
        let what = "not empty and not made by a tour; --dir names another directory";
        return Err(Failure::Database(format!("{}: {what}", dir.display())));
    }
    let mut mark = fs.create(&dir.join(TOUR_MARKER_FILE))?;
    Ok(mark.append(TOUR_MARKER_TEXT).and_then(|()| mark.close())?)
}
