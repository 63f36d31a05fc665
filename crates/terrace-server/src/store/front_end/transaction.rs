//! Reads and writes of one view in a store.
//!
//! ```text
//!   first access   one request: snapshot, map of namespaces and its guard, records of the keys
//!   later reads    the same snapshot, with the own writes
//!   commit         one request: the writes, if the guard and the records read are unchanged
//! ```

use std::collections::{BTreeSet, HashMap};

use terrace_store::{
    KeyRange, Store as SharedStore, StoreSnapshot, Transaction, TransactionIterator, TransactionOptions,
};

use super::super::layout::{is_guarded, member_number};
use super::super::marker::{self, Spaces};
use super::super::{Durability, Namespaces, SyncMode};
use crate::failure::{CommandResult, Failure};

/// Maximum size of the reads and writes of a view in memory, in bytes.
const MEMORY: usize = 256 << 20;
/// Maximum number of keys that come with the first access.
const MAX_WANTED: usize = 1024;

/// Transaction of a view. It begins with the first access.
pub(in crate::store) struct StoreTransaction<'a> {
    store: &'a dyn SharedStore,
    namespaces: &'a Namespaces,
    begun: Option<(Transaction<'a>, Spaces)>,
    /// Databases and keys that the command will read.
    wanted: Vec<(u8, Vec<u8>)>,
    is_sync: bool,
    /// Records of the keys of the objects that the view has read, by the numbers of the objects.
    owners: HashMap<u64, Vec<u8>>,
    /// Numbers of the objects with changed members.
    changed_objects: BTreeSet<u64>,
    /// True if later commands of the client see the writes before the commit: EXEC or a script.
    pub(in crate::store) is_exec: bool,
}

impl<'a> StoreTransaction<'a> {
    pub(in crate::store) fn new(
        store: &'a dyn SharedStore,
        namespaces: &'a Namespaces,
        durability: &Durability,
    ) -> StoreTransaction<'a> {
        StoreTransaction {
            store,
            namespaces,
            begun: None,
            wanted: Vec::new(),
            is_sync: durability.mode() == SyncMode::Always,
            owners: HashMap::new(),
            changed_objects: BTreeSet::new(),
            is_exec: false,
        }
    }

    /// Reads `key` with the first access.
    pub(in crate::store) fn want(&mut self, database: u8, key: &[u8]) {
        if self.wanted.len() < MAX_WANTED {
            self.wanted.push((database, key.to_vec()));
        }
    }

    /// Store of the transaction.
    pub(in crate::store) fn store(&self) -> &'a dyn SharedStore {
        self.store
    }

    /// Begins the transaction, if it has not begun.
    ///
    /// # Errors
    ///
    /// This thread may not wait.
    pub(in crate::store) fn begin(&mut self, can_wait: bool) -> CommandResult<&Spaces> {
        if self.begun.is_none() {
            if !can_wait {
                return Err(Failure::WouldWait);
            }
            self.begun = Some(self.new_transaction()?);
        }
        self.begun.as_ref().map(|(_, spaces)| spaces).ok_or(Failure::WouldWait)
    }

    fn new_transaction(&mut self) -> CommandResult<(Transaction<'a>, Spaces)> {
        // The records have other keys if another front end has changed the map, which is rare.
        let expected = self.namespaces.all();
        let records: Vec<Vec<u8>> = self
            .wanted
            .drain(..)
            .map(|(database, key)| {
                let mut record = Vec::new();
                super::super::Layout::Typed.record_key(expected[usize::from(database)], &key, &mut record);
                record
            })
            .collect();
        let guard = self.namespaces.next_guard();
        let mut keys: Vec<&[u8]> = vec![marker::SPACES_KEY, &guard];
        keys.extend(records.iter().map(Vec::as_slice));
        let mut options = TransactionOptions::default().sync(self.is_sync);
        options.memory = MEMORY;
        let mut transaction = self.store.begin_with(&options, &keys)?;
        // Each change of the map writes the guard, too.
        transaction.get(&guard)?;
        let stored = transaction.peek(marker::SPACES_KEY)?;
        let spaces = stored.as_deref().and_then(marker::decode_spaces);
        let spaces = spaces.ok_or(Failure::reply("ERR damaged: the map of the databases"))?;
        self.namespaces.install_newer(&spaces, transaction.snapshot_position());
        Ok((transaction, spaces))
    }

    fn transaction(&mut self) -> CommandResult<&mut Transaction<'a>> {
        self.begin(true)?;
        self.begun.as_mut().map(|(transaction, _)| transaction).ok_or(Failure::WouldWait)
    }

    /// Position of the snapshot.
    pub(in crate::store) fn position(&mut self) -> CommandResult<u64> {
        Ok(self.transaction()?.snapshot_position())
    }

    /// Returns the value of `record`.
    pub(in crate::store) fn get(&mut self, record: &[u8]) -> CommandResult<Option<Vec<u8>>> {
        let transaction = self.transaction()?;
        Ok(if is_guarded(record) { transaction.peek(record)? } else { transaction.get(record)? })
    }

    /// Notes that the record `record` of a key names the object `number`.
    pub(in crate::store) fn note_object(&mut self, number: u64, record: &[u8]) {
        self.owners.insert(number, record.to_vec());
    }

    /// Stores a record.
    pub(in crate::store) fn put(&mut self, record: &[u8], value: &[u8]) -> CommandResult {
        self.changed_objects.extend(member_number(record));
        let transaction = self.transaction()?;
        if record == marker::SPACES_KEY {
            marker::map_guard_keys().try_for_each(|guard| transaction.put(&guard, value))?;
        }
        Ok(transaction.put(record, value)?)
    }

    /// Deletes a record.
    pub(in crate::store) fn delete(&mut self, record: &[u8]) -> CommandResult {
        self.changed_objects.extend(member_number(record));
        Ok(self.transaction()?.delete(record)?)
    }

    /// Returns an iterator over `range`.
    pub(in crate::store) fn iter(&mut self, range: &KeyRange) -> CommandResult<TransactionIterator> {
        let transaction = self.transaction()?;
        Ok(if is_guarded(&range.start) { transaction.peek_iter(range)? } else { transaction.iter(range)? })
    }

    /// Writes everything, if what the view has read is unchanged. Returns false if there is nothing
    /// to write.
    ///
    /// # Errors
    ///
    /// A conflict, after which the command runs again. Nothing is written after an error, except
    /// perhaps after `CommitUnknown`.
    pub(in crate::store) fn commit(&mut self) -> CommandResult<bool> {
        let Some((mut transaction, _)) = self.begun.take() else { return Ok(false) };
        for number in &self.changed_objects {
            // A record that was written stands for the object already, and so does a deleted one.
            let Some(record) = self.owners.get(number) else { continue };
            if !transaction.has_written(record)
                && let Some(value) = transaction.peek(record)?
            {
                transaction.put(record, &value)?;
            }
        }
        let has_writes = transaction.has_writes();
        transaction.commit()?;
        Ok(has_writes)
    }

    /// Ends the transaction without a commit, and returns its snapshot.
    pub(in crate::store) fn take_snapshot(&mut self) -> CommandResult<Box<dyn StoreSnapshot>> {
        self.begin(true)?;
        let begun = self.begun.take().ok_or(Failure::WouldWait)?;
        Ok(begun.0.into_snapshot())
    }
}
