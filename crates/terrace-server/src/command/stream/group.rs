//! Consumer groups: their records.
//!
//! ```text
//!   01 group                                   last ID:16 entries read:8 consumers:8 pending:8
//!   02 length:4 group consumer                 seen:8 pending:8
//!   03 length:4 group ID:16                    delivered:8 count:8 consumer
//!   04 length:4 group length:4 consumer ID:16  -
//! ```
//!
//! A pending entry has two records: one with its state, in the order of the group, and one in the
//! order of its consumer. Times are milliseconds since 1970. The number of read entries is all ones
//! if it is unknown.

use std::collections::BTreeMap;

use super::{BoundedScan, Stream, StreamId, damaged};
use crate::failure::CommandResult;
use crate::store::{MemberRange, Object, View};

const GROUP: u8 = 1;
const CONSUMER: u8 = 2;
const PENDING: u8 = 3;
const PENDING_OF_CONSUMER: u8 = 4;

/// Consumer group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::command) struct Group {
    pub(in crate::command) last_id: StreamId,
    /// Number of entries of the stream up to the last ID, if it is known.
    pub(in crate::command) entries_read: Option<u64>,
    /// Number of consumers.
    pub(in crate::command) consumers: u64,
    /// Number of pending entries.
    pub(in crate::command) pending: u64,
}

/// Consumer of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::command) struct Consumer {
    /// Time of its last command.
    pub(in crate::command) seen: u64,
    /// Number of pending entries.
    pub(in crate::command) pending: u64,
}

/// State of a delivered entry that is not acknowledged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::command) struct Pending {
    /// Time of the last delivery.
    pub(in crate::command) delivered: u64,
    /// Number of deliveries.
    pub(in crate::command) count: u64,
    pub(in crate::command) consumer: Vec<u8>,
}

/// Integer number `index` of a record.
fn integer(value: &[u8], index: usize) -> CommandResult<u64> {
    let bytes = value.get(8 * index..).and_then(<[u8]>::first_chunk);
    bytes.map(|bytes| u64::from_be_bytes(*bytes)).ok_or_else(damaged)
}

fn integers(numbers: &[u64]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_be_bytes()).collect()
}

impl Group {
    /// Group that has read the entries up to `last_id`.
    pub(in crate::command) fn new(last_id: StreamId, entries_read: Option<u64>) -> Group {
        Group { last_id, entries_read, consumers: 0, pending: 0 }
    }

    fn decode(value: &[u8]) -> CommandResult<Group> {
        Ok(Group {
            last_id: StreamId { ms: integer(value, 0)?, seq: integer(value, 1)? },
            entries_read: Some(integer(value, 2)?).filter(|read| *read != u64::MAX),
            consumers: integer(value, 3)?,
            pending: integer(value, 4)?,
        })
    }

    fn encode(&self) -> Vec<u8> {
        let read = self.entries_read.unwrap_or(u64::MAX);
        integers(&[self.last_id.ms, self.last_id.seq, read, self.consumers, self.pending])
    }
}

impl Consumer {
    fn decode(value: &[u8]) -> CommandResult<Consumer> {
        Ok(Consumer { seen: integer(value, 0)?, pending: integer(value, 1)? })
    }

    fn encode(&self) -> Vec<u8> {
        integers(&[self.seen, self.pending])
    }
}

impl Pending {
    fn decode(value: &[u8]) -> CommandResult<Pending> {
        Ok(Pending {
            delivered: integer(value, 0)?,
            count: integer(value, 1)?,
            consumer: value.get(16..).ok_or_else(damaged)?.to_vec(),
        })
    }

    fn encode(&self) -> Vec<u8> {
        let mut value = integers(&[self.delivered, self.count]);
        value.extend_from_slice(&self.consumer);
        value
    }
}

/// Suffix of a record: its kind and names. All names but that of a consumer's own record have a
/// length, so that no name is the begin of another one.
fn suffix(kind: u8, names: &[&[u8]]) -> Vec<u8> {
    let mut suffix = vec![kind];
    for name in names {
        // Arguments are smaller than 4 GiB.
        suffix.extend_from_slice(&(name.len() as u32).to_be_bytes());
        suffix.extend_from_slice(name);
    }
    suffix
}

