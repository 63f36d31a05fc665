//! Streams: a record per entry, and records of consumer groups.
//!
//! ```text
//!   14 object:8 00 ms:8 seq:8                    fields of an entry
//!   14 object:8 01 .. 04                         groups, see `group.rs`
//! ```
//!
//! The object of the key states the first, the last and the largest deleted ID. Therefore XADD
//! reads one record, and a scan starts at the first entry, not at the tombstones before it.

mod add;
mod claim;
mod entry;
mod group;
mod groups;
mod id;
mod info;
mod pending;
mod range;
mod read;
mod trim;
mod value;

use crate::failure::{CommandResult, Failure};
use crate::store::{MemberRange, MemberScan, Object, StoredValue, ValueType, View};

pub(super) use add::{xadd, xdel, xlen, xsetid, xtrim};
pub(super) use claim::{xautoclaim, xclaim};
pub(super) use entry::decode as decode_entry;
use entry::encode as encode_entry;
pub(super) use group::{Group, GroupEdit, Pending};
pub(super) use groups::{XGROUP, xgroup};
pub(super) use id::StreamId;
pub(super) use info::{XINFO, xinfo};
pub(super) use pending::{xack, xpending};
pub(super) use range::{xrange, xrevrange};
pub(super) use read::{may_wait, xread, xreadgroup};
pub(super) use value::{new_stream, stream_value};

/// First byte of the records of entries.
const ENTRY: u8 = 0;
/// Begin of the keys of the entries.
pub(super) const ENTRIES: &[u8] = &[ENTRY];

/// Stream of a key.
#[derive(Debug)]
pub(super) struct Stream {
    pub(super) object: Object,
}

impl Stream {
    /// Returns the stream at `key`, or None if the key does not exist.
    pub(super) fn open(view: &mut View<'_>, database: u8, key: &[u8]) -> CommandResult<Option<Stream>> {
        Ok(view.open_object(database, key, ValueType::Stream)?.map(|object| Stream { object }))
    }

    /// Returns the stream at `key`, or a new one.
    fn open_or_create(view: &mut View<'_>, database: u8, key: &[u8]) -> CommandResult<Stream> {
        Ok(Stream { object: view.open_or_create_object(database, key, ValueType::Stream)? })
    }

    /// Number of entries.
    pub(super) fn len(&self) -> u64 {
        self.object.count
    }

    fn id_field(&self, field: usize) -> StreamId {
        StreamId { ms: self.object.fields[field], seq: self.object.fields[field + 1] }
    }

    fn set_id_field(&mut self, field: usize, id: StreamId) {
        self.object.fields[field] = id.ms;
        self.object.fields[field + 1] = id.seq;
    }

    /// Largest ID so far.
    pub(super) fn last_id(&self) -> StreamId {
        self.id_field(0)
    }

    /// Records the largest ID.
    pub(super) fn set_last_id(&mut self, id: StreamId) {
        self.set_id_field(0, id);
    }

    /// Largest ID that XDEL has deleted, or 0-0.
    pub(super) fn max_deleted_id(&self) -> StreamId {
        self.id_field(2)
    }

    /// Records the largest deleted ID.
    pub(super) fn set_max_deleted_id(&mut self, id: StreamId) {
        self.set_id_field(2, id);
    }

    /// Number of entries that were ever added.
    pub(super) fn added(&self) -> u64 {
        self.object.fields[4]
    }

    /// Records the number of entries that were ever added.
    pub(super) fn set_added(&mut self, added: u64) {
        self.object.fields[4] = added;
    }

    /// ID of the first entry, or 0-0 without entries.
    pub(super) fn first_id(&self) -> StreamId {
        self.id_field(5)
    }

    /// Records the ID of the first entry.
    pub(super) fn set_first_id(&mut self, id: StreamId) {
        self.set_id_field(5, id);
    }

    /// Stores the record of the stream.
    fn save(&self, view: &mut View<'_>, database: u8, key: &[u8]) -> CommandResult {
        view.save_object(database, key, &self.object)
    }

