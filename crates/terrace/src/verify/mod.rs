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

pub(crate) use log::{Logged, Row, walk_log};
pub use report::{Problem, VerifyReport};
pub(crate) use table::{Harm, Met, TableWalk};

use std::collections::BTreeMap;
use std::path::Path;

use terrace_env::Access;
use terrace_format::comparator::Comparator;
use terrace_format::filename::FileName;
use terrace_format::filter::{FilterPolicy, OfUserKeys};
use terrace_format::key::{InternalComparator, Sequence};

use crate::db::{list, lock_shared};
use crate::error::{Corruption, Error, Result};
use crate::options::Options;
use crate::sync::Arc;
use crate::version::{FileMeta, Recovered};

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
/// with another comparator; [`ErrorKind::Io`] if it is open for writing ([`Error::is_locked`]) or the directory can't be
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
    let files = stored(options, directory)?;
    let _lock = lock_shared(env, directory)?;
    let order = InternalComparator::new(Arc::clone(&options.comparator));
    let mut check = Check {
        directory,
        options,
        filter: options.filter_policy.clone().map(|policy| Arc::new(OfUserKeys(policy)) as _),
        order,
        report: VerifyReport::default(),
        newest: 0,
        done: 0,
        all: 0,
        progress,
    };
    check.run(&files)?;
    Ok(check.report)
}

/// The files of the database in `directory`, sorted; an error if there are none.
pub(crate) fn stored(options: &Options, directory: &Path) -> Result<Vec<FileName>> {
    // A manifest that can't be read says nothing; that will be told in its turn.
    let order = InternalComparator::new(Arc::clone(&options.comparator));
    let next_file =
        Recovered::read(&options.env, directory, &order).map_or(0, |recovered| recovered.next_file);
    let mut files = list(&options.env, directory, next_file)?;
    files.sort_unstable();
    let holds_data = |file: &FileName| {
        file.is_table() || matches!(file, FileName::Log(_) | FileName::Manifest(_) | FileName::Current)
    };
    if files.iter().any(holds_data) {
        return Ok(files);
    }
    Err(Error::InvalidArgument(format!("{}: holds no database", directory.display())))
}

struct Check<'a> {
    directory: &'a Path,
    options: &'a Options,
    filter: Option<Arc<dyn FilterPolicy>>,
    order: InternalComparator,
    report: VerifyReport,
    /// The greatest sequence number in a table.
    newest: Sequence,
    done: u64,
    all: u64,
    progress: &'a mut dyn FnMut(u64, u64),
}