fn group_suffix(name: &[u8]) -> Vec<u8> {
    [&[GROUP], name].concat()
}

fn consumer_suffix(group: &[u8], consumer: &[u8]) -> Vec<u8> {
    [&suffix(CONSUMER, &[group]), consumer].concat()
}

/// Returns the names and the states of all groups of a stream.
pub(super) fn groups(view: &mut View<'_>, stream: &Stream) -> CommandResult<Vec<(Vec<u8>, Group)>> {
    let mut scan = view.members(&stream.object, &MemberRange::prefix(&[GROUP]))?;
    let mut groups = Vec::new();
    while let Some((suffix, value)) = scan.next()? {
        groups.push((suffix[1..].to_vec(), Group::decode(value)?));
    }
    Ok(groups)
}

/// Iterator over pending entries.
pub(super) struct PendingScan {
    scan: BoundedScan,
    /// Size of the suffix before the ID, in bytes.
    prefix_len: usize,
}

impl PendingScan {
    /// Returns the next ID. The state is present in a scan of the group only.
    pub(super) fn next(&mut self) -> CommandResult<Option<(StreamId, Option<Pending>)>> {
        let Some((suffix, value)) = self.scan.next()? else { return Ok(None) };
        let id = suffix.get(self.prefix_len..).and_then(StreamId::from_bytes).ok_or_else(damaged)?;
        let pending = if value.is_empty() { None } else { Some(Pending::decode(value)?) };
        Ok(Some((id, pending)))
    }
}

/// Group of a stream that a command reads and changes. It holds the changed states, because a
/// command does not see its own writes.
#[derive(Debug)]
pub(in crate::command) struct GroupEdit {
    object: Object,
    pub(in crate::command) name: Vec<u8>,
    pub(in crate::command) group: Group,
    /// Consumers that the command has looked at, and whether they have changed.
    consumers: BTreeMap<Vec<u8>, (Consumer, bool)>,
    /// Pending entries that the command has changed.
    changed: BTreeMap<StreamId, Option<Pending>>,
}

impl GroupEdit {
    /// Returns the group `name`, or None if it does not exist.
    pub(super) fn open(
        view: &mut View<'_>,
        stream: &Stream,
        name: &[u8],
    ) -> CommandResult<Option<GroupEdit>> {
        let Some(value) = view.member(&stream.object, &group_suffix(name))? else { return Ok(None) };
        Ok(Some(GroupEdit::new(stream, name, Group::decode(&value)?)))
    }

    /// Group with a state that is not stored yet.
    pub(in crate::command) fn new(stream: &Stream, name: &[u8], group: Group) -> GroupEdit {
        GroupEdit {
            object: stream.object,
            name: name.to_vec(),
            group,
            consumers: BTreeMap::new(),
            changed: BTreeMap::new(),
        }
    }

    /// True if a consumer or a pending entry has changed.
    pub(super) fn is_changed(&self) -> bool {
        !self.changed.is_empty() || self.consumers.values().any(|(_, is_changed)| *is_changed)
    }

    /// Stores the group and its changed consumers.
    pub(in crate::command) fn save(&self, view: &mut View<'_>) -> CommandResult {
        for (name, (consumer, _)) in self.consumers.iter().filter(|(_, (_, is_changed))| *is_changed) {
            view.put_member(&self.object, &consumer_suffix(&self.name, name), &consumer.encode())?;
        }
        view.put_member(&self.object, &group_suffix(&self.name), &self.group.encode())
    }

    /// Returns the consumer `name`, or None if it does not exist.
    pub(super) fn consumer(&mut self, view: &mut View<'_>, name: &[u8]) -> CommandResult<Option<&Consumer>> {
        Ok(self.cached(view, name)?.map(|(consumer, _)| &*consumer))
    }

