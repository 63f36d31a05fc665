//! Look-ups in the tables of a version.

use terrace_format::key::{self, InternalKey, ValueType};
use terrace_format::version_edit::NUM_LEVELS;

use super::{FileMeta, Version};
use crate::error::{Error, Result};
use crate::stats::{TICKER_SAMPLE_WEIGHT, Ticker};
use crate::sync::Arc;
use crate::table::{BlockReadOptions, FoundEntry, LookupKey, TableCache, TableLookup, TableReader};

/// A file that many look-ups passed through in vain, and its level.
pub(crate) type ReadCompactionHint = (usize, Arc<FileMeta>);

impl Version {
    /// Puts into `found` the newest version of the user key of `target` at or behind `target`, if there is one, and gives a
    /// file that look-ups wore out, as far as this one can tell.
    ///
    /// On level 0 every file that may hold the key is asked, and the greatest sequence number counts. (LevelDB takes
    /// the file with the greatest number, which after its own repair may hold older data.)
    pub(crate) fn get(
        &self,
        target: &[u8],
        tables: &TableCache,
        read: BlockReadOptions,
        found: &mut Option<FoundEntry>,
    ) -> Result<Option<ReadCompactionHint>> {
        let user_key = key::user_key(target);
        let target = LookupKey::new(target);
        let mut search = PointLookup {
            version: self,
            table_cache: tables,
            read_options: read,
            user_key,
            lookup_key: target,
            probed_files: 0,
            first_wasted_probe: None,
        };
        search.run(found)?;
        Ok(search.charge_wasted_probe())
    }

    /// Has the device begin with what a look-up of `target` will want. A hint: what is wrong with a table is for the look-up to say.
    pub(crate) fn prefetch(&self, target: &[u8], tables: &TableCache) {
        for (_, file) in self.candidate_files(target, key::user_key(target)) {
            if tables.with_table(file.table_ref(), |table| Ok(table.prefetch(target))).unwrap_or(true) {
                break;
            }
        }
    }

    /// The file to charge for an iterator's stop at `internal_key`, if that stop needed more than one file.
    pub(crate) fn record_read_sample(&self, internal_key: &[u8]) -> Option<ReadCompactionHint> {
        let user_key = key::user_key(internal_key);
        let mut files = self.candidate_files(internal_key, user_key);
        let first = files.next()?;
        files.next()?;
        charge_seeks(first, 1)
    }

    /// The files that may hold a version of `user_key` at or behind `target`, with their levels, in the order to ask them.
    fn candidate_files<'a>(
        &'a self,
        target: &'a [u8],
        user_key: &'a [u8],
    ) -> impl Iterator<Item = (usize, &'a Arc<FileMeta>)> {
        let unsorted = self.levels[0]
            .iter()
            .filter(move |file| self.file_may_contain(file, user_key))
            .map(|file| (0, file));
        let sorted = (1..NUM_LEVELS)
            .filter_map(move |level| self.candidate_file(level, target, user_key).map(|file| (level, file)));
        unsorted.chain(sorted)
    }

    /// True if `user_key` is between the ends of `file`.
    fn file_may_contain(&self, file: &FileMeta, user_key: &[u8]) -> bool {
        let compare = |key: &InternalKey| self.comparator.compare_user_keys(key.user_key(), user_key);
        compare(&file.smallest).is_le() && compare(&file.largest).is_ge()
    }

    /// The file of a sorted level that may hold a version of `user_key` at or behind `target`.
    #[inline]
    fn candidate_file(&self, level: usize, target: &[u8], user_key: &[u8]) -> Option<&Arc<FileMeta>> {
        if self.levels[level].is_empty() {
            return None;
        }
        // That it does not end before the key is known.
        let file = self.levels[level].get(self.find_file(level, target))?;
        let compare = |key: &InternalKey| self.comparator.compare_user_keys(key.user_key(), user_key);
        compare(&file.smallest).is_le().then_some(file)
    }
}

