//! Making a damaged database open again, with all that can still be read of it.
//!
//! ```text
//!   what do the manifests say?                                        (known)
//!     all:        live tables stay on their levels                  (tree)
//!     not all:    every table and log that is not known to be old,
//!                 in order of sequence numbers, on level 6          (no_tree)
//!   damaged tables and logs: what can be read, in new tables          (salvage, blocks)
//!   tables that may not stand side by side: merged                    (place, merge)
//!   manifest, CURRENT, and what was replaced goes to lost/            (settle)
//! ```
//!
//! Never changes a file of the database: new ones are written, and count all at once, when CURRENT names a new manifest.
//! Never removes one either. Entries keep their sequence numbers, so what is newer stays newer, and deletes stay, so what
//! they hide stays hidden. `docs/design/0002-repair.md` tells why it is so and what it costs.

mod block_scan;
mod install;
mod job;
mod level_assignment;
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

use terrace_env::{FileLock, LockMode};

use crate::db::{lock_directory, lock_directory_shared};
use crate::error::Result;
use crate::options::Options;
use crate::verify::list_database_files;
use install::NewManifest;
use job::RepairJob;
use table_output::TableOutput;

/// How to repair.
#[derive(Debug, Clone, Default)]
pub struct RepairOptions {
    /// Only say what would be done: nothing is written. Default: false.
    pub dry_run: bool,
}

/// Makes the database in directory `path` open again, with everything that can still be read of it.
///
/// A healthy database is left as it is. Otherwise what can be read of damaged tables and logs goes on in new tables;
/// where the manifest is lost, the order of writes is found again by their sequence numbers. Files that are replaced
/// are moved to the folder `lost` in the directory and not removed: remove it when the report satisfies you. What a
/// damaged block held is lost, and if it held the newest version of a key, or its delete, an older version that is
/// stored elsewhere shows again.
///
/// Reads every table and every log, and takes the database's lock: it is refused while the database is open, and no
/// other opener gets in meanwhile. Needs room for the tables that it writes, and memory for a memtable.
///
/// Durable when it returns. A crash meanwhile leaves the database as it was or repaired, and another repair goes on
/// from there.
///
/// # Errors
///
/// [`ErrorKind::InvalidArgument`] if there is no database, or one with another comparator; [`ErrorKind::Io`] if it is
/// open ([`ErrorOut::is_locked`](crate::ErrorOut::is_locked)), or a file can't be read or written: a failing read is never taken for damage, so a
/// failing disk wants to be copied first. After an error the database is as it was, but for new files that nothing
/// names and the next open removes; or, if only moving files to `lost` failed, it is repaired.
///
/// [`ErrorKind::InvalidArgument`]: crate::ErrorKind::InvalidArgument
/// [`ErrorKind::Io`]: crate::ErrorKind::Io
///
/// ```
/// # use std::path::Path;
/// # use terrace::{Db, Env, Options, RepairOptions, repair};
/// # let options = Options { create_if_missing: true, env: Env::memory(), ..Options::default() };
/// # let db = Db::open("cities", &options)?;
/// # db.put(b"CH/Bern", b"46.95,7.45")?;
/// # db.close()?;
/// options.env.fs.remove(Path::new("cities/CURRENT"))?;
/// let report = repair("cities", &options, &RepairOptions::default())?;
/// assert!(report.changed, "{report}");
/// assert!(Db::open("cities", &options)?.get(b"CH/Bern")?.is_some());
/// # Ok::<(), terrace::Error>(())
/// ```
pub fn repair(path: impl AsRef<Path>, options: &Options, how: &RepairOptions) -> Result<RepairReport> {
    let (directory, options) = (path.as_ref(), &options.sanitized());
    options.check_codec()?;
    list_database_files(options, directory)?;
    let _lock = lock_database(directory, options, how)?;
    // Listed again: now nobody else changes anything.
    let files = list_database_files(options, directory)?;
    let mut job = RepairJob {
        output: TableOutput::new(directory, options, how.dry_run),
        files,
        report: RepairReport { dry_run: how.dry_run, ..RepairReport::default() },
        new_manifest: NewManifest::default(),
        replaced_files: Vec::new(),
        intermediate_tables: Vec::new(),
    };
    job.run()?;
    for action in &job.report.actions {
        if let Some(logger) = options.logger.as_ref().filter(|_| !how.dry_run) {
            logger.log(format_args!("Repair: {action}"));
        }
    }
    Ok(job.report)
}

fn lock_database(
    directory: &Path,
    options: &Options,
    how: &RepairOptions,
) -> Result<Option<Box<dyn FileLock>>> {
    if how.dry_run {
        return lock_directory_shared(&options.env, directory);
    }
    lock_directory(&options.env, directory, LockMode::Exclusive).map(Some)
}
