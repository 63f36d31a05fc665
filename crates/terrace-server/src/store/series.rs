//! Series: consecutive write commands of a client on one object. They commit one batch.
//!
//! ```text
//!   LPUSH k a      LPUSH k b      LPUSH k c      GET x
//!   read record    members        members        one batch: all members, record of k once
//! ```
//!
//! The thread holds the pass of the key until the commit, and the replies wait for it. A command of
//! a series sees the writes of the commands before it. A command that fails leaves no writes.

use super::Store;
use super::object::Object;
use super::scratch::Scratch;
use super::view::View;
use crate::failure::{CommandResult, Failure};

/// Number of commands after which a series ends. Other threads may wait for the key.
const MAX_COMMANDS: usize = 64;
/// Number of written members after which a series ends. A lookup compares all of them.
const MAX_WRITES: usize = 256;
/// Size of the written members after which a series ends, in bytes.
const MAX_BYTES: usize = 64 << 10;

/// Range of bytes of a series.
type Span = (u32, u32);

/// Write of a member record.
#[derive(Debug)]
struct MemberWrite {
    /// Last bytes of the key, which differ for most members.
    tag: u64,
    key: Span,
    /// None for a deletion.
    value: Option<Span>,
}

/// Writes of a series before its commit, in the memory of a thread.
#[derive(Debug, Default)]
pub(super) struct Series {
    /// Database of the last command that may be part of a series.
    database: u8,
    /// Key of the last command that may be part of a series.
    key: Vec<u8>,
    /// Object after the last command. None before the first read.
    object: Option<Object>,
    /// Object in the database.
    stored: Option<Object>,
    writes: Vec<MemberWrite>,
    bytes: Vec<u8>,
    commands: usize,
    /// State before the current command.
    before: Mark,
}

/// Length of a series at one moment, and its object.
#[derive(Debug, Default, Clone, Copy)]
struct Mark {
    writes: usize,
    bytes: usize,
    object: Option<Object>,
}

impl Series {
    /// Begins a command.
    pub(super) fn begin_command(&mut self) {
        self.commands += 1;
        self.before = Mark { writes: self.writes.len(), bytes: self.bytes.len(), object: self.object };
    }

    /// Removes the writes of the current command.
    pub(super) fn undo_command(&mut self) {
        self.writes.truncate(self.before.writes);
        self.bytes.truncate(self.before.bytes);
        self.object = self.before.object.or(self.stored);
    }

    /// True if the current command has changed something.
    pub(super) fn has_changed(&self) -> bool {
        self.writes.len() > self.before.writes || self.object != self.before.object.or(self.stored)
    }

    /// True if the series has to end before another command.
    pub(super) fn is_full(&self) -> bool {
        self.commands >= MAX_COMMANDS || self.writes.len() >= MAX_WRITES || self.bytes.len() >= MAX_BYTES
    }

    /// Removes everything but the key.
    pub(super) fn clear(&mut self) {
        self.object = None;
        self.stored = None;
        self.writes.clear();
        self.bytes.clear();
        self.commands = 0;
    }

    /// Object after the last command.
    pub(super) fn object(&self) -> Option<Object> {
        self.object
    }

    /// Takes `object` for the stored object.
    pub(super) fn set_stored(&mut self, object: Object) {
        self.stored = Some(object);
        self.object = Some(object);
    }

    /// Takes `object` for the state after the current command.
    pub(super) fn set_object(&mut self, object: Object) {
        self.object = Some(object);
    }

    /// Object whose record the commit has to store.
    pub(super) fn changed_object(&self) -> Option<Object> {
        self.object.filter(|_| self.object != self.stored)
    }

    /// Adds the write of a member record. `value` is None for a deletion.
    pub(super) fn write(&mut self, key: &[u8], value: Option<&[u8]>) {
        let key_span = self.append(key);
        let value = value.map(|value| self.append(value));
        self.writes.push(MemberWrite { tag: tag(key), key: key_span, value });
    }

    fn append(&mut self, bytes: &[u8]) -> Span {
        let begin = self.bytes.len() as u32;
        self.bytes.extend_from_slice(bytes);
        // A command has at most 256 MiB.
        (begin, self.bytes.len() as u32)
    }

    fn bytes(&self, span: Span) -> &[u8] {
        self.bytes.get(span.0 as usize..span.1 as usize).unwrap_or_default()
    }

