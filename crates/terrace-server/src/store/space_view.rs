//! Changes of the map from databases to namespaces, as writes of a view.
//!
//! ```text
//!   FLUSHDB   the database gets a free namespace; the old one becomes garbage
//!   SWAPDB    two databases exchange their namespaces
//! ```
//!
//! Later commands of an EXEC use the new map at once, and other clients after the commit.

use terrace::ReadOptions;

use super::key_scan::prefix_end;
use super::layout::{garbage_key, garbage_prefix, parse_garbage_key};
use super::marker::{self, Spaces};
use super::view::View;
use crate::failure::CommandResult;

impl View<'_> {
    /// Empties `databases`. The expiry job deletes the records of their old namespaces.
    pub(crate) fn flush_databases(&mut self, databases: &[u8]) -> CommandResult {
        let mut changed = Vec::new();
        for database in databases {
            self.add_existing_watched(*database, *database, &mut changed)?;
        }
        let mut spaces = self.spaces()?;
        let mut used = self.garbage_spaces()?;
        used.extend_from_slice(&spaces);
        for database in databases {
            let space = &mut spaces[usize::from(*database)];
            self.put_record(&garbage_key(*space), b"")?;
            // At most 65,536 namespaces: the garbage collection frees them, long before.
            *space = (0..=u16::MAX).find(|free| !used.contains(free)).unwrap_or(*space);
            used.push(*space);
        }
        self.put_spaces(spaces, changed)
    }

    /// Exchanges two databases.
    pub(crate) fn swap_databases(&mut self, first: u8, second: u8) -> CommandResult {
        let mut changed = Vec::new();
        self.add_existing_watched(first, second, &mut changed)?;
        self.add_existing_watched(second, first, &mut changed)?;
        let mut spaces = self.spaces()?;
        spaces.swap(usize::from(first), usize::from(second));
        self.put_spaces(spaces, changed)
    }

    fn put_spaces(&mut self, spaces: Spaces, changed: Vec<Vec<u8>>) -> CommandResult {
        self.put_record(marker::SPACES_KEY, &marker::encode_spaces(&spaces))?;
        self.set_spaces(spaces, changed)
    }

    /// Uses the map of namespaces `spaces` from now on. The commit marks the clients that watch one
    /// of the keys `marked` of the watch table.
    pub(super) fn set_spaces(&mut self, spaces: Spaces, marked: Vec<Vec<u8>>) -> CommandResult {
        // The records that an EXEC has changed before have the namespaces of the map before.
        let before = self.spaces()?;
        let store = self.store;
        let records = std::mem::take(&mut self.effects.changed);
        self.effects.marked.extend(records.iter().filter_map(|record| store.watch_key_in(&before, record)));
        self.effects.marked.extend(marked);
        self.effects.spaces = Some(spaces);
        Ok(())
    }

    /// Appends the watched keys of `database` that exist there or in `other`. A key that cannot be
    /// read counts as one that exists.
    fn add_existing_watched(&mut self, database: u8, other: u8, keys: &mut Vec<Vec<u8>>) -> CommandResult {
        for watch_key in self.store.watch_table.keys_with_prefix(&[database]) {
            let key = &watch_key[1..];
            if self.may_exist(database, key)? || (other != database && self.may_exist(other, key)?) {
                keys.push(watch_key);
            }
        }
        Ok(())
    }

    fn may_exist(&mut self, database: u8, key: &[u8]) -> CommandResult<bool> {
        let read = self.get(database, key).map(|entry| Some(entry.is_some()));
        Ok(read.or_else(crate::failure::Failure::ignore_reply)?.unwrap_or(true))
    }

    /// Returns the namespaces that wait for their garbage collection.
    fn garbage_spaces(&mut self) -> CommandResult<Vec<u16>> {
        let mut options = ReadOptions::default();
        options.lower_bound = Some(garbage_prefix().to_vec());
        options.upper_bound = prefix_end(garbage_prefix());
        let mut records = self.base_iter(&options)?;
        let mut spaces = Vec::new();
        while records.step()? {
            spaces.extend(parse_garbage_key(records.key()));
        }
        Ok(spaces)
    }
}
