//! Logs: records with their offsets, each a batch of writes. A manifest is a log too, of other records.
//!
//! ```text
//! record at 0: sequence 1, 2 operations, 37 bytes
//!   1  put  AD/Canillo => 42.56,1.59
//!   2  del  AD/Encamp
//! ```

use std::fmt::Write as _;
use std::io::{BufReader, Write};
use std::path::Path;

use terrace_format::DecodeError;
use terrace_format::batch::{self, BatchOp};
use terrace_format::log::{LogItem, LogReader};

use crate::escape::Escaped;
use crate::failure::Failure;
use crate::input::open_file;

/// Prints every record of the file `path` as `describe` puts it, and says how many places are damaged.
pub(super) fn print(
    path: &Path,
    out: &mut impl Write,
    describe: fn(&[u8]) -> Result<String, DecodeError>,
) -> Result<u64, Failure> {
    let mut log = LogReader::new(BufReader::new(open_file(path)?));
    let mut damages = 0;
    while let Some(item) = log.next().map_err(|e| Failure::for_file(path, e))? {
        damages += u64::from(!print_item(out, &item, describe)?);
    }
    let tail = log.log_end();
    if damages == 0 && !tail.is_clean {
        writeln!(out, "the file ends inside of a record: the last whole one ends at {}", tail.offset)?;
    }
    Ok(damages)
}

/// False if the item is damaged. A record that is whole but makes no sense is placed by its start.
fn print_item(
    out: &mut impl Write,
    item: &LogItem<'_>,
    describe: fn(&[u8]) -> Result<String, DecodeError>,
) -> std::io::Result<bool> {
    match item {
        LogItem::Record { offset, data } => match describe(data) {
            Ok(text) => write!(out, "record at {offset}: {text}")?,
            Err(flaw) => {
                write!(out, "record at {offset}, {} bytes: ", data.len())?;
                super::print_damage(out, &flaw)?;
                return Ok(false);
            }
        },
        LogItem::Corruption { error: flaw, dropped } => {
            super::print_damage(out, flaw)?;
            writeln!(out, "  {dropped} bytes dropped")?;
            return Ok(false);
        }
    }
    Ok(true)
}

/// A batch in words.
pub(super) fn format_batch(data: &[u8]) -> Result<String, DecodeError> {
    let batch = batch::validate(data)?;
    let first = batch.sequence();
    let operations = crate::units::plural(batch.len() as u64, "operation");
    let mut text = format!("sequence {first}, {operations}, {} bytes\n", data.len());
    for (i, op) in batch.iter().enumerate() {
        let sequence = first.wrapping_add(i as u64);
        // Writing to a String can't fail.
        let _ = match op {
            BatchOp::Put { key, value } => {
                writeln!(text, "  {sequence}  put  {} => {}", Escaped(key), Escaped(value))
            }
            BatchOp::Delete { key } => writeln!(text, "  {sequence}  del  {}", Escaped(key)),
        };
    }
    Ok(text)
}
