//! Streams in payloads.
//!
//! ```text
//!   nodes: first ID:16, listpack
//!   length, last ID, [first ID, largest deleted ID, added]
//!   groups: name, last ID, [read]
//!     pending: ID:16, time:8, deliveries
//!     consumers: name, time:8, IDs:16
//! ```
//!
//! The listpack of a node begins with a row of its own: the number of entries and of deleted ones,
//! and the fields of the first entry. An entry with these fields has only its values. Version 10 of
//! the format has the parts in brackets. Numbers of read entries are all ones if they are unknown.

use std::collections::BTreeMap;

use super::compact;
use super::decode::Reader;
use super::encode::{put_len, put_string};
use crate::command::stream::{Group, Pending, StreamId};

/// Maximum number of entries of an encoded node.
const MAX_NODE_ENTRIES: usize = 100;
/// Size of the entries above which a node gets no other one, in bytes.
const MAX_NODE_BYTES: usize = 4096;
/// Flag of an entry that was deleted.
const IS_DELETED: i64 = 1;
/// Flag of an entry with the fields of the first row.
const HAS_SAME_FIELDS: i64 = 2;

/// Entry: fields and values in turns.
pub(in crate::command) type Entry = (StreamId, Vec<Vec<u8>>);

/// Stream in memory.
#[derive(Debug, Default, PartialEq)]
pub(in crate::command) struct StreamValue {
    pub(in crate::command) entries: Vec<Entry>,
    pub(in crate::command) last_id: StreamId,
    pub(in crate::command) max_deleted_id: StreamId,
    pub(in crate::command) added: u64,
    pub(in crate::command) groups: BTreeMap<Vec<u8>, GroupValue>,
    /// True if the payload does not state the numbers of read entries.
    pub(in crate::command) is_legacy: bool,
}

/// Group in memory.
#[derive(Debug, PartialEq)]
pub(in crate::command) struct GroupValue {
    pub(in crate::command) group: Group,
    /// Consumers with the times of their last commands.
    pub(in crate::command) consumers: BTreeMap<Vec<u8>, u64>,
    pub(in crate::command) pending: BTreeMap<StreamId, Pending>,
}

impl StreamValue {
    /// ID of the first entry, or 0-0.
    pub(in crate::command) fn first_id(&self) -> StreamId {
        self.entries.first().map_or(StreamId::MIN, |(id, _)| *id)
    }
}

/// Appends an encoded stream.
pub(super) fn encode(payload: &mut Vec<u8>, stream: &StreamValue) {
    let nodes = nodes(&stream.entries);
    put_len(payload, nodes.len());
    for node in nodes {
        put_string(payload, &node[0].0.bytes());
        put_string(payload, &encode_node(node));
    }
    put_len(payload, stream.entries.len());
    for id in [stream.last_id, stream.first_id(), stream.max_deleted_id] {
        put_id(payload, id);
    }
    put_len(payload, stream.added as usize);
    put_len(payload, stream.groups.len());
    for (name, group) in &stream.groups {
        put_string(payload, name);
        put_id(payload, group.group.last_id);
        put_len(payload, group.group.entries_read.map_or(usize::MAX, |read| read as usize));
        encode_pending(payload, group);
    }
}

fn put_id(payload: &mut Vec<u8>, id: StreamId) {
    put_len(payload, id.ms as usize);
    put_len(payload, id.seq as usize);
}

fn encode_pending(payload: &mut Vec<u8>, group: &GroupValue) {
    put_len(payload, group.pending.len());
    for (id, pending) in &group.pending {
        payload.extend_from_slice(&id.bytes());
        payload.extend_from_slice(&pending.delivered.to_le_bytes());
        put_len(payload, pending.count as usize);
    }
    put_len(payload, group.consumers.len());
    for (name, seen) in &group.consumers {
        put_string(payload, name);
        payload.extend_from_slice(&seen.to_le_bytes());
        let own = || group.pending.iter().filter(|(_, pending)| pending.consumer == *name);
        put_len(payload, own().count());
        own().for_each(|(id, _)| payload.extend_from_slice(&id.bytes()));
    }
}

/// Parts of the entries that become nodes.
fn nodes(entries: &[Entry]) -> Vec<&[Entry]> {
    let mut nodes = Vec::new();
    let mut begin = 0;
    let mut bytes = 0;
    for (index, (_, parts)) in entries.iter().enumerate() {
        let size: usize = parts.iter().map(|part| part.len()).sum();
        let is_full = index - begin == MAX_NODE_ENTRIES || bytes + size > MAX_NODE_BYTES;
        if is_full && index > begin {
            nodes.push(&entries[begin..index]);
            begin = index;
            bytes = 0;
        }
        bytes += size;
    }
    nodes.extend((begin < entries.len()).then(|| &entries[begin..]));
    nodes
}

