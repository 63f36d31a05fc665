//! Objects of a view: their records, their members, and their garbage.
//!
//! ```text
//!   open or create    the record of the key
//!   members           get, put, delete, scan; the command adapts `Object::count`
//!   save              the record again; without members, the key is deleted
//! ```
//!
//! A write command sees its own writes only within an EXEC. Therefore a command handles repeated
//! members itself.

use terrace::ReadOptions;

use super::base_iter::BaseIter;
use super::entry::{Entry, Replaced, StoredValue};
use super::kept_iter::ScanBounds;
use super::key_events::EventClass;
use super::key_scan::prefix_end;
use super::layout::{Header, Layout, ValueType, object_garbage_key};
use super::marker;
use super::object::{MEMBER_PREFIX, Object};
use super::view::{View, ViewData, damaged_record, not_in_raw_mode};
use crate::failure::{CommandResult, Failure};

/// Range of the member records of an object, by the bytes after the number of the object.
#[derive(Debug, Clone, Default)]
pub(crate) struct MemberRange {
    /// First suffix, included.
    pub(crate) begin: Option<Vec<u8>>,
    /// End, not included.
    pub(crate) end: Option<Vec<u8>>,
    /// True for descending order.
    pub(crate) is_reverse: bool,
}

impl MemberRange {
    /// All records.
    pub(crate) fn all() -> MemberRange {
        MemberRange::default()
    }

    /// Records whose suffix begins with `prefix`.
    pub(crate) fn prefix(prefix: &[u8]) -> MemberRange {
        MemberRange { begin: Some(prefix.to_vec()), end: prefix_end(prefix), is_reverse: false }
    }

    /// Returns the range in descending order.
    pub(crate) fn reverse(self) -> MemberRange {
        MemberRange { is_reverse: true, ..self }
    }
}

/// Iterator over member records. Within an EXEC, it shows the writes before its creation.
pub(crate) struct MemberScan {
    iter: BaseIter,
}

impl MemberScan {
    /// Returns the suffix and the value of the next record, or None at the end.
    ///
    /// # Errors
    ///
    /// A block is damaged.
    pub(crate) fn next(&mut self) -> CommandResult<Option<(&[u8], &[u8])>> {
        if !self.iter.step()? {
            return Ok(None);
        }
        Ok(Some((self.iter.key().get(MEMBER_PREFIX..).unwrap_or_default(), self.iter.value())))
    }
}

