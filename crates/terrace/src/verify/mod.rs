//! Check of every byte of the live files of a database.
//!
//! ```text
//!   CURRENT ──> manifest ──> every live table, completely          (table)
//!                  '───────> every log to replay, completely       (log)
//! ```
//!
//! The check writes nothing, repairs nothing and does not stop at a problem: the report lists all
//! of them. A repair reads tables and logs with the same scans.

mod lock;
mod log;
mod report;
mod table;
mod unreadable_parts;

pub(crate) use lock::lock_for_check;
pub(crate) use log::{LogScanEvent, LogSequenceCheck, scan_log};
pub(crate) use report::count_noun;
pub use report::{Problem, VerifyReport};
pub(crate) use table::{CorruptionKind, TableScan, TableScanEvent};
pub(crate) use unreadable_parts::{read_twice, salvage_exact_at};

use std::collections::BTreeMap;
use std::path::Path;

use terrace_env::AccessMode;
use terrace_format::comparator::Comparator;
use terrace_format::filename::FileName;
use terrace_format::filter::{FilterPolicy, InternalFilterPolicy};
use terrace_format::key::{InternalComparator, SequenceNumber};
use terrace_sync::mutant;

use crate::db::{Db, list_db_files};
use crate::error::{Corruption, Error, Result};
use crate::options::{Options, ReadOptions};
use crate::sync::Arc;
use crate::version::{FileMeta, LogWriteMethod, ManifestRecovery};

/// Reads and checks every live file of the database in directory `path`.
///
/// The check covers CURRENT and the manifest. For each live table it covers the footer, the index,
/// the checksum and contents of every block, the key order, and the size and key range of the
/// manifest. With [`Options::filter_policy`] it also covers that the filter accepts every key. For
/// each log to replay it covers every record. Without a readable manifest it covers all tables and
/// logs in the directory. A table ends where the manifest says; bytes after its end are no problem,
/// but a note of the report. So is an incomplete record at the end of a log or of the manifest that
/// no clean close has completed.
///
/// Reads the database twice: the second read counts the keys.
///
/// Writes nothing, and takes the lock of a read-only open: it excludes writers while it runs, but
/// not readers.
///
/// # Errors
///
/// [`ErrorKind::NotFound`] if there is no such directory; [`ErrorKind::InvalidArgument`] if it
/// holds no database, or one with another comparator; [`ErrorKind::Io`] if it is open for writing
/// ([`Error::is_locked`]) or if the directory can't be read. A problem with a single file,
/// including a failed read, is not an error; the report lists it.
///
/// [`ErrorKind::NotFound`]: crate::ErrorKind::NotFound
/// [`ErrorKind::InvalidArgument`]: crate::ErrorKind::InvalidArgument
/// [`ErrorKind::Io`]: crate::ErrorKind::Io
///
/// ```
/// # use terrace::{Db, Env, Options, verify};
/// # let options = Options::default().create_if_missing(true).env(Env::in_memory());
/// # let db = Db::open("cities", &options)?;
/// # db.put(b"CH/Bern", b"46.95,7.45")?;
/// # db.close()?;
/// let report = verify("cities", &options)?;
/// assert!(report.is_clean(), "{report}");
/// # Ok::<(), terrace::Error>(())
/// ```
pub fn verify(path: impl AsRef<Path>, options: &Options) -> Result<VerifyReport> {
    verify_with_progress(path, options, |_, _| ())
}