    fn cached(&mut self, view: &mut View<'_>, name: &[u8]) -> CommandResult<Option<&mut (Consumer, bool)>> {
        if !self.consumers.contains_key(name)
            && let Some(value) = view.member(&self.object, &consumer_suffix(&self.name, name))?
        {
            self.consumers.insert(name.to_vec(), (Consumer::decode(&value)?, false));
        }
        Ok(self.consumers.get_mut(name))
    }

    /// Adds a consumer. Returns false if it exists.
    pub(in crate::command) fn create_consumer(
        &mut self,
        view: &mut View<'_>,
        name: &[u8],
        seen: u64,
    ) -> CommandResult<bool> {
        if self.cached(view, name)?.is_some() {
            return Ok(false);
        }
        self.consumers.insert(name.to_vec(), (Consumer { seen, pending: 0 }, true));
        self.group.consumers = self.group.consumers.saturating_add(1);
        Ok(true)
    }

    /// Records a command of a consumer. Adds it if it does not exist, and returns true then.
    pub(super) fn touch_consumer(&mut self, view: &mut View<'_>, name: &[u8]) -> CommandResult<bool> {
        let now = view.now_ms();
        let is_new = self.create_consumer(view, name, now)?;
        if let Some((consumer, is_changed)) = self.consumers.get_mut(name) {
            consumer.seen = now;
            *is_changed = true;
        }
        Ok(is_new)
    }

    fn count_pending(&mut self, view: &mut View<'_>, name: &[u8], is_added: bool) -> CommandResult {
        let change = |count: u64| if is_added { count.checked_add(1) } else { count.checked_sub(1) };
        let (consumer, is_changed) = self.cached(view, name)?.ok_or_else(damaged)?;
        *is_changed = true;
        consumer.pending = change(consumer.pending).ok_or_else(damaged)?;
        self.group.pending = change(self.group.pending).ok_or_else(damaged)?;
        Ok(())
    }

    /// Returns the state of a pending entry.
    pub(super) fn pending(&self, view: &mut View<'_>, id: StreamId) -> CommandResult<Option<Pending>> {
        if let Some(changed) = self.changed.get(&id) {
            return Ok(changed.clone());
        }
        let value = view.member(&self.object, &self.pending_suffix(id))?;
        value.map(|value| Pending::decode(&value)).transpose()
    }

    fn pending_suffix(&self, id: StreamId) -> Vec<u8> {
        [&suffix(PENDING, &[&self.name])[..], &id.bytes()].concat()
    }

    fn consumer_pending_suffix(&self, consumer: &[u8], id: StreamId) -> Vec<u8> {
        [&suffix(PENDING_OF_CONSUMER, &[&self.name, consumer])[..], &id.bytes()].concat()
    }

    /// Stores the state of a pending entry in place of `old`. Its consumer exists.
    pub(in crate::command) fn put_pending(
        &mut self,
        view: &mut View<'_>,
        id: StreamId,
        old: Option<&Pending>,
        new: Pending,
    ) -> CommandResult {
        let keeps_consumer = old.is_some_and(|old| old.consumer == new.consumer);
        if let Some(old) = old.filter(|_| !keeps_consumer) {
            self.count_pending(view, &old.consumer, false)?;
            view.delete_member(&self.object, &self.consumer_pending_suffix(&old.consumer, id))?;
        }
        if !keeps_consumer {
            self.count_pending(view, &new.consumer, true)?;
            view.put_member(&self.object, &self.consumer_pending_suffix(&new.consumer, id), b"")?;
        }
        view.put_member(&self.object, &self.pending_suffix(id), &new.encode())?;
        self.changed.insert(id, Some(new));
        Ok(())
    }

    /// Removes a pending entry.
    pub(super) fn remove_pending(
        &mut self,
        view: &mut View<'_>,
        id: StreamId,
        pending: &Pending,
    ) -> CommandResult {
        self.count_pending(view, &pending.consumer, false)?;
        view.delete_member(&self.object, &self.consumer_pending_suffix(&pending.consumer, id))?;
        view.delete_member(&self.object, &self.pending_suffix(id))?;
        self.changed.insert(id, None);
        Ok(())
    }

