//! Redis databases in a LevelDB directory.
//!
//! ```text
//!   Store   the open database, its layout, the locks and tables that all threads share
//!   View    reads and writes of one command, or of one EXEC; commits one batch
//!   scratch memory of a thread for its views
//!   layout  records as bytes            marker      the typed directory as bytes
//!   object  values of many records      object_view their members
//!   kept_iter, kept_object  for the next scan or read of the same object
//!   series, series_scan  one batch of several commands
//!   read_view, view_commit  reads and commit of a view
//!   effects of a view besides its batch
//!   gate    atomicity                   watch_table WATCH
//!   key_events  notes about changed keys
//!   mapped_pages  limit on the mapped pages of the process
//!   expiry  deletes expired keys        garbage     deletes discarded objects and namespaces
//!   backend database or shared store    front_end   the same commands on a shared store
//! ```
//!
//! The commands use the database only through `View`. This module knows no client and no protocol.

mod backend;
mod base_iter;
mod cursors;
mod durability;
mod effects;
mod entry;
mod expiry;
mod front_end;
mod garbage;
mod gate;
mod kept_iter;
mod kept_object;
mod key_events;
mod key_scan;
mod layout;
mod mapped_pages;
mod marker;
mod namespaces;
mod object;
mod object_filter;
mod object_numbers;
mod object_view;
mod read_view;
mod record_keys;
mod scan_start;
mod scratch;
mod series;
mod series_scan;
mod snapshots;
mod space_view;
mod view;
mod view_commit;
mod watch_table;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};

use terrace::{Bytewise, Comparator, Db, FollowOptions, Options, WriteBatch, WriteOptions};
use terrace_env::FileSystem;
use terrace_sync::native_locks::Mutex;

pub(crate) use backend::Backend;
pub(crate) use cursors::Cursors;
pub(crate) use durability::Durability;
pub use durability::SyncMode;
pub(crate) use entry::{Entry, Replaced, StoredValue};
pub(crate) use expiry::ExpiryJob;
pub(crate) use front_end::StoreWatch;
pub(crate) use garbage::delete_objects;
pub(crate) use gate::{Gate, Pass};
pub(crate) use key_events::{EventClass, KeyEvents};
pub(crate) use key_scan::{KeyRange, ScannedKey, prefix_end};
pub use layout::Layout;
pub(crate) use layout::{DATABASES, Header, ValueType, space_bounds};
pub(crate) use mapped_pages::MappedPagesJob;
use marker::Spaces;
pub(crate) use namespaces::Namespaces;
pub(crate) use object::{MEMBER_PREFIX, Object};
use object_filter::ObjectFilter;
pub(crate) use object_numbers::ObjectNumbers;
pub(crate) use object_view::{MemberRange, MemberScan};
pub(crate) use scratch::{Allowed, Scratch};
pub(crate) use snapshots::{MAX_SNAPSHOT_TIME, OpenSnapshot, Snapshots};
pub(crate) use view::{View, damaged_record, not_in_raw_mode};
pub(crate) use watch_table::{Mark, WatchTable};

use crate::failure::{CommandResult, Failure};

/// An open directory with everything that its clients share.
#[derive(Debug)]
pub(crate) struct Store {
    pub(crate) backend: Backend,
    pub(crate) layout: Layout,
    /// True if no command may write.
    pub(crate) is_read_only: bool,
    /// True if another process may write the database.
    pub(crate) is_follower: bool,
    dir: PathBuf,
    fs: Arc<dyn FileSystem>,
    comparator: Arc<dyn Comparator>,
    pub(crate) namespaces: Namespaces,
    pub(crate) object_numbers: ObjectNumbers,
    /// True if the directory may have values of other types than strings.
    has_objects: AtomicBool,
    object_filter: ObjectFilter,
    pub(crate) gate: Gate,
    pub(crate) watch_table: WatchTable,
    pub(crate) key_events: KeyEvents,
    pub(crate) cursors: Cursors,
    /// Long keys that the web page names by numbers.
    pub(crate) page_keys: Cursors,
    pub(crate) durability: Durability,
    pub(crate) clock: Arc<dyn terrace_env::Clock>,
    /// Number of keys of each database, with the moment for which it is right.
    pub(crate) key_counts: Mutex<[Option<KeyCount>; DATABASES]>,
    /// Number of keys that the expiry job or a reader has found expired and deleted.
    pub(crate) expired_keys: AtomicU64,
}

/// Number of keys at a moment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KeyCount {
    pub(crate) keys: u64,
    pub(crate) keys_with_expiry: u64,
    /// Sequence number of the counted state.
    pub(crate) sequence: u64,
    /// Milliseconds since 1970 at which the first of the keys expires.
    pub(crate) valid_until: u64,
}

