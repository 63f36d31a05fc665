//! Function pointers for all C functions of `leveldb/c.h`.

#![allow(unsafe_code, reason = "loads a C library")]

use std::ffi::{c_char, c_int, c_void};

macro_rules! opaque {
    ($($name:ident)*) => {
        $(#[repr(C)] pub(super) struct $name([u8; 0]);)*
    };
}

opaque!(Db Cache Comparator Env FilterPolicy Iterator Logger Options ReadOptions Snapshot Batch WriteOptions);

/// Address for the error of a call: null, or a text that the caller frees.
pub(super) type ErrPtr = *mut *mut c_char;
/// Start of a byte string; its length is the next argument.
pub(super) type Bytes = *const c_char;
pub(super) type Drop = extern "C" fn(*mut c_void);
pub(super) type NameOf = extern "C" fn(*mut c_void) -> *const c_char;
pub(super) type Compare = extern "C" fn(*mut c_void, Bytes, usize, Bytes, usize) -> c_int;
type CreateFilter = extern "C" fn(*mut c_void, *const Bytes, *const usize, c_int, *mut usize) -> *mut c_char;
type MayMatch = extern "C" fn(*mut c_void, Bytes, usize, Bytes, usize) -> u8;
type OnPut = extern "C" fn(*mut c_void, Bytes, usize, Bytes, usize);
type OnDelete = extern "C" fn(*mut c_void, Bytes, usize);

macro_rules! api {
    ($(fn $name:ident($($arg:ty),*) $(-> $ret:ty)?;)*) => {
        /// A loaded library. Only the wrappers of this module call its functions.
        #[expect(dead_code, reason = "the table covers the whole header, so that loading checks all functions")]
        pub struct Api {
            $(pub(super) $name: unsafe extern "C" fn($($arg),*) $(-> $ret)?,)*
            /// The last field, so that it is dropped after the pointers into it.
            library: libloading::Library,
        }

        impl Api {
            /// Loads the library and all functions.
            pub(super) fn load(name: &str) -> Result<Api, libloading::Error> {
                // SAFETY: LevelDB's initializers only construct C++ globals.
                let library = unsafe { libloading::Library::new(name) }?;
                Ok(Api {
                    $($name: {
                        let symbol = concat!("leveldb_", stringify!($name)).as_bytes();
                        // SAFETY: the type is that of the function in `leveldb/c.h`.
                        *unsafe { library.get::<unsafe extern "C" fn($($arg),*) $(-> $ret)?>(symbol) }?
                    },)*
                    library,
                })
            }
        }
    };
}

api! {
    fn open(*const Options, *const c_char, ErrPtr) -> *mut Db;
    fn close(*mut Db);
    fn put(*mut Db, *const WriteOptions, Bytes, usize, Bytes, usize, ErrPtr);
    fn delete(*mut Db, *const WriteOptions, Bytes, usize, ErrPtr);
    fn write(*mut Db, *const WriteOptions, *mut Batch, ErrPtr);
    fn get(*mut Db, *const ReadOptions, Bytes, usize, *mut usize, ErrPtr) -> *mut c_char;
    fn create_iterator(*mut Db, *const ReadOptions) -> *mut Iterator;
    fn create_snapshot(*mut Db) -> *const Snapshot;
    fn release_snapshot(*mut Db, *const Snapshot);
    fn property_value(*mut Db, *const c_char) -> *mut c_char;
    fn approximate_sizes(*mut Db, c_int, *const *const c_char, *const usize, *const *const c_char, *const usize, *mut u64);
    fn compact_range(*mut Db, Bytes, usize, Bytes, usize);
    fn destroy_db(*const Options, *const c_char, ErrPtr);
    fn repair_db(*const Options, *const c_char, ErrPtr);
    fn iter_destroy(*mut Iterator);
    fn iter_valid(*const Iterator) -> u8;
    fn iter_seek_to_first(*mut Iterator);
    fn iter_seek_to_last(*mut Iterator);
    fn iter_seek(*mut Iterator, Bytes, usize);
    fn iter_next(*mut Iterator);
    fn iter_prev(*mut Iterator);
    fn iter_key(*const Iterator, *mut usize) -> *const c_char;
    fn iter_value(*const Iterator, *mut usize) -> *const c_char;
    fn iter_get_error(*const Iterator, ErrPtr);
    fn writebatch_create() -> *mut Batch;
    fn writebatch_destroy(*mut Batch);
    fn writebatch_clear(*mut Batch);
    fn writebatch_put(*mut Batch, Bytes, usize, Bytes, usize);
    fn writebatch_delete(*mut Batch, Bytes, usize);
    fn writebatch_iterate(*const Batch, *mut c_void, OnPut, OnDelete);
    fn writebatch_append(*mut Batch, *const Batch);
    fn options_create() -> *mut Options;
    fn options_destroy(*mut Options);
    fn options_set_comparator(*mut Options, *mut Comparator);
    fn options_set_filter_policy(*mut Options, *mut FilterPolicy);
    fn options_set_create_if_missing(*mut Options, u8);
    fn options_set_error_if_exists(*mut Options, u8);
    fn options_set_paranoid_checks(*mut Options, u8);
    fn options_set_env(*mut Options, *mut Env);
    fn options_set_info_log(*mut Options, *mut Logger);
    fn options_set_write_buffer_size(*mut Options, usize);
    fn options_set_max_open_files(*mut Options, c_int);
    fn options_set_cache(*mut Options, *mut Cache);
    fn options_set_block_size(*mut Options, usize);
    fn options_set_block_restart_interval(*mut Options, c_int);
    fn options_set_max_file_size(*mut Options, usize);
    fn options_set_compression(*mut Options, c_int);
    fn comparator_create(*mut c_void, Drop, Compare, NameOf) -> *mut Comparator;
    fn comparator_destroy(*mut Comparator);
    fn filterpolicy_create(*mut c_void, Drop, CreateFilter, MayMatch, NameOf) -> *mut FilterPolicy;
    fn filterpolicy_destroy(*mut FilterPolicy);
    fn filterpolicy_create_bloom(c_int) -> *mut FilterPolicy;
    fn readoptions_create() -> *mut ReadOptions;
    fn readoptions_destroy(*mut ReadOptions);
    fn readoptions_set_verify_checksums(*mut ReadOptions, u8);
    fn readoptions_set_fill_cache(*mut ReadOptions, u8);
    fn readoptions_set_snapshot(*mut ReadOptions, *const Snapshot);
    fn writeoptions_create() -> *mut WriteOptions;
    fn writeoptions_destroy(*mut WriteOptions);
    fn writeoptions_set_sync(*mut WriteOptions, u8);
    fn cache_create_lru(usize) -> *mut Cache;
    fn cache_destroy(*mut Cache);
    fn create_default_env() -> *mut Env;
    fn env_destroy(*mut Env);
    fn env_get_test_directory(*mut Env) -> *mut c_char;
    fn free(*mut c_void);
    fn major_version() -> c_int;
    fn minor_version() -> c_int;
}

impl Api {
    /// Returns the major and minor version.
    pub(super) fn version(&self) -> (i32, i32) {
        // SAFETY: the function has no arguments and returns an integer.
        let major = unsafe { (self.major_version)() };
        // SAFETY: the function has no arguments and returns an integer.
        let minor = unsafe { (self.minor_version)() };
        (major, minor)
    }
}
