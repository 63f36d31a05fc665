//! View: the reads and writes of one command, or of all commands of one EXEC.
//!
//! ```text
//!   command   get from the database, put into a batch, commit: one write
//!   EXEC      get and put in a transaction of the engine, commit: one write
//!   either, in a shared store: a transaction of the store
//! ```
//!
//! A view shows no expired key. Its clock stands still, so that all commands of an EXEC agree.

use terrace::{Db, Isolation, ReadOptions, StateStamp, Transaction, TransactionOptions};
use terrace_store::KeyRange as StoreRange;

use super::base_iter::BaseIter;
use super::effects::LazyEffects;
use super::entry::{Entry, Replaced};
use super::front_end::StoreTransaction;
use super::key_events::{EventClass, KeyEvent};
use super::key_scan::{KeyRange, KeyScan};
use super::layout::{Header, Layout, ValueType, expiry_key};
use super::marker::Spaces;
use super::object::Object;
use super::scratch::Scratch;
use super::snapshots::OpenSnapshot;
use super::{Backend, Store};
use crate::failure::{CommandResult, Failure};

/// Maximum size of the reads and writes of an EXEC in memory, in bytes.
const TRANSACTION_MEMORY: usize = 256 << 20;

/// Records that a view reads and writes.
pub(super) enum ViewData<'a> {
    /// Database. A command commits a batch.
    Database(&'a Db),
    /// EXEC on a database.
    Exec(Box<Transaction>),
    /// Command or EXEC in a shared store.
    Store(Box<StoreTransaction<'a>>),
}

impl<'a> ViewData<'a> {
    pub(super) fn new(store: &'a Store) -> ViewData<'a> {
        match &store.backend {
            Backend::Database(db) => ViewData::Database(db),
            Backend::Store(shared) => ViewData::Store(Box::new(StoreTransaction::new(
                &**shared,
                &store.namespaces,
                &store.durability,
            ))),
        }
    }
}

/// Reads and writes of a command.
pub(crate) struct View<'a> {
    pub(crate) store: &'a Store,
    pub(crate) scratch: &'a mut Scratch,
    pub(super) data: ViewData<'a>,
    pub(super) read: ReadOptions,
    /// State that the database has to have after each read.
    pub(super) unchanged_since: Option<StateStamp>,
    /// True if the caller repeats the command after [`Failure::NeedsSnapshot`].
    pub(crate) is_repeatable: bool,
    pub(super) now_ms: Option<u64>,
    /// True if no other command changes the keys of the command meanwhile.
    pub(super) has_pass: bool,
    /// True for a command of a series, which writes members of the series' object only.
    pub(super) in_series: bool,
    /// True if the command creates the first object of the directory.
    pub(super) creates_objects: bool,
    /// True if the transaction has a write.
    pub(super) is_dirty: bool,
    /// True if the command has written something without the batch.
    pub(super) has_written: bool,
    /// True if a get of a missing key is an event.
    pub(crate) reports_misses: bool,
    pub(crate) effects: LazyEffects,
}

impl<'a> View<'a> {
    /// Begins a command that holds no pass of the gate.
    pub(crate) fn new(store: &'a Store, scratch: &'a mut Scratch) -> View<'a> {
        scratch.batch.clear();
        View {
            store,
            scratch,
            data: ViewData::new(store),
            read: ReadOptions::DEFAULT,
            unchanged_since: None,
            is_repeatable: false,
            now_ms: None,
            has_pass: false,
            in_series: false,
            creates_objects: false,
            is_dirty: false,
            has_written: false,
            reports_misses: false,
            effects: LazyEffects::NONE,
        }
    }

    /// Begins a command that holds a pass of the gate for its keys.
    pub(crate) fn with_pass(store: &'a Store, scratch: &'a mut Scratch) -> View<'a> {
        View { has_pass: true, ..View::new(store, scratch) }
    }

    /// Begins a command of the series of this thread, which holds a pass of the gate for its key.
    pub(crate) fn in_series(store: &'a Store, scratch: &'a mut Scratch) -> View<'a> {
        scratch.series.begin_command();
        View { in_series: true, ..View::with_pass(store, scratch) }
    }

    /// Begins an EXEC: later reads see earlier writes. The caller holds the whole gate.
    pub(crate) fn begin_transaction(store: &'a Store, scratch: &'a mut Scratch) -> View<'a> {
        let mut view = View::with_pass(store, scratch);
        view.begin_exec();
        view
    }

    /// Makes later reads see earlier writes.
    pub(super) fn begin_exec(&mut self) {
        match &mut self.data {
            ViewData::Database(db) => self.data = ViewData::Exec(Box::new(begin(db))),
            ViewData::Exec(_) => {}
            ViewData::Store(transaction) => transaction.is_exec = true,
        }
    }

    /// Tells a shared store which keys the command reads, so that they come with one request. A
    /// database does not ask for `keys`.
    pub(crate) fn want<'k, K>(&mut self, database: u8, keys: impl FnOnce() -> K)
    where
        K: Iterator<Item = &'k [u8]>,
    {
        if let ViewData::Store(transaction) = &mut self.data {
            keys().for_each(|key| transaction.want(database, key));
        }
    }

    /// Milliseconds since 1970, the same for the whole view.
    pub(crate) fn now_ms(&mut self) -> u64 {
        *self.now_ms.get_or_insert_with(|| self.store.now_ms())
    }

    /// True within an EXEC.
    pub(crate) fn is_transaction(&self) -> bool {
        match &self.data {
            ViewData::Database(_) => false,
            ViewData::Exec(_) => true,
            ViewData::Store(transaction) => transaction.is_exec,
        }
    }

    /// Number that every write of the database or of the store increases.
    ///
    /// # Errors
    ///
    /// The store does not answer, or this thread may not wait for it.
    pub(crate) fn position(&mut self) -> CommandResult<u64> {
        match &mut self.data {
            ViewData::Store(transaction) => {
                transaction.begin(self.scratch.can_wait())?;
                transaction.position()
            }
            _ => Ok(self.store.db()?.snapshot().sequence()),
        }
    }

    /// True if the view shows another state than the present one.
    pub(crate) fn is_of_snapshot(&self) -> bool {
        self.effects.snapshot_spaces.is_some()
    }

    /// Makes all later reads see the state of `snapshot`.
    pub(crate) fn show_snapshot(&mut self, snapshot: &OpenSnapshot) {
        self.read.snapshot = Some(snapshot.snapshot.clone());
        self.effects.snapshot_spaces = Some(snapshot.spaces);
        self.now_ms = Some(snapshot.now_ms);
    }

    /// Returns the namespace of `database`.
    ///
    /// # Errors
    ///
    /// The shared store does not answer, or this thread may not wait for it.
    pub(crate) fn space(&mut self, database: u8) -> CommandResult<u16> {
        let index = usize::from(database);
        if let Some(spaces) = self.effects.snapshot_spaces.as_ref().or(self.effects.spaces.as_ref()) {
            return Ok(spaces[index]);
        }
        match &mut self.data {
            ViewData::Store(transaction) => Ok(transaction.begin(self.scratch.can_wait())?[index]),
            _ => Ok(self.store.namespaces.space(database)),
        }
    }

    /// Map of namespaces for the next command. The errors are those of [`View::space`].
    pub(super) fn spaces(&mut self) -> CommandResult<Spaces> {
        match (&self.effects.spaces, &mut self.data) {
            (Some(spaces), _) => Ok(*spaces),
            (None, ViewData::Store(transaction)) => Ok(*transaction.begin(self.scratch.can_wait())?),
            (None, _) => Ok(self.store.namespaces.all()),
        }
    }

    /// Notes an event of `key`. The commit publishes it. Costs one load if no client wants `class`.
    pub(crate) fn notify(&mut self, database: u8, class: EventClass, name: &'static str, key: &[u8]) {
        if self.store.key_events.wants(class) {
            self.effects.events.push(KeyEvent { database, name, key: key.to_vec() });
        }
    }

    /// Notes the event of a new key, if a client wants such events and the key does not exist.
    fn notify_new(&mut self, database: u8, key: &[u8]) -> CommandResult {
        if self.store.key_events.wants(EventClass::NEW) {
            let reports_misses = std::mem::replace(&mut self.reports_misses, false);
            let is_new = self.get(database, key)?.is_none();
            self.reports_misses = reports_misses;
            if is_new {
                self.notify(database, EventClass::NEW, "new", key);
            }
        }
        Ok(())
    }

    /// Makes the record of `key` current. The errors are those of [`View::space`].
    pub(super) fn set_record_key(&mut self, database: u8, key: &[u8]) -> CommandResult {
        let space = self.space(database)?;
        self.store.layout.record_key(space, key, &mut self.scratch.record_key);
        Ok(())
    }

    /// Returns the key of the record of `key`. The errors are those of [`View::space`].
    pub(crate) fn record_key(&mut self, database: u8, key: &[u8]) -> CommandResult<&[u8]> {
        self.set_record_key(database, key)?;
        Ok(&self.scratch.record_key)
    }

    /// Stores `value` at `key`. `replaced` is the value that the command has read before. An object
    /// that the write replaces becomes garbage.
    ///
    /// # Errors
    ///
    /// The layout has no expiry. Nothing is stored.
    pub(crate) fn put(
        &mut self,
        database: u8,
        key: &[u8],
        header: &Header,
        value: &[u8],
        replaced: Replaced<'_>,
    ) -> CommandResult {
        self.notify_new(database, key)?;
        let kept = Object::decode(header, value).map(|object| object.number);
        let old_expiry = self.replace(database, key, replaced, kept)?;
        self.put_key_record(header, value, old_expiry)
    }

    /// Stores the record of an object whose record has the expiry `old_expiry`.
    pub(super) fn put_same_object(
        &mut self,
        database: u8,
        key: &[u8],
        header: &Header,
        value: &[u8],
        old_expiry: Option<u64>,
    ) -> CommandResult {
        self.set_record_key(database, key)?;
        self.put_key_record(header, value, old_expiry)
    }

    /// Stores the current record.
    fn put_key_record(&mut self, header: &Header, value: &[u8], old_expiry: Option<u64>) -> CommandResult {
        self.check_no_series()?;
        if header.expires_at.is_some() && self.store.layout == Layout::Raw {
            return Err(not_in_raw_mode("expiry"));
        }
        if header.value_type != ValueType::String {
            self.store.object_filter.insert(&self.scratch.record_key);
        }
        if old_expiry != header.expires_at {
            self.change_index(old_expiry, header.expires_at)?;
        }
        self.store.layout.record_value(header, value, &mut self.scratch.record_value);
        let scratch = &mut *self.scratch;
        match &mut self.data {
            ViewData::Database(_) => {
                scratch.batch.put(&scratch.record_key, &scratch.record_value);
                return Ok(());
            }
            ViewData::Exec(transaction) => transaction.put(&scratch.record_key, &scratch.record_value)?,
            ViewData::Store(transaction) => transaction.put(&scratch.record_key, &scratch.record_value)?,
        }
        self.effects.changed.push(scratch.record_key.clone());
        Ok(())
    }

    /// Makes `key` current. Discards the object that a write of the key replaces, unless `kept` is
    /// its number. Returns the known expiry of the replaced entry.
    fn replace(
        &mut self,
        database: u8,
        key: &[u8],
        replaced: Replaced<'_>,
        kept: Option<u64>,
    ) -> CommandResult<Option<u64>> {
        let read;
        let entry = match replaced {
            Replaced::Read(entry) => entry,
            Replaced::String(expires_at) => {
                self.set_record_key(database, key)?;
                return Ok(expires_at);
            }
            Replaced::Unread if self.may_replace_object(database, key)? => {
                if let Some(expires_at) = self.string_expiry(database, key)? {
                    return Ok(expires_at);
                }
                // A damaged record may be replaced.
                read = self.get(database, key).or_else(Failure::ignore_reply)?;
                read.as_ref()
            }
            Replaced::Unread => None,
        };
        self.set_record_key(database, key)?;
        if let Some(entry) = entry {
            self.discard_object(entry, kept)?;
        } else if !self.effects.expired.is_empty() {
            let record_key = &self.scratch.record_key;
            if let Some(index) = self.effects.expired.iter().position(|(expired, _)| expired == record_key) {
                let (_, expired) = self.effects.expired.swap_remove(index);
                self.discard_object(&expired, kept)?;
                return Ok(expired.expires_at());
            }
        }
        Ok(entry.and_then(Entry::expires_at))
    }

    /// True if `key` may have a value of another type than a string.
    fn may_replace_object(&mut self, database: u8, key: &[u8]) -> CommandResult<bool> {
        if !self.has_objects() {
            return Ok(false);
        }
        self.set_record_key(database, key)?;
        // The filter knows only the objects of this server.
        Ok(self.store.is_shared() || self.store.object_filter.may_contain(&self.scratch.record_key))
    }

    /// True if the directory may have values of other types than strings.
    pub(super) fn has_objects(&self) -> bool {
        self.creates_objects || self.store.has_objects()
    }

    /// Deletes `key`. `replaced` is the value that the command has read before. Its object becomes
    /// garbage.
    pub(crate) fn delete(&mut self, database: u8, key: &[u8], replaced: Replaced<'_>) -> CommandResult {
        let old_expiry = self.replace(database, key, replaced, None)?;
        self.delete_record_of(database, key, old_expiry)
    }

    /// Deletes the record of `key`, which has the expiry `old_expiry`. Its object, if it has one,
    /// stays: it gets another key, or has no members.
    pub(crate) fn delete_record_of(
        &mut self,
        database: u8,
        key: &[u8],
        old_expiry: Option<u64>,
    ) -> CommandResult {
        self.set_record_key(database, key)?;
        self.change_index(old_expiry, None)?;
        let record_key = std::mem::take(&mut self.scratch.record_key);
        self.delete_record(&record_key)?;
        if !matches!(self.data, ViewData::Database(_)) {
            self.effects.changed.push(record_key.clone());
        }
        self.scratch.record_key = record_key;
        Ok(())
    }

    /// Moves the current record from the index entry of `old` to that of `new`.
    fn change_index(&mut self, old: Option<u64>, new: Option<u64>) -> CommandResult {
        if let Some(at) = old {
            let entry = expiry_key(at, &self.scratch.record_key);
            self.delete_record(&entry)?;
        }
        if let Some(at) = new {
            let entry = expiry_key(at, &self.scratch.record_key);
            self.put_record(&entry, b"")?;
        }
        Ok(())
    }

    /// Stores a record of the directory.
    pub(super) fn put_record(&mut self, record_key: &[u8], value: &[u8]) -> CommandResult {
        self.check_no_series()?;
        match &mut self.data {
            ViewData::Database(_) => drop(self.scratch.batch.put(record_key, value)),
            ViewData::Exec(transaction) => {
                transaction.put(record_key, value)?;
                self.is_dirty = true;
            }
            ViewData::Store(transaction) => transaction.put(record_key, value)?,
        }
        Ok(())
    }

    /// Deletes a record of the directory.
    pub(super) fn delete_record(&mut self, record_key: &[u8]) -> CommandResult {
        self.check_no_series()?;
        match &mut self.data {
            ViewData::Database(_) => drop(self.scratch.batch.delete(record_key)),
            ViewData::Exec(transaction) => {
                transaction.delete(record_key)?;
                self.is_dirty = true;
            }
            ViewData::Store(transaction) => transaction.delete(record_key)?,
        }
        Ok(())
    }

    /// Returns an iterator over the keys of `range`, own writes of an EXEC included.
    pub(crate) fn scan(&mut self, database: u8, range: KeyRange) -> CommandResult<KeyScan> {
        let now_ms = self.now_ms();
        let space = self.space(database)?;
        let options = range.read_options(self.store.layout, space, &self.read);
        let iter = self.base_iter(&options)?;
        Ok(KeyScan::new(iter, self.store.layout, range, now_ms))
    }

    /// Returns an iterator of the engine, own writes of an EXEC included.
    pub(super) fn base_iter(&mut self, options: &ReadOptions) -> CommandResult<BaseIter> {
        self.check_no_series()?;
        let iter = match &mut self.data {
            ViewData::Database(db) => db.raw_iter_with(options).into(),
            ViewData::Exec(transaction) => {
                // The transaction has a snapshot of its own.
                let mut options = options.clone();
                options.snapshot = None;
                transaction.raw_iter_with(&options)?.into()
            }
            ViewData::Store(transaction) => {
                transaction.begin(self.scratch.can_wait())?;
                let start = options.lower_bound.clone().unwrap_or_default();
                transaction.iter(&StoreRange { start, end: options.upper_bound.clone() })?.into()
            }
        };
        // The iterator keeps the state of its creation.
        self.check_unchanged()?;
        Ok(iter)
    }

    /// Options of the reads.
    pub(super) fn read_options(&self) -> &ReadOptions {
        &self.read
    }

    /// True if the command has changed the map of namespaces.
    pub(crate) fn has_new_spaces(&self) -> bool {
        self.effects.spaces.is_some()
    }

    /// Records that the command has changed the records `changed` without the batch.
    pub(crate) fn note_written(&mut self, changed: Vec<Vec<u8>>) {
        self.has_written = true;
        self.effects.changed = changed;
    }
}

/// Begins a transaction of the engine.
fn begin(db: &Db) -> Transaction {
    let options = TransactionOptions::default().isolation(Isolation::Snapshot).memory(TRANSACTION_MEMORY);
    db.begin(&options)
}

/// Returns the error of a record without a valid header.
pub(crate) fn damaged_record(key: &[u8]) -> Failure {
    Failure::reply(format!("ERR damaged: the record of the key '{}' has no valid header", key.escape_ascii()))
}

/// Returns the error of a command that the raw layout cannot represent.
pub(crate) fn not_in_raw_mode(feature: &str) -> Failure {
    Failure::reply(format!(
        "ERR not in raw mode: {feature} needs entries of its own, and this directory belongs to another program"
    ))
}
