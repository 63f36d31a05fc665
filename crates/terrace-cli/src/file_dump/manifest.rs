//! MANIFESTs: every record is a version edit, a change to the set of tables.
//!
//! ```text
//! record at 0: edit
//!   comparator    leveldb.BytewiseComparator
//!   log           4
//!   add           level 0, file 5, 1234 bytes, AD/Canillo @ 1 put .. ZW/Harare @ 9 del
//! ```

use std::fmt::{Display, Write};

use terrace_format::DecodeError;
use terrace_format::key::InternalKey;
use terrace_format::version_edit::VersionEdit;

use super::table::DisplayInternalKey;
use crate::escape::Escaped;

/// Describes a version edit.
pub(super) fn format_edit(data: &[u8]) -> Result<String, DecodeError> {
    let edit = VersionEdit::decode(data)?;
    let mut text = String::from("edit\n");
    let mut add_line = |field: &str, value: &dyn Display| {
        // Writing to a String never fails.
        let _ = writeln!(text, "  {field:<12}  {value}");
    };
    if let Some(name) = &edit.comparator {
        add_line("comparator", &Escaped(name));
    }
    let numbers = [
        ("log", edit.log_number),
        ("previous log", edit.prev_log_number),
        ("next file", edit.next_file_number),
        ("sequence", edit.last_sequence),
    ];
    for (field, number) in numbers {
        if let Some(number) = number {
            add_line(field, &number);
        }
    }
    for (level, key) in &edit.compact_pointers {
        add_line("compact from", &format_args!("level {level}, after {}", displayed_key(key)));
    }
    for (level, number) in &edit.deleted_files {
        add_line("remove", &format_args!("level {level}, file {number}"));
    }
    for (level, file) in &edit.new_files {
        let smallest = displayed_key(&file.smallest);
        let largest = displayed_key(&file.largest);
        add_line(
            "add",
            &format_args!(
                "level {level}, file {}, {} bytes, {smallest} .. {largest}",
                file.number, file.size
            ),
        );
    }
    Ok(text)
}

fn displayed_key(key: &InternalKey) -> DisplayInternalKey<'_> {
    DisplayInternalKey(key.as_bytes())
}
