//! Look-ups in the tables of a version.

use terrace_format::edit::LEVELS;
use terrace_format::key::{self, Kind, ParsedKey, Sequence};

use super::{FileMeta, Version};
use crate::error::{Error, Result};
use crate::memtable::Found;
use crate::sync::{Arc, AtomicI64, Ordering};
use crate::tables::{BlockRead, TableCache, is_version_of};

/// A file that many look-ups passed through in vain, and its level.
pub(crate) type WornFile = (usize, Arc<FileMeta>);

impl Version {
    /// The newest version of `user_key` with a number up to `sequence`, and a file that this look-up wore out.
    ///
    /// On level 0 every file that may hold the key is asked, and the greatest sequence number counts. (LevelDB takes
    /// the file with the greatest number, which after its own repair may hold older data.)
    pub(crate) fn get(
        &self,
        user_key: &[u8],
        sequence: Sequence,
        tables: &TableCache,
        read: BlockRead,
    ) -> Result<(Option<Found>, Option<WornFile>)> {
        let mut search =
            Search { version: self, tables, read, user_key, target: Vec::new(), first: None, asked: 0 };
        key::append(&mut search.target, user_key, sequence, Kind::SEEK);
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
            _ => {
                let index = self.find(level, target);
                self.levels[level].get(index..index + 1).unwrap_or_default()
            }
        };
        files.iter().filter(move |file| {
            self.user().compare(user_key, file.smallest.user_key()).is_ge()
                && self.user().compare(user_key, file.largest.user_key()).is_le()
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
    target: Vec<u8>,
    first: Option<WornFile>,
    asked: usize,
}

impl Search<'_> {
    fn run(&mut self) -> Result<Option<Found>> {
        for level in 0..LEVELS {
            let mut newest: Option<Found> = None;
            for file in self.version.candidates(level, &self.target, self.user_key) {
                if self.asked == 0 {
                    self.first = Some((level, Arc::clone(file)));
                }
                self.asked += 1;
                if let Some(found) = self.ask(file)?
                    && newest.as_ref().is_none_or(|newest| newest.sequence < found.sequence)
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

    fn ask(&self, file: &FileMeta) -> Result<Option<Found>> {
        let table = self.tables.table(&file.slot, file.number, file.size)?;
        table.get(&self.target, self.read, |internal_key, value| {
            if !is_version_of(&self.version.comparator, internal_key, self.user_key) {
                return Ok(None);
            }
            let ParsedKey { sequence, kind, .. } = key::parse(internal_key).map_err(|flaw| {
                let what =
                    format!("{flaw}, in the key '{}' of table {}", internal_key.escape_ascii(), file.number);
                Error::corruption("database".as_ref(), None, what)
            })?;
            Ok(Some(Found { sequence, value: (kind == Kind::Put).then(|| value.to_vec()) }))
        })
    }

    fn worn(self) -> Option<WornFile> {
        if self.asked > 1 { wear(self.first?) } else { None }
    }
}
