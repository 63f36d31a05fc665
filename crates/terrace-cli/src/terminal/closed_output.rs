//! Detection of a standard output that was closed when the program started (`terrace get .. >&-`).
//!
//! Rust's runtime opens `/dev/null` in place of a closed standard output, so that no file of the
//! program gets its descriptor. Every write then succeeds, and a backup made this way is lost
//! without a message. This module looks at the descriptor before the runtime does.
#![allow(unsafe_code, reason = "registers a function that runs before the runtime")]

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::io::{Errno, fcntl_getfd};

/// Whether standard output was closed. The loader's thread stores it before `main`.
static WAS_CLOSED: AtomicBool = AtomicBool::new(false);

/// Function that the C library calls before `main`.
// SAFETY: both sections are tables of C functions that get `argc`, `argv` and `envp`.
// A C function without parameters may be called with these arguments. `inspect` needs nothing that
// the runtime prepares in `main`: it makes one system call and one store.
#[used]
#[cfg_attr(not(target_vendor = "apple"), unsafe(link_section = ".init_array"))]
#[cfg_attr(target_vendor = "apple", unsafe(link_section = "__DATA,__mod_init_func"))]
static INSPECT_BEFORE_MAIN: extern "C" fn() = inspect;

extern "C" fn inspect() {
    WAS_CLOSED.store(fcntl_getfd(io::stdout()) == Err(Errno::BADF), Ordering::Relaxed);
}

/// Returns an error if standard output was closed when the program started.
pub(super) fn check() -> io::Result<()> {
    if WAS_CLOSED.load(Ordering::Relaxed) { Err(Errno::BADF.into()) } else { Ok(()) }
}