/// Same as [`verify`], and reports its progress.
///
/// Calls `progress` often, on the calling thread, with the number of bytes done and the total
/// number of bytes. The callback should return soon.
///
/// ```
/// # use terrace::{Db, Env, Options, verify_with_progress};
/// # let options = Options::default().create_if_missing(true).env(Env::in_memory());
/// # let db = Db::open("cities", &options)?;
/// # db.put(b"CH/Bern", b"46.95,7.45")?;
/// # db.close()?;
/// verify_with_progress("cities", &options, |done, total| println!("{done} of {total} bytes"))?;
/// # Ok::<(), terrace::Error>(())
/// ```
pub fn verify_with_progress(
    path: impl AsRef<Path>,
    options: &Options,
    mut progress: impl FnMut(u64, u64),
) -> Result<VerifyReport> {
    let directory = path.as_ref();
    let files = list_database_files(options, directory)?;
    let lock = lock_for_check(&options.env, directory)?;
    let order = InternalComparator::new(Arc::clone(&options.comparator));
    let mut verifier = Verifier {
        directory,
        options,
        filter: options.filter_policy.clone().map(|policy| Arc::new(InternalFilterPolicy(policy)) as _),
        order,
        report: VerifyReport::default(),
        max_table_sequence: 0,
        bytes_done: 0,
        bytes_total: 0,
        progress: &mut progress,
    };
    verifier.report.problems.extend(lock.problem);
    verifier.run(&files)?;
    verifier.count_keys();
    Ok(verifier.report)
}

/// Returns the files of the database in `directory`, sorted; an error if there are none.
pub(crate) fn list_database_files(options: &Options, directory: &Path) -> Result<Vec<FileName>> {
    // The error of an unreadable manifest is ignored here; the caller reads the manifest again and
    // reports it.
    let order = InternalComparator::new(Arc::clone(&options.comparator));
    let next_file = ManifestRecovery::read_current_manifest(&options.env, directory, &order)
        .map_or(0, |recovered| recovered.next_file_number);
    let mut files = list_db_files(&options.env, directory, next_file)?;
    files.sort_unstable();
    let has_data = files.iter().any(|file| {
        file.is_table() || matches!(file, FileName::Log(_) | FileName::Manifest(_) | FileName::Current)
    });
    if has_data {
        return Ok(files);
    }
    Err(Error::InvalidArgument(format!("{}: no database in this directory", directory.display())))
}

