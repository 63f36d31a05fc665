//! Look-ups in the tables of a version.

use terrace_format::edit::LEVELS;
use terrace_format::key::{self, InternalKey, Kind};

use super::{FileMeta, Version};
use crate::error::{Error, Result};
use crate::metrics::{Event, SAMPLED};
use crate::sync::Arc;
use crate::tables::{Answer, BlockRead, Hit, Table, TableCache, Target};

/// A file that many look-ups passed through in vain, and its level.
pub(crate) type WornFile = (usize, Arc<FileMeta>);

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
        read: BlockRead,
        found: &mut Option<Hit>,
    ) -> Result<Option<WornFile>> {
        let user_key = key::user_key(target);
        let target = Target::new(target);
        let mut search = Search { version: self, tables, read, user_key, target, asked: 0, in_vain: None };
        search.run(found)?;
        Ok(search.worn())
    }

    /// Has the device begin with what a look-up of `target` will want. A hint: what is wrong with a table is for the look-up to say.
    pub(crate) fn will_get(&self, target: &[u8], tables: &TableCache) {
        for (_, file) in self.candidates(target, key::user_key(target)) {
            if tables.read(file.table(), |table| Ok(table.will_get(target))).unwrap_or(true) {
                break;
            }
        }
    }

    /// The file to charge for an iterator's stop at `internal_key`, if that stop needed more than one file.
    pub(crate) fn charge(&self, internal_key: &[u8]) -> Option<WornFile> {
        let user_key = key::user_key(internal_key);
        let mut files = self.candidates(internal_key, user_key);
        let first = files.next()?;
        files.next()?;
        wear(first, 1)
    }

    /// The files that may hold a version of `user_key` at or behind `target`, with their levels, in the order to ask them.
    fn candidates<'a>(
        &'a self,
        target: &'a [u8],
        user_key: &'a [u8],
    ) -> impl Iterator<Item = (usize, &'a Arc<FileMeta>)> {
        let unsorted =
            self.levels[0].iter().filter(move |file| self.may_have(file, user_key)).map(|file| (0, file));
        let sorted = (1..LEVELS)
            .filter_map(move |level| self.candidate(level, target, user_key).map(|file| (level, file)));
        unsorted.chain(sorted)
    }

    /// True if `user_key` is between the ends of `file`.
    fn may_have(&self, file: &FileMeta, user_key: &[u8]) -> bool {
        let compare = |key: &InternalKey| self.comparator.compare_user_keys(key.user_key(), user_key);
        compare(&file.smallest).is_le() && compare(&file.largest).is_ge()
    }

    /// The file of a sorted level that may hold a version of `user_key` at or behind `target`.
    #[inline]
    fn candidate(&self, level: usize, target: &[u8], user_key: &[u8]) -> Option<&Arc<FileMeta>> {
        if self.levels[level].is_empty() {
            return None;
        }
        // That it does not end before the key is known.
        let file = self.levels[level].get(self.find(level, target))?;
        let compare = |key: &InternalKey| self.comparator.compare_user_keys(key.user_key(), user_key);
        compare(&file.smallest).is_le().then_some(file)
    }
}

/// Counts so many stops against the file, and gives it if it is worn.
fn wear((level, file): (usize, &Arc<FileMeta>), stops: i64) -> Option<WornFile> {
    file.allowed_seeks.spend(stops).then(|| (level, Arc::clone(file)))
}

struct Search<'a> {
    version: &'a Version,
    tables: &'a TableCache,
    read: BlockRead,
    user_key: &'a [u8],
    target: Target<'a>,
    /// How many files.
    asked: usize,
    /// The first of them in which a block was searched in vain, how many had been asked then, and its level.
    in_vain: Option<(usize, usize, &'a Arc<FileMeta>)>,
}

impl<'a> Search<'a> {
    fn run(&mut self, found: &mut Option<Hit>) -> Result<()> {
        let (version, user_key) = (self.version, self.user_key);
        for file in version.levels[0].iter().filter(|file| version.may_have(file, user_key)) {
            let mut here = None;
            self.ask(0, file, &mut here)?;
            if here.is_some() && found.is_some() {
                // One of the two would have been enough.
                self.was_in_vain(0, file);
            }
            let number = |hit: &Option<Hit>| hit.as_ref().map(|hit| hit.trailer);
            if number(&here) > number(found) {
                *found = here;
            }
        }
        for level in 1..LEVELS {
            if found.is_some() {
                break;
            }
            if let Some(file) = version.candidate(level, self.target.key, user_key) {
                self.ask(level, file, found)?;
            }
        }
        Ok(())
    }

    fn ask(&mut self, level: usize, file: &'a Arc<FileMeta>, found: &mut Option<Hit>) -> Result<()> {
        self.asked += 1;
        if self.look_in(level, file, found)? == Answer::Absent {
            self.was_in_vain(level, file);
        }
        Ok(())
    }

    #[cold]
    fn was_in_vain(&mut self, level: usize, file: &'a Arc<FileMeta>) {
        self.in_vain.get_or_insert((self.asked, level, file));
    }

    fn look_in(&self, level: usize, file: &FileMeta, found: &mut Option<Hit>) -> Result<Answer> {
        let comparator = &self.version.comparator;
        let same = |key: &[u8]| comparator.compare_user_keys(key::user_key(key), self.user_key).is_eq();
        // The last level has more than all others. Of several files on level 0 it is most likely none.
        let likely = self.version.is_last(level) && (level > 0 || self.version.levels[0].len() == 1);
        let get = |table: &Table| table.get(self.target, likely, self.read, same, found);
        let answer = self.tables.read(file.table(), get)?;
        match found {
            Some(hit) if Kind::from_byte(hit.trailer as u8).is_none() => {
                Err(self.unknown_kind(file, hit.trailer))
            }
            _ => Ok(answer),
        }
    }

    #[cold]
    fn unknown_kind(&self, file: &FileMeta, trailer: u64) -> Error {
        let (key, kind) = (self.user_key.escape_ascii(), trailer as u8);
        let what = format!("value type {kind}, expected 0 or 1, in the key '{key}' of table {}", file.number);
        Error::corruption("database".as_ref(), None, what)
    }

    /// Counts one in so many look-ups, for as many, against the file that it searched in vain: who reads on many cores does
    /// not write to what all of them write to. A file behind which no other was asked is in nobody's way, and on level 0
    /// each is in the way of all others.
    #[inline]
    fn worn(self) -> Option<WornFile> {
        let (turn, level, file) = self.in_vain?;
        let in_the_way = turn < self.asked || (level == 0 && self.asked > 1);
        let counts = in_the_way && self.tables.metrics().sample(Event::InVain);
        if counts { wear((level, file), SAMPLED) } else { None }
    }
}
