//! Cleanup of a store: expired keys, garbage and old cursors.
//!
//! ```text
//!   02 <= now        delete the key and its index entry, if the key still has this expiry
//!   03 object:8      delete the members, a part in each transaction, and the garbage record last
//!   03 ff space:2    delete the keys of the namespace likewise; their objects become garbage
//!   04 cursor:8      delete the cursor an hour after its creation
//! ```
//!
//! Reads hide expired keys, and nothing refers to garbage. So no command depends on this job. All
//! front ends run it, and a conflict between two of them ends the run of one.

use std::time::Duration;

use terrace_store::{Error, KeyRange, Limits, Result, Store as SharedStore, StoreIterator, Transaction};

use super::super::Store;
use super::super::garbage::decode;
use super::super::layout::{
    ValueType, cursor_bounds, expiry_bound, garbage_prefix, object_garbage_bounds, object_garbage_key,
    parse_cursor_value, parse_expiry_key, parse_garbage_key, parse_object_garbage_key, space_bounds,
};
use super::super::object::member_bounds;

/// Pause after a run that found nothing to do.
const IDLE_PAUSE: Duration = Duration::from_secs(2);
/// Pause after a run that found something.
const BUSY_PAUSE: Duration = Duration::from_millis(20);
/// Time for which a cursor is kept, in milliseconds.
const CURSOR_TIME: u64 = 3_600_000;
/// Maximum number of entries that one transaction deletes.
const MAX_ENTRIES: usize = 1000;
/// Maximum number of operations for one entry: its deletion and two other ones.
const OPERATIONS_OF_ENTRY: usize = 3;
/// Maximum number of times that a transaction contains the key of an entry: the entry, its record,
/// and the comparison of the record. One more leaves space for the rest.
const KEYS_OF_ENTRY: usize = 4;

/// State of the job.
#[derive(Debug, Default)]
pub(in crate::store) struct Cleanup {
    /// Monotonic time of the next run.
    next: Duration,
}

impl Cleanup {
    /// Works once, if it is time to.
    pub(in crate::store) fn run(&mut self, store: &Store, shared: &dyn SharedStore) {
        let now = store.clock.monotonic();
        if now < self.next || store.is_read_only {
            return;
        }
        // After a conflict, another front end does the same work. Commands report other errors.
        let has_worked = clean(store, shared).unwrap_or(false);
        self.next = store.clock.monotonic() + if has_worked { BUSY_PAUSE } else { IDLE_PAUSE };
    }
}

/// Deletes a part of everything that is not needed. Returns true if there was something.
fn clean(store: &Store, shared: &dyn SharedStore) -> Result<bool> {
    let expired = delete_expired(store, shared)?;
    let spaces = collect_space(shared)?;
    let objects = collect_objects(shared)?;
    let cursors = delete_cursors(store, shared)?;
    Ok(expired || spaces || objects || cursors)
}

/// Size of a transaction that deletes entries.
struct Part {
    entries: usize,
    /// Bytes of the keys of the entries.
    bytes: usize,
}

impl Part {
    /// Size that fits into a transaction.
    fn of_transaction(limits: &Limits) -> Part {
        Part {
            entries: (limits.batch_operations / OPERATIONS_OF_ENTRY).clamp(1, MAX_ENTRIES),
            bytes: limits.batch_bytes / KEYS_OF_ENTRY,
        }
    }
}

/// Keys with their values.
type Entries = Vec<(Vec<u8>, Vec<u8>)>;

/// First entries of `range`, at most as many as fit into `part`, or one. True: these are all.
fn first_entries(transaction: &Transaction<'_>, range: &KeyRange, part: &Part) -> Result<(Entries, bool)> {
    let mut iter = transaction.peek_iter(range)?;
    iter.seek_to_first();
    let mut entries = Vec::new();
    let mut bytes = 0;
    while iter.valid() && entries.len() < part.entries {
        bytes += Limits::batch_bytes_of(iter.key(), &[]);
        if bytes > part.bytes && !entries.is_empty() {
            break;
        }
        entries.push((iter.key().to_vec(), iter.value().to_vec()));
        iter.next();
    }
    iter.status()?;
    Ok((entries, !iter.valid()))
}