fn fields(parts: &[Vec<u8>]) -> impl Iterator<Item = &Vec<u8>> + Clone {
    parts.iter().step_by(2)
}

fn encode_node(entries: &[Entry]) -> Vec<u8> {
    let mut list = compact::ListpackWriter::new();
    let (first, first_parts) = &entries[0];
    list.integer(entries.len() as i64);
    list.integer(0);
    list.integer(first_parts.len() as i64 / 2);
    fields(first_parts).for_each(|field| list.text(field));
    list.integer(0);
    for (id, parts) in entries {
        let has_same_fields = fields(parts).eq(fields(first_parts));
        list.integer(if has_same_fields { HAS_SAME_FIELDS } else { 0 });
        list.integer(id.ms.wrapping_sub(first.ms) as i64);
        list.integer(id.seq.wrapping_sub(first.seq) as i64);
        let count = parts.len() as i64 / 2;
        if has_same_fields {
            parts.iter().skip(1).step_by(2).for_each(|value| list.text(value));
            list.integer(count + 3);
        } else {
            list.integer(count);
            parts.iter().for_each(|part| list.text(part));
            list.integer(2 * count + 4);
        }
    }
    list.finish()
}

/// Decodes a stream. `version` is 1 or 2. Returns None if it is damaged.
pub(super) fn decode(reader: &mut Reader<'_>, version: u8) -> Option<StreamValue> {
    let mut stream = StreamValue { is_legacy: version == 1, ..StreamValue::default() };
    for _ in 0..reader.len()? {
        let first = StreamId::from_bytes(&reader.string()?)?;
        let list = reader.compact(compact::listpack)?;
        reader.charge(list.len() * size_of::<Vec<u8>>())?;
        decode_node(reader, first, list.into_iter(), &mut stream.entries)?;
    }
    let len = reader.len()?;
    stream.last_id = id(reader)?;
    stream.added = len as u64;
    if version > 1 {
        // The first entry is known.
        id(reader)?;
        stream.max_deleted_id = id(reader)?;
        stream.added = reader.len()? as u64;
    }
    for _ in 0..reader.len()? {
        let name = reader.string()?;
        let group = decode_group(reader, version)?;
        if stream.groups.insert(name, group).is_some() {
            return None;
        }
    }
    let is_sorted = stream.entries.is_sorted_by(|(first, _), (second, _)| first < second);
    let is_last = stream.entries.last().is_none_or(|(last, _)| *last <= stream.last_id);
    (is_sorted && is_last && len == stream.entries.len()).then_some(stream)
}

fn id(reader: &mut Reader<'_>) -> Option<StreamId> {
    Some(StreamId { ms: reader.len()? as u64, seq: reader.len()? as u64 })
}

fn binary_id(reader: &mut Reader<'_>) -> Option<StreamId> {
    reader.charge(size_of::<(StreamId, Pending)>())?;
    StreamId::from_bytes(&reader.array::<{ StreamId::LEN }>()?)
}

/// Time in milliseconds. A negative one is invalid.
fn time(reader: &mut Reader<'_>) -> Option<u64> {
    u64::try_from(i64::from_le_bytes(reader.array()?)).ok()
}

fn decode_group(reader: &mut Reader<'_>, version: u8) -> Option<GroupValue> {
    let last_id = id(reader)?;
    let read = if version > 1 { reader.len()? as u64 } else { u64::MAX };
    let mut group = Group::new(last_id, Some(read).filter(|read| *read != u64::MAX));
    let mut states = BTreeMap::new();
    for _ in 0..reader.len()? {
        let id = binary_id(reader)?;
        let state = (time(reader)?, reader.len()? as u64);
        if states.insert(id, state).is_some() {
            return None;
        }
    }
    let mut consumers = BTreeMap::new();
    let mut pending = BTreeMap::new();
    for _ in 0..reader.len()? {
        let name = reader.string()?;
        let seen = time(reader)?;
        for _ in 0..reader.len()? {
            let id = binary_id(reader)?;
            let (delivered, count) = states.remove(&id)?;
            reader.charge(name.len())?;
            pending.insert(id, Pending { delivered, count, consumer: name.clone() });
        }
        if consumers.insert(name, seen).is_some() {
            return None;
        }
    }
    group.consumers = consumers.len() as u64;
    group.pending = pending.len() as u64;
    // Each pending entry has a consumer.
    states.is_empty().then_some(GroupValue { group, consumers, pending })
}

