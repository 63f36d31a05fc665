//! One merge, or a slice of it: inputs in, new tables out.
//!
//! ```text
//!   for each version of each user key, newest first:
//!     1. drop it if a newer version of the key is visible to the oldest reader already
//!     2. drop it if it is a delete that the oldest reader sees, and no level below can hold the key
//!     3. else write it; begin a new table when this one is large enough, or overlaps too much of the level below
//!        the output, but never between two versions of a key
//! ```
//!
//! The outcome holds every version that any reader, now or later, can see, and it is checked to be in order.

use std::path::Path;

use terrace_env::Env;
use terrace_format::comparator::Comparator;
use terrace_format::compress;
use terrace_format::edit::LEVELS;
use terrace_format::key::{self, InternalComparator, InternalKey, Kind, MAX_SEQUENCE, Sequence};
use terrace_format::order::Order;
use terrace_format::table::TableOptions;
use terrace_sync::mutant;

use super::Job;
use super::Slice;
use super::merge::Merged;
use crate::error::{Error, Result};
use crate::iter::Source;
use crate::metrics::Event;
use crate::sync::Arc;
use crate::tables::{BlockRead, NewTable, TableCache, TableWriter};
use crate::version::{FileMeta, Version};

/// What a merge works with.
pub(crate) struct Environment<'a> {
    pub(crate) env: &'a Env,
    pub(crate) directory: &'a Path,
    pub(crate) tables: &'a Arc<TableCache>,
    /// For the last level; the others are not packed.
    pub(crate) options: &'a TableOptions,
    /// The version that the job was chosen from.
    pub(crate) version: Arc<Version>,
    /// No reader reads, or will read, at an older sequence number.
    pub(crate) oldest_reader: Sequence,
    /// Numbers for new files.
    pub(crate) next_file: Box<dyn Fn() -> u64 + 'a>,
    /// True when the merge should give up.
    pub(crate) cancelled: Box<dyn Fn() -> bool + 'a>,
}

/// What a merge made.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) tables: Vec<NewTable>,
    pub(crate) bytes_written: u64,
    pub(crate) entries_read: u64,
    pub(crate) entries_written: u64,
}

/// Runs `slice` of `job`. On an error, and when cancelled (which is an error too), there are no new files.
pub(crate) fn run(job: &Job, slice: &Slice, environment: &Environment<'_>) -> Result<Outcome> {
    let mut merge = Merge {
        job,
        slice,
        environment,
        options: packed_if(environment.version.is_last(job.output_level()), environment.options),
        below: Below::new(&environment.version, job.output_level() + 1),
        grandparents: Grandparents::new(&job.grandparents, job.limits.grandparent_overlap()),
        table: None,
        tables: Vec::new(),
        entries_written: 0,
        stretch: 0,
        missed: environment.tables.metrics().of(Event::BlockMiss),
    };
    match merge.run() {
        Ok(entries_read) => {
            let bytes_written = merge.tables.iter().map(|table| table.file.size).sum();
            let entries_written = merge.entries_written;
            Ok(Outcome { tables: merge.tables, bytes_written, entries_read, entries_written })
        }
        Err(error) => {
            merge.abandon();
            Err(error)
        }
    }
}

/// Entries between two questions whether to give up.
const CANCEL_PERIOD: u64 = 256;

/// Of what a merge has read it lets go each time it was so much, in bytes: tables are mapped, and the pages of those that it reads
/// would count as memory of the process until the last one is done.
const STRETCH: usize = 8 << 20;

/// `options`, without a codec unless `last`. Tables of the upper levels are soon rewritten, and a small part of the
/// whole: packing them would cost much time and save little space.
pub(crate) fn packed_if(last: bool, options: &TableOptions) -> TableOptions {
    let codec = if last { options.codec } else { &compress::NONE };
    TableOptions { codec, ..options.clone() }
}

struct Merge<'a> {
    job: &'a Job,
    slice: &'a Slice,
    environment: &'a Environment<'a>,
    options: TableOptions,
    below: Below<'a>,
    grandparents: Grandparents<'a>,
    table: Option<TableWriter>,
    tables: Vec<NewTable>,
    entries_written: u64,
    /// Bytes read since it let go.
    stretch: usize,
    /// How often readers had missed a block by then.
    missed: u64,
}