/// Options to open a store.
#[derive(Debug, Clone)]
pub(crate) struct StoreOptions {
    pub(crate) engine: Options,
    /// Layout that the user demands.
    pub(crate) layout: Option<Layout>,
    pub(crate) is_read_only: bool,
    /// Reads beside a writer. The store is read-only, too.
    pub(crate) is_follower: bool,
    pub(crate) sync: SyncMode,
    /// Number of threads that run commands.
    pub(crate) threads: usize,
    /// Shared store in place of a directory.
    pub(crate) shared: Option<SharedStoreConfig>,
}

/// Store that several front ends share.
#[derive(Debug, Clone)]
pub struct SharedStoreConfig {
    /// Address, such as `etcd://10.0.0.1,10.0.0.2/app`.
    pub address: String,
    /// Creates a store that does not exist.
    pub create: bool,
}

/// Records that a server reads at its start.
struct Loaded {
    layout: Layout,
    has_objects: bool,
    namespaces: Namespaces,
    object_numbers: ObjectNumbers,
}

impl Store {
    /// Opens the shared store of `options`, or the directory `dir`. Creates a database there if
    /// none exists and the store is writable.
    ///
    /// # Errors
    ///
    /// The directory cannot be opened, or it does not have the demanded layout.
    pub(crate) fn open(dir: &Path, options: &StoreOptions) -> Result<Store, String> {
        if let Some(shared) = &options.shared {
            let opened = front_end::open(&shared.address, shared.create, options.is_read_only)?;
            let namespaces = Namespaces::new(&opened.spaces);
            let numbers = ObjectNumbers::new_without_block();
            return Ok(Store::new(
                Path::new(""),
                options,
                &options.engine,
                Backend::Store(opened.store),
                Loaded { layout: Layout::Typed, has_objects: true, namespaces, object_numbers: numbers },
            ));
        }
        let engine = with_large_memtables(options.engine.clone()).create_if_missing(!options.is_read_only);
        let opened = if options.is_follower {
            Db::follow(dir, &engine, &FollowOptions::default())
        } else if options.is_read_only {
            Db::open_read_only(dir, &engine)
        } else {
            Db::open(dir, &engine)
        };
        let db = opened.map_err(|error| error.to_string())?;
        let (layout, has_objects) =
            detect_layout(&db, options).map_err(|reason| format!("{}: {reason}", dir.display()))?;
        let namespaces = Namespaces::load(&db, layout)?;
        let object_numbers = ObjectNumbers::load(&db, layout)?;
        let loaded = Loaded { layout, has_objects, namespaces, object_numbers };
        Ok(Store::new(dir, options, &engine, Backend::Database(db), loaded))
    }

    fn new(dir: &Path, options: &StoreOptions, engine: &Options, backend: Backend, loaded: Loaded) -> Store {
        Store {
            backend,
            layout: loaded.layout,
            is_read_only: options.is_read_only,
            is_follower: options.is_follower,
            dir: dir.to_path_buf(),
            fs: Arc::clone(&engine.env.fs),
            comparator: Arc::clone(&engine.comparator),
            namespaces: loaded.namespaces,
            object_numbers: loaded.object_numbers,
            has_objects: AtomicBool::new(loaded.has_objects),
            object_filter: ObjectFilter::new(loaded.has_objects),
            gate: Gate::new(options.threads),
            watch_table: WatchTable::default(),
            key_events: KeyEvents::default(),
            cursors: Cursors::default(),
            page_keys: Cursors::default(),
            durability: Durability::new(options.sync),
            clock: Arc::clone(&engine.env.clock),
            key_counts: Mutex::new([None; DATABASES]),
            expired_keys: AtomicU64::new(0),
        }
    }

    /// Database of the server.
    ///
    /// # Errors
    ///
    /// The records are in a shared store, which has no such feature.
    pub(crate) fn db(&self) -> CommandResult<&Db> {
        match &self.backend {
            Backend::Database(db) => Ok(db),
            Backend::Store(_) => {
                Err(Failure::reply("ERR not on a shared store: the command needs a database of this server"))
            }
        }
    }

    /// True if other front ends share the records.
    pub(crate) fn is_shared(&self) -> bool {
        matches!(self.backend, Backend::Store(_))
    }

    /// Order of the keys of entries.
    pub(crate) fn comparator(&self) -> &dyn Comparator {
        &*self.comparator
    }

    /// True for the order of LevelDB.
    pub(crate) fn is_bytewise(&self) -> bool {
        self.comparator.name() == Bytewise.name()
    }

