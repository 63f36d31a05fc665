//! Steps of the tour, in their order. Each step uses one operation of the engine, compares the
//! answer with the model, and prints two lines: the result with its time, and the call.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use terrace::{Db, Options, WriteBatch};
use terrace_env::{Clock, SystemClock};

use crate::command::stat::DatabaseSummary;
use crate::entry_format::KeyValue;
use crate::escape::Escaped;
use crate::failure::{CommandResult, Failure};
use crate::terminal::{Colour, Style};
use crate::units;

/// Entries in one batch of the load.
const LOAD_BATCH_ENTRIES: usize = 1000;

/// Number of gets of random keys.
const POINT_READS: u64 = 10_000;

/// Expected contents of the database.
pub(super) type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// Runs the steps of the tour and prints their results.
pub(super) struct TourRunner<W> {
    out: W,
    style: Style,
    options: Options,
    dir: PathBuf,
    /// Every entry that the database should hold.
    model: Model,
    /// Prefix of some of the keys.
    prefix: Vec<u8>,
}

impl<W: Write> TourRunner<W> {
    /// Creates a runner for a new database in `dir` with the entries of `model`.
    pub(super) fn new(
        out: W,
        style: Style,
        options: Options,
        dir: PathBuf,
        model: Model,
    ) -> Result<TourRunner<W>, Failure> {
        let prefix = choose_prefix(&model)?;
        Ok(TourRunner { out, style, options, dir, model, prefix })
    }

    /// Runs all steps.
    pub(super) fn run_all(mut self) -> CommandResult {
        let db = Db::open(&self.dir, &self.options)?;
        self.load(&db)?;
        self.point_reads(&db)?;
        self.prefix_scan(&db)?;
        self.reverse_range(&db)?;
        self.batch_and_snapshot(&db)?;
        self.transaction(&db)?;
        let db = self.reopen(db)?;
        self.print_levels(&db)?;
        db.close()?;
        self.print_next_commands()
    }

    /// Prints a step: its name, its result and the call.
    pub(super) fn print_step(&mut self, name: &str, call: &str, result: &str) -> CommandResult {
        writeln!(self.out, "  {}  {result}", self.style.paint(Colour::Green, format_args!("{name:<10}")))?;
        writeln!(self.out, "  {:<10}  {}", "", self.style.paint(Colour::Dim, call))?;
        Ok(self.out.flush()?)
    }

    fn load(&mut self, db: &Db) -> CommandResult {
        let (loaded, took) = timed(|| {
            let mut batch = WriteBatch::new();
            for (i, (key, value)) in self.model.iter().enumerate() {
                batch.put(key, value);
                if (i + 1) % LOAD_BATCH_ENTRIES == 0 {
                    db.write(&batch)?;
                    batch.clear();
                }
            }
            db.write(&batch).map(|()| self.model.len() as u64)
        })?;
        let result =
            format!("{} in {}, {}", units::entries(loaded), units::time(took), units::rate(loaded, took));
        self.print_step("load", "batch.put(key, value) 1,000 times, db.write(&batch)", &result)
    }

    fn point_reads(&mut self, db: &Db) -> CommandResult {
        let entries: Vec<_> = self.model.iter().collect();
        let picks: Vec<_> = (0..POINT_READS)
            .map(|_| entries[self.options.env.random.uniform(entries.len() as u64) as usize])
            .collect();
        let (found, took) =
            timed(|| picks.iter().map(|(key, _)| db.get(key)).collect::<terrace::Result<Vec<_>>>())?;
        for ((key, value), found) in picks.iter().zip(&found) {
            check_equal(&format!("the value of {}", Escaped(key)), &found.as_ref(), &Some(*value))?;
        }
        let each = took / u32::try_from(picks.len()).unwrap_or(1).max(1);
        let result = format!("{} random keys, {} each", units::count(POINT_READS), units::time(each));
        let (key, value) = picks[0];
        let call = format!("db.get({}) -> {}", quoted(key), quoted(value));
        self.print_step("get", &call, &result)
    }

