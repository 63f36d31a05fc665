//! Point lookup: searches the tables of a version for one key.

use terrace_format::filename::FileName;
use terrace_format::key::{self, InternalKey, ValueType};
use terrace_format::version_edit::NUM_LEVELS;

use super::{FileMeta, Version};
use crate::error::{Error, Result};
use crate::stats::{TICKER_SAMPLE_WEIGHT, Ticker};
use crate::sync::Arc;
use crate::table::{
    BlockReadOptions, FoundEntry, LookupKey, PreparedTable, TableCache, TableLookup, TableReader,
};

/// File that used up its allowed seeks, with its level.
pub(crate) type ReadCompactionHint = (usize, Arc<FileMeta>);

impl Version {
    /// Stores in `found` the first version at or after the internal key `target` of the same user
    /// key, if there is one. Returns the file whose last allowed seek this lookup used up, if any.
    ///
    /// On level 0, the lookup probes every file that may hold the key and takes the version with
    /// the greatest sequence number. (LevelDB takes the version of the newest file, which may be
    /// older after LevelDB's own repair.)
    pub(crate) fn get(
        &self,
        target: &[u8],
        table_cache: &TableCache,
        read_options: BlockReadOptions,
        found: &mut Option<FoundEntry>,
    ) -> Result<Option<ReadCompactionHint>> {
        let user_key = key::user_key(target);
        let lookup_key = LookupKey::new(target);
        let mut lookup = PointLookup {
            version: self,
            table_cache,
            read_options,
            user_key,
            lookup_key,
            probed_files: 0,
            first_wasted_probe: None,
        };
        lookup.run(found)?;
        Ok(lookup.charge_wasted_probe())
    }

    /// Prefetches from storage the block that a lookup of `target` reads first. Ignores errors of
    /// tables, because the lookup reports them.
    pub(crate) fn prefetch(&self, target: &[u8], table_cache: &TableCache) {
        for (_, file) in self.candidate_files(target, key::user_key(target)) {
            if table_cache
                .guard(file.table_ref(), BlockReadOptions::BULK)
                .map_or(true, |table| table.prefetch(target))
            {
                break;
            }
        }
    }

    /// Charges a read sample at `internal_key` to the first file that may hold the key, if at least
    /// two files may. Returns this file if its allowed seeks are used up.
    pub(crate) fn record_read_sample(&self, internal_key: &[u8]) -> Option<ReadCompactionHint> {
        let user_key = key::user_key(internal_key);
        let mut files = self.candidate_files(internal_key, user_key);
        let first = files.next()?;
        files.next()?;
        charge_seeks(first, 1)
    }

    /// Returns the files that may hold a version of `user_key` at or after `target`, with their
    /// levels, in the order of the probes.
    fn candidate_files<'a>(
        &'a self,
        target: &'a [u8],
        user_key: &'a [u8],
    ) -> impl Iterator<Item = (usize, &'a Arc<FileMeta>)> {
        let level_0 = self.levels[0]
            .iter()
            .filter(move |file| self.file_may_contain(file, user_key))
            .map(|file| (0, file));
        let sorted = (1..NUM_LEVELS)
            .filter_map(move |level| self.candidate_file(level, target, user_key).map(|file| (level, file)));
        level_0.chain(sorted)
    }

    /// Returns true if `user_key` is within the key range of `file`.
    fn file_may_contain(&self, file: &FileMeta, user_key: &[u8]) -> bool {
        let compare = |key: &InternalKey| self.comparator.compare_user_keys(key.user_key(), user_key);
        compare(&file.smallest).is_le() && compare(&file.largest).is_ge()
    }

    /// Returns the file of a sorted level that may hold a version of `user_key` at or after
    /// `target`.
    #[inline]
    fn candidate_file(&self, level: usize, target: &[u8], user_key: &[u8]) -> Option<&Arc<FileMeta>> {
        if self.levels[level].is_empty() {
            return None;
        }
        // `find_file` returns a file that does not end before the key.
        let file = self.levels[level].get(self.find_file(level, target))?;
        self.comparator.compare_user_keys(file.smallest.user_key(), user_key).is_le().then_some(file)
    }
}