    /// Bytes that the file system of the directory has free, if it tells them.
    pub(crate) fn free_space(&self) -> Option<u64> {
        self.fs.free_space(&self.dir).ok()
    }

    /// Milliseconds since 1970 of the last change of a file of the directory.
    pub(crate) fn modified_ms(&self, name: &str) -> Option<u64> {
        self.fs.modified_us(&self.dir.join(name)).ok().map(|us| us / 1000)
    }

    /// Milliseconds since 1970.
    pub(crate) fn now_ms(&self) -> u64 {
        self.clock.wall_us() / 1000
    }

    /// True if the directory may have values of other types than strings. A command that holds the
    /// lock of a key sees an earlier creation of an object at that key.
    pub(crate) fn has_objects(&self) -> bool {
        // Relaxed: the lock of the key orders the accesses.
        self.has_objects.load(Ordering::Relaxed)
    }

    /// Key of the watch table for the record `record`: the database and the Redis key. None for
    /// other records. A watch stays with its database when FLUSHDB or SWAPDB changes the namespace.
    pub(crate) fn watch_key(&self, record: &[u8]) -> Option<Vec<u8>> {
        self.watch_key_in(&self.namespaces.all(), record)
    }

    /// Like [`Store::watch_key`], with the map of namespaces `spaces`.
    fn watch_key_in(&self, spaces: &Spaces, record: &[u8]) -> Option<Vec<u8>> {
        let (database, key) = match self.layout {
            Layout::Raw => (0, record),
            Layout::Typed => {
                let (space, key) = layout::parse_record_key(record)?;
                (spaces.iter().position(|known| *known == space)? as u8, key)
            }
        };
        Some([&[database], key].concat())
    }

    /// Key of the record that the key `watch_key` of the watch table stands for.
    pub(crate) fn watched_record(&self, watch_key: &[u8]) -> Vec<u8> {
        let (database, key) = watch_key.split_first().unwrap_or((&0, &[]));
        let mut record = Vec::new();
        self.layout.record_key(self.namespaces.space(*database), key, &mut record);
        record
    }

    /// Records a commit for the sync thread. Returns true if a client may watch a key.
    pub(crate) fn record_commit(&self) -> bool {
        // Orders the commit before the loads of both calls. Pairs with the fences of
        // `WatchTable::insert` and `Durability::take_dirty`: a watch or a sync that this thread
        // does not see will see the commit.
        fence(Ordering::SeqCst);
        self.durability.record_write();
        self.watch_table.is_active()
    }

    /// Marks the clients that watch one of the changed records.
    pub(crate) fn mark_watched<'k>(&self, records: impl Iterator<Item = &'k [u8]>) {
        let keys: Vec<Vec<u8>> = records.filter_map(|record| self.watch_key(record)).collect();
        self.watch_table.mark(keys.iter().map(Vec::as_slice));
    }

    /// Publishes the event of the deletion of the expired record `record`.
    pub(crate) fn publish_expired(&self, record: &[u8]) {
        if !self.key_events.wants(EventClass::EXPIRED) {
            return;
        }
        // The key of the watch table has the two parts that an event needs.
        let watch_key = self.watch_key(record);
        if let Some((database, key)) = watch_key.as_deref().and_then(<[u8]>::split_first) {
            let event = key_events::KeyEvent { database: *database, name: "expired", key: key.to_vec() };
            self.key_events.publish(&event);
        }
    }

    /// Records that `keys` keys were deleted because they had expired.
    pub(crate) fn record_expired(&self, keys: u64) {
        // Relaxed: only INFO reads the number.
        self.expired_keys.fetch_add(keys, Ordering::Relaxed);
    }
}

/// Returns `engine` with memtables of 32 MiB, unless the user chose their size or a
/// memory budget. A process with little memory keeps the engine's default.
fn with_large_memtables(mut engine: Options) -> Options {
    /// Size of a memtable, in bytes. A cache whose keys are overwritten stays small, so the engine
    /// would keep its memtables at 4 MiB, and compactions would take more time than the commands.
    const MEMTABLE_SIZE: usize = 32 << 20;
    /// Minimum memory of the process for this size, in bytes.
    const MIN_MEMORY: u64 = 1 << 30;
    let is_chosen = engine.write_buffer_size.is_some() || engine.memory_budget.is_some();
    let has_memory = engine.env.fs.memory_limit().is_none_or(|memory| memory >= MIN_MEMORY);
    if !is_chosen && has_memory {
        engine.write_buffer_size = Some(MEMTABLE_SIZE);
    }
    engine
}

