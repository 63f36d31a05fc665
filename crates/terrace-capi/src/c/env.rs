//! `leveldb_env_t`: the machine, or files in memory.

use std::ffi::c_char;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use terrace::Env;

use crate::border::{malloced_string, quietly};

pub(super) struct EnvHandle(pub(super) Env);

#[unsafe(no_mangle)]
extern "C" fn leveldb_create_default_env() -> Box<EnvHandle> {
    Box::new(EnvHandle(Env::system()))
}

#[unsafe(no_mangle)]
extern "C" fn terrace_create_memory_env() -> Box<EnvHandle> {
    Box::new(EnvHandle(Env::memory()))
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_env_destroy(env: Option<Box<EnvHandle>>) {
    quietly(|| drop(env));
}

/// `$TEST_TMPDIR`, else a directory of this user's below `/tmp`, made if need be.
#[unsafe(no_mangle)]
extern "C" fn leveldb_env_get_test_directory(env: Option<&EnvHandle>) -> *mut c_char {
    let made = quietly(|| {
        let directory = test_directory();
        // It may be there already; if it can't be made, its user will see.
        let _ = env?.0.fs.create_dir(&directory);
        Some(directory)
    });
    made.map_or(std::ptr::null_mut(), |directory| malloced_string(directory.as_os_str().as_bytes()))
}

fn test_directory() -> PathBuf {
    let given = std::env::var_os("TEST_TMPDIR").filter(|given| !given.is_empty());
    given.map_or_else(of_this_user, PathBuf::from)
}

fn of_this_user() -> PathBuf {
    // SAFETY: asks, and never fails.
    let user = unsafe { libc::geteuid() };
    PathBuf::from(format!("/tmp/leveldbtest-{user}"))
}
