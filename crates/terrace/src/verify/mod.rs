//! Reading and checking every byte of a database that counts.
//!
//! ```text
//!   CURRENT ──> manifest ──> each live table, whole          (table)
//!                  '───────> each log that is needed, whole  (log)
//! ```
//!
//! Writes nothing, repairs nothing, and does not stop at a problem: the report has them all. The walks over a table
//! and over a log are also what a repair reads by.

mod log;
mod report;
mod table;

pub(crate) use log::{LogScanEvent, LogSequenceCheck, scan_log};
pub use report::{Problem, VerifyReport};
pub(crate) use table::{CorruptionKind, TableScan, TableScanEvent};

use std::collections::BTreeMap;
use std::path::Path;

use terrace_env::AccessMode;
use terrace_format::comparator::Comparator;
use terrace_format::filename::FileName;
use terrace_format::filter::{FilterPolicy, InternalFilterPolicy};
use terrace_format::key::{InternalComparator, SequenceNumber};

use crate::db::{list_db_files, lock_directory_shared};
use crate::error::{Corruption, Error, Result};
use crate::options::Options;
use crate::sync::Arc;
use crate::version::{FileMeta, ManifestRecovery};

/// Reads and checks everything that the database in directory `path` holds.
///
/// CURRENT and the manifest; each live table whole: footer, index, every block's checksum and contents, that keys rise
/// and lie where the manifest says, the size, and with [`Options::filter_policy`] that the filter lets every key
/// in; each log that is needed, every record. Without a manifest that can be read, every table and log there is.
///
/// Writes nothing, and takes the lock that a read-only open takes: a writer is excluded while it runs, readers are
/// not. `progress` is called on this thread with the bytes done and the bytes in all, often; it should return soon.
///
/// # Errors
///
/// [`ErrorKind::NotFound`] if there is no such directory; [`ErrorKind::InvalidArgument`] if it holds no database, or one
/// with another comparator; [`ErrorKind::Io`] if it is open for writing ([`ErrorOut::is_locked`]) or the directory can't be
/// read. What is wrong with a single file, a failure
/// to read it included, is no error but a problem in the report.
///
/// [`ErrorKind::NotFound`]: crate::ErrorKind::NotFound
/// [`ErrorKind::InvalidArgument`]: crate::ErrorKind::InvalidArgument
/// [`ErrorKind::Io`]: crate::ErrorKind::Io
///
/// ```
/// # use terrace::{Db, Env, Options, verify};
/// # let options = Options { create_if_missing: true, env: Env::memory(), ..Options::default() };
/// # let db = Db::open("cities", &options)?;
/// # db.put(b"CH/Bern", b"46.95,7.45")?;
/// # db.close()?;
/// let report = verify("cities", &options, &mut |done, all| assert!(done <= all))?;
/// assert!(report.is_clean(), "{report}");
/// # Ok::<(), terrace::Error>(())
/// ```
pub fn verify(
    path: impl AsRef<Path>,
    options: &Options,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<VerifyReport> {
    let (directory, env) = (path.as_ref(), &options.env);
    let files = list_database_files(options, directory)?;
    let _lock = lock_directory_shared(env, directory)?;
    let order = InternalComparator::new(Arc::clone(&options.comparator));
    let mut check = Verifier {
        directory,
        options,
        filter: options.filter_policy.clone().map(|policy| Arc::new(InternalFilterPolicy(policy)) as _),
        order,
        report: VerifyReport::default(),
        max_table_sequence: 0,
        bytes_done: 0,
        bytes_total: 0,
        progress,
    };
    check.run(&files)?;
    Ok(check.report)
}

/// The files of the database in `directory`, sorted; an error if there are none.
pub(crate) fn list_database_files(options: &Options, directory: &Path) -> Result<Vec<FileName>> {
    // A manifest that can't be read says nothing; that will be told in its turn.
    let order = InternalComparator::new(Arc::clone(&options.comparator));
    let next_file = ManifestRecovery::read_current_manifest(&options.env, directory, &order)
        .map_or(0, |recovered| recovered.next_file_number);
    let mut files = list_db_files(&options.env, directory, next_file)?;
    files.sort_unstable();
    let holds_data = |file: &FileName| {
        file.is_table() || matches!(file, FileName::Log(_) | FileName::Manifest(_) | FileName::Current)
    };
    if files.iter().any(holds_data) {
        return Ok(files);
    }
    Err(Error::InvalidArgument(format!("{}: holds no database", directory.display())))
}

struct Verifier<'a> {
    directory: &'a Path,
    options: &'a Options,
    filter: Option<Arc<dyn FilterPolicy>>,
    order: InternalComparator,
    report: VerifyReport,
    /// The greatest sequence number in a table.
    max_table_sequence: SequenceNumber,
    bytes_done: u64,
    bytes_total: u64,
    progress: &'a mut dyn FnMut(u64, u64),
}

