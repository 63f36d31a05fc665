//! Look-ups in the tables of a version.

use terrace_format::edit::LEVELS;
use terrace_format::key::{self, InternalKey, Kind};

use super::{FileMeta, Version};
use crate::error::{Error, Result};
use crate::sync::{Arc, AtomicI64, Ordering};
use crate::tables::{BlockRead, Hit, TableCache};

/// A file that many look-ups passed through in vain, and its level.
pub(crate) type WornFile = (usize, Arc<FileMeta>);

impl Version {
    /// Puts into `found` the newest version of the user key of `target` at or behind `target`, if there is one, and gives a
    /// file that this look-up wore out.
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
        let mut search = Search { version: self, tables, read, user_key, target, first: None, asked: 0 };
        search.run(found)?;
        Ok(search.worn())
    }

    /// The file to charge for an iterator's stop at `internal_key`, if that stop needed more than one file.
    pub(crate) fn charge(&self, internal_key: &[u8]) -> Option<WornFile> {
        let user_key = key::user_key(internal_key);
        let mut files = self.candidates(internal_key, user_key);
        let first = files.next()?;
        files.next()?;
        wear((first.0, Arc::clone(first.1)))
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

/// Counts a stop against `file`; it is worn when its allowance has ended. Said again at each further stop: while another
/// worn file waits for its merge, this one is forgotten.
fn wear(file: WornFile) -> Option<WornFile> {
    wear_out(&file.1.allowed_seeks).then_some(file)
}

/// True for who counts against an allowance that ends with that, or has ended.
pub(crate) fn wear_out(allowance: &AtomicI64) -> bool {
    allowance.fetch_sub(1, Ordering::Relaxed) <= 1
}

struct Search<'a> {
    version: &'a Version,
    tables: &'a TableCache,
    read: BlockRead,
    user_key: &'a [u8],
    target: &'a [u8],
    first: Option<(usize, &'a Arc<FileMeta>)>,
    asked: usize,
}

impl<'a> Search<'a> {
    fn run(&mut self, found: &mut Option<Hit>) -> Result<()> {
        let (version, user_key) = (self.version, self.user_key);
        for file in version.levels[0].iter().filter(|file| version.may_have(file, user_key)) {
            let mut here = None;
            self.ask(0, file, &mut here)?;
            let number = |hit: &Option<Hit>| hit.as_ref().map(|hit| hit.trailer);
            if number(&here) > number(found) {
                *found = here;
            }
        }
        for level in 1..LEVELS {
            if found.is_some() {
                break;
            }
            if let Some(file) = version.candidate(level, self.target, user_key) {
                self.ask(level, file, found)?;
            }
        }
        Ok(())
    }

    fn ask(&mut self, level: usize, file: &'a Arc<FileMeta>, found: &mut Option<Hit>) -> Result<()> {
        self.first.get_or_insert((level, file));
        self.asked += 1;
        self.look_in(file, found)
    }

    fn look_in(&self, file: &FileMeta, found: &mut Option<Hit>) -> Result<()> {
        let comparator = &self.version.comparator;
        let same = |key: &[u8]| comparator.compare_user_keys(key::user_key(key), self.user_key).is_eq();
        self.tables.read(file.table(), |table| table.get(self.target, self.read, same, found))?;
        match found {
            Some(hit) if Kind::from_byte(hit.trailer as u8).is_none() => {
                Err(self.unknown_kind(file, hit.trailer))
            }
            _ => Ok(()),
        }
    }

    #[cold]
    fn unknown_kind(&self, file: &FileMeta, trailer: u64) -> Error {
        let (key, kind) = (self.user_key.escape_ascii(), trailer as u8);
        let what = format!("value type {kind}, expected 0 or 1, in the key '{key}' of table {}", file.number);
        Error::corruption("database".as_ref(), None, what)
    }

    fn worn(self) -> Option<WornFile> {
        let (level, file) = self.first.filter(|_| self.asked > 1)?;
        wear((level, Arc::clone(file)))
    }
}