    /// Returns the last write of the member record `key`: its value, or None after a deletion.
    pub(super) fn get(&self, key: &[u8]) -> Option<Option<&[u8]>> {
        let tag = tag(key);
        let mut candidates = self.writes.iter().rev().filter(|write| write.tag == tag);
        let write = candidates.find(|write| self.bytes(write.key) == key)?;
        Some(write.value.map(|value| self.bytes(value)))
    }

    /// Keys of the written member records with their values, in the order of the writes. A deletion
    /// has no value.
    pub(super) fn writes(&self) -> impl Iterator<Item = (&[u8], Option<&[u8]>)> {
        self.writes.iter().map(|write| (self.bytes(write.key), write.value.map(|value| self.bytes(value))))
    }
}

/// Series of a thread.
impl Scratch {
    /// True if the last command that may be part of a series had the same key.
    pub(crate) fn is_series_key(&self, database: u8, key: &[u8]) -> bool {
        self.series.database == database && self.series.key == key
    }

    /// Remembers the key of a command that may be part of a series. The series is empty.
    pub(crate) fn set_series_key(&mut self, database: u8, key: &[u8]) {
        self.series.database = database;
        self.series.key.clear();
        self.series.key.extend_from_slice(key);
    }

    /// True if the series has to end before another command.
    pub(crate) fn is_series_full(&self) -> bool {
        self.series.is_full()
    }

    /// Ends a command of the series. A command that has failed leaves no writes. Returns true if it
    /// has changed something.
    pub(crate) fn end_series_command(&mut self, is_ok: bool) -> bool {
        if !is_ok {
            self.series.undo_command();
        }
        self.series.has_changed()
    }
}

impl View<'_> {
    /// Fails in a series, for writes that are not those of members, and for iterators.
    pub(super) fn check_no_series(&self) -> CommandResult {
        if self.in_series { Err(Failure::NeedsOwnBatch) } else { Ok(()) }
    }

    /// Writes the series of the thread, which ends in any case. The caller holds the pass of its
    /// key.
    ///
    /// # Errors
    ///
    /// Those of [`View::commit`]. Nothing is written then.
    pub(crate) fn commit_series(store: &Store, scratch: &mut Scratch) -> CommandResult {
        scratch.series_scan.clear();
        let mut series = std::mem::take(&mut scratch.series);
        let result = View::with_pass(store, scratch).write_series(&series);
        series.clear();
        scratch.series = series;
        result
    }

    fn write_series(&mut self, series: &Series) -> CommandResult {
        for (key, value) in series.writes() {
            match value {
                Some(value) => self.put_record(key, value)?,
                None => self.delete_record(key)?,
            }
        }
        match series.changed_object() {
            Some(object) => self.save_object(series.database, &series.key, &object)?,
            None if series.writes.is_empty() => return Ok(()),
            None => self.note_changed(series.database, &series.key)?,
        }
        self.commit()?;
        Ok(())
    }
}

/// Last eight bytes of the key of a member record, which has at least nine.
fn tag(key: &[u8]) -> u64 {
    key.last_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use super::super::layout::ValueType;
    use super::*;

    #[test]
    fn last_write_wins() {
        let mut series = Series::default();
        series.write(b"12345678a", Some(b"1"));
        series.write(b"22345678a", Some(b"2"));
        assert_eq!(series.get(b"12345678a"), Some(Some(&b"1"[..])));
        assert_eq!(series.get(b"32345678a"), None);
        series.write(b"12345678a", None);
        assert_eq!(series.get(b"12345678a"), Some(None));
        assert_eq!(series.get(b"22345678a"), Some(Some(&b"2"[..])));
    }

    #[test]
    fn failed_command_leaves_nothing() {
        let object = Object::new(ValueType::Set, 7);
        let mut series = Series::default();
        series.begin_command();
        series.set_stored(object);
        assert!(!series.has_changed() && series.changed_object().is_none());
        series.write(b"12345678a", Some(b""));
        series.set_object(Object { count: 1, ..object });
        assert!(series.has_changed());
        series.begin_command();
        assert!(!series.has_changed());
        series.write(b"12345678b", Some(b""));
        series.set_object(Object { count: 2, ..object });
        series.undo_command();
        assert_eq!(series.get(b"12345678b"), None);
        assert_eq!(series.changed_object(), Some(Object { count: 1, ..object }));
        assert_eq!(series.writes().count(), 1);
    }

    #[test]
    fn series_ends() {
        let mut series = Series::default();
        for _ in 0..MAX_COMMANDS {
            assert!(!series.is_full());
            series.begin_command();
        }
        assert!(series.is_full());
        series.clear();
        series.write(b"12345678a", Some(&[0; MAX_BYTES]));
        assert!(series.is_full());
    }
}
