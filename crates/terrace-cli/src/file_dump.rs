//! Single files of a database, decoded: tables, logs and manifests, told apart by their names.
//!
//! Needs no database around the file, opens nothing else, and goes on after damage as far as the format allows. What
//! is damaged is said in its place, and once more in the end.

mod log;
mod manifest;
mod table;

use std::io::Write;
use std::path::Path;

use terrace_format::DecodeError;
use terrace_format::filename::FileName;

use crate::failure::{CommandResult, Failure};
use crate::terminal;

/// Prints the contents of the file `path`.
pub(crate) fn print(path: &Path, out: &mut impl Write) -> CommandResult {
    let name = path.file_name().and_then(|name| name.to_str()).and_then(FileName::parse);
    let damages = match name {
        Some(FileName::Table(_) | FileName::OldTable(_)) => table::print(path, out)?,
        Some(FileName::Log(_)) => log::print(path, out, log::format_batch)?,
        Some(FileName::Manifest(_)) => log::print(path, out, manifest::format_edit)?,
        _ => {
            return Err(Failure::for_file(
                path,
                "not a name of a table (.ldb, .sst), a log (.log) or a MANIFEST",
            ));
        }
    };
    out.flush()?;
    match damages {
        0 => Ok(()),
        n => Err(Failure::Database(format!(
            "corruption: {}: {}, marked 'damage' above",
            path.display(),
            crate::units::plural(n, "damaged place")
        ))),
    }
}

/// Says what is damaged.
fn print_damage(out: &mut impl Write, flaw: &DecodeError) -> std::io::Result<()> {
    writeln!(out, "damage at {}: {}", flaw.offset, terminal::printable(flaw))
}
