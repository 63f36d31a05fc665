//! Sees to it, under loom, that plain memory is read only by who knows of its writing.
//!
//! Loom follows atomics, not memory. So each place that is written once and read ever after gets a cell of loom's beside
//! it, which loom does follow: a reading that no chain of Release and Acquire puts behind the writing ends the model, and
//! so does one that none puts before the freeing.
#![allow(clippy::disallowed_types, reason = "below what a model checker sees")]
#![allow(unsafe_code)] // a cell that threads share, which is its point

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use loom::cell::UnsafeCell;

/// The cell of a place.
struct LoomCell(UnsafeCell<()>);

// SAFETY: there is nothing in it, and loom lets one thread run at a time.
unsafe impl Send for LoomCell {}
// SAFETY: as above.
unsafe impl Sync for LoomCell {}

/// The places of one memory.
#[derive(Default)]
pub struct LoomCells {
    cells: Mutex<HashMap<usize, Arc<LoomCell>>>,
}

impl LoomCells {
    /// Of no place.
    pub fn new() -> LoomCells {
        LoomCells::default()
    }

    /// What is at `place` was written.
    pub fn record_write(&self, place: *const u8) {
        let cell = Arc::new(LoomCell(UnsafeCell::new(())));
        cell.0.with_mut(|_| ());
        self.cells.lock().unwrap_or_else(PoisonError::into_inner).insert(place.addr(), cell);
    }

    /// What is at `place` is about to be freed: nobody reads it any more.
    pub fn check_free(&self, place: *const u8) {
        let cell = self.cells.lock().unwrap_or_else(PoisonError::into_inner).remove(&place.addr());
        // Whoever frees it has it from who wrote there.
        cell.expect("a place that was written").0.with_mut(|_| ());
    }

    /// What is at `place` is about to be read.
    pub fn check_read(&self, place: *const u8) {
        let places = self.cells.lock().unwrap_or_else(PoisonError::into_inner);
        // Whoever asks has the place from who wrote there.
        let cell = Arc::clone(places.get(&place.addr()).expect("a place that was written"));
        drop(places);
        cell.0.with(|_| ());
    }
}

impl fmt::Debug for LoomCells {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Witness")
    }
}
