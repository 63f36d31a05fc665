//! The process that runs Terrace for one turn.

use std::io::{BufRead, Write, stdin, stdout};
use std::path::PathBuf;
use std::process::ExitCode;

use terrace::{Db, Options, WriteBatch, WriteOptions};
use terrace_env::MappedLogs;

use super::history::{ValueId, value_bytes};
use super::interrupted_loads::LoadPlan;

/// Arguments of the process.
#[derive(Debug, clap::Args)]
pub(crate) struct TurnArgs {
    database: PathBuf,
    #[arg(action = clap::ArgAction::Set)]
    reuse_logs: bool,
    mapped_logs: String,
    write_buffer_size: usize,
}

/// Opens the database and obeys the commands of `engine_process`. At the end of the input, the
/// process ends without a close.
pub(crate) fn run_turn(arguments: &TurnArgs) -> ExitCode {
    let opened = Db::open(&arguments.database, &options(arguments));
    let db = match opened {
        Ok(db) => db,
        Err(error) => {
            answer(Err(error));
            return ExitCode::FAILURE;
        }
    };
    answer(Ok(()));
    for line in stdin().lock().lines().map_while(Result::ok) {
        let mut words = line.split(' ');
        match words.next() {
            Some("read") => answer(read_all(&db)),
            Some("write") => answer(write(&db, words)),
            Some("load") => answer(load(&db, words)),
            Some("compact") => {
                // A compaction that fails is no loss of data.
                let _ = db.compact_range(None, None);
                answer(Ok(()));
            }
            _ => {
                answer(db.close());
                return ExitCode::SUCCESS;
            }
        }
    }
    std::process::exit(1)
}

fn options(arguments: &TurnArgs) -> Options {
    let mapped_logs = match arguments.mapped_logs.as_str() {
        "always" => MappedLogs::Always,
        "never" => MappedLogs::Never,
        _ => MappedLogs::Auto,
    };
    Options::default()
        .create_if_missing(true)
        .reuse_logs(arguments.reuse_logs)
        .mapped_logs(mapped_logs)
        .write_buffer_size(Some(arguments.write_buffer_size))
}

fn answer(result: terrace::Result<()>) {
    let mut output = stdout().lock();
    // If the parent has ended, the end of the input ends this process.
    let _ = match result {
        Ok(()) => writeln!(output, "ok"),
        Err(error) => writeln!(output, "error {}", error.to_string().replace('\n', " ")),
    };
    let _ = output.flush();
}

fn read_all(db: &Db) -> terrace::Result<()> {
    let mut lines = String::new();
    for entry in db.iter() {
        let (key, value) = entry?;
        let ValueId { len, hash } = ValueId::of(&value);
        lines.push_str(&format!("{} {len} {hash:x}\n", String::from_utf8_lossy(&key)));
    }
    let _ = stdout().lock().write_all(lines.as_bytes());
    Ok(())
}

fn load<'a>(db: &Db, mut words: impl Iterator<Item = &'a str>) -> terrace::Result<()> {
    let mut number = || words.next().and_then(|word| word.parse().ok()).unwrap_or(0);
    let plan = LoadPlan { seed: number(), count: number() };
    plan.for_each(|key, value| match value {
        Some(value) => db.put(key, value),
        None => db.delete(key),
    })
}

fn write<'a>(db: &Db, mut words: impl Iterator<Item = &'a str>) -> terrace::Result<()> {
    let options = WriteOptions::default().sync(words.next() == Some("sync"));
    let mut batch = WriteBatch::new();
    while let (Some(operation), Some(key)) = (words.next(), words.next()) {
        match (operation, operation == "put") {
            (_, true) => {
                let len = words.next().and_then(|word| word.parse().ok()).unwrap_or(0);
                batch.put(key, value_bytes(len, words.next().unwrap_or("?")));
            }
            _ => {
                batch.delete(key);
            }
        }
    }
    db.write_with(&batch, &options)
}
