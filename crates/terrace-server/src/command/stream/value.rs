//! Streams as a whole, for DUMP and RESTORE.

use std::collections::BTreeMap;

use super::group::groups;
use super::info::added_up_to;
use super::{Group, GroupEdit, Stream, StreamId, encode_entry, entry};
use crate::command::Call;
use crate::command::dump::{GroupValue, StreamValue};
use crate::command::members::check_bytes;
use crate::failure::CommandResult;
use crate::store::{Object, ValueType};

/// Memory of a pending entry, in bytes.
const PENDING_BYTES: usize = 128;

/// Reads a stream with its groups.
///
/// # Errors
///
/// The stream exceeds 256 MiB.
pub(in crate::command) fn stream_value(call: &mut Call<'_>, object: &Object) -> CommandResult<StreamValue> {
    call.require_slow_pool()?;
    let stream = Stream { object: *object };
    let mut value = StreamValue {
        entries: Vec::new(),
        last_id: stream.last_id(),
        max_deleted_id: stream.max_deleted_id(),
        added: stream.added(),
        groups: BTreeMap::new(),
        is_legacy: false,
    };
    let mut bytes = 0;
    let mut scan = stream.entries(&mut call.view, StreamId::MIN, StreamId::MAX, false)?;
    while let Some((id, fields)) = scan.next()? {
        let parts: Vec<Vec<u8>> = entry::decode(fields)?.into_iter().map(<[u8]>::to_vec).collect();
        bytes += fields.len() + parts.len() * size_of::<Vec<u8>>();
        check_bytes(bytes)?;
        value.entries.push((id, parts));
    }
    for (name, group) in groups(&mut call.view, &stream)? {
        let edit = GroupEdit::new(&stream, &name, group.clone());
        let consumers = edit.all_consumers(&mut call.view)?;
        let consumers = consumers.into_iter().map(|(name, consumer)| (name, consumer.seen)).collect();
        let mut pending = BTreeMap::new();
        let mut scan = edit.pending_entries(&mut call.view, None, StreamId::MIN, StreamId::MAX)?;
        while let Some((id, state)) = scan.next()? {
            pending.extend(state.map(|state| (id, state)));
            bytes += PENDING_BYTES;
            check_bytes(bytes)?;
        }
        value.groups.insert(name, GroupValue { group, consumers, pending });
    }
    Ok(value)
}

/// Creates a stream. No key names it yet.
pub(in crate::command) fn new_stream(call: &mut Call<'_>, value: &StreamValue) -> CommandResult<Object> {
    let mut stream = Stream { object: call.view.create_object(ValueType::Stream)? };
    for (id, parts) in &value.entries {
        stream.put_entry(&mut call.view, *id, &encode_entry(parts.iter().map(Vec::as_slice)))?;
    }
    stream.object.count = value.entries.len() as u64;
    stream.set_first_id(value.first_id());
    stream.set_last_id(value.last_id);
    stream.set_max_deleted_id(value.max_deleted_id);
    stream.set_added(value.added);
    for (name, group) in &value.groups {
        let Group { last_id, entries_read, .. } = group.group;
        let entries_read = if value.is_legacy { added_up_to(&stream, last_id) } else { entries_read };
        let mut edit = GroupEdit::new(&stream, name, Group::new(last_id, entries_read));
        for (consumer, seen) in &group.consumers {
            edit.create_consumer(&mut call.view, consumer, *seen)?;
        }
        for (id, pending) in &group.pending {
            edit.put_pending(&mut call.view, *id, None, pending.clone())?;
        }
        edit.save(&mut call.view)?;
    }
    Ok(stream.object)
}
