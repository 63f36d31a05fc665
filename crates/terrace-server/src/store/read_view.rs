//! Reads of a view: values of keys, and several reads of one moment.
//!
//! ```text
//!   first read      state stamp
//!   each read       lookup; same stamp? -- no --> repeat the command with a snapshot
//! ```

use super::entry::{Entry, StoredValue};
use super::key_events::KeyEvent;
use super::layout::ValueType;
use super::object::Object;
use super::view::{View, ViewData, damaged_record};
use crate::failure::{CommandResult, Failure};

/// Number of commands that read from snapshots after a writer has interfered.
const COMMANDS_WITH_SNAPSHOT: u32 = 256;

impl View<'_> {
    /// Makes all later reads of a command see one state.
    ///
    /// Two reads of an unchanged database see one state without a snapshot, which costs two locks.
    pub(crate) fn pin_state(&mut self) {
        // A transaction reads one state already.
        let ViewData::Database(db) = &self.data else { return };
        if self.read.snapshot.is_some() || self.unchanged_since.is_some() {
            return;
        }
        if self.is_repeatable && self.scratch.snapshot_commands == 0 {
            self.unchanged_since = Some(db.state_stamp());
            return;
        }
        self.scratch.snapshot_commands = self.scratch.snapshot_commands.saturating_sub(1);
        self.read.snapshot = Some(db.snapshot());
    }

    /// Fails if the last read may have seen another state than the reads before.
    pub(super) fn check_unchanged(&mut self) -> CommandResult {
        if let (Some(stamp), ViewData::Database(db)) = (self.unchanged_since, &self.data)
            && !db.is_unchanged_since(stamp)
        {
            self.scratch.snapshot_commands = COMMANDS_WITH_SNAPSHOT;
            return Err(Failure::NeedsSnapshot);
        }
        Ok(())
    }

    /// Returns the entry of `key` in `database`, unless it does not exist or has expired.
    pub(crate) fn get(&mut self, database: u8, key: &[u8]) -> CommandResult<Option<Entry>> {
        let entry = self.stored_entry(database, key)?;
        let is_alive = match &entry {
            Some(entry) => entry.expires_at().is_none_or(|at| at > self.now_ms()),
            None => false,
        };
        if is_alive {
            return Ok(entry);
        }
        if self.reports_misses {
            self.store.key_events.publish(&KeyEvent { database, name: "keymiss", key: key.to_vec() });
        }
        if let Some(entry) = entry.filter(|entry| entry.header.value_type != ValueType::String) {
            self.expired.push((self.scratch.record_key.clone(), entry));
        }
        Ok(None)
    }

    /// Returns the string at `key`.
    ///
    /// # Errors
    ///
    /// The value has another type.
    pub(crate) fn get_string(&mut self, database: u8, key: &[u8]) -> CommandResult<Option<Entry>> {
        let entry = self.get(database, key)?;
        if let Some(entry) = &entry {
            entry.string()?;
        }
        Ok(entry)
    }

    /// Passes the string at `key` to `read` without a copy, if one lookup suffices. Returns true if
    /// it exists, false without the key, and None if the caller has to use [`View::get`].
    pub(crate) fn read_string(
        &mut self,
        database: u8,
        key: &[u8],
        read: impl FnOnce(&[u8]),
    ) -> CommandResult<Option<bool>> {
        let &ViewData::Database(db) = &self.data else { return Ok(None) };
        if self.scratch.can_wait || self.reports_misses {
            return Ok(None);
        }
        self.set_record_key(database, key)?;
        let store = self.store;
        let now_ms = self.now_ms;
        let found = db.try_get_borrowed(&self.scratch.record_key, &self.read, |stored| {
            let header =
                store.layout.header(stored).filter(|header| header.value_type == ValueType::String)?;
            let is_alive = header.expires_at.is_none_or(|at| at > now_ms.unwrap_or_else(|| store.now_ms()));
            is_alive.then(|| read(stored.get(header.len..).unwrap_or_default()))
        })?;
        self.check_unchanged()?;
        Ok(match found {
            None => Some(false),
            Some(read) => read.map(|()| true),
        })
    }

    fn stored_entry(&mut self, database: u8, key: &[u8]) -> CommandResult<Option<Entry>> {
        self.set_record_key(database, key)?;
        let Some(stored) = self.stored_value()? else { return Ok(None) };
        let header = self.store.layout.header(&stored).ok_or_else(|| damaged_record(key))?;
        if let ViewData::Store(transaction) = &mut self.data
            && let Some(object) = Object::decode(&header, stored.get(header.len..).unwrap_or_default())
        {
            transaction.note_object(object.number, &self.scratch.record_key);
        }
        Ok(Some(Entry { stored, header }))
    }

    /// Value of the current record.
    pub(super) fn stored_value(&mut self) -> CommandResult<Option<StoredValue>> {
        let value = self.read_value()?;
        self.check_unchanged()?;
        Ok(value)
    }

    fn read_value(&mut self) -> CommandResult<Option<StoredValue>> {
        let record_key = &self.scratch.record_key;
        if self.in_series
            && let Some(written) = self.scratch.series.get(record_key)
        {
            return Ok(written.map(|value| StoredValue::Copied(value.to_vec())));
        }
        Ok(match &mut self.data {
            ViewData::Database(db) if self.scratch.can_wait => {
                db.get_pinned_with(record_key, &self.read)?.map(StoredValue::Pinned)
            }
            ViewData::Database(db) => db.try_get(record_key, &self.read)?.map(StoredValue::Pinned),
            ViewData::Exec(transaction) => transaction.get(record_key)?.map(StoredValue::Copied),
            ViewData::Store(transaction) => transaction.get(record_key)?.map(StoredValue::Copied),
        })
    }

    /// Makes `key` current. Returns the expiry of its string or missing entry, or None if the
    /// caller has to use [`View::get`].
    pub(super) fn string_expiry(&mut self, database: u8, key: &[u8]) -> CommandResult<Option<Option<u64>>> {
        let &ViewData::Database(db) = &self.data else { return Ok(None) };
        if self.scratch.can_wait {
            return Ok(None);
        }
        self.set_record_key(database, key)?;
        let layout = self.store.layout;
        let found = db.try_get_borrowed(&self.scratch.record_key, &self.read, |stored| {
            let header = layout.header(stored).filter(|header| header.value_type == ValueType::String);
            header.map(|header| header.expires_at)
        })?;
        Ok(found.unwrap_or(Some(None)))
    }
}