/// Counts so many stops against the file, and gives it if it is worn.
fn charge_seeks((level, file): (usize, &Arc<FileMeta>), stops: i64) -> Option<ReadCompactionHint> {
    file.allowed_seeks.charge(stops).then(|| (level, Arc::clone(file)))
}

struct PointLookup<'a> {
    version: &'a Version,
    table_cache: &'a TableCache,
    read_options: BlockReadOptions,
    user_key: &'a [u8],
    lookup_key: LookupKey<'a>,
    /// How many files.
    probed_files: usize,
    /// The first of them in which a block was searched in vain, how many had been asked then, and its level.
    first_wasted_probe: Option<(usize, usize, &'a Arc<FileMeta>)>,
}

impl<'a> PointLookup<'a> {
    fn run(&mut self, found: &mut Option<FoundEntry>) -> Result<()> {
        let (version, user_key) = (self.version, self.user_key);
        for file in version.levels[0].iter().filter(|file| version.file_may_contain(file, user_key)) {
            let mut here = None;
            self.probe_file(0, file, &mut here)?;
            if here.is_some() && found.is_some() {
                // One of the two would have been enough.
                self.record_wasted_probe(0, file);
            }
            let number = |hit: &Option<FoundEntry>| hit.as_ref().map(|hit| hit.trailer);
            if number(&here) > number(found) {
                *found = here;
            }
        }
        for level in 1..NUM_LEVELS {
            if found.is_some() {
                break;
            }
            if let Some(file) = version.candidate_file(level, self.lookup_key.key, user_key) {
                self.probe_file(level, file, found)?;
            }
        }
        Ok(())
    }

    fn probe_file(
        &mut self,
        level: usize,
        file: &'a Arc<FileMeta>,
        found: &mut Option<FoundEntry>,
    ) -> Result<()> {
        self.probed_files += 1;
        if self.get_in_file(level, file, found)? == TableLookup::NotFound {
            self.record_wasted_probe(level, file);
        }
        Ok(())
    }

    #[cold]
    fn record_wasted_probe(&mut self, level: usize, file: &'a Arc<FileMeta>) {
        self.first_wasted_probe.get_or_insert((self.probed_files, level, file));
    }

    fn get_in_file(
        &self,
        level: usize,
        file: &FileMeta,
        found: &mut Option<FoundEntry>,
    ) -> Result<TableLookup> {
        let comparator = &self.version.comparator;
        let same = |key: &[u8]| comparator.compare_user_keys(key::user_key(key), self.user_key).is_eq();
        // The last level has more than all others. Of several files on level 0 it is most likely none.
        let likely =
            self.version.is_bottommost_level(level) && (level > 0 || self.version.levels[0].len() == 1);
        let get = |table: &TableReader| table.get(self.lookup_key, likely, self.read_options, same, found);
        let answer = self.table_cache.with_table(file.table_ref(), get)?;
        match found {
            Some(hit) if ValueType::from_byte(hit.trailer as u8).is_none() => {
                Err(self.unknown_kind_error(file, hit.trailer))
            }
            _ => Ok(answer),
        }
    }

    #[cold]
    fn unknown_kind_error(&self, file: &FileMeta, trailer: u64) -> Error {
        let (key, kind) = (self.user_key.escape_ascii(), trailer as u8);
        let what = format!("value type {kind}, expected 0 or 1, in the key '{key}' of table {}", file.number);
        Error::corruption("database".as_ref(), None, what)
    }

    /// Counts one in so many look-ups, for as many, against the file that it searched in vain: who reads on many cores does
    /// not write to what all of them write to. A file behind which no other was asked is in nobody's way, and on level 0
    /// each is in the way of all others.
    #[inline]
    fn charge_wasted_probe(self) -> Option<ReadCompactionHint> {
        let (turn, level, file) = self.first_wasted_probe?;
        let in_the_way = turn < self.probed_files || (level == 0 && self.probed_files > 1);
        let counts = in_the_way && self.table_cache.metrics().count_sampled(Ticker::WastedProbe);
        if counts { charge_seeks((level, file), TICKER_SAMPLE_WEIGHT) } else { None }
    }
}