struct Verifier<'a> {
    directory: &'a Path,
    options: &'a Options,
    filter: Option<Arc<dyn FilterPolicy>>,
    order: InternalComparator,
    report: VerifyReport,
    /// Largest sequence number in a table.
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

    /// Checks the files that the manifest lists.
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
        // A torn edit that never took effect is the trace of a power cut, not a problem.
        match (recovered.lost_edit(files), &recovered.torn_tail) {
            (Some(error), _) => self.add_error(manifest, error.clone()),
            (None, Some(error)) => self.report.notes.push(Problem::from_error(manifest, error.clone())),
            (None, None) => {}
        }
        let log = FileName::Log(set.log_number);
        if recovered.is_written_by_terrace && !files.contains(&log) {
            self.add_problem(log, None, "is missing");
        }
        let table_sizes = live.values().map(|file| file.size);
        let log_sizes = logs.iter().map(|&number| self.file_size(FileName::Log(number)));
        self.bytes_total = total_bytes(table_sizes.chain(log_sizes).chain([self.file_size(manifest)]));
        self.count_file(self.file_size(manifest));
        for file in live.values() {
            match find_table_file(file.number, files) {
                Some(name) => self.check_table(name, Some(file)),
                None => self.add_problem(
                    FileName::Table(file.number),
                    None,
                    "missing, but the manifest lists it as live",
                ),
            }
        }
        if let Some(last) = live.keys().next_back().filter(|&&number| number >= recovered.next_file_number) {
            let message = format!(
                "next file number {}, expected more than {last}, the number of a live table",
                recovered.next_file_number
            );
            self.add_problem(manifest, None, message);
        }
        let last = self.check_logs(
            &logs,
            LogSequenceCheck::new(
                recovered.log_method != LogWriteMethod::Appended && recovered.closed_log.is_none(),
                set.last_sequence,
                self.max_table_sequence,
            )
            .with_closed_log(recovered.closed_log),
        );
        if self.max_table_sequence > last {
            let message = format!(
                "last sequence number {last}, expected at least {}, the largest in a table",
                self.max_table_sequence
            );
            self.add_problem(manifest, None, message);
        }
    }

    /// Checks all tables and logs of the directory, for want of a manifest.
    fn check_all_files(&mut self, files: &[FileName]) {
        let tables: Vec<FileName> = files.iter().copied().filter(FileName::is_table).collect();
        let logs: Vec<u64> = files.iter().filter_map(log_number).collect();
        let table_sizes = tables.iter().map(|&file| self.file_size(file));
        let log_sizes = logs.iter().map(|&number| self.file_size(FileName::Log(number)));
        self.bytes_total = total_bytes(table_sizes.chain(log_sizes));
        for &table in &tables {
            self.check_table(table, None);
        }
        self.check_logs(&logs, LogSequenceCheck::new(false, 0, 0));
    }

    /// Counts the keys that a scan shows, which is a second read of the database. The versions of a
    /// key are in different tables, so the check of a single table cannot count keys.
    fn count_keys(&mut self) {
        let Ok(db) = Db::open_damaged(self.directory, self.options) else { return };
        let mut entries = db.raw_iter_with(&ReadOptions::default().fill_cache(false));
        let mut keys = 0;
        entries.seek_to_first();
        while entries.valid() {
            keys += 1;
            entries.next();
        }
        self.report.keys = Some(keys);
    }

    fn check_table(&mut self, name: FileName, live: Option<&FileMeta>) {
        let before = self.bytes_done;
        if let Err(error) = self.read_table(name, live) {
            self.add_error(name, error);
        }
        // Counts the skipped parts of the table too.
        let size = live.map_or_else(|| self.file_size(name), |live| live.size);
        self.bytes_done = before;
        self.count_file(size);
    }

    fn read_table(&mut self, name: FileName, live: Option<&FileMeta>) -> Result<()> {
        let path = self.directory.join(name.to_string());
        let file = self.options.env.fs.open_random_access(&path, AccessMode::Pread)?;
        let problems_before = self.report.problems.len();
        let size = live.map_or(file.len(), |live| self.check_table_size(name, file.len(), live.size));
        let order = self.order.clone();
        let filter = self.filter.clone();
        let scan = TableScan { file: &*file, path: &path, size, order: &order, filter };
        let mut end_keys = EndKeys::default();
        scan.run(&mut |event| {
            match event {
                TableScanEvent::Entry { key, .. } => {
                    self.report.versions += 1;
                    self.max_table_sequence =
                        self.max_table_sequence.max(terrace_format::key::trailer(key) >> 8);
                    end_keys.add(key);
                }
                TableScanEvent::Block { bytes, .. } => self.report_progress(bytes),
                TableScanEvent::Corruption { corruption, .. } => {
                    self.add_error(name, Error::Corruption(corruption))
                }
            }
            Ok(())
        })?;
        let is_intact = self.report.problems.len() == problems_before;
        if let Some(message) = live.and_then(|live| end_keys.mismatch(live, &order, is_intact)) {
            self.add_problem(name, None, message);
        }
        Ok(())
    }

    /// Compares the size of a table file with the manifest. Returns the size of the table.
    fn check_table_size(&mut self, name: FileName, file_len: u64, size: u64) -> u64 {
        if file_len < size {
            self.add_problem(name, None, format!("{file_len} bytes, expected {size} as in the manifest"));
        } else if file_len > size {
            let message = format!("{} bytes after the end of the table are ignored", file_len - size);
            self.add_note(name, size, message);
        }
        file_len.min(size)
    }

    /// Checks `logs` and their sequence numbers. Returns the last sequence number.
    fn check_logs(&mut self, logs: &[u64], mut sequence_check: LogSequenceCheck) -> SequenceNumber {
        for &number in logs {
            let name = FileName::Log(number);
            let options = self.options;
            let mut last_damage = 0;
            let log_end = scan_log(&options.env, self.directory, number, &mut sequence_check, &mut |event| {
                match event {
                    LogScanEvent::Batch(batch) => self.report.versions += batch.len() as u64,
                    LogScanEvent::Corruption(corruption) => {
                        last_damage = last_damage.max(corruption.offset.unwrap_or(0));
                        if !mutant!(LogDamageNotVerified) {
                            self.add_error(name, Error::Corruption(corruption));
                        }
                    }
                }
                Ok(())
            });
            match log_end {
                Ok(end) if end.is_clean || last_damage >= end.offset && last_damage > 0 => {}
                Ok(end) => self.add_note(name, end.offset, self.torn_record_message(name, end.offset)),
                Err(error) => self.add_error(name, error),
            }
            self.count_file(self.file_size(name));
        }
        sequence_check.last_sequence
    }

    /// Describes the incomplete record at the end of an unclosed log. A killed process leaves it.
    fn torn_record_message(&self, log: FileName, offset: u64) -> String {
        let incomplete = count_noun(self.file_size(log).saturating_sub(offset), "byte", "bytes");
        format!("{incomplete} at the end without a complete record, perhaps an interrupted write")
    }

    /// Returns the current size of a file; 0 on an error, which the read of the file will report.
    fn file_size(&self, name: FileName) -> u64 {
        self.options.env.fs.file_size(&self.directory.join(name.to_string())).unwrap_or(0)
    }

    fn report_progress(&mut self, bytes: u64) {
        self.bytes_done = self.bytes_done.saturating_add(bytes).min(self.bytes_total);
        (self.progress)(self.bytes_done, self.bytes_total);
    }

    fn count_file(&mut self, bytes: u64) {
        self.report.files += 1;
        self.report.bytes = self.report.bytes.saturating_add(bytes);
        self.report_progress(bytes);
    }

    fn add_problem(&mut self, file: FileName, offset: Option<u64>, message: impl Into<String>) {
        self.report.problems.push(Problem { file: file.to_string(), offset, message: message.into() });
    }

    fn add_note(&mut self, file: FileName, offset: u64, message: String) {
        self.report.notes.push(Problem { file: file.to_string(), offset: Some(offset), message });
    }

    fn add_error(&mut self, file: FileName, error: Error) {
        self.report.problems.push(Problem::from_error(file, error));
    }
}