    /// Returns the fields of an entry.
    fn entry(&self, view: &mut View<'_>, id: StreamId) -> CommandResult<Option<StoredValue>> {
        view.member(&self.object, &entry_suffix(id))
    }

    /// Stores an entry. The caller counts it.
    pub(super) fn put_entry(&self, view: &mut View<'_>, id: StreamId, fields: &[u8]) -> CommandResult {
        view.put_member(&self.object, &entry_suffix(id), fields)
    }

    /// Deletes an entry. The caller counts it.
    fn delete_entry(&self, view: &mut View<'_>, id: StreamId) -> CommandResult {
        view.delete_member(&self.object, &entry_suffix(id))
    }

    /// Returns the entries from `begin` to `end`, which is included.
    pub(super) fn entries(
        &self,
        view: &mut View<'_>,
        begin: StreamId,
        end: StreamId,
        is_reverse: bool,
    ) -> CommandResult<EntryScan> {
        let begin = begin.max(self.first_id());
        if self.len() == 0 || begin > end {
            return Ok(EntryScan { scan: BoundedScan::empty() });
        }
        let range = MemberRange {
            begin: Some(entry_suffix(begin).to_vec()),
            // Suffixes have one length, so that no other one is between these two.
            end: Some([&entry_suffix(end)[..], &[0]].concat()),
            is_reverse,
        };
        Ok(EntryScan { scan: BoundedScan::new(view, &self.object, &range)? })
    }
}

/// Iterator over records. On a worker, it fails after many of them.
struct BoundedScan {
    scan: Option<MemberScan>,
    examined: u64,
    can_run_long: bool,
}

impl BoundedScan {
    fn empty() -> BoundedScan {
        BoundedScan { scan: None, examined: 0, can_run_long: true }
    }

    fn new(view: &mut View<'_>, object: &Object, range: &MemberRange) -> CommandResult<BoundedScan> {
        let scan = Some(view.members(object, range)?);
        Ok(BoundedScan { scan, examined: 0, can_run_long: view.scratch.can_run_long() })
    }

    fn next(&mut self) -> CommandResult<Option<(&[u8], &[u8])>> {
        let Some(scan) = &mut self.scan else { return Ok(None) };
        self.examined += 1;
        if self.examined > super::MAX_MEMBERS_ON_WORKER && !self.can_run_long {
            return Err(Failure::IsLong);
        }
        scan.next()
    }
}

/// Iterator over entries.
pub(super) struct EntryScan {
    scan: BoundedScan,
}

impl EntryScan {
    /// Returns the ID and the fields of the next entry, or None at the end.
    pub(super) fn next(&mut self) -> CommandResult<Option<(StreamId, &[u8])>> {
        let Some((suffix, fields)) = self.scan.next()? else { return Ok(None) };
        let id = suffix.get(1..).and_then(StreamId::from_bytes).ok_or_else(damaged)?;
        Ok(Some((id, fields)))
    }
}

fn entry_suffix(id: StreamId) -> [u8; 1 + StreamId::LEN] {
    let mut suffix = [ENTRY; 1 + StreamId::LEN];
    suffix[1..].copy_from_slice(&id.bytes());
    suffix
}

fn damaged() -> Failure {
    Failure::reply("ERR damaged: a record of the stream is not valid")
}

/// Name in an error. Redis shows the bytes before the first zero.
fn shown(name: &[u8]) -> std::borrow::Cow<'_, str> {
    let end = memchr::memchr(0, name).unwrap_or(name.len());
    String::from_utf8_lossy(&name[..end])
}

/// Error for a group that does not exist.
fn no_group(key: &[u8], group: &[u8], context: &str) -> Failure {
    let [key, group] = [key, group].map(shown);
    Failure::reply(format!("NOGROUP No such key '{key}' or consumer group '{group}'{context}"))
}

/// Error for a group of an existing stream that does not exist.
fn no_group_of_key(key: &[u8], group: &[u8]) -> Failure {
    let [key, group] = [key, group].map(shown);
    Failure::reply(format!("NOGROUP No such consumer group '{group}' for key name '{key}'"))
}