/// Charges `seeks` wasted probes to `file`. Returns the file if its allowed seeks are used up.
fn charge_seeks((level, file): (usize, &Arc<FileMeta>), seeks: i64) -> Option<ReadCompactionHint> {
    file.allowed_seeks.charge(seeks).then(|| (level, Arc::clone(file)))
}

/// Number of files for which a lookup prefetches before it probes the first one. Each needs a
/// hazard pointer of the thread.
const PROBES_AHEAD: usize = 4;

/// Number of files on level 0 from which on a lookup prefetches for several probes. With fewer
/// files, the list of the next probes costs more than the prefetches save.
const MIN_LEVEL_0_FILES_TO_PIPELINE: usize = 3;

/// Next probe of a lookup.
struct Probe<'a> {
    level: usize,
    file: &'a Arc<FileMeta>,
    /// None if the table is not open.
    table: Option<PreparedTable>,
}

/// State of one lookup.
struct PointLookup<'a> {
    version: &'a Version,
    table_cache: &'a TableCache,
    read_options: BlockReadOptions,
    user_key: &'a [u8],
    lookup_key: LookupKey<'a>,
    /// Number of probed files.
    probed_files: usize,
    /// First wasted probe: the number of probed files at that time, the level, and the file.
    first_wasted_probe: Option<(usize, usize, &'a Arc<FileMeta>)>,
}

impl<'a> PointLookup<'a> {
    fn run(&mut self, found: &mut Option<FoundEntry>) -> Result<()> {
        if self.version.levels[0].len() >= MIN_LEVEL_0_FILES_TO_PIPELINE {
            return self.run_pipelined(found);
        }
        let mut files = self.version.candidate_files(self.lookup_key.key, self.user_key);
        // A loop with `next` executes 175 more instructions for a lookup, because it passes the
        // nested iterators for each file. The error None ends the search.
        let end = files.try_for_each(|(level, file)| {
            if level > 0 && found.is_some() {
                return Err(None);
            }
            self.keep_newest(level, file, found, |lookup, found| lookup.probe_file(level, file, found))
                .map_err(Some)
        });
        end.or_else(|error| error.map_or(Ok(()), Err))
    }

