//! Decodes single files of a database: tables, logs and MANIFESTs, distinguished by their names.
//!
//! The file needs no database around it, and no other file is opened. After damage, decoding
//! continues as far as the format allows. Each damaged place is reported where it occurs, and the
//! total at the end.

mod log;
mod manifest;
mod table;

use std::io::Write;
use std::path::Path;

use terrace_format::DecodeError;
use terrace_format::filename::FileName;

use crate::failure::{CommandResult, Failure};
use crate::input::open_file;
use crate::terminal;

/// Prints the contents of the file `path`.
pub(crate) fn print(path: &Path, out: &mut impl Write) -> CommandResult {
    // A missing file is the more useful message than its name.
    open_file(path)?;
    let name = path.file_name().and_then(|name| name.to_str()).and_then(FileName::parse);
    let damaged_places = match name {
        Some(FileName::Table(_) | FileName::OldTable(_)) => table::print(path, out)?,
        Some(FileName::Log(_)) => log::print(path, out, log::format_batch)?,
        Some(FileName::Manifest(_)) => log::print(path, out, manifest::format_edit)?,
        _ => {
            return Err(Failure::for_file(
                path,
                "not the name of a table (000012.ldb, 000012.sst), a log (000012.log) or a manifest \
                (MANIFEST-000012)",
            ));
        }
    };
    out.flush()?;
    match damaged_places {
        0 => Ok(()),
        n => Err(Failure::Database(format!(
            "corruption: {}: {}, marked 'damage' above",
            path.display(),
            crate::units::plural(n, "damaged place")
        ))),
    }
}

/// Prints the position and the description of a damaged place.
fn print_damage(out: &mut impl Write, error: &DecodeError) -> std::io::Result<()> {
    writeln!(out, "damage at {}: {}", error.offset, terminal::printable(error))
}
