//! Dump of a database file as text, in LevelDB's format, which tools parse.
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

use terrace::env::{AccessMode, Env, SequentialFile};
use terrace::table::SstFileReader;
use terrace::{BatchOp, Error, Options};
use terrace_format::batch;
use terrace_format::filename::FileName;
use terrace_format::key::{self, InternalKey, ValueType};
use terrace_format::log::{LogItem, LogReader, LogSource};
use terrace_format::version_edit::VersionEdit;

use super::callbacks::{EnvCallbacks, UserEnv, WritableFileCallbacks};
use super::types::{CxxSlice, ErrorReport, NullableUserObject, StatusCode, UserObject, run_with_report};
use crate::ffi::StatusError;

/// Writes the contents of the file at `path` to `to`. Without `env` it reads from the default
/// environment.
#[unsafe(no_mangle)]
extern "C" fn terrace_cxx_dump(
    env: NullableUserObject<EnvCallbacks>,
    path: CxxSlice<'_>,
    to: NullableUserObject<WritableFileCallbacks>,
    report: &mut ErrorReport,
) -> StatusCode {
    let path = path.as_path();
    run_with_report(report, || {
        let env = env.non_null().map_or_else(Env::system, |env| UserEnv::new(env).to_env());
        let to = to.non_null().ok_or_else(|| StatusError::invalid_argument("no file to write to"))?;
        let name = path.file_name().and_then(|name| name.to_str()).and_then(FileName::parse);
        match name {
            Some(FileName::Log(_)) => dump_log(&env, path, &to, format_batch),
            Some(FileName::Manifest(_)) => dump_log(&env, path, &to, format_version_edit),
            Some(FileName::Table(_) | FileName::OldTable(_)) => dump_table(env, path, &to),
            Some(_) => {
                Err(StatusError::invalid_argument(format!("{}: not a dump-able file type", path.display())))
            }
            None => Err(StatusError::invalid_argument(format!("{}: unknown file type", path.display()))),
        }
    })
}

struct SequentialFileReader(Box<dyn SequentialFile>);

impl Read for SequentialFileReader {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.0.read(buf).map_err(io::Error::other)
    }
}

impl LogSource for SequentialFileReader {
    fn skip_hole(&mut self, unit: u64) -> io::Result<u64> {
        self.0.skip_hole(unit).map_err(io::Error::other)
    }
}

fn dump_log(
    env: &Env,
    path: &Path,
    to: &UserObject<WritableFileCallbacks>,
    format_record: fn(&[u8]) -> String,
) -> Result<(), StatusError> {
    let mut reader = LogReader::new(SequentialFileReader(env.fs.open_sequential(path).map_err(Error::from)?));
    while let Some(item) = reader.next().map_err(read_error)? {
        let text = match item {
            LogItem::Record { offset, data, .. } => format!("--- offset {offset}; {}", format_record(data)),
            LogItem::Corruption { error, dropped } => format!("corruption: {dropped} bytes; {error}\n"),
        };
        to.append(text.as_bytes())?;
    }
    Ok(())
}

fn read_error(error: io::Error) -> StatusError {
    StatusError { kind: terrace::ErrorKind::Io, message: error.to_string() }
}

fn format_batch(record: &[u8]) -> String {
    let batch = match batch::validate(record) {
        Ok(batch) => batch,
        Err(error) => return format!("not a batch: {error}\n"),
    };
    let mut text = format!("sequence {}\n", batch.sequence());
    for write in batch.iter() {
        // Writing to a `String` cannot fail.
        let _ = match write {
            BatchOp::Put { key, value } => writeln!(text, "  put '{}' '{}'", Escaped(key), Escaped(value)),
            BatchOp::Delete { key } => writeln!(text, "  del '{}'", Escaped(key)),
        };
    }
    text
}

fn format_version_edit(record: &[u8]) -> String {
    let edit = match VersionEdit::decode(record) {
        Ok(edit) => edit,
        Err(error) => return format!("not an edit: {error}\n"),
    };
    let mut lines = vec!["VersionEdit {".to_owned()];
    lines.extend(edit.comparator.map(|name| format!("  Comparator: {}", String::from_utf8_lossy(&name))));
    let numbers = [
        ("LogNumber", edit.log_number),
        ("PrevLogNumber", edit.prev_log_number),
        ("NextFile", edit.next_file_number),
        ("LastSeq", edit.last_sequence),
    ];
    lines.extend(numbers.iter().filter_map(|(name, number)| number.map(|n| format!("  {name}: {n}"))));
    lines.extend(
        edit.compact_pointers
            .iter()
            .map(|(level, key)| format!("  CompactPointer: {level} {}", format_internal_key(key))),
    );
    lines.extend(edit.deleted_files.iter().map(|(level, number)| format!("  RemoveFile: {level} {number}")));
    lines.extend(edit.new_files.iter().map(|(level, file)| {
        let smallest = format_internal_key(&file.smallest);
        let largest = format_internal_key(&file.largest);
        format!("  AddFile: {level} {} {} {smallest} .. {largest}", file.number, file.size)
    }));
    lines.push("}\n".to_owned());
    lines.join("\n")
}

fn format_internal_key(key: &InternalKey) -> String {
    match key::parse(key.as_bytes()) {
        Ok(key) => format!("'{}' @ {} : {}", Escaped(key.user_key), key.sequence, key.value_type as u8),
        Err(_) => format!("(bad){}", Escaped(key.as_bytes())),
    }
}

fn dump_table(env: Env, path: &Path, to: &UserObject<WritableFileCallbacks>) -> Result<(), StatusError> {
    let file = env.fs.open_random_access(path, AccessMode::Pread).map_err(Error::from)?;
    // A scan in file order compares no keys, so the comparator of the database is not needed.
    let options = Options::default().env(env);
    let mut iterator = SstFileReader::open(Arc::clone(&file), path, &options)?.iter(false);
    iterator.seek_to_first();
    while iterator.valid() {
        to.append(format_entry(iterator.key(), iterator.value()).as_bytes())?;
        iterator.next();
    }
    if let Err(error) = iterator.status() {
        to.append(format!("iterator error: {}\n", StatusError::from(error)).as_bytes())?;
    }
    Ok(())
}

fn format_entry(internal: &[u8], value: &[u8]) -> String {
    let value = Escaped(value);
    match key::parse(internal) {
        Ok(key) => {
            let kind = if key.value_type == ValueType::Value { "val" } else { "del" };
            format!("'{}' @ {} : {kind} => '{value}'\n", Escaped(key.user_key), key.sequence)
        }
        Err(_) => format!("badkey '{}' => '{value}'\n", Escaped(internal)),
    }
}

/// Formats bytes as text: non-printable bytes as `\x` and two hexadecimal digits.
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
