//! The library itself: which LevelDB it stands for, and its memory.

use std::ffi::{c_char, c_int, c_void};

#[unsafe(no_mangle)]
extern "C" fn leveldb_free(block: *mut c_void) {
    // SAFETY: the contract: null, or from malloc.
    unsafe { libc::free(block) };
}

/// Of LevelDB, whose interface this is.
#[unsafe(no_mangle)]
extern "C" fn leveldb_major_version() -> c_int {
    1
}

/// Of LevelDB, whose interface this is.
#[unsafe(no_mangle)]
extern "C" fn leveldb_minor_version() -> c_int {
    23
}

/// Of Terrace.
#[unsafe(no_mangle)]
extern "C" fn terrace_version() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}