    fn prefix_scan(&mut self, db: &Db) -> CommandResult {
        let (found, took) = timed(|| db.prefix(&self.prefix).collect::<terrace::Result<Vec<KeyValue>>>())?;
        check_equal_entries(
            "the entries of the prefix",
            &found,
            entries_with_prefix(&self.model, &self.prefix),
        )?;
        let result = format!(
            "{} begin with {}, read in {}",
            units::entries(found.len() as u64),
            quoted(&self.prefix),
            units::time(took)
        );
        self.print_step("prefix", "db.prefix(prefix)", &result)
    }

    fn reverse_range(&mut self, db: &Db) -> CommandResult {
        let inside: Vec<_> = entries_with_prefix(&self.model, &self.prefix).collect();
        let from = inside[0].0.clone();
        let to = inside[inside.len() / 2].0.clone();
        let (found, took) = timed(|| {
            db.range(from.as_slice()..to.as_slice()).rev().collect::<terrace::Result<Vec<KeyValue>>>()
        })?;
        check_equal_entries("the reverse range", &found, self.model.range(from..to).rev())?;
        let result = format!(
            "{} of a range, last first, in {}",
            units::entries(found.len() as u64),
            units::time(took)
        );
        self.print_step("reverse", "db.range(from..to).rev()", &result)
    }

    /// Moves a value to another key in one batch, while a snapshot keeps the old state.
    fn batch_and_snapshot(&mut self, db: &Db) -> CommandResult {
        let (old_key, value) = self.model.pop_first().ok_or_else(|| Failure::File("no entries".into()))?;
        let new_key = [&old_key, " (moved)".as_bytes()].concat();
        let before = db.snapshot();

        let mut batch = WriteBatch::new();
        batch.delete(&old_key);
        batch.put(&new_key, &value);
        let ((), took) = timed(|| db.write(&batch))?;
        self.model.insert(new_key.clone(), value.clone());

        check_equal("the old key after the batch", &db.get(&old_key)?, &None)?;
        check_equal("the new key after the batch", &db.get(&new_key)?.as_ref(), &Some(&value))?;
        self.print_step(
            "batch",
            "batch.delete(old); batch.put(new, value); db.write(&batch)",
            &format!("moved a value to another key atomically, in {}", units::time(took)),
        )?;

        check_equal("the old key in the snapshot", &before.get(&old_key)?, &Some(value))?;
        check_equal("the new key in the snapshot", &before.get(&new_key)?, &None)?;
        self.print_step(
            "snapshot",
            "before.get(key)",
            "created before the batch, still shows the old key and not the new one",
        )
    }

    /// Swaps two values in a transaction. Another writer interferes with its first run.
    fn transaction(&mut self, db: &Db) -> CommandResult {
        let ends = self.model.first_key_value().zip(self.model.last_key_value());
        let Some(((first, one), (last, other))) = ends else {
            return Err(Failure::File("no entries".into()));
        };
        let first = first.clone();
        let last = last.clone();
        let one = one.clone();
        let other = other.clone();
        let mut runs = 0;
        let ((), took) = timed(|| {
            db.transact(|transaction| {
                let one = transaction.get(&first)?.unwrap_or_default();
                let other = transaction.get(&last)?.unwrap_or_default();
                runs += 1;
                if runs == 1 {
                    // The writer puts the same value, and is a conflict nevertheless.
                    db.put(&first, &one)?;
                }
                transaction.put(&first, other)?;
                transaction.put(&last, one)
            })
        })?;
        check_equal("the runs of the transaction", &runs, &2)?;
        self.model.insert(first.clone(), other);
        self.model.insert(last.clone(), one);
        for key in [&first, &last] {
            check_equal("a value after the transaction", &db.get(key)?.as_ref(), &self.model.get(key))?;
        }
        self.print_step(
            "transact",
            "db.transact(|t| { let a = t.get(x)?; let b = t.get(y)?; t.put(x, b)?; t.put(y, a) })",
            &format!(
                "swapped two values, repeated after a conflict with another writer, in {}",
                units::time(took)
            ),
        )
    }

    fn reopen(&mut self, db: Db) -> Result<Db, Failure> {
        db.flush()?;
        let (db, took) = timed(|| {
            db.close()?;
            Db::open(&self.dir, &self.options)
        })?;
        let (found, scan) = timed(|| db.iter().collect::<terrace::Result<Vec<KeyValue>>>())?;
        check_equal_entries("the entries after reopening", &found, self.model.iter())?;
        let result = format!(
            "closed and opened in {}; all {} found, scanned in {}",
            units::time(took),
            units::entries(found.len() as u64),
            units::time(scan)
        );
        self.print_step("reopen", "db.flush(); db.close(); Db::open(dir, &options)", &result)?;
        Ok(db)
    }

