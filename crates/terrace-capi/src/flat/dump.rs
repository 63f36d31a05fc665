//! A file of a database as lines for people, in LevelDB's words: tools read them.
//!
//! ```text
//!   log        --- offset 0; sequence 7          then a line for each put and each delete
//!   manifest   --- offset 0; VersionEdit { ... }
//!   table      'key' @ 7 : val => 'value'
//! ```

use std::fmt::Write as _;
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;

use terrace::env::{Access, Env, SequentialFile};
use terrace::table::TableFile;
use terrace::{BatchOp, Error, Options};
use terrace_format::batch;
use terrace_format::edit::VersionEdit;
use terrace_format::filename::FileName;
use terrace_format::key::{self, InternalKey, Kind};
use terrace_format::log::{Item, LogReader};

use super::abi::{Bytes, Code, Foreign, Handed, Report, answer};
use super::foreign::{EnvCalls, World, WritableCalls};
use crate::border::Failure;

/// Writes what is in the file at `path` of an environment (none: the machine's) to `to`.
#[unsafe(no_mangle)]
extern "C" fn terrace_cxx_dump(
    env: Handed<EnvCalls>,
    path: Bytes<'_>,
    to: Handed<WritableCalls>,
    report: &mut Report,
) -> Code {
    let path = path.path();
    answer(report, || {
        let env = env.foreign().map_or_else(Env::system, |env| World::new(env).env());
        let to = to.foreign().ok_or_else(|| Failure::invalid("no file to write to"))?;
        let name = path.file_name().and_then(|name| name.to_str()).and_then(FileName::parse);
        match name {
            Some(FileName::Log(_)) => log(&env, path, &to, writes),
            Some(FileName::Manifest(_)) => log(&env, path, &to, edit),
            Some(FileName::Table(_) | FileName::OldTable(_)) => table(env, path, &to),
            Some(_) => Err(Failure::invalid(format!("{}: not a dump-able file type", path.display()))),
            None => Err(Failure::invalid(format!("{}: unknown file type", path.display()))),
        }
    })
}

struct Reading(Box<dyn SequentialFile>);

impl Read for Reading {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.0.read(buf).map_err(io::Error::other)
    }
}

fn log(
    env: &Env,
    path: &Path,
    to: &Foreign<WritableCalls>,
    show: fn(&[u8]) -> String,
) -> Result<(), Failure> {
    let mut reader = LogReader::new(Reading(env.fs.open_sequential(path).map_err(Error::from)?));
    let unreadable = |error: io::Error| Failure { kind: terrace::ErrorKind::Io, what: error.to_string() };
    while let Some(item) = reader.next().map_err(unreadable)? {
        let text = match item {
            Item::Record { offset, data } => format!("--- offset {offset}; {}", show(data)),
            Item::Damage { flaw, dropped } => format!("corruption: {dropped} bytes; {flaw}\n"),
        };
        to.append(text.as_bytes())?;
    }
    Ok(())
}

fn writes(record: &[u8]) -> String {
    let batch = match batch::check(record) {
        Ok(batch) => batch,
        Err(flaw) => return format!("not a batch: {flaw}\n"),
    };
    let mut text = format!("sequence {}\n", batch.sequence());
    for write in batch.iter() {
        // Writing to a String does not fail.
        let _ = match write {
            BatchOp::Put { key, value } => writeln!(text, "  put '{}' '{}'", Escaped(key), Escaped(value)),
            BatchOp::Delete { key } => writeln!(text, "  del '{}'", Escaped(key)),
        };
    }
    text
}

fn edit(record: &[u8]) -> String {
    let edit = match VersionEdit::decode(record) {
        Ok(edit) => edit,
        Err(flaw) => return format!("not an edit: {flaw}\n"),
    };
    let mut lines = vec!["VersionEdit {".to_owned()];
    lines.extend(edit.comparator.map(|name| format!("  Comparator: {}", String::from_utf8_lossy(&name))));
    let numbers = [
        ("LogNumber", edit.log_number),
        ("PrevLogNumber", edit.prev_log_number),
        ("NextFile", edit.next_file),
        ("LastSeq", edit.last_sequence),
    ];
    lines.extend(numbers.iter().filter_map(|(name, number)| number.map(|n| format!("  {name}: {n}"))));
    lines.extend(
        edit.compact_pointers.iter().map(|(level, at)| format!("  CompactPointer: {level} {}", place(at))),
    );
    lines.extend(edit.deleted.iter().map(|(level, number)| format!("  RemoveFile: {level} {number}")));
    lines.extend(edit.added.iter().map(|(level, file)| {
        let (first, last) = (place(&file.smallest), place(&file.largest));
        format!("  AddFile: {level} {} {} {first} .. {last}", file.number, file.size)
    }));
    lines.push("}\n".to_owned());
    lines.join("\n")
}

fn place(key: &InternalKey) -> String {
    match key::parse(key.as_bytes()) {
        Ok(key) => format!("'{}' @ {} : {}", Escaped(key.user_key), key.sequence, key.kind as u8),
        Err(_) => format!("(bad){}", Escaped(key.as_bytes())),
    }
}

fn table(env: Env, path: &Path, to: &Foreign<WritableCalls>) -> Result<(), Failure> {
    let file = env.fs.open_random(path, Access::Read).map_err(Error::from)?;
    // A walk from the first entry on asks for no order, so that of the database need not be known.
    let options = Options { env, ..Options::default() };
    let mut cursor = TableFile::open(Arc::clone(&file), path, &options)?.cursor(false);
    cursor.seek_to_first();
    while cursor.valid() {
        to.append(entry(cursor.key(), cursor.value()).as_bytes())?;
        cursor.next();
    }
    if let Err(error) = cursor.status() {
        to.append(format!("iterator error: {}\n", Failure::from(error)).as_bytes())?;
    }
    Ok(())
}

fn entry(internal: &[u8], value: &[u8]) -> String {
    let value = Escaped(value);
    match key::parse(internal) {
        Ok(key) => {
            let kind = if key.kind == Kind::Put { "val" } else { "del" };
            format!("'{}' @ {} : {kind} => '{value}'\n", Escaped(key.user_key), key.sequence)
        }
        Err(_) => format!("badkey '{}' => '{value}'\n", Escaped(internal)),
    }
}

/// Bytes as text: what ASCII can't print is `\x` and two digits.
struct Escaped<'a>(&'a [u8]);

impl std::fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for &byte in self.0 {
            match byte {
                b' '..=b'~' => f.write_char(char::from(byte))?,
                _ => write!(f, "\\x{byte:02x}")?,
            }
        }
        Ok(())
    }
}