/// Returns the layout of the directory, and whether it may have objects.
///
/// A writable empty directory becomes a typed one, unless the options demand the raw layout.
fn detect_layout(db: &Db, options: &StoreOptions) -> Result<(Layout, bool), String> {
    let read = |key: &[u8]| db.get(key).map_err(|error| error.to_string());
    if let Some(marker) = read(marker::MARKER_KEY)? {
        let has_objects = marker::check_marker(&marker)?;
        return match options.layout {
            Some(Layout::Raw) => Err("the directory has the typed layout, and --layout raw was given".into()),
            _ => Ok((Layout::Typed, has_objects)),
        };
    }
    if read(marker::SPACES_KEY)?.is_some() {
        return Err("the marker of the typed layout is missing".into());
    }
    let is_empty = db.iter().next_entry().map_err(|error| error.to_string())?.is_none();
    match options.layout {
        Some(Layout::Typed) if !is_empty => {
            Err("another program wrote the database, so it has the raw layout, and --layout typed was given"
                .into())
        }
        Some(Layout::Raw) => Ok((Layout::Raw, false)),
        _ if is_empty && !options.is_read_only => {
            write_marker(db).map_err(|error| error.to_string())?;
            Ok((Layout::Typed, false))
        }
        _ => Ok((Layout::Raw, false)),
    }
}

fn write_marker(db: &Db) -> terrace::Result<()> {
    let mut batch = WriteBatch::new();
    batch.put(marker::MARKER_KEY, marker::encode_marker(false));
    batch.put(marker::SPACES_KEY, marker::encode_spaces(&marker::initial_spaces()));
    db.write_with(&batch, &WriteOptions::default().sync(true))
}

#[cfg(test)]
mod tests {
    use super::*;
    use terrace::Env;

    fn options(env: &Env) -> StoreOptions {
        StoreOptions {
            engine: Options::default().env(env.clone()),
            layout: None,
            is_read_only: false,
            is_follower: false,
            sync: SyncMode::EverySecond,
            threads: 1,
            shared: None,
        }
    }

    /// Opens the directory with `entries` of another program, and formats its layout.
    fn layout_of(
        entries: &[(&[u8], &[u8])],
        change: impl Fn(StoreOptions) -> StoreOptions,
    ) -> Result<Layout, String> {
        let env = Env::in_memory();
        let engine = Options::default().env(env.clone()).create_if_missing(true);
        let db = Db::open("cities", &engine).unwrap();
        for (key, value) in entries {
            db.put(key, value).unwrap();
        }
        db.close().unwrap();
        Store::open(Path::new("cities"), &change(options(&env))).map(|store| store.layout)
    }

    #[test]
    fn layouts_of_directories() {
        assert_eq!(layout_of(&[], |options| options), Ok(Layout::Typed));
        assert_eq!(layout_of(&[(b"a", b"b")], |options| options), Ok(Layout::Raw));
        let raw = layout_of(&[], |options| StoreOptions { layout: Some(Layout::Raw), ..options });
        assert_eq!(raw, Ok(Layout::Raw));
        let read_only = layout_of(&[], |options| StoreOptions { is_read_only: true, ..options });
        assert_eq!(read_only, Ok(Layout::Raw));
    }

    #[test]
    fn memtables_are_large_unless_the_user_decides() {
        let env = Env::in_memory();
        let size = |engine: Options| with_large_memtables(engine.env(env.clone())).write_buffer_size;
        assert_eq!(size(Options::default()), Some(32 << 20));
        assert_eq!(size(Options::default().memory_budget(64 << 20)), None);
        assert_eq!(size(Options::default().write_buffer_size(1 << 20)), Some(1 << 20));
    }

    #[test]
    fn typed_directory_stays_typed() {
        let env = Env::in_memory();
        for _ in 0..2 {
            let store = Store::open(Path::new("cities"), &options(&env)).unwrap();
            assert_eq!(store.layout, Layout::Typed);
        }
        let raw = StoreOptions { layout: Some(Layout::Raw), ..options(&env) };
        assert!(Store::open(Path::new("cities"), &raw).unwrap_err().contains("--layout raw"));
    }

    #[test]
    fn damaged_marker_is_never_served_as_raw() {
        let damaged = layout_of(&[(marker::MARKER_KEY, b"\0\x01\0\0abcd")], |options| options);
        assert_eq!(damaged, Err("cities: the marker of the typed layout is damaged".into()));
        let missing = layout_of(&[(marker::SPACES_KEY, b"x")], |options| options);
        assert_eq!(missing, Err("cities: the marker of the typed layout is missing".into()));
    }

    #[test]
    fn foreign_database_is_never_typed() {
        let typed =
            layout_of(&[(b"a", b"b")], |options| StoreOptions { layout: Some(Layout::Typed), ..options });
        assert!(typed.unwrap_err().contains("raw layout"));
    }
}
