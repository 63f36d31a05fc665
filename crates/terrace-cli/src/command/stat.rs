//! `terrace stat`: the levels of a database, drawn, and its figures.

use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;

use clap::Args;
use serde_json::{Map, Value, json};
use terrace::{Comparator, Db, FileInfo, LevelInfo, Options};
use terrace_format::filename::FileName;

use crate::cli::Run;
use crate::database::Database;
use crate::escape::Escaped;
use crate::failure::{Failure, Outcome};
use crate::record;
use crate::terminal::{self, Colour, Style};
use crate::{picture, units};

/// Draw the levels of a database, with their sizes and ranges of keys
#[derive(Args)]
pub(crate) struct Stat {
    #[command(flatten)]
    database: Database,
    /// Print everything about every file as one line of JSON
    #[arg(long)]
    json: bool,
}

impl Run for Stat {
    fn run(self) -> Outcome {
        let db = self.database.open_to_read()?;
        let figures = Figures::of(&db, &self.database.order.to_read())?;
        let mut out = terminal::output();
        if self.json {
            writeln!(out, "{}", record::json(&figures.to_json()))?;
        } else {
            figures.draw(&mut out, &Style::of_output())?;
        }
        Ok(out.flush()?)
    }
}

/// What there is to say about a database.
pub(crate) struct Figures {
    path: String,
    comparator: Arc<dyn Comparator>,
    /// Whether a stock LevelDB can open it.
    portable: bool,
    sequence: u64,
    log_bytes: u64,
    /// Bytes that it takes now, as it was opened: mostly what the logs hold.
    memory: u64,
    levels: Vec<LevelInfo>,
}

impl Figures {
    /// Of `db`, which was opened with `options`.
    pub(crate) fn of(db: &Db, options: &Options) -> Result<Figures, Failure> {
        Ok(Figures {
            path: db.path().display().to_string(),
            comparator: Arc::clone(&options.comparator),
            portable: db.is_portable(),
            sequence: db.snapshot().sequence(),
            log_bytes: log_bytes(options, db.path())?,
            memory: db.property("terrace.memory").and_then(|bytes| bytes.parse().ok()).unwrap_or(0),
            levels: db.levels(),
        })
    }

    fn files(&self) -> u64 {
        self.levels.iter().map(|level| level.files.len() as u64).sum()
    }

    fn bytes(&self) -> u64 {
        self.levels.iter().map(picture::bytes).sum()
    }

    /// For people.
    pub(crate) fn draw(&self, out: &mut impl Write, style: &Style) -> io::Result<()> {
        writeln!(out, "{}", style.paint(Colour::Bold, Escaped(self.path.as_bytes())))?;
        writeln!(
            out,
            "{}, {} in tables, {} of logs, {} of memory, sequence {}, {}",
            units::plural(self.files(), "table"),
            units::size(self.bytes()),
            units::size(self.log_bytes),
            units::size(self.memory),
            units::count(self.sequence),
            Escaped(self.comparator.name().as_bytes()),
        )?;
        if !self.portable {
            writeln!(
                out,
                "a stock LevelDB can't open it: it has blocks, or may have, that only Terrace reads"
            )?;
        }
        writeln!(out)?;
        picture::draw(out, &self.levels, &*self.comparator, style)
    }

    /// For programs.
    fn to_json(&self) -> Value {
        json!({
            "path": self.path,
            "comparator": self.comparator.name(),
            "portable": self.portable,
            "sequence": self.sequence,
            "log_bytes": self.log_bytes,
            "memory": self.memory,
            "table_bytes": self.bytes(),
            "tables": self.files(),
            "levels": self.levels.iter().map(level_to_json).collect::<Vec<_>>(),
        })
    }
}

fn level_to_json(level: &LevelInfo) -> Value {
    json!({
        "level": level.level,
        "bytes": picture::bytes(level),
        "files": level.files.iter().map(file_to_json).collect::<Vec<_>>(),
    })
}

fn file_to_json(file: &FileInfo) -> Value {
    let numbers = [("number".to_owned(), file.number.into()), ("size".to_owned(), file.size.into())];
    let keys = [record::json_field("smallest", &file.smallest), record::json_field("largest", &file.largest)];
    Value::Object(numbers.into_iter().chain(keys).collect::<Map<_, _>>())
}

/// The bytes of all logs in `dir`. A file that goes away meanwhile counts nothing.
fn log_bytes(options: &Options, dir: &Path) -> terrace_env::Result<u64> {
    let fs = &options.env.fs;
    let mut bytes = 0;
    for name in fs.list(dir)? {
        if let Some(FileName::Log(_)) = name.to_str().and_then(FileName::parse) {
            bytes += fs.len(&dir.join(name)).unwrap_or(0);
        }
    }
    Ok(bytes)
}