    /// Prefetches for some probes ahead, so that the lookup waits for several filters at the same
    /// time.
    #[inline(never)]
    fn run_pipelined(&mut self, found: &mut Option<FoundEntry>) -> Result<()> {
        let mut files = self.version.candidate_files(self.lookup_key.key, self.user_key);
        let mut ahead: [Option<Probe<'_>>; PROBES_AHEAD] = Default::default();
        for next in 0.. {
            let slot = &mut ahead[next % PROBES_AHEAD];
            let due = slot.take();
            *slot = files.next().map(|(level, file)| self.prepare_probe(level, file));
            match due {
                Some(probe) if probe.level > 0 && found.is_some() => break,
                Some(Probe { level, file, table }) => {
                    self.keep_newest(level, file, found, |lookup, found| match table {
                        Some(table) => lookup.probe_prepared(level, file, table, found),
                        None => lookup.probe_file(level, file, found),
                    })?;
                }
                None if next >= PROBES_AHEAD => break,
                None => {}
            }
        }
        Ok(())
    }

    /// Prefetches the memory that the probe of `file` reads first, if its table is open.
    fn prepare_probe(&self, level: usize, file: &'a Arc<FileMeta>) -> Probe<'a> {
        let table = self.table_cache.guard_if_open(file.table_ref());
        let likely = self.is_likely(level);
        Probe { level, file, table: table.map(|table| TableReader::prepare(table, self.lookup_key, likely)) }
    }

    /// Returns true if a file of `level` probably holds the key.
    #[inline]
    fn is_likely(&self, level: usize) -> bool {
        // The bottommost level holds more entries than all others. One of several files of level 0
        // probably lacks the key.
        self.version.is_bottommost_level(level) && (level > 0 || self.version.levels[0].len() == 1)
    }

    /// Stores in `found` the newer entry of `found` and of the result of `probe`.
    #[inline]
    fn keep_newest(
        &mut self,
        level: usize,
        file: &'a Arc<FileMeta>,
        found: &mut Option<FoundEntry>,
        probe: impl FnOnce(&mut Self, &mut Option<FoundEntry>) -> Result<()>,
    ) -> Result<()> {
        if found.is_none() {
            return probe(self, found);
        }
        let mut candidate = None;
        probe(self, &mut candidate)?;
        if candidate.is_some() {
            // The probe of one of the two files was not needed.
            self.record_wasted_probe(level, file);
        }
        let trailer = |entry: &Option<FoundEntry>| entry.as_ref().map(|entry| entry.trailer);
        if trailer(&candidate) > trailer(found) {
            *found = candidate;
        }
        Ok(())
    }

    fn probe_file(
        &mut self,
        level: usize,
        file: &'a Arc<FileMeta>,
        found: &mut Option<FoundEntry>,
    ) -> Result<()> {
        let table = self.table_cache.guard(file.table_ref(), self.read_options)?;
        let is_same_user_key = self.is_same_user_key();
        let likely = self.is_likely(level);
        let result =
            TableReader::get(table, self.lookup_key, likely, self.read_options, is_same_user_key, found)?;
        self.record_probe(level, file, result, found)
    }

    fn probe_prepared(
        &mut self,
        level: usize,
        file: &'a Arc<FileMeta>,
        table: PreparedTable,
        found: &mut Option<FoundEntry>,
    ) -> Result<()> {
        let is_same_user_key = self.is_same_user_key();
        let result =
            TableReader::get_prepared(table, self.lookup_key, self.read_options, is_same_user_key, found)?;
        self.record_probe(level, file, result, found)
    }

    #[inline]
    fn is_same_user_key(&self) -> impl Fn(&[u8]) -> bool + use<'a> {
        let version = self.version;
        let user_key = self.user_key;
        move |key| version.comparator.compare_user_keys(key::user_key(key), user_key).is_eq()
    }

    /// Counts a probe, and checks the entry that it found.
    #[inline]
    fn record_probe(
        &mut self,
        level: usize,
        file: &'a Arc<FileMeta>,
        result: TableLookup,
        found: &Option<FoundEntry>,
    ) -> Result<()> {
        self.probed_files += 1;
        match found {
            Some(entry) if ValueType::from_byte(entry.trailer as u8).is_none() => {
                return Err(self.unknown_value_type_error(file, entry.trailer));
            }
            _ => {}
        }
        if result == TableLookup::NotFound {
            self.record_wasted_probe(level, file);
        }
        Ok(())
    }

    #[cold]
    fn record_wasted_probe(&mut self, level: usize, file: &'a Arc<FileMeta>) {
        self.first_wasted_probe.get_or_insert((self.probed_files, level, file));
    }

    #[cold]
    fn unknown_value_type_error(&self, file: &FileMeta, trailer: u64) -> Error {
        let key = self.user_key.escape_ascii();
        let message = format!("key '{key}': value type {}, expected 0 or 1", trailer as u8);
        Error::corruption(FileName::Table(file.number).to_string().as_ref(), None, message)
    }

    /// Charges the first wasted probe to its file, if a compaction of the file would have saved a
    /// probe: the lookup probed another file after it, or it is one of several files of level 0.
    ///
    /// Only one in [`TICKER_SAMPLE_WEIGHT`] lookups charges, with this weight. So readers on many
    /// cores rarely write to the shared counter.
    #[inline]
    fn charge_wasted_probe(self) -> Option<ReadCompactionHint> {
        let (probed_before, level, file) = self.first_wasted_probe?;
        let cost_a_probe = probed_before < self.probed_files || (level == 0 && self.probed_files > 1);
        if cost_a_probe && self.table_cache.metrics().count_sampled(Ticker::WastedProbe) {
            charge_seeks((level, file), TICKER_SAMPLE_WEIGHT)
        } else {
            None
        }
    }
}
