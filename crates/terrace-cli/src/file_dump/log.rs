//! Logs: records with their offsets, each a batch of writes. A MANIFEST is a log too, with version
//! edits as records.
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

/// Prints every record of the file `path` with `format_record`, and returns the number of damaged
/// places.
pub(super) fn print(
    path: &Path,
    out: &mut impl Write,
    format_record: fn(&[u8]) -> Result<String, DecodeError>,
) -> Result<u64, Failure> {
    let mut log = LogReader::new(BufReader::new(open_file(path)?));
    let mut damaged_places = 0;
    while let Some(item) = log.next().map_err(|e| Failure::for_file(path, e))? {
        damaged_places += u64::from(!print_item(out, &item, format_record)?);
    }
    let end = log.log_end();
    if damaged_places == 0 && !end.is_clean {
        writeln!(
            out,
            "the file ends with an incomplete record; the last complete record ends at {}",
            end.offset
        )?;
    }
    Ok(damaged_places)
}

/// Prints one item, and returns false if it is damaged. The damage of an intact record with invalid
/// contents is reported with the record's offset.
fn print_item(
    out: &mut impl Write,
    item: &LogItem<'_>,
    format_record: fn(&[u8]) -> Result<String, DecodeError>,
) -> std::io::Result<bool> {
    match item {
        LogItem::Record { offset, data, .. } => match format_record(data) {
            Ok(text) => write!(out, "record at {offset}: {text}")?,
            Err(error) => {
                write!(out, "record at {offset}, {} bytes: ", data.len())?;
                super::print_damage(out, &error)?;
                return Ok(false);
            }
        },
        LogItem::Corruption { error, dropped } => {
            super::print_damage(out, error)?;
            writeln!(out, "  {dropped} bytes dropped")?;
            return Ok(false);
        }
    }
    Ok(true)
}

/// Describes a batch.
pub(super) fn format_batch(data: &[u8]) -> Result<String, DecodeError> {
    let batch = batch::validate(data)?;
    let first = batch.sequence();
    let operations = crate::units::plural(batch.len() as u64, "operation");
    let mut text = format!("sequence {first}, {operations}, {} bytes\n", data.len());
    for (i, op) in batch.iter().enumerate() {
        let sequence = first.wrapping_add(i as u64);
        // Writing to a String never fails.
        let _ = match op {
            BatchOp::Put { key, value } => {
                writeln!(text, "  {sequence}  put  {} => {}", Escaped(key), Escaped(value))
            }
            BatchOp::Delete { key } => writeln!(text, "  {sequence}  del  {}", Escaped(key)),
        };
    }
    Ok(text)
}