impl Merge<'_> {
    /// Says how many entries it read.
    fn run(&mut self) -> Result<u64> {
        let comparator = self.environment.version.comparator.clone();
        let newest = if mutant!(SubcompactionSkipsNewestVersion) { 0 } else { MAX_SEQUENCE };
        let begin = self.slice.begin.as_deref().map(|key| InternalKey::new(key, newest, Kind::SEEK));
        let begin = begin.as_ref().map(InternalKey::as_bytes);
        let mut input = Merged::new(comparator, self.sources(), self.shared_prefix(), begin);
        let mut fate = Fate::new(&self.environment.version.comparator, self.environment.oldest_reader);
        let mut count = 0u64;
        while let Some((key, value)) = input.entry() {
            if count.is_multiple_of(CANCEL_PERIOD) && (self.environment.cancelled)() {
                return Err(Error::NotSupported("a merge in a database that is being closed".into()));
            }
            if self.is_behind(key) {
                break;
            }
            count += 1;
            self.walked(key.len() + value.len());
            match fate.of(key)? {
                Verdict::Drop => {}
                Verdict::DropIfBottom
                    if !self.below.may_hold(key::user_key(key)) || mutant!(TombstoneDroppedTooEarly) => {}
                Verdict::Keep | Verdict::DropIfBottom => self.add(key, value, fate.first_version)?,
            }
            input.next();
        }
        input.status()?;
        self.finish_table()?;
        if self.slice.end.is_some() {
            self.let_go(); // others go on in the same tables
        }
        Ok(count)
    }

    /// Takes note that so many bytes more were read, and lets go of the inputs from time to time, unless readers want their pages.
    #[inline]
    fn walked(&mut self, bytes: usize) {
        self.stretch += bytes;
        if self.stretch >= STRETCH {
            self.stretch = 0;
            self.let_go();
        }
    }

    #[cold]
    fn let_go(&mut self) {
        let tables = self.environment.tables;
        let missed = tables.metrics().of(Event::BlockMiss);
        if std::mem::replace(&mut self.missed, missed) == missed {
            self.job.files().for_each(|file| tables.let_go(file.table()));
        }
    }

    /// True if `key` belongs to the next slice.
    fn is_behind(&self, key: &[u8]) -> bool {
        let user = self.environment.version.comparator.user();
        self.slice.end.as_ref().is_some_and(|end| user.compare(key::user_key(key), end).is_ge())
    }

    fn sources(&self) -> Vec<Source> {
        // A merge reads everything once: caching it would only push out what readers use.
        let read = BlockRead { fill_cache: false };
        let Environment { tables, version, .. } = self.environment;
        let runs =
            |(level, files): &(usize, Vec<Arc<FileMeta>>)| version.runs(*level, files.clone(), tables, read);
        self.job.inputs.iter().flat_map(runs).collect()
    }

    /// With how many bytes all keys of the inputs begin alike.
    fn shared_prefix(&self) -> usize {
        let files: Vec<_> = self.job.files().cloned().collect();
        let hull = self.environment.version.hull(&files);
        hull.map_or(0, |(low, high)| low.iter().zip(high).take_while(|(a, b)| a == b).count())
    }

    fn add(&mut self, key: &[u8], value: &[u8], first_version: bool) -> Result<()> {
        let comparator = &self.environment.version.comparator;
        let overlaps = self.grandparents.stop_before(key, comparator);
        let full = self.table.as_ref().is_some_and(|table| table.size() >= self.job.limits.file_size);
        if (first_version || mutant!(UserKeySplitAcrossTables)) && (full || overlaps) {
            self.finish_table()?;
        }
        if self.table.is_none() {
            let Environment { env, directory, next_file, .. } = self.environment;
            self.table = Some(TableWriter::create(env, directory, next_file(), &self.options)?);
        }
        self.entries_written += 1;
        match &mut self.table {
            Some(table) => table.add(key, value),
            None => Ok(()),
        }
    }

    fn finish_table(&mut self) -> Result<()> {
        let Some(table) = self.table.take() else { return Ok(()) };
        self.tables.extend(table.finish()?);
        self.grandparents.reset();
        Ok(())
    }

    fn abandon(&mut self) {
        if let Some(table) = self.table.take() {
            table.abandon();
        }
        remove_tables(self.environment.env, self.environment.directory, &self.tables);
    }
}

/// Removes tables that nothing names. A leftover is removed at the next open.
pub(crate) fn remove_tables(env: &Env, directory: &Path, tables: &[NewTable]) {
    for table in tables {
        let name = terrace_format::filename::FileName::Table(table.file.number).to_string();
        let _ = env.fs.remove(&directory.join(name));
    }
}

/// What becomes of a version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Keep,
    Drop,
    /// A delete that every reader sees: it is needed only while something older may lie below.
    DropIfBottom,
}

/// Decides over versions, given in order.
struct Fate {
    user: Order,
    oldest_reader: Sequence,
    user_key: Vec<u8>,
    /// The version before, of the same user key.
    newer: Option<Sequence>,
    any: bool,
    /// True if the version asked about last was the newest of its key.
    first_version: bool,
}

impl Fate {
    fn new(comparator: &InternalComparator, oldest_reader: Sequence) -> Fate {
        let user = Order::from(Arc::clone(comparator.user()));
        Fate { user, oldest_reader, user_key: Vec::new(), newer: None, any: false, first_version: true }
    }

