//! Reconstruction of a damaged database from its readable tables and logs.
//!
//! ```text
//!   the manifests                                                     (manifest_facts)
//!     complete:   live tables stay on their levels                    (with_manifest)
//!     partial:    every table and log that is not known to be
//!                 obsolete, by sequence number, on level 6            (without_manifest)
//!   damaged tables and logs: readable entries, in new tables          (salvage, block_scan)
//!   tables that must not share a level: merged                  (level_assignment, table_merge)
//!   new manifest, CURRENT; replaced files are moved to lost/          (install)
//! ```
//!
//! A repair never changes or removes a file of the database. It writes new files, and all of them
//! become live at once, when CURRENT names a new manifest. Entries keep their sequence numbers, so
//! newer versions stay newer. Tombstones stay, so the versions that they hide stay hidden.
//! New tables have the codec of the existing ones, unless the options name another one.
//! `docs/design/0002-repair.md` gives the reasons and the costs.

mod block_scan;
mod install;
mod job;
mod level_assignment;
mod lock;
mod manifest_facts;
mod recovered_table;
mod report;
mod salvage;
mod table_merge;
mod table_output;
#[cfg(test)]
mod tests;
mod with_manifest;
mod without_manifest;

pub use report::RepairReport;

use std::path::Path;

use terrace_env::AccessMode;
use terrace_format::compress::Codec;
use terrace_format::filename::FileName;

use crate::error::Result;
use crate::options::{Options, RepairOptions};
use crate::table::codec_of_tables;
use crate::verify::{find_table_file, list_database_files};
use install::NewManifest;
use job::RepairJob;
use lock::lock_for_repair;
use table_output::TableOutput;

/// Makes the database in directory `path` usable again, with every entry that is still readable.
///
/// A healthy database is not changed. Otherwise, the readable entries of damaged tables and logs
/// are written to new tables. If the manifest is lost, sequence numbers give the order of the
/// writes. Replaced files are not removed but moved to the subdirectory `lost`. Remove it when you
/// are satisfied with the report. The entries of an unreadable block are lost. If such a block held
/// the newest version of a key, or its tombstone, an older version that is stored elsewhere becomes
/// visible again.
///
/// A file or a sector that the disk cannot read does not end the repair: the report lists it, and
/// everything else is saved. The same holds for a directory, a FIFO or another special file in the
/// place of a file. Its data stays in `lost`. Copy the files of a failing disk first. A `LOCK` that
/// is no regular file is moved to `lost` before all other changes, and a new one takes its place.
///
/// Reads every table and every log. Holds the lock of the database: the call fails while the
/// database is open, and nobody can open it until the call returns. Needs disk space for the new
/// tables and memory for one memtable.
///
/// The result is durable when the call returns. A crash during the call leaves the database either
/// unchanged or repaired; run the repair again to complete it.
///
/// # Errors
///
/// [`ErrorKind::InvalidArgument`] if there is no database, or one with another comparator;
/// [`ErrorKind::Io`] if it is open ([`Error::is_locked`](crate::Error::is_locked)), if the process
/// lacks a permission, memory or file descriptors, or if a file can't be written. After an error
/// the database is unchanged, except for a new `LOCK` and for new files that no manifest names and
/// that the next open removes. If only moving files to `lost` failed, the database is repaired.
///
/// [`ErrorKind::InvalidArgument`]: crate::ErrorKind::InvalidArgument
/// [`ErrorKind::Io`]: crate::ErrorKind::Io
///
/// ```
/// # use std::path::Path;
/// # use terrace::{Db, Env, Options, RepairOptions, repair};
/// # let options = Options::default().create_if_missing(true).env(Env::in_memory());
/// # let db = Db::open("cities", &options)?;
/// # db.put(b"CH/Bern", b"46.95,7.45")?;
/// # db.close()?;
/// options.env.fs.remove(Path::new("cities/CURRENT"))?;
/// let report = repair("cities", &options, &RepairOptions::default())?;
/// assert!(report.changed, "{report}");
/// assert!(Db::open("cities", &options)?.get(b"CH/Bern")?.is_some());
/// # Ok::<(), terrace::Error>(())
/// ```
pub fn repair(
    path: impl AsRef<Path>,
    options: &Options,
    repair_options: &RepairOptions,
) -> Result<RepairReport> {
    let directory = path.as_ref();
    let options = &options.sanitized();
    options.check_codec()?;
    list_database_files(options, directory)?;
    let lock = lock_for_repair(&options.env, directory, repair_options.dry_run)?;
    // Listed again, because now the lock keeps other processes from changing files.
    let files = list_database_files(options, directory)?;
    let can_have_marker = options.compression.is_some_and(|codec| codec.needs_marker);
    let options = &Options {
        compression: options.compression.or(stored_codec(options, directory, &files)),
        ..options.clone()
    };
    options.check_codec()?;
    let mut job = RepairJob {
        output: TableOutput::new(directory, options, repair_options.dry_run),
        files,
        report: RepairReport { dry_run: repair_options.dry_run, ..RepairReport::default() },
        new_manifest: NewManifest { can_have_marker, ..NewManifest::default() },
        replaced_files: Vec::new(),
        intermediate_tables: Vec::new(),
    };
    job.run()?;
    lock.add_to_report(&mut job.report);
    for action in &job.report.actions {
        if let Some(logger) = options.logger.as_ref().filter(|_| !repair_options.dry_run) {
            logger.log(format_args!("Repair: {action}"));
        }
    }
    Ok(job.report)
}

/// Returns the codec of the newest table that shows one. If every index is damaged, returns
/// the codec of the first blocks. The levels of the tables may be unknown.
fn stored_codec(options: &Options, directory: &Path, files: &[FileName]) -> Option<&'static Codec> {
    let mut numbers: Vec<u64> =
        files.iter().filter(|file| file.is_table()).filter_map(FileName::number).collect();
    numbers.sort_unstable_by(|a, b| b.cmp(a));
    let by_index = numbers.iter().find_map(|&number| {
        // The repair reports a table that cannot be read.
        codec_of_tables(&options.env, directory, [(number, None)]).ok().flatten()
    });
    by_index.or_else(|| {
        numbers.iter().find_map(|&number| {
            let path = directory.join(find_table_file(number, files)?.to_string());
            let file = options.env.fs.open_random_access(&path, AccessMode::Pread).ok()?;
            block_scan::codec_of_first_blocks(&*file, &path)
        })
    })
}
