//! `leveldb_env_t`: the default environment, or files in memory.

use std::ffi::c_char;

use terrace::Env;

use crate::ffi::{malloc_c_string, run_or_default, test_directory};

pub(super) struct EnvHandle(pub(super) Env);

#[unsafe(no_mangle)]
extern "C" fn leveldb_create_default_env() -> Box<EnvHandle> {
    Box::new(EnvHandle(Env::system()))
}

#[unsafe(no_mangle)]
extern "C" fn terrace_create_memory_env() -> Box<EnvHandle> {
    Box::new(EnvHandle(Env::in_memory()))
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_env_destroy(env: Option<Box<EnvHandle>>) {
    run_or_default(|| drop(env));
}

/// Returns the directory for tests, and creates it if it is missing.
#[unsafe(no_mangle)]
extern "C" fn leveldb_env_get_test_directory(env: Option<&EnvHandle>) -> *mut c_char {
    let directory = run_or_default(|| {
        let directory = test_directory();
        // Ignores errors: the directory may exist already, and the first use of a missing one
        // reports it.
        let _ = env?.0.fs.create_dir(&directory);
        Some(directory)
    });
    directory
        .map_or(std::ptr::null_mut(), |directory| malloc_c_string(directory.as_os_str().as_encoded_bytes()))
}
