//! Garbage collection: deletes the members of discarded objects, and discarded namespaces.
//!
//! ```text
//!   03 object:8      delete the member records of the object     then the garbage record
//!   03 ff space:2    put the objects of the namespace on the     then the garbage record
//!                    list; delete the records of its keys
//! ```
//!
//! The garbage record is deleted last, so the work continues after a crash. No command reads the
//! records of garbage: a number of an object or of a namespace with a garbage record is not in use.

use terrace::{Db, ReadOptions, WriteBatch};

use super::Store;
use super::layout::{
    Layout, ValueType, garbage_key, object_garbage_bounds, object_garbage_key, parse_object_garbage_key,
    space_bounds,
};
use super::namespaces::garbage_spaces;
use super::object::{Object, member_bounds};
use crate::failure::CommandResult;

/// Maximum number of objects of one run.
const RUN: usize = 1000;
/// Number of members above which a whole range is deleted, which takes a sync.
const MAX_SINGLE: usize = 4096;
/// Size of the batches, in bytes.
const BATCH_BYTES: usize = 64 << 10;

/// Collects a part of the garbage. Returns true if it found some.
pub(crate) fn collect_garbage(store: &Store, db: &Db) -> terrace::Result<bool> {
    let mut found = false;
    for space in garbage_spaces(db)? {
        found = true;
        if store.has_objects() {
            discard_objects(db, space)?;
        }
        let (begin, end) = space_bounds(space);
        db.delete_range(begin..end)?;
        db.delete(garbage_key(space))?;
    }
    if store.has_objects() {
        found |= collect_objects(db)?;
    }
    Ok(found)
}

/// Puts all objects of a namespace on the garbage list. A repetition after a crash is harmless.
fn discard_objects(db: &Db, space: u16) -> terrace::Result<()> {
    let (begin, end) = space_bounds(space);
    let mut records = db.iter_with(&bounds(begin, end));
    let mut batch = WriteBatch::new();
    while let Some((_, stored)) = records.next_entry()? {
        if let Some(object) = decode(stored) {
            batch.put(object_garbage_key(object.number), [object.value_type.code()]);
        }
        if batch.as_bytes().len() > BATCH_BYTES {
            db.write(&batch)?;
            batch.clear();
        }
    }
    db.write(&batch)
}

/// Deletes the keys of all objects between two records, and puts these objects on the garbage list.
/// The caller holds the whole gate.
pub(crate) fn delete_objects(store: &Store, begin: &[u8], end: &[u8]) -> CommandResult {
    if !store.has_objects() {
        return Ok(());
    }
    let db = store.db()?;
    let mut records = db.iter_with(&bounds(begin.to_vec(), end.to_vec()));
    let mut batch = WriteBatch::new();
    while let Some((record, stored)) = records.next_entry()? {
        if let Some(object) = decode(stored) {
            // Together, so that a crash leaves no key without its members.
            batch.delete(record);
            batch.put(object_garbage_key(object.number), [object.value_type.code()]);
        }
        if batch.as_bytes().len() > BATCH_BYTES {
            db.write(&batch)?;
            batch.clear();
        }
    }
    Ok(db.write(&batch)?)
}

/// Returns the object of a record, or None for a string and for a damaged record.
pub(super) fn decode(stored: &[u8]) -> Option<Object> {
    let header = Layout::Typed.header(stored)?;
    Object::decode(&header, stored.get(header.len..)?)
}

fn bounds(begin: Vec<u8>, end: Vec<u8>) -> ReadOptions {
    let mut options = ReadOptions::default().fill_cache(false);
    options.lower_bound = Some(begin);
    options.upper_bound = Some(end);
    options
}

/// Collects at most [`RUN`] objects. Returns true if it found one.
fn collect_objects(db: &Db) -> terrace::Result<bool> {
    let (begin, end) = object_garbage_bounds();
    let mut records = db.iter_with(&bounds(begin, end));
    let mut batch = WriteBatch::new();
    let mut found = false;
    for _ in 0..RUN {
        let Some((key, value)) = records.next_entry()? else { break };
        found = true;
        let value_type = value.first().and_then(|code| ValueType::from_code(*code));
        if let (Some(number), Some(value_type)) = (parse_object_garbage_key(key), value_type) {
            collect_object(db, value_type, number, &mut batch)?;
        }
        batch.delete(key);
        if batch.as_bytes().len() > BATCH_BYTES {
            db.write(&batch)?;
            batch.clear();
        }
    }
    if found {
        db.write(&batch)?;
    }
    Ok(found)
}

/// Appends tombstones for the members of a small object to `batch`, or deletes the whole range of a
/// large one.
fn collect_object(
    db: &Db,
    value_type: ValueType,
    number: u64,
    batch: &mut WriteBatch,
) -> terrace::Result<()> {
    let (begin, end) = member_bounds(value_type, number);
    let mut members = db.iter_with(&bounds(begin.clone(), end.clone()));
    for _ in 0..MAX_SINGLE {
        let Some((key, _)) = members.next_entry()? else { return Ok(()) };
        batch.delete(key);
    }
    drop(members);
    db.delete_range(begin..end)
}
