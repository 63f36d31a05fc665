//! Checkpoints and backups: copies of an open database while writers run.
//!
//! ```text
//!   Db::checkpoint   capture (db/capture.rs) ──> database copy ──> partial directory ──> target
//!   Backups::create  the same; a table is stored once, and the copy has a link to it
//!   Backups::restore                             checked files ──> partial directory ──> target
//! ```
//!
//! Each copy is a plain LevelDB directory of one moment. The order of the syncs and renames is in
//! `database_copy.rs` (inside of the directory) and `partial_directory.rs` (its name);
//! `docs/design/0018-checkpoints-and-backups.md` gives the reasons.

mod backup;
mod backup_list;
mod backup_writer;
mod content_hash;
mod database_copy;
mod file_copy;
mod partial_directory;
mod progress;
mod restore;
mod table_crc;

pub use backup::{BackupReport, Backups};
pub use backup_list::BackupInfo;

use std::path::Path;

use terrace_format::key::SequenceNumber;

use crate::db::{DatabaseCapture, Db};
use crate::error::Result;
use database_copy::{DatabaseCopy, link_or_copy_table};
use partial_directory::{PartialDirectory, check_outside};
use progress::Progress;

impl Db {
    /// Creates a copy of the database in the new directory `path`: a plain LevelDB directory with
    /// the state of one moment. Returns the sequence number of its last write.
    ///
    /// The copy holds every write that returned before this call, and no write that starts after it
    /// returns. Writers run at full speed meanwhile: they wait only while the call notes the
    /// current files. On the same file system the copy links the tables, so it is fast and takes
    /// little space at first. Linked tables share their sectors with the original: a failing disk
    /// damages both. On another file system, and in an env without links, the call copies the
    /// tables. It always copies the logs.
    ///
    /// The copy is durable when this returns. Before, `path` does not exist. A crash leaves
    /// `path.partial`, which no program takes for a database, and which the next checkpoint with
    /// this path removes.
    ///
    /// A checkpoint of a database that is open for reads only holds the state that its reads see:
    /// its logs become tables. The call writes nothing to the original.
    ///
    /// Any thread may call this at any time. Two calls with the same path exclude each other.
    ///
    /// # Errors
    ///
    /// - [`ErrorKind::InvalidArgument`]: `path` exists, is inside of the database, or has no name;
    ///   or `path.partial` contains other files.
    /// - [`ErrorKind::Io`]: the parent of `path` does not exist, the disk is full, or another
    ///   failure of a file. The error names the file.
    /// - [`Error::BackgroundError`]: the database refuses writes. Its logs may then hold writes
    ///   that its readers do not see.
    /// - [`Error::NotSupported`]: the database is closed.
    ///
    /// An error leaves no `path`, with one exception: after a failed sync of the parent directory,
    /// `path` is complete, and a power cut may remove it. The original never changes.
    ///
    /// [`ErrorKind::InvalidArgument`]: crate::ErrorKind::InvalidArgument
    /// [`ErrorKind::Io`]: crate::ErrorKind::Io
    /// [`Error::BackgroundError`]: crate::Error::BackgroundError
    /// [`Error::NotSupported`]: crate::Error::NotSupported
    ///
    /// ```
    /// # use terrace::{Db, Env, Options};
    /// # let env = Env::in_memory();
    /// # let options = Options::default().create_if_missing(true).env(env);
    /// # let db = Db::open("cities", &options)?;
    /// db.put(b"CH/Bern", b"46.95,7.45")?;
    /// db.checkpoint("cities-monday")?;
    /// db.delete(b"CH/Bern")?;
    /// let monday = Db::open("cities-monday", &options)?;
    /// assert!(monday.get(b"CH/Bern")?.is_some());
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn checkpoint(&self, path: impl AsRef<Path>) -> Result<SequenceNumber> {
        self.checkpoint_with_progress(path, |_, _| ())
    }

    /// Same as [`Db::checkpoint`], and reports its progress.
    ///
    /// Calls `progress` on the calling thread with the number of bytes done and the estimated
    /// total. A linked table counts with its size. The callback should return soon.
    ///
    /// ```
    /// # use terrace::{Db, Env, Options};
    /// # let env = Env::in_memory();
    /// # let options = Options::default().create_if_missing(true).env(env);
    /// # let db = Db::open("cities", &options)?;
    /// # db.put(b"CH/Bern", b"46.95,7.45")?;
    /// db.checkpoint_with_progress("copy", |done, total| println!("{done} of {total} bytes"))?;
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn checkpoint_with_progress(
        &self,
        path: impl AsRef<Path>,
        mut progress: impl FnMut(u64, u64),
    ) -> Result<SequenceNumber> {
        let path = path.as_ref();
        let env = &self.options().env;
        check_outside(env, path, self.absolute_path(), "database")?;
        partial_directory::check_absent(env, path)?;
        let partial = PartialDirectory::create(env, path)?;
        let last_sequence = self.with_capture(|capture| {
            let last_sequence = capture.last_sequence;
            self.write_checkpoint(capture, &partial.database(), &mut Progress::new(&mut progress))?;
            Ok(last_sequence)
        })?;
        partial.publish()?;
        Ok(last_sequence)
    }

    fn write_checkpoint(
        &self,
        capture: DatabaseCapture,
        target: &Path,
        progress: &mut Progress<'_>,
    ) -> Result<()> {
        let options = self.options();
        let env = &options.env;
        let copy = DatabaseCopy { source_env: env, source: self.path(), options, env, target, capture };
        copy.run(progress, &mut |table, progress| link_or_copy_table(env, table, target, progress))
    }
}

/// The guide, whose program is a test.
#[cfg(doctest)]
#[doc = include_str!("../../../../docs/guide/backup.md")]
struct Guide;