    fn of(&mut self, internal: &[u8]) -> Result<Verdict> {
        let parsed = key::parse(internal).map_err(|flaw| {
            let what = format!("{flaw}, in the key '{}'", internal.escape_ascii());
            Error::corruption("merge".as_ref(), None, what)
        })?;
        let same = self.any && self.user.is_same(parsed.user_key, &self.user_key);
        let newer = if same { self.newer } else { None };
        let verdict = match newer {
            // Seen by the oldest reader, so that no reader needs an older one.
            Some(newer) if newer <= self.oldest_reader => Verdict::Drop,
            // The same write twice: two tables that were made from one log.
            Some(newer) if newer == parsed.sequence => Verdict::Drop,
            _ if parsed.kind == Kind::Delete && parsed.sequence <= self.oldest_reader => {
                Verdict::DropIfBottom
            }
            _ => Verdict::Keep,
        };
        self.first_version = !same;
        self.newer = Some(parsed.sequence);
        self.any = true;
        if !same {
            self.user_key.clear();
            self.user_key.extend_from_slice(parsed.user_key);
        }
        Ok(verdict)
    }
}

/// The levels below the output, asked about rising user keys.
struct Below<'a> {
    version: &'a Version,
    first: usize,
    /// Per level, the first file that does not end before the key asked last.
    at: [usize; LEVELS],
}

impl<'a> Below<'a> {
    fn new(version: &'a Version, first: usize) -> Below<'a> {
        Below { version, first, at: [0; LEVELS] }
    }

    /// True if a file below may hold a version of `user_key`.
    fn may_hold(&mut self, user_key: &[u8]) -> bool {
        let user = self.version.comparator.user();
        for level in self.first..LEVELS {
            let files = &self.version.levels[level];
            while let Some(file) = files.get(self.at[level]) {
                if user.compare(user_key, file.largest.user_key()).is_le() {
                    if user.compare(user_key, file.smallest.user_key()).is_ge() {
                        return true;
                    }
                    break;
                }
                self.at[level] += 1;
            }
        }
        false
    }
}

/// How much of the level below the output the present table overlaps.
struct Grandparents<'a> {
    files: &'a [Arc<FileMeta>],
    limit: u64,
    at: usize,
    overlap: u64,
    /// False before the first key: what lies before it overlaps nothing.
    started: bool,
}

impl<'a> Grandparents<'a> {
    fn new(files: &'a [Arc<FileMeta>], limit: u64) -> Grandparents<'a> {
        Grandparents { files, limit, at: 0, overlap: 0, started: false }
    }

    /// True if the table should end before `key`.
    fn stop_before(&mut self, key: &[u8], comparator: &InternalComparator) -> bool {
        while let Some(file) = self.files.get(self.at) {
            if comparator.compare(key, file.largest.as_bytes()).is_le() {
                break;
            }
            if self.started {
                self.overlap += file.size;
            }
            self.at += 1;
        }
        self.started = true;
        self.overlap > self.limit
    }

    fn reset(&mut self) {
        self.overlap = 0;
    }
}

#[cfg(test)]
mod tests {
    use terrace_format::comparator::bytewise;

    use super::*;

    #[track_caller]
    fn check(oldest_reader: Sequence, versions: &[(&str, Sequence, Kind)], expect: &[Verdict]) {
        let mut fate = Fate::new(&InternalComparator::new(bytewise()), oldest_reader);
        let verdicts: Vec<Verdict> = versions
            .iter()
            .map(|(user, sequence, kind)| {
                let mut internal = Vec::new();
                key::append(&mut internal, user.as_bytes(), *sequence, *kind);
                fate.of(&internal).unwrap()
            })
            .collect();
        assert_eq!(verdicts, expect);
    }

    use Kind::{Delete, Put};
    use Verdict::{Drop, DropIfBottom, Keep};

    #[test]
    fn without_snapshots_only_the_newest_stays() {
        check(9, &[("a", 5, Put), ("a", 3, Put), ("b", 4, Put)], &[Keep, Drop, Keep]);
    }

    #[test]
    fn a_reader_keeps_the_version_that_it_sees() {
        check(3, &[("a", 5, Put), ("a", 3, Put), ("a", 2, Put)], &[Keep, Keep, Drop]);
    }

    #[test]
    fn a_delete_goes_only_at_the_bottom_and_only_when_every_reader_sees_it() {
        check(3, &[("a", 5, Delete), ("a", 3, Delete), ("a", 2, Put)], &[Keep, DropIfBottom, Drop]);
    }

    #[test]
    fn the_empty_key_is_a_key() {
        check(9, &[("", 5, Put), ("", 4, Put), ("a", 3, Put)], &[Keep, Drop, Keep]);
    }

    #[test]
    fn the_same_write_twice() {
        check(0, &[("a", 5, Put), ("a", 5, Put)], &[Keep, Drop]);
    }
}