impl Check<'_> {
    fn run(&mut self, files: &[FileName]) -> Result<()> {
        match Recovered::read(&self.options.env, self.directory, &self.order) {
            Ok(recovered) => self.tree(&recovered, files),
            Err(error @ Error::InvalidArgument(_)) => return Err(error),
            Err(error) => {
                self.problem(FileName::Current, error);
                self.everything(files);
            }
        }
        Ok(())
    }

    /// What the manifest says is there.
    fn tree(&mut self, recovered: &Recovered, files: &[FileName]) {
        let set = &recovered.set;
        let manifest = FileName::Manifest(recovered.manifest);
        let mut live = BTreeMap::new();
        for file in set.version.levels.iter().flatten() {
            if live.insert(file.number, Arc::clone(file)).is_some() {
                self.note(manifest, None, format!("lists table {} twice", file.number));
            }
        }
        let mut logs: Vec<u64> = files.iter().filter_map(log_number).collect();
        logs.retain(|&number| number >= set.log_number || number == set.prev_log_number);
        logs.sort_unstable();
        // An edit that never counted is how a power cut looks, and no problem.
        if let Some(error) = recovered.lost_edit(files) {
            self.problem(manifest, error.clone());
        }
        let log = FileName::Log(set.log_number);
        if recovered.ours && !files.contains(&log) {
            self.note(log, None, "is missing");
        }
        self.all = live.values().map(|file| file.size).sum::<u64>()
            + logs.iter().map(|&number| self.size(FileName::Log(number))).sum::<u64>()
            + self.size(manifest);
        self.file_done(self.size(manifest));
        for file in live.values() {
            match table_name(file.number, files) {
                Some(name) => self.table(name, Some(file)),
                None => self.note(
                    FileName::Table(file.number),
                    None,
                    "missing, and the manifest says that it is live",
                ),
            }
        }
        if let Some(last) = live.keys().next_back().filter(|&&number| number >= recovered.next_file) {
            let what =
                format!("next file number {}, expected more than {last}, a live table", recovered.next_file);
            self.note(manifest, None, what);
        }
        let last = self.logs(&logs, Row::new(recovered.ours, set.last_sequence, self.newest));
        if self.newest > last {
            let what =
                format!("last sequence number {last}, expected {} or more, as in a table", self.newest);
            self.note(manifest, None, what);
        }
    }

    /// Without a manifest.
    fn everything(&mut self, files: &[FileName]) {
        let tables: Vec<FileName> = files.iter().copied().filter(FileName::is_table).collect();
        let logs: Vec<u64> = files.iter().filter_map(log_number).collect();
        self.all = tables.iter().map(|&file| self.size(file)).sum::<u64>()
            + logs.iter().map(|&number| self.size(FileName::Log(number))).sum::<u64>();
        for &table in &tables {
            self.table(table, None);
        }
        self.logs(&logs, Row::new(false, 0, 0));
    }

    fn table(&mut self, name: FileName, live: Option<&FileMeta>) {
        let before = self.done;
        if let Err(error) = self.read_table(name, live) {
            self.problem(name, error);
        }
        // Whatever was skipped of it.
        let size = live.map_or_else(|| self.size(name), |live| live.size);
        self.done = before;
        self.file_done(size);
    }

    fn read_table(&mut self, name: FileName, live: Option<&FileMeta>) -> Result<()> {
        let path = self.directory.join(name.to_string());
        let file = self.options.env.fs.open_random(&path, Access::Read)?;
        if let Some(live) = live.filter(|live| live.size != file.len()) {
            self.note(name, None, format!("{} bytes, expected {} as in the manifest", file.len(), live.size));
        }
        let order = self.order.clone();
        let walk = TableWalk { file: &*file, path: &path, order: &order, filter: self.filter.clone() };
        let mut outside = None;
        walk.run(&mut |met| {
            match met {
                Met::Entry { key, .. } => {
                    self.report.entries += 1;
                    self.newest = self.newest.max(terrace_format::key::trailer(key) >> 8);
                    let inside = |live: &FileMeta| {
                        order.compare(live.smallest.as_bytes(), key).is_le()
                            && order.compare(key, live.largest.as_bytes()).is_le()
                    };
                    if outside.is_none() && !live.is_none_or(inside) {
                        outside = Some(terrace_format::key::user_key(key).escape_ascii().to_string());
                    }
                }
                Met::Block { bytes, .. } => self.advance(bytes),
                Met::Damage { found, .. } => self.problem(name, Error::Corruption(found)),
            }
            Ok(())
        })?;
        if let Some((live, key)) = live.zip(outside) {
            let what = format!(
                "the key '{key}', expected keys from {:?} to {:?} as in the manifest",
                live.smallest, live.largest
            );
            self.note(name, None, what);
        }
        Ok(())
    }

    /// Checks `logs`, and the numbers of their writes. Returns that of the last.
    fn logs(&mut self, logs: &[u64], mut row: Row) -> Sequence {
        for &number in logs {
            let name = FileName::Log(number);
            let path = self.directory.join(name.to_string());
            let options = self.options;
            let walked = walk_log(&options.env, &path, &mut row, &mut |met| {
                match met {
                    Logged::Batch(batch) => self.report.entries += batch.len() as u64,
                    Logged::Damage(found) => self.problem(name, Error::Corruption(found)),
                }
                Ok(())
            });
            match walked {
                // In front of room that was set aside a record may break off: there a process was killed.
                Ok(tail) if tail.clean || (row.strict && tail.saw_zeros) => {}
                Ok(tail) => {
                    let rest = self.size(name).saturating_sub(tail.end);
                    let what =
                        format!("{rest} bytes that are no whole record, perhaps a write that was cut short");
                    self.note(name, Some(tail.end), what);
                }
                Err(error) => self.problem(name, error),
            }
            self.file_done(self.size(name));
        }
        row.last
    }

    /// The size of a file now; 0 if nobody can say, and then reading it is the problem.
    fn size(&self, name: FileName) -> u64 {
        self.options.env.fs.len(&self.directory.join(name.to_string())).unwrap_or(0)
    }

    fn advance(&mut self, bytes: u64) {
        self.done = self.done.saturating_add(bytes).min(self.all);
        (self.progress)(self.done, self.all);
    }

    fn file_done(&mut self, bytes: u64) {
        self.report.files += 1;
        self.report.bytes += bytes;
        self.advance(bytes);
    }

    fn note(&mut self, file: FileName, at: Option<u64>, what: impl Into<String>) {
        self.report.problems.push(Problem { file: file.to_string(), at, what: what.into() });
    }

    fn problem(&mut self, file: FileName, error: Error) {
        self.report.problems.push(Problem::of(file, error));
    }
}

fn log_number(file: &FileName) -> Option<u64> {
    if let FileName::Log(number) = *file { Some(number) } else { None }
}

/// The name under which table `number` is stored, if it is: the present ending before the former one.
pub(crate) fn table_name(number: u64, files: &[FileName]) -> Option<FileName> {
    [FileName::Table(number), FileName::OldTable(number)].into_iter().find(|name| files.contains(name))
}

impl Problem {
    /// An error met with `file`. Damage knows better where it is: in the manifest, say, and not in CURRENT.
    pub(crate) fn of(file: FileName, error: Error) -> Problem {
        match error {
            Error::Corruption(Corruption { path, at, what }) => {
                let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
                Problem { file: name.unwrap_or_else(|| file.to_string()), at, what }
            }
            error => Problem { file: file.to_string(), at: None, what: error.to_string() },
        }
    }
}