impl Verifier<'_> {
    fn run(&mut self, files: &[FileName]) -> Result<()> {
        match ManifestRecovery::read_current_manifest(&self.options.env, self.directory, &self.order) {
            Ok(recovered) => self.check_live_files(&recovered, files),
            Err(error @ Error::InvalidArgument(_)) => return Err(error),
            Err(error) => {
                self.add_error(FileName::Current, error);
                self.check_all_files(files);
            }
        }
        Ok(())
    }

    /// What the manifest says is there.
    fn check_live_files(&mut self, recovered: &ManifestRecovery, files: &[FileName]) {
        let set = &recovered.version_set;
        let manifest = FileName::Manifest(recovered.manifest_number);
        let mut live = BTreeMap::new();
        for file in set.version.levels.iter().flatten() {
            if live.insert(file.number, Arc::clone(file)).is_some() {
                self.add_problem(manifest, None, format!("lists table {} twice", file.number));
            }
        }
        let mut logs: Vec<u64> = files.iter().filter_map(log_number).collect();
        logs.retain(|&number| number >= set.log_number || number == set.prev_log_number);
        logs.sort_unstable();
        // An edit that never counted is how a power cut looks, and no problem.
        if let Some(error) = recovered.lost_edit(files) {
            self.add_error(manifest, error.clone());
        }
        let log = FileName::Log(set.log_number);
        if recovered.is_written_by_terrace && !files.contains(&log) {
            self.add_problem(log, None, "is missing");
        }
        self.bytes_total = live.values().map(|file| file.size).sum::<u64>()
            + logs.iter().map(|&number| self.file_size(FileName::Log(number))).sum::<u64>()
            + self.file_size(manifest);
        self.count_file(self.file_size(manifest));
        for file in live.values() {
            match find_table_file(file.number, files) {
                Some(name) => self.check_table(name, Some(file)),
                None => self.add_problem(
                    FileName::Table(file.number),
                    None,
                    "missing, and the manifest says that it is live",
                ),
            }
        }
        if let Some(last) = live.keys().next_back().filter(|&&number| number >= recovered.next_file_number) {
            let what = format!(
                "next file number {}, expected more than {last}, a live table",
                recovered.next_file_number
            );
            self.add_problem(manifest, None, what);
        }
        let last = self.check_logs(
            &logs,
            LogSequenceCheck::new(
                recovered.is_written_by_terrace,
                set.last_sequence,
                self.max_table_sequence,
            ),
        );
        if self.max_table_sequence > last {
            let what = format!(
                "last sequence number {last}, expected {} or more, as in a table",
                self.max_table_sequence
            );
            self.add_problem(manifest, None, what);
        }
    }

    /// Without a manifest.
    fn check_all_files(&mut self, files: &[FileName]) {
        let tables: Vec<FileName> = files.iter().copied().filter(FileName::is_table).collect();
        let logs: Vec<u64> = files.iter().filter_map(log_number).collect();
        self.bytes_total = tables.iter().map(|&file| self.file_size(file)).sum::<u64>()
            + logs.iter().map(|&number| self.file_size(FileName::Log(number))).sum::<u64>();
        for &table in &tables {
            self.check_table(table, None);
        }
        self.check_logs(&logs, LogSequenceCheck::new(false, 0, 0));
    }

    fn check_table(&mut self, name: FileName, live: Option<&FileMeta>) {
        let before = self.bytes_done;
        if let Err(error) = self.read_table(name, live) {
            self.add_error(name, error);
        }
        // Whatever was skipped of it.
        let size = live.map_or_else(|| self.file_size(name), |live| live.size);
        self.bytes_done = before;
        self.count_file(size);
    }

    fn read_table(&mut self, name: FileName, live: Option<&FileMeta>) -> Result<()> {
        let path = self.directory.join(name.to_string());
        let file = self.options.env.fs.open_random_access(&path, AccessMode::Pread)?;
        if let Some(live) = live.filter(|live| live.size != file.len()) {
            self.add_problem(
                name,
                None,
                format!("{} bytes, expected {} as in the manifest", file.len(), live.size),
            );
        }
        let order = self.order.clone();
        let walk = TableScan { file: &*file, path: &path, order: &order, filter: self.filter.clone() };
        let mut outside = None;
        walk.run(&mut |met| {
            match met {
                TableScanEvent::Entry { key, .. } => {
                    self.report.entries += 1;
                    self.max_table_sequence =
                        self.max_table_sequence.max(terrace_format::key::trailer(key) >> 8);
                    let inside = |live: &FileMeta| {
                        order.compare(live.smallest.as_bytes(), key).is_le()
                            && order.compare(key, live.largest.as_bytes()).is_le()
                    };
                    if outside.is_none() && !live.is_none_or(inside) {
                        outside = Some(terrace_format::key::user_key(key).escape_ascii().to_string());
                    }
                }
                TableScanEvent::Block { bytes, .. } => self.report_progress(bytes),
                TableScanEvent::Corruption { corruption: found, .. } => {
                    self.add_error(name, Error::Corruption(found))
                }
            }
            Ok(())
        })?;
        if let Some((live, key)) = live.zip(outside) {
            let what = format!(
                "the key '{key}', expected keys from {:?} to {:?} as in the manifest",
                live.smallest, live.largest
            );
            self.add_problem(name, None, what);
        }
        Ok(())
    }

    /// Checks `logs`, and the numbers of their writes. Returns that of the last.
    fn check_logs(&mut self, logs: &[u64], mut row: LogSequenceCheck) -> SequenceNumber {
        for &number in logs {
            let name = FileName::Log(number);
            let path = self.directory.join(name.to_string());
            let options = self.options;
            let walked = scan_log(&options.env, &path, &mut row, &mut |met| {
                match met {
                    LogScanEvent::Batch(batch) => self.report.entries += batch.len() as u64,
                    LogScanEvent::Corruption(found) => self.add_error(name, Error::Corruption(found)),
                }
                Ok(())
            });
            match walked {
                // In front of room that was set aside a record may break off: there a process was killed.
                Ok(tail) if tail.is_clean || (row.is_gapless && tail.saw_zeros) => {}
                Ok(tail) => {
                    let rest = self.file_size(name).saturating_sub(tail.offset);
                    let what =
                        format!("{rest} bytes that are no whole record, perhaps a write that was cut short");
                    self.add_problem(name, Some(tail.offset), what);
                }
                Err(error) => self.add_error(name, error),
            }
            self.count_file(self.file_size(name));
        }
        row.last_sequence
    }

    /// The size of a file now; 0 if nobody can say, and then reading it is the problem.
    fn file_size(&self, name: FileName) -> u64 {
        self.options.env.fs.file_size(&self.directory.join(name.to_string())).unwrap_or(0)
    }

    fn report_progress(&mut self, bytes: u64) {
        self.bytes_done = self.bytes_done.saturating_add(bytes).min(self.bytes_total);
        (self.progress)(self.bytes_done, self.bytes_total);
    }

    fn count_file(&mut self, bytes: u64) {
        self.report.files += 1;
        self.report.bytes += bytes;
        self.report_progress(bytes);
    }

    fn add_problem(&mut self, file: FileName, at: Option<u64>, what: impl Into<String>) {
        self.report.problems.push(Problem { file: file.to_string(), offset: at, message: what.into() });
    }

    fn add_error(&mut self, file: FileName, error: Error) {
        self.report.problems.push(Problem::from_error(file, error));
    }
}

fn log_number(file: &FileName) -> Option<u64> {
    if let FileName::Log(number) = *file { Some(number) } else { None }
}

/// The name under which table `number` is stored, if it is: the present ending before the former one.
pub(crate) fn find_table_file(number: u64, files: &[FileName]) -> Option<FileName> {
    [FileName::Table(number), FileName::OldTable(number)].into_iter().find(|name| files.contains(name))
}

impl Problem {
    /// An error met with `file`. Damage knows better where it is: in the manifest, say, and not in CURRENT.
    pub(crate) fn from_error(file: FileName, error: Error) -> Problem {
        match error {
            Error::Corruption(Corruption { path, offset: at, message: what }) => {
                let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
                Problem { file: name.unwrap_or_else(|| file.to_string()), offset: at, message: what }
            }
            error => Problem { file: file.to_string(), offset: None, message: error.to_string() },
        }
    }
}
