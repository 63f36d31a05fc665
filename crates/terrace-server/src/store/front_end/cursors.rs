//! Cursors of SCAN in a store, so that a client may continue a scan at another front end.
//!
//! ```text
//!   04 number:8      milliseconds since 1970:8, last key of the scan
//! ```
//!
//! The number is one of the numbers of objects, so no two cursors have the same.

use terrace_store::Store as SharedStore;

use super::super::layout::{cursor_key, cursor_value, parse_cursor_value};
use super::super::{Backend, Store};
use crate::failure::CommandResult;

impl Store {
    /// Stores the position of a scan and returns its cursor, which is never 0.
    ///
    /// # Errors
    ///
    /// The store does not answer.
    pub(crate) fn save_cursor(&self, position: Vec<u8>) -> CommandResult<u64> {
        let Backend::Store(shared) = &self.backend else { return Ok(self.cursors.insert(position)) };
        let number = self.object_numbers.allocate(&self.backend, true)?;
        let shared: &dyn SharedStore = &**shared;
        shared.put(&cursor_key(number), &cursor_value(self.now_ms(), &position))?;
        Ok(number)
    }

    /// Returns the position of `cursor`, unless it was discarded.
    ///
    /// # Errors
    ///
    /// The store does not answer.
    pub(crate) fn cursor(&self, cursor: u64) -> CommandResult<Option<Vec<u8>>> {
        let Backend::Store(shared) = &self.backend else { return Ok(self.cursors.get(cursor)) };
        let stored = shared.get(&cursor_key(cursor))?;
        Ok(stored.as_deref().and_then(parse_cursor_value).map(|(_, position)| position.to_vec()))
    }
}
