//! Versions of the library, and `leveldb_free`.

use std::ffi::{c_char, c_int, c_void};

#[unsafe(no_mangle)]
extern "C" fn leveldb_free(block: *mut c_void) {
    // SAFETY: the caller passes null, or a block that this library allocated with `malloc` and
    // handed over.
    unsafe { libc::free(block) };
}

/// Major version of LevelDB's interface.
#[unsafe(no_mangle)]
extern "C" fn leveldb_major_version() -> c_int {
    1
}

/// Minor version of LevelDB's interface.
#[unsafe(no_mangle)]
extern "C" fn leveldb_minor_version() -> c_int {
    23
}

/// Version of Terrace.
#[unsafe(no_mangle)]
extern "C" fn terrace_version() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}