impl View<'_> {
    /// Returns the object at `key`, or None if the key does not exist.
    ///
    /// # Errors
    ///
    /// The value has another type, or the layout has no types.
    pub(crate) fn open_object(
        &mut self,
        database: u8,
        key: &[u8],
        value_type: ValueType,
    ) -> CommandResult<Option<Object>> {
        if self.in_series {
            return self.open_series_object(database, key, value_type);
        }
        if self.store.layout == Layout::Raw {
            return Err(not_in_raw_mode(&format!("a value of the type {}", value_type.name())));
        }
        // Without a pass of the gate, a writer may delete the object meanwhile.
        if !self.has_pass {
            self.pin_state();
        }
        if let Some(object) = self.kept_object(database, key)? {
            return if object.value_type == value_type { Ok(Some(object)) } else { Err(Failure::WRONG_TYPE) };
        }
        let Some(entry) = self.get(database, key)? else { return Ok(None) };
        if entry.header.value_type != value_type {
            return Err(Failure::WRONG_TYPE);
        }
        let object = entry.object().ok_or_else(|| damaged_record(key))?;
        if let Some(stamp) = self.unchanged_since {
            self.scratch.kept_object.set(&self.scratch.record_key, &object, stamp);
        }
        Ok(Some(object))
    }

    /// Returns the object at `key` if the thread has kept it.
    fn kept_object(&mut self, database: u8, key: &[u8]) -> CommandResult<Option<Object>> {
        let &ViewData::Database(db) = &self.data else { return Ok(None) };
        // Only a read lets a follower catch up.
        if self.unchanged_since.is_none() || self.store.is_follower {
            return Ok(None);
        }
        self.set_record_key(database, key)?;
        let object = self.scratch.kept_object.get(&self.scratch.record_key, db);
        Ok(object.filter(|object| object.expires_at.is_none_or(|at| at > self.now_ms())))
    }

    /// Makes all later reads see all later writes, as in an EXEC. The view has no writes yet, and
    /// it holds a pass for all keys that it writes.
    ///
    /// # Errors
    ///
    /// This thread may not wait.
    pub(crate) fn see_own_writes(&mut self) -> CommandResult {
        if !self.scratch.can_wait() {
            return Err(Failure::WouldWait);
        }
        self.begin_exec();
        Ok(())
    }

    /// Returns the object of the series, with the changes of the series.
    fn open_series_object(
        &mut self,
        database: u8,
        key: &[u8],
        value_type: ValueType,
    ) -> CommandResult<Option<Object>> {
        let object = match self.scratch.series.object() {
            Some(object) => object,
            None => {
                let Some(entry) = self.get(database, key)? else { return Ok(None) };
                // A value of another type has no object of this one.
                let object = entry.object().ok_or(Failure::NeedsOwnBatch)?;
                self.scratch.series.set_stored(object);
                object
            }
        };
        if object.expires_at.is_some_and(|at| at <= self.now_ms()) {
            return Err(Failure::NeedsOwnBatch);
        }
        if object.value_type != value_type {
            return Err(Failure::WRONG_TYPE);
        }
        Ok(Some(object))
    }

    /// Returns the object at `key`, or a new one.
    ///
    /// # Errors
    ///
    /// The value has another type, or the layout has no types.
    pub(crate) fn open_or_create_object(
        &mut self,
        database: u8,
        key: &[u8],
        value_type: ValueType,
    ) -> CommandResult<Object> {
        match self.open_object(database, key, value_type)? {
            Some(object) => Ok(object),
            None => self.create_object(value_type),
        }
    }

    /// Returns a new object, which a record has to name before the commit.
    ///
    /// # Errors
    ///
    /// The layout has no types, or the object number cannot be reserved.
    pub(crate) fn create_object(&mut self, value_type: ValueType) -> CommandResult<Object> {
        self.check_no_series()?;
        if self.store.layout == Layout::Raw {
            return Err(not_in_raw_mode(&format!("a value of the type {}", value_type.name())));
        }
        let can_wait = self.scratch.can_wait();
        let number = self.store.object_numbers.allocate(&self.store.backend, can_wait)?;
        Ok(Object::new(value_type, number))
    }

    /// Stores the record of an object that [`View::open_or_create_object`] has returned.
    ///
    /// Deletes the key if the object has no members; the command has deleted their records, and has
    /// noted the event of its own before.
    pub(crate) fn save_object(&mut self, database: u8, key: &[u8], object: &Object) -> CommandResult {
        if object.is_gone() && object.is_new {
            return Ok(());
        }
        if self.in_series && !object.is_gone() {
            self.scratch.series.set_object(*object);
            return Ok(());
        }
        if object.is_gone() {
            self.notify(database, EventClass::GENERIC, "del", key);
            return self.delete_record_of(database, key, object.expires_at);
        }
        self.put_object_record(database, key, object)
    }

    /// Stores a new object at `key` in place of any value. `replaced` is that value. Without
    /// members, the key is deleted.
    pub(crate) fn replace_with_object(
        &mut self,
        database: u8,
        key: &[u8],
        object: &Object,
        replaced: Replaced<'_>,
    ) -> CommandResult {
        if object.is_gone() {
            return self.delete(database, key, replaced);
        }
        self.note_objects()?;
        let header = Header::new(object.value_type, object.expires_at, 0);
        self.put(database, key, &header, &object.encode(), replaced)
    }

    fn put_object_record(&mut self, database: u8, key: &[u8], object: &Object) -> CommandResult {
        let header = Header::new(object.value_type, object.expires_at, 0);
        if object.is_new {
            self.note_objects()?;
            // An expired value of the key is garbage.
            return self.put(database, key, &header, &object.encode(), Replaced::Read(None));
        }
        self.put_same_object(database, key, &header, &object.encode(), object.expires_at)
    }

    /// Records in the marker that the directory has objects.
    fn note_objects(&mut self) -> CommandResult {
        if !self.has_objects() {
            self.creates_objects = true;
            self.put_record(marker::MARKER_KEY, &marker::encode_marker(true))?;
        }
        Ok(())
    }

    /// Records that the object at `key` has changed, if the command does not save it.
    ///
    /// # Errors
    ///
    /// Those of [`View::space`].
    pub(crate) fn note_changed(&mut self, database: u8, key: &[u8]) -> CommandResult {
        if self.in_series {
            return Ok(());
        }
        let record = self.record_key(database, key)?.to_vec();
        self.effects.changed.push(record);
        Ok(())
    }

    /// Records that clients who wait for `key` have to look again, although the key has not
    /// changed.
    ///
    /// # Errors
    ///
    /// Those of [`View::space`].
    pub(crate) fn note_ready(&mut self, database: u8, key: &[u8]) -> CommandResult {
        let record = self.record_key(database, key)?.to_vec();
        self.effects.ready.push(record);
        Ok(())
    }

    /// Returns the value of the member record with the bytes `suffix` after the object's number.
    pub(crate) fn member(&mut self, object: &Object, suffix: &[u8]) -> CommandResult<Option<StoredValue>> {
        object.member_key(suffix, &mut self.scratch.record_key);
        self.stored_value()
    }

    /// Stores a member record.
    pub(crate) fn put_member(&mut self, object: &Object, suffix: &[u8], value: &[u8]) -> CommandResult {
        let mut record = std::mem::take(&mut self.scratch.record_key);
        object.member_key(suffix, &mut record);
        let result = self.write_member(&record, Some(value));
        self.scratch.record_key = record;
        result
    }

    /// Deletes a member record.
    pub(crate) fn delete_member(&mut self, object: &Object, suffix: &[u8]) -> CommandResult {
        let mut record = std::mem::take(&mut self.scratch.record_key);
        object.member_key(suffix, &mut record);
        let result = self.write_member(&record, None);
        self.scratch.record_key = record;
        result
    }

    /// Stores a member record, or deletes it without a value.
    fn write_member(&mut self, record: &[u8], value: Option<&[u8]>) -> CommandResult {
        match value {
            _ if self.in_series => {
                self.scratch.series.write(record, value);
                Ok(())
            }
            Some(value) => self.put_record(record, value),
            None => self.delete_record(record),
        }
    }

    /// Returns an iterator over member records, in the order of their suffixes.
    pub(crate) fn members(&mut self, object: &Object, range: &MemberRange) -> CommandResult<MemberScan> {
        let begin = range.begin.as_deref().unwrap_or_default();
        self.members_between(object, begin, range.end.as_deref(), range.is_reverse)
    }

    /// Returns an iterator over the member records from the suffix `begin` to the suffix `end`,
    /// which is not included.
    pub(crate) fn members_between(
        &mut self,
        object: &Object,
        begin: &[u8],
        end: Option<&[u8]>,
        is_reverse: bool,
    ) -> CommandResult<MemberScan> {
        let bounds = ScanBounds::new(object, begin, end);
        let kept = match &self.data {
            ViewData::Database(db) if self.unchanged_since.is_some() => {
                self.scratch.iter_place.take(db, &bounds)
            }
            _ => None,
        };
        let iter = match kept {
            Some(iter) => iter.into(),
            None => self.member_iter(&bounds)?,
        };
        Ok(MemberScan { iter: iter.reverse(is_reverse) })
    }

    /// Returns a new iterator over the records between `bounds`. A worker keeps it if it shows the
    /// state of a stamp.
    fn member_iter(&mut self, bounds: &ScanBounds<'_>) -> CommandResult<BaseIter> {
        let mut options: ReadOptions = self.read_options().clone();
        options.lower_bound = Some(bounds.lower());
        options.upper_bound = Some(bounds.upper());
        let iter = self.base_iter(&options)?;
        Ok(match self.unchanged_since {
            Some(stamp) if !self.scratch.can_wait() => iter.keep(&self.scratch.iter_place, stamp, options),
            _ => iter,
        })
    }

    /// Copies `object` with all of its members. No record names the copy yet.
    ///
    /// # Errors
    ///
    /// The members exceed [`MAX_COPY`].
    pub(crate) fn copy_object(&mut self, object: &Object) -> CommandResult<Object> {
        let number = self.create_object(object.value_type)?.number;
        let copy = Object { number, is_new: true, ..*object };
        let mut scan = self.members(object, &MemberRange::all())?;
        let mut bytes = 0;
        while let Some((suffix, value)) = scan.next()? {
            bytes += suffix.len() + value.len() + MEMBER_PREFIX;
            if bytes > MAX_COPY {
                return Err(Failure::reply("ERR the copy exceeds 256 MiB"));
            }
            self.put_member(&copy, suffix, value)?;
        }
        Ok(copy)
    }

    /// Puts the object of a replaced entry on the garbage list, unless `kept` is the same object.
    pub(super) fn discard_object(&mut self, entry: &Entry, kept: Option<u64>) -> CommandResult {
        if entry.header.value_type == ValueType::String {
            return Ok(());
        }
        match entry.object_number() {
            Some(number) if Some(number) != kept => self.put_garbage(entry.header.value_type, number),
            // The members of a damaged record cannot be found.
            _ => Ok(()),
        }
    }

    /// Deletes the key of `object` and all of its members.
    pub(crate) fn discard(&mut self, database: u8, key: &[u8], object: &Object) -> CommandResult {
        self.put_garbage(object.value_type, object.number)?;
        self.notify(database, EventClass::GENERIC, "del", key);
        self.delete_record_of(database, key, object.expires_at)
    }

    /// Puts the object `number` on the garbage list. The garbage job deletes its members.
    pub(super) fn put_garbage(&mut self, value_type: ValueType, number: u64) -> CommandResult {
        self.put_record(&object_garbage_key(number), &[value_type.code()])
    }
}

/// Maximum size of the members that one COPY copies, in bytes.
const MAX_COPY: usize = 256 << 20;
