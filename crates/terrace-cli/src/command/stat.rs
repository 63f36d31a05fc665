//! `terrace stat`: a chart of the levels of a database, and its sizes.

use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;

use clap::Args;
use serde_json::{Map, Value, json};
use terrace::{Comparator, Db, LevelInfo, Options, RecoveredLog, RecoveryReport, TableInfo};
use terrace_format::filename::FileName;

use crate::cli::Run;
use crate::database::{DamageArgs, DatabaseArgs, LiveArg};
use crate::entry_format;
use crate::escape::Escaped;
use crate::failure::{CommandResult, Failure};
use crate::terminal::{self, Colour, Style};
use crate::{level_chart, units};

/// Draw the levels of a database, with their sizes and key ranges
#[derive(Args)]
pub(crate) struct Stat {
    #[command(flatten)]
    database: DatabaseArgs,
    /// Print all properties of all files as one line of JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    live: LiveArg,
    #[command(flatten)]
    damage: DamageArgs,
}

impl Run for Stat {
    fn run(self) -> CommandResult {
        let db = match self.live.live {
            true => self.database.follow()?,
            false => self.database.open_with_damage(&self.damage).map_err(Failure::advise_live)?,
        };
        let summary = DatabaseSummary::collect(&db, &self.database.options_for_reading())?;
        let mut out = terminal::output();
        if self.json {
            writeln!(out, "{}", entry_format::printable_json(&summary.to_json()))?;
        } else {
            summary.draw(&mut out, &Style::of_stdout())?;
        }
        out.flush()?;
        match self.damage.failure_of(&db) {
            Some(failure) if !self.damage.allow_damage => Err(failure),
            Some(failure) => {
                self.damage.warn(&failure);
                Ok(())
            }
            None => Ok(()),
        }
    }
}

/// Properties of a database that `terrace stat` prints.
pub(crate) struct DatabaseSummary {
    path: String,
    comparator: Arc<dyn Comparator>,
    /// Whether stock LevelDB can open the database.
    leveldb_compatible: bool,
    /// Name of the codec of the tables.
    codec: &'static str,
    sequence: u64,
    log_bytes: u64,
    /// Bytes of memory in use right after the open: mostly memtables replayed from the logs.
    memory: u64,
    levels: Vec<LevelInfo>,
    /// End of each log, and damage.
    recovery: RecoveryReport,
}

impl DatabaseSummary {
    /// Collects the summary of `db`, which was opened with `options`.
    pub(crate) fn collect(db: &Db, options: &Options) -> Result<DatabaseSummary, Failure> {
        Ok(DatabaseSummary {
            path: db.path().display().to_string(),
            comparator: Arc::clone(&options.comparator),
            leveldb_compatible: db.is_leveldb_compatible(),
            codec: db.codec().name,
            sequence: db.snapshot().sequence(),
            log_bytes: log_bytes(options, db.path())?,
            memory: db.property("terrace.memory").and_then(|bytes| bytes.parse().ok()).unwrap_or(0),
            levels: db.levels(),
            recovery: db.recovery().clone(),
        })
    }

    fn files(&self) -> u64 {
        self.levels.iter().map(|level| level.files.len() as u64).sum()
    }

    fn bytes(&self) -> u64 {
        level_chart::total_bytes(&self.levels)
    }

    /// Draws the summary for people.
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
        if !self.leveldb_compatible {
            writeln!(
                out,
                "not readable by LevelDB: some blocks may use zstd or another codec that it lacks ({})",
                self.codec
            )?;
        }
        for log in self.recovery.logs.iter().filter(|log| log.length > 0) {
            let file = FileName::Log(log.number);
            let end = units::count(log.end);
            let length = units::count(log.length);
            writeln!(out, "{file} ends at {end} of {length} bytes: {}", log.reason)?;
        }
        writeln!(out)?;
        level_chart::draw(out, &self.levels, &*self.comparator, style)
    }

    /// Returns the summary for programs.
    fn to_json(&self) -> Value {
        json!({
            "path": self.path,
            "comparator": self.comparator.name(),
            "portable": self.leveldb_compatible,
            "compression": self.codec,
            "sequence": self.sequence,
            "log_bytes": self.log_bytes,
            "memory": self.memory,
            "table_bytes": self.bytes(),
            "tables": self.files(),
            "logs": self.recovery.logs.iter().map(log_to_json).collect::<Vec<_>>(),
            "damage": self.recovery.damage.iter().map(|damage| damage.to_string()).collect::<Vec<_>>(),
            "levels": self.levels.iter().map(level_to_json).collect::<Vec<_>>(),
        })
    }
}

fn log_to_json(log: &RecoveredLog) -> Value {
    json!({ "number": log.number, "length": log.length, "end": log.end, "reason": log.reason.to_string() })
}

fn level_to_json(level: &LevelInfo) -> Value {
    json!({
        "level": level.level,
        "bytes": level_chart::level_bytes(level),
        "files": level.files.iter().map(file_to_json).collect::<Vec<_>>(),
    })
}

fn file_to_json(file: &TableInfo) -> Value {
    let fields = [
        ("number".to_owned(), file.number.into()),
        ("size".to_owned(), file.size.into()),
        entry_format::json_field("smallest", &file.smallest),
        entry_format::json_field("largest", &file.largest),
    ];
    Value::Object(fields.into_iter().collect::<Map<_, _>>())
}

/// Total size of the logs in `dir`. A log that is removed meanwhile counts as empty.
fn log_bytes(options: &Options, dir: &Path) -> terrace_env::Result<u64> {
    let fs = &options.env.fs;
    let mut bytes = 0;
    for name in fs.list(dir)? {
        if let Some(FileName::Log(_)) = name.to_str().and_then(FileName::parse) {
            bytes = u64::saturating_add(bytes, fs.file_size(&dir.join(name)).unwrap_or(0));
        }
    }
    Ok(bytes)
}