/// Returns the sum of file sizes. Files with holes can exceed every integer.
fn total_bytes(sizes: impl Iterator<Item = u64>) -> u64 {
    sizes.fold(0, u64::saturating_add)
}

/// First and last key of a table.
#[derive(Default)]
struct EndKeys {
    first: Vec<u8>,
    last: Vec<u8>,
}

impl EndKeys {
    /// Adds the next key of the table.
    fn add(&mut self, key: &[u8]) {
        if self.first.is_empty() {
            self.first.extend_from_slice(key);
        }
        self.last.clear();
        self.last.extend_from_slice(key);
    }

    /// Describes how the keys differ from those of the manifest, if they do. Keys of a table that
    /// is not intact may be missing, but all others are within the range.
    fn mismatch(&self, live: &FileMeta, order: &InternalComparator, is_intact: bool) -> Option<String> {
        let first = order.compare(&self.first, live.smallest.as_bytes());
        let last = order.compare(&self.last, live.largest.as_bytes());
        let is_match = match is_intact {
            true => first.is_eq() && last.is_eq(),
            false => self.first.is_empty() || first.is_ge() && last.is_le(),
        };
        (!is_match).then(|| {
            format!(
                "keys '{}' to '{}', expected {:?} to {:?} as in the manifest",
                self.first.escape_ascii(),
                self.last.escape_ascii(),
                live.smallest,
                live.largest
            )
        })
    }
}

fn log_number(file: &FileName) -> Option<u64> {
    if let FileName::Log(number) = *file { Some(number) } else { None }
}

/// Returns the file name of table `number`, if it is stored. `.ldb` takes precedence over `.sst`.
pub(crate) fn find_table_file(number: u64, files: &[FileName]) -> Option<FileName> {
    [FileName::Table(number), FileName::OldTable(number)].into_iter().find(|name| files.contains(name))
}

impl Problem {
    /// Creates a problem from an error. A corruption names its own file, for example the manifest
    /// instead of CURRENT.
    pub(crate) fn from_error(file: FileName, error: Error) -> Problem {
        match error {
            Error::Corruption(Corruption { path, offset, message }) => {
                let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
                Problem { file: name.unwrap_or_else(|| file.to_string()), offset, message }
            }
            error => Problem { file: file.to_string(), offset: None, message: error.to_string() },
        }
    }
}