    /// Returns the pending entries from `begin` to `end`, which is included, as they were before
    /// the command: of the group, or of one consumer.
    pub(super) fn pending_entries(
        &self,
        view: &mut View<'_>,
        consumer: Option<&[u8]>,
        begin: StreamId,
        end: StreamId,
    ) -> CommandResult<PendingScan> {
        let prefix = match consumer {
            Some(consumer) => suffix(PENDING_OF_CONSUMER, &[&self.name, consumer]),
            None => suffix(PENDING, &[&self.name]),
        };
        let range = MemberRange {
            begin: Some([&prefix[..], &begin.bytes()].concat()),
            // All IDs have one size.
            end: Some([&prefix[..], &end.bytes(), &[0]].concat()),
            is_reverse: false,
        };
        let scan =
            if begin <= end { BoundedScan::new(view, &self.object, &range)? } else { BoundedScan::empty() };
        Ok(PendingScan { scan, prefix_len: prefix.len() })
    }

    /// Returns the last pending entry, as it was before the command.
    pub(super) fn last_pending(&self, view: &mut View<'_>) -> CommandResult<Option<StreamId>> {
        let prefix = suffix(PENDING, &[&self.name]);
        let range = MemberRange::prefix(&prefix).reverse();
        let scan = BoundedScan::new(view, &self.object, &range)?;
        let last = PendingScan { scan, prefix_len: prefix.len() }.next()?;
        Ok(last.map(|(id, _)| id))
    }

    /// Returns the names and the states of all consumers, as they were before the command.
    pub(super) fn all_consumers(&self, view: &mut View<'_>) -> CommandResult<Vec<(Vec<u8>, Consumer)>> {
        crate::command::check_members(view, self.group.consumers)?;
        let prefix = suffix(CONSUMER, &[&self.name]);
        let mut scan = view.members(&self.object, &MemberRange::prefix(&prefix))?;
        let mut consumers = Vec::new();
        while let Some((suffix, value)) = scan.next()? {
            consumers.push((suffix[prefix.len()..].to_vec(), Consumer::decode(value)?));
        }
        Ok(consumers)
    }

    /// Deletes a consumer with its pending entries.
    pub(super) fn delete_consumer(
        &mut self,
        view: &mut View<'_>,
        name: &[u8],
        consumer: &Consumer,
    ) -> CommandResult {
        let mut scan = self.pending_entries(view, Some(name), StreamId::MIN, StreamId::MAX)?;
        while let Some((id, _)) = scan.next()? {
            view.delete_member(&self.object, &self.pending_suffix(id))?;
            view.delete_member(&self.object, &self.consumer_pending_suffix(name, id))?;
        }
        view.delete_member(&self.object, &consumer_suffix(&self.name, name))?;
        self.consumers.remove(name);
        self.group.consumers = self.group.consumers.saturating_sub(1);
        self.group.pending = self.group.pending.saturating_sub(consumer.pending);
        Ok(())
    }

    /// Deletes all records of the group.
    pub(super) fn delete(&mut self, view: &mut View<'_>) -> CommandResult {
        for (name, consumer) in self.all_consumers(view)? {
            self.delete_consumer(view, &name, &consumer)?;
        }
        view.delete_member(&self.object, &group_suffix(&self.name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_of_groups() {
        for entries_read in [None, Some(0), Some(7)] {
            let id = StreamId { ms: 5, seq: 6 };
            let group = Group { consumers: 2, pending: 3, ..Group::new(id, entries_read) };
            assert_eq!(Group::decode(&group.encode()).unwrap(), group);
            assert!(Group::decode(&group.encode()[..39]).is_err());
        }
        let pending = Pending { delivered: 9, count: 1, consumer: b"alice".to_vec() };
        assert_eq!(Pending::decode(&pending.encode()).unwrap(), pending);
        assert!(Pending::decode(&[0; 15]).is_err());
    }

    #[test]
    fn no_name_is_the_begin_of_another_one() {
        let ids = [consumer_suffix(b"g", b"ab"), consumer_suffix(b"ga", b"b")];
        assert_ne!(ids[0], ids[1]);
        assert!(!suffix(PENDING, &[b"ga"]).starts_with(&suffix(PENDING, &[b"g"])));
    }
}