    fn print_levels(&mut self, db: &Db) -> CommandResult {
        writeln!(self.out)?;
        DatabaseSummary::collect(db, &self.options)?.draw(&mut self.out, &self.style)?;
        Ok(writeln!(self.out)?)
    }

    fn print_next_commands(mut self) -> CommandResult {
        let dir = shell_word(&self.dir.display().to_string());
        let prefix = shell_word(&Escaped(&self.prefix).to_string());
        // The program's name as the user typed it, because the program may not be on the shell's
        // search path.
        let program = std::env::args().next().map_or("terrace".into(), |name| shell_word(&name));
        writeln!(self.out, "{}", self.style.paint(Colour::Bold, "The database is kept. Next, try"))?;
        for line in [
            format!("stat {dir}"),
            format!("scan {dir} --prefix {prefix} --reverse --limit 5"),
            format!("dump {dir} --format jsonl | head"),
            format!("verify {dir}"),
            format!("compact {dir}"),
        ] {
            writeln!(self.out, "  {program} {line}")?;
        }
        Ok(self.out.flush()?)
    }
}

fn timed<T>(work: impl FnOnce() -> terrace::Result<T>) -> Result<(T, Duration), Failure> {
    let started = SystemClock.monotonic();
    let done = work()?;
    Ok((done, SystemClock.monotonic().saturating_sub(started)))
}

/// Returns an error unless `found` equals `expected`.
fn check_equal<T: PartialEq + std::fmt::Debug>(name: &str, found: &T, expected: &T) -> CommandResult {
    if found == expected {
        return Ok(());
    }
    Err(Failure::Database(format!("tour: {name}: found {found:?}, expected {expected:?}")))
}

/// Returns an error unless `found` equals `expected`, and names the first entry that differs.
fn check_equal_entries<'a>(
    name: &str,
    found: &[KeyValue],
    expected: impl Iterator<Item = (&'a Vec<u8>, &'a Vec<u8>)>,
) -> CommandResult {
    let mut found_iter = found.iter();
    let mut count = 0_u64;
    for (key, value) in expected {
        let expected = Some(format!("{} -> {}", quoted(key), quoted(value)));
        let found = found_iter.next().map(|(key, value)| format!("{} -> {}", quoted(key), quoted(value)));
        check_equal(&format!("{name}, entry {count}"), &found, &expected)?;
        count += 1;
    }
    check_equal(&format!("the number of {name}"), &(found.len() as u64), &count)
}

/// Chooses a prefix that some keys share: the text up to the first slash of the middle key, or its
/// first byte if it has no slash.
fn choose_prefix(model: &Model) -> Result<Vec<u8>, Failure> {
    let Some(key) = model.keys().nth(model.len() / 2) else {
        return Err(Failure::File("the tour needs a file with at least one entry".into()));
    };
    let end = key.iter().position(|byte| *byte == b'/').map_or(key.len().min(1), |slash| slash + 1);
    Ok(key[..end].to_vec())
}

fn entries_with_prefix<'a>(
    model: &'a Model,
    prefix: &'a [u8],
) -> impl Iterator<Item = (&'a Vec<u8>, &'a Vec<u8>)> {
    model.range(prefix.to_vec()..).take_while(move |(key, _)| key.starts_with(prefix))
}

/// Quotes bytes, and truncates long ones.
fn quoted(bytes: &[u8]) -> String {
    const MAX_QUOTED_CHARS: usize = 32;
    let text = Escaped(bytes).to_string();
    match text.char_indices().nth(MAX_QUOTED_CHARS) {
        Some((end, _)) => format!("\"{}...\"", &text[..end]),
        None => format!("\"{text}\""),
    }
}

/// Quotes `word` so that a shell reads it as one word.
fn shell_word(word: &str) -> String {
    if !word.is_empty() && word.chars().all(|c| c.is_alphanumeric() || "/._-+:@%".contains(c)) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}