/// Appends the entries of a node.
fn decode_node(
    reader: &mut Reader<'_>,
    first: StreamId,
    mut list: impl Iterator<Item = Vec<u8>>,
    entries: &mut Vec<Entry>,
) -> Option<()> {
    let count = integer(&mut list)?;
    let deleted = integer(&mut list)?;
    let field_count = usize::try_from(integer(&mut list)?).ok()?;
    let names: Vec<Vec<u8>> = list.by_ref().take(field_count).collect();
    if names.len() != field_count || integer(&mut list)? != 0 {
        return None;
    }
    let mut counts = [0i64; 2];
    while let Some(flags) = list.next() {
        let flags = crate::resp::parse_i64(&flags)?;
        let ms = first.ms.wrapping_add(integer(&mut list)? as u64);
        let seq = first.seq.wrapping_add(integer(&mut list)? as u64);
        let mut parts = Vec::new();
        if flags & HAS_SAME_FIELDS != 0 {
            for name in &names {
                parts.extend([name.clone(), list.next()?]);
            }
        } else {
            let len = usize::try_from(integer(&mut list)?).ok()?.checked_mul(2)?;
            parts.extend(list.by_ref().take(len));
            if parts.len() != len {
                return None;
            }
        }
        integer(&mut list)?;
        // Many entries may share one long field.
        reader.charge(parts.iter().map(|part: &Vec<u8>| part.len() + size_of::<Vec<u8>>()).sum())?;
        counts[usize::from(flags & IS_DELETED != 0)] += 1;
        if flags & IS_DELETED == 0 {
            if parts.is_empty() {
                return None;
            }
            entries.push((StreamId { ms, seq }, parts));
        }
    }
    (counts == [count, deleted]).then_some(())
}

fn integer(list: &mut impl Iterator<Item = Vec<u8>>) -> Option<i64> {
    crate::resp::parse_i64(&list.next()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Stream with more than one node, entries with other fields, and a group.
    fn example() -> StreamValue {
        let text = |text: &str| text.as_bytes().to_vec();
        let mut stream = StreamValue { added: 400, ..StreamValue::default() };
        for number in 0..250u64 {
            let mut parts = vec![text("field"), number.to_string().into_bytes()];
            if number % 7 == 0 {
                parts.extend([text(""), vec![b'x'; number as usize * 40]]);
            }
            stream.entries.push((StreamId { ms: 10 + number / 3, seq: u64::MAX - 5 + number % 3 }, parts));
        }
        stream.last_id = StreamId { ms: 1000, seq: 0 };
        let pending = |consumer| Pending { delivered: 5, count: 70_000, consumer: text(consumer) };
        let mut group = Group::new(StreamId { ms: 11, seq: 1 }, None);
        group.consumers = 2;
        group.pending = 1;
        let consumers = BTreeMap::from([(text("alice"), 6), (text("bob"), 7)]);
        let pending = BTreeMap::from([(StreamId { ms: 10, seq: 0 }, pending("bob"))]);
        stream.groups.insert(text("group"), GroupValue { group, consumers, pending });
        stream
    }

    #[test]
    fn encoded_stream() {
        let stream = example();
        let mut payload = Vec::new();
        encode(&mut payload, &stream);
        assert_eq!(decode(&mut Reader::new(&payload), 2), Some(stream));
        for len in (0..payload.len()).step_by(17) {
            let mut reader = Reader::new(&payload[..len]);
            assert!(decode(&mut reader, 2).is_none(), "{len} bytes");
        }
    }

    #[test]
    fn long_field_of_many_entries() {
        let mut list = compact::ListpackWriter::new();
        [1000, 0, 1].iter().for_each(|number| list.integer(*number));
        list.text(&vec![b'x'; 1 << 20]);
        list.integer(0);
        for number in 0..1000 {
            [HAS_SAME_FIELDS, number, 0, 7, 4].iter().for_each(|number| list.integer(*number));
        }
        let entries = compact::listpack(&list.finish(), usize::MAX).unwrap();
        let mut found = Vec::new();
        let decoded = decode_node(&mut Reader::new(b""), StreamId::MIN, entries.into_iter(), &mut found);
        assert!(decoded.is_none() && found.len() < 300);
    }

    #[test]
    fn nodes_have_bounds() {
        let stream = example();
        let nodes = nodes(&stream.entries);
        assert!(nodes.iter().all(|node| (1..=MAX_NODE_ENTRIES).contains(&node.len())));
        assert_eq!(nodes.concat(), stream.entries);
    }
}