/// Deletes expired keys. Returns true if there was one.
fn delete_expired(store: &Store, shared: &dyn SharedStore) -> Result<bool> {
    let mut transaction = shared.begin(&Default::default())?;
    let range = KeyRange::new(expiry_bound(0), expiry_bound(store.now_ms().saturating_add(1)));
    let (entries, _) = first_entries(&transaction, &range, &Part::of_transaction(&shared.limits()))?;
    let mut expired = Vec::new();
    for (entry, _) in &entries {
        transaction.delete(entry)?;
        let Some((at, record)) = parse_expiry_key(entry) else { continue };
        let Some(stored) = transaction.get(&record)? else { continue };
        if store.layout.header(&stored).is_some_and(|header| header.expires_at == Some(at)) {
            transaction.delete(&record)?;
            if let Some(object) = decode(&stored) {
                transaction.put(&object_garbage_key(object.number), &[object.value_type.code()])?;
            }
            expired.push(record);
        }
    }
    if entries.is_empty() {
        return Ok(false);
    }
    transaction.commit()?;
    store.record_expired(expired.len() as u64);
    for record in &expired {
        store.publish_expired(record);
    }
    Ok(true)
}

/// Deletes a part of the entries of `range`, and `garbage` together with the last part. The
/// deletion depends on `garbage`: without it, the range may be in use again.
fn delete_part(
    shared: &dyn SharedStore,
    garbage: &[u8],
    range: &KeyRange,
    also: impl Fn(&mut Transaction<'_>, &[u8]) -> Result<()>,
) -> Result<()> {
    let mut transaction = shared.begin(&Default::default())?;
    if transaction.get(garbage)?.is_none() {
        return Ok(());
    }
    // Two operations remain for the garbage record and the engine.
    let mut part = Part::of_transaction(&shared.limits());
    part.entries = part.entries.saturating_sub(1).max(1);
    let (entries, is_all) = first_entries(&transaction, range, &part)?;
    for (key, value) in &entries {
        transaction.delete(key)?;
        also(&mut transaction, value)?;
    }
    if is_all {
        transaction.delete(garbage)?;
    }
    transaction.commit().map(|_| ())
}

/// Deletes a part of a discarded namespace. Returns true if there is one.
fn collect_space(shared: &dyn SharedStore) -> Result<bool> {
    let transaction = shared.begin(&Default::default())?;
    let first = Part { entries: 1, bytes: usize::MAX };
    let (found, _) = first_entries(&transaction, &KeyRange::prefix(garbage_prefix()), &first)?;
    let Some((garbage, space)) =
        found.first().and_then(|(garbage, _)| Some((garbage, parse_garbage_key(garbage)?)))
    else {
        return Ok(false);
    };
    let (begin, end) = space_bounds(space);
    delete_part(shared, garbage, &KeyRange::new(begin, end), |transaction, stored| match decode(stored) {
        Some(object) => transaction.put(&object_garbage_key(object.number), &[object.value_type.code()]),
        None => Ok(()),
    })?;
    Ok(true)
}

/// Deletes a part of the members of a discarded object. Returns true if there is one.
fn collect_objects(shared: &dyn SharedStore) -> Result<bool> {
    /// Objects of one run.
    const RUN: Part = Part { entries: 64, bytes: usize::MAX };
    let transaction = shared.begin(&Default::default())?;
    let (begin, end) = object_garbage_bounds();
    let (found, _) = first_entries(&transaction, &KeyRange::new(begin, end), &RUN)?;
    for (garbage, value) in &found {
        let value_type = value.first().and_then(|code| ValueType::from_code(*code));
        match (parse_object_garbage_key(garbage), value_type) {
            (Some(number), Some(value_type)) => {
                let (begin, end) = member_bounds(value_type, number);
                delete_part(shared, garbage, &KeyRange::new(begin, end), |_, _| Ok(()))?;
            }
            _ => return Err(Error::Corruption("a garbage record of an unknown type".into())),
        }
    }
    Ok(!found.is_empty())
}

/// Deletes old cursors. Returns true if there was one.
fn delete_cursors(store: &Store, shared: &dyn SharedStore) -> Result<bool> {
    let mut transaction = shared.begin(&Default::default())?;
    let (begin, end) = cursor_bounds();
    let part = Part::of_transaction(&shared.limits());
    let (found, _) = first_entries(&transaction, &KeyRange::new(begin, end), &part)?;
    let oldest = store.now_ms().saturating_sub(CURSOR_TIME);
    for (key, value) in &found {
        if parse_cursor_value(value).is_none_or(|(created, _)| created < oldest) {
            transaction.delete(key)?;
        }
    }
    let has_deleted = transaction.has_writes();
    transaction.commit()?;
    Ok(has_deleted)
}
