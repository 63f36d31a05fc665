//! Look-ups in the tables of a version.

use terrace_format::edit::LEVELS;
use terrace_format::key::{self, Kind};

use super::{FileMeta, Version};
use crate::error::{Error, Result};
use crate::sync::{Arc, AtomicI64, Ordering};
use crate::tables::{BlockRead, Hit, TableCache};

/// A file that many look-ups passed through in vain, and its level.
pub(crate) type WornFile = (usize, Arc<FileMeta>);

impl Version {
    /// The newest version of the user key of `target` at or behind `target`, and a file that this look-up wore out.
    ///
    /// On level 0 every file that may hold the key is asked, and the greatest sequence number counts. (LevelDB takes
    /// the file with the greatest number, which after its own repair may hold older data.)
    pub(crate) fn get(
        &self,
        target: &[u8],
        tables: &TableCache,
        read: BlockRead,
    ) -> Result<(Option<Hit>, Option<WornFile>)> {
        let user_key = key::user_key(target);
        let mut search = Search { version: self, tables, read, user_key, target, first: None, asked: 0 };
        let found = search.run()?;
        Ok((found, search.worn()))
    }

    /// The file to charge for an iterator's stop at `internal_key`, if that stop needed more than one file.
    pub(crate) fn charge(&self, internal_key: &[u8]) -> Option<WornFile> {
        let user_key = key::user_key(internal_key);
        let mut files = (0..LEVELS)
            .flat_map(|level| self.candidates(level, internal_key, user_key).map(move |file| (level, file)));
        let first = files.next()?;
        files.next()?;
        wear((first.0, Arc::clone(first.1)))
    }

    /// The files of `level` that may hold a version of `user_key` at or behind `target`.
    fn candidates<'a>(
        &'a self,
        level: usize,
        target: &[u8],
        user_key: &'a [u8],
    ) -> impl Iterator<Item = &'a Arc<FileMeta>> {
        let files = match level {
            0 => &self.levels[0][..],
            _ if self.levels[level].is_empty() => &[],
            _ => {
                let index = self.find(level, target);
                self.levels[level].get(index..index + 1).unwrap_or_default()
            }
        };
        files.iter().filter(move |file| {
            // On a sorted level that it does not end before is known.
            let ends_before = || self.comparator.compare_user_keys(file.largest.user_key(), user_key).is_lt();
            self.comparator.compare_user_keys(file.smallest.user_key(), user_key).is_le()
                && (level > 0 || !ends_before())
        })
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
    fn run(&mut self) -> Result<Option<Hit>> {
        for level in 0..LEVELS {
            let mut newest: Option<Hit> = None;
            let version: &'a Version = self.version;
            for file in version.candidates(level, self.target, self.user_key) {
                self.first.get_or_insert((level, file));
                self.asked += 1;
                if let Some(found) = self.ask(file)?
                    && newest.as_ref().is_none_or(|newest| newest.trailer < found.trailer)
                {
                    newest = Some(found);
                }
            }
            if newest.is_some() {
                return Ok(newest);
            }
        }
        Ok(None)
    }

    fn ask(&self, file: &FileMeta) -> Result<Option<Hit>> {
        let comparator = &self.version.comparator;
        let same = |key: &[u8]| comparator.compare_user_keys(key::user_key(key), self.user_key).is_eq();
        let found = self
            .tables
            .read(&file.slot, file.number, file.size, |table| table.get(self.target, self.read, same))?;
        match &found {
            Some(hit) if Kind::from_byte(hit.trailer as u8).is_none() => Err(Error::corruption(
                "database".as_ref(),
                None,
                format!(
                    "value type {}, expected 0 or 1, in the key '{}' of table {}",
                    hit.trailer as u8,
                    self.user_key.escape_ascii(),
                    file.number
                ),
            )),
            _ => Ok(found),
        }
    }

    fn worn(self) -> Option<WornFile> {
        let (level, file) = self.first.filter(|_| self.asked > 1)?;
        wear((level, Arc::clone(file)))
    }
}
