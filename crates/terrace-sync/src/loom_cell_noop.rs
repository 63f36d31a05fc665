//! Replacement of `loom_cell` for builds without loom.

/// Cells without checks, because only loom can check.
#[derive(Debug, Default)]
pub struct LoomCells;

impl LoomCells {
    /// Creates an empty set of cells.
    pub fn new() -> LoomCells {
        LoomCells
    }

    /// Records a write at the address. Without loom, it does nothing.
    #[inline(always)]
    pub fn record_write(&self, _address: *const u8) {}

    /// Checks that the memory can be freed. Without loom, it does nothing.
    #[inline(always)]
    pub fn check_free(&self, _address: *const u8) {}

    /// Checks a read at the address. Without loom, it does nothing.
    #[inline(always)]
    pub fn check_read(&self, _address: *const u8) {}
}
