//! Reads of a view: values of keys, and several reads of one moment.
//!
//! ```text
//!   first read      state stamp
//!   each read       lookup; same stamp? -- no --> repeat the command with a snapshot
//! ```

use std::ops::ControlFlow;

use super::entry::{Entry, StoredValue};
use super::key_events::KeyEvent;
use super::layout::ValueType;
use super::object::Object;
use super::scratch::Scratch;
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
            self.effects.expired.push((self.scratch.record_key.clone(), entry));
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

    /// Passes the string at `key` and its expiry to `read` without a copy, if one lookup suffices.
    /// Returns the result of `read`, or `Some(None)` without the key. Returns None if the caller
    /// has to use [`View::get`].
    pub(crate) fn read_string<T>(
        &mut self,
        database: u8,
        key: &[u8],
        read: impl FnOnce(&[u8], Option<u64>) -> T,
    ) -> CommandResult<Option<Option<T>>> {
        let &ViewData::Database(db) = &self.data else { return Ok(None) };
        if self.scratch.can_wait() || self.reports_misses {
            return Ok(None);
        }
        self.set_record_key(database, key)?;
        let store = self.store;
        let now_ms = self.now_ms;
        let found = db.try_get_borrowed(&self.scratch.record_key, &self.read, |stored| {
            let header =
                store.layout.header(stored).filter(|header| header.value_type == ValueType::String)?;
            let is_alive = header.expires_at.is_none_or(|at| at > now_ms.unwrap_or_else(|| store.now_ms()));
            is_alive.then(|| read(stored.get(header.len..).unwrap_or_default(), header.expires_at))
        })?;
        self.check_unchanged()?;
        Ok(match found {
            None => Some(None),
            Some(read) => read.map(Some),
        })
    }

    /// Passes the strings at `keys` at one moment to `read`, without copies: true if the key
    /// exists, and the string, unless the key has another type. Ends when `read` fails. Returns
    /// false if the caller has to read the keys one by one.
    pub(crate) fn read_strings<'k>(
        &mut self,
        database: u8,
        keys: impl Iterator<Item = &'k [u8]>,
        mut read: impl FnMut(bool, Option<&[u8]>) -> CommandResult,
    ) -> CommandResult<bool> {
        let &ViewData::Database(db) = &self.data else { return Ok(false) };
        if self.scratch.can_wait() || self.reports_misses {
            return Ok(false);
        }
        let now_ms = self.now_ms();
        let layout = self.store.layout;
        let space = self.space(database)?;
        let record_keys = &mut self.scratch.record_keys;
        record_keys.set(layout, space, keys);
        let mut next = 0;
        let mut result = Ok(());
        db.try_get_each(record_keys.iter(), &self.read, |stored| {
            result = match stored.map(|stored| (layout.header(stored), stored)) {
                None => read(false, None),
                Some((None, _)) => Err(damaged_record(
                    record_keys
                        .iter()
                        .nth(next)
                        .and_then(|key| key.get(layout.prefix_len()..))
                        .unwrap_or_default(),
                )),
                Some((Some(header), _)) if header.expires_at.is_some_and(|at| at <= now_ms) => {
                    read(false, None)
                }
                Some((Some(header), stored)) => {
                    let value = stored.get(header.len..).unwrap_or_default();
                    read(true, Some(value).filter(|_| header.value_type == ValueType::String))
                }
            };
            next += 1;
            if result.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })?;
        result.map(|()| true)
    }

    /// Passes the value of the member record with the bytes `suffix` after the object's number to
    /// `read`, on a worker without a copy. Returns None without the record.
    pub(crate) fn read_member<T>(
        &mut self,
        object: &Object,
        suffix: &[u8],
        read: impl FnOnce(&[u8]) -> T,
    ) -> CommandResult<Option<T>> {
        object.member_key(suffix, &mut self.scratch.record_key);
        if self.in_series
            && let Some(written) = self.scratch.series.get(&self.scratch.record_key)
        {
            return Ok(written.map(read));
        }
        let &ViewData::Database(db) = &self.data else {
            return Ok(self.stored_value()?.map(|value| read(&value)));
        };
        let record_key = &self.scratch.record_key;
        let value = if self.scratch.can_wait() {
            db.get_borrowed(record_key, &self.read, read)?
        } else {
            db.try_get_borrowed(record_key, &self.read, read)?
        };
        self.check_unchanged()?;
        Ok(value)
    }

    /// Same as [`View::read_member`], for a command of which a series often has several: they read
    /// the members from `suffix` to `last`, one after the other.
    pub(crate) fn read_next_member<T>(
        &mut self,
        object: &Object,
        suffix: &[u8],
        last: &[u8],
        is_reverse: bool,
        read: impl FnOnce(&[u8]) -> T,
    ) -> CommandResult<Option<T>> {
        if let &ViewData::Database(db) = &self.data
            && self.in_series
        {
            let Scratch { record_key, series, series_scan, last_record, .. } = &mut *self.scratch;
            object.member_key(suffix, record_key);
            object.member_key(last, last_record);
            if series.get(record_key).is_none()
                && let Some(value) = series_scan.read(db, record_key, last_record, is_reverse)
            {
                return Ok(Some(read(value)));
            }
        }
        self.read_member(object, suffix, read)
    }

    /// True if the object has the member record with the bytes `suffix` after its number.
    pub(crate) fn has_member(&mut self, object: &Object, suffix: &[u8]) -> CommandResult<bool> {
        Ok(self.read_member(object, suffix, |_| ())?.is_some())
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
            ViewData::Database(db) if self.scratch.can_wait() => {
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
        if self.scratch.can_wait() {
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
