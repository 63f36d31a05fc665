//! Checks, under loom, that every read of plain memory happens after its write.
//!
//! Loom checks atomics, not plain memory. Therefore each address that is written once and then only
//! read gets a cell of loom, which loom checks. A read without a Release-Acquire chain from the
//! write fails the model, and so does a free without such a chain from the last read.
#![allow(clippy::disallowed_types, reason = "the checks themselves need no model checker")]
#![allow(unsafe_code)] // Threads share a cell, so that loom can detect races.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use loom::cell::UnsafeCell;

/// Cell of one address.
struct LoomCell(UnsafeCell<()>);

// SAFETY: the cell holds no data, and loom runs one thread at a time.
unsafe impl Send for LoomCell {}
// SAFETY: the cell holds no data that threads could race on, and loom detects concurrent accesses
// itself.
unsafe impl Sync for LoomCell {}

/// Cells of the addresses of one memory.
#[derive(Default)]
pub struct LoomCells {
    cells: Mutex<HashMap<usize, Arc<LoomCell>>>,
}

impl LoomCells {
    /// Creates an empty set of cells.
    pub fn new() -> LoomCells {
        LoomCells::default()
    }

    /// Records a write at `address`.
    pub fn record_write(&self, address: *const u8) {
        let cell = Arc::new(LoomCell(UnsafeCell::new(())));
        cell.0.with_mut(|_| ());
        self.cells.lock().unwrap_or_else(PoisonError::into_inner).insert(address.addr(), cell);
    }

    /// Checks that the memory at `address` can be freed, because no thread reads it any more.
    pub fn check_free(&self, address: *const u8) {
        let cell = self.cells.lock().unwrap_or_else(PoisonError::into_inner).remove(&address.addr());
        // The freeing thread received the address from the writer.
        cell.expect("the address was written").0.with_mut(|_| ());
    }

    /// Checks a read at `address`.
    pub fn check_read(&self, address: *const u8) {
        let cells = self.cells.lock().unwrap_or_else(PoisonError::into_inner);
        // The reader received the address from the writer.
        let cell = Arc::clone(cells.get(&address.addr()).expect("the address was written"));
        drop(cells);
        cell.0.with(|_| ());
    }
}

impl fmt::Debug for LoomCells {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LoomCells")
    }
}
