//! LevelDB, and every library with its C interface: the system's, one given by path, and Terrace's.

#![allow(unsafe_code, reason = "calls a C library")]

use std::env;
use std::ffi::{CString, c_char, c_int};
use std::path::Path;
use std::sync::Arc;

use super::c_api::{CStore, Library, Object, OwnedObjects, c_functions, loaded_from};
use super::{Engine, EngineRunner, FoundEngine, Result, Store};
use crate::report::model::Settings;

c_functions! {
    /// Functions that only LevelDB has.
    Options {
        fn options_create() -> Object;
        fn options_destroy(Object);
        fn options_set_create_if_missing(Object, u8);
        fn options_set_write_buffer_size(Object, usize);
        fn options_set_compression(Object, c_int);
        fn options_set_cache(Object, Object);
        fn options_set_filter_policy(Object, Object);
        fn cache_create_lru(usize) -> Object;
        fn cache_destroy(Object);
        fn filterpolicy_create_bloom(c_int) -> Object;
        fn filterpolicy_destroy(Object);
        fn major_version() -> c_int;
        fn minor_version() -> c_int;
    }
}

c_functions! {
    /// Functions that only Terrace's library has. They distinguish it from LevelDB's.
    Terrace {
        fn options_set_codec(Object, *const c_char) -> u8;
    }
}

static NAMES: &[&str] = &["libleveldb.so.1d", "libleveldb.so.1", "libleveldb.so"];

/// Finds the library at `path`, or the system's.
pub(super) fn find(path: Option<&Path>) -> Result<FoundEngine> {
    match path {
        Some(path) => load_engine(path),
        None => NAMES
            .iter()
            .find_map(|name| load_engine(Path::new(name)).ok())
            .ok_or_else(|| format!("{} not found: apt-get install libleveldb1d", NAMES[0])),
    }
}

/// Finds Terrace's library: at `path`, or where `make lib` puts it, relative to this program.
pub(super) fn find_terrace(path: Option<&Path>) -> Result<FoundEngine> {
    let built = env::current_exe().ok().and_then(|program| {
        let candidates = ["libleveldb.so.1d", "../dropin/libleveldb.so.1d"];
        candidates.iter().map(|name| program.with_file_name(name)).find(|candidate| candidate.exists())
    });
    let missing = "not built: run make lib, or give its path with terrace-c=PATH";
    load_engine(&path.map(Path::to_owned).or(built).ok_or(missing)?)
}

fn load_engine(path: &Path) -> Result<FoundEngine> {
    let library = Library::load(path, "leveldb")?;
    let options =
        Options::load(&library.handle, "leveldb").map_err(|e| format!("{}: {e}", path.display()))?;
    let terrace = Terrace::load(&library.handle, "terrace").ok();
    // SAFETY: takes no argument and returns a number.
    let major = unsafe { (options.major_version)() };
    // SAFETY: takes no argument and returns a number.
    let minor = unsafe { (options.minor_version)() };
    Ok(FoundEngine {
        version: format!("{major}.{minor}"),
        location: loaded_from(path),
        note: if terrace.is_some() { String::new() } else { crc_note() },
        has_compaction: true,
        has_transactions: false,
        optional_kinds: &[],
        runner: EngineRunner::InProcess(Box::new(LevelDb { library: Arc::new(library), options, terrace })),
    })
}

/// LevelDB's checksums use the processor's instruction only through the library crc32c. Debian
/// builds LevelDB without it.
fn crc_note() -> String {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    if maps.contains("libcrc32c") {
        return String::new();
    }
    "without libcrc32c: checksums are computed without the processor's instruction".into()
}

struct LevelDb {
    options: Options,
    terrace: Option<Terrace>,
    library: Arc<Library>,
}

impl LevelDb {
    /// Creates the options. They are the first of the objects that must outlive the database.
    fn options(&self, settings: &Settings) -> OwnedObjects {
        let api = &self.options;
        // SAFETY: has no preconditions and returns a new object.
        let raw = unsafe { (api.options_create)() };
        let mut owned: OwnedObjects = vec![(raw, api.options_destroy)];
        // SAFETY: `raw` is the new object.
        unsafe { (api.options_set_create_if_missing)(raw, 1) };
        if let Some(bytes) = settings.write_buffer_bytes {
            // SAFETY: `raw` is the new object.
            unsafe { (api.options_set_write_buffer_size)(raw, bytes as usize) };
        }
        if let Some(bytes) = settings.cache_bytes {
            // SAFETY: has no preconditions and returns a new object.
            let cache = unsafe { (api.cache_create_lru)(bytes as usize) };
            owned.push((cache, api.cache_destroy));
            // SAFETY: both objects are new, and the cache outlives the database.
            unsafe { (api.options_set_cache)(raw, cache) };
        }
        // Without a policy, LevelDB writes no filters and Terrace chooses one itself. A policy with
        // 0 bits disables Terrace's filters.
        if let Some(bits) = settings.filter_bits.filter(|bits| *bits > 0 || self.terrace.is_some()) {
            // SAFETY: has no preconditions and returns a new object.
            let filter = unsafe { (api.filterpolicy_create_bloom)(bits as c_int) };
            owned.push((filter, api.filterpolicy_destroy));
            // SAFETY: both objects are new, and the filter outlives the database.
            unsafe { (api.options_set_filter_policy)(raw, filter) };
        }
        if let Some(name) = &settings.compression {
            self.set_compression(raw, name);
        }
        owned
    }

    /// Sets the codec `name` in `options`.
    fn set_compression(&self, options: Object, name: &str) {
        let by_name = self.terrace.as_ref().zip(CString::new(name).ok());
        let known = by_name.is_some_and(|(terrace, name)| {
            // SAFETY: the options are live, and the name ends in zero.
            unsafe { (terrace.options_set_codec)(options, name.as_ptr()) != 0 }
        });
        if !known {
            // SAFETY: the options are live.
            unsafe { (self.options.options_set_compression)(options, compression_number(name)) };
        }
    }
}

/// Number of a codec. 2 is zstd where the library knows it, and no compression elsewhere.
fn compression_number(name: &str) -> c_int {
    match name {
        "none" => 0,
        "zstd" => 2,
        _ => 1,
    }
}

impl Engine for LevelDb {
    fn open(&self, dir: &Path, settings: &Settings) -> Result<Box<dyn Store>> {
        let owned = self.options(settings);
        Ok(Box::new(CStore::open(&self.library, dir, owned[0].0, owned)?))
    }
}
