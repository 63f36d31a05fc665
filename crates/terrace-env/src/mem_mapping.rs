//! Memory directly from the system, for blocks of a mebibyte or more.

use std::io;

use memmap2::MmapMut;

use crate::system::platform::use_huge_pages;

/// Size of a huge page in bytes.
const HUGE_PAGE_SIZE: usize = 2 << 20;

/// Memory mapping, zeroed at first.
///
/// Dropping it returns the memory to the system at once, unlike memory of an allocator. Moving the
/// value does not move the memory.
#[derive(Debug)]
pub struct MemMapping {
    map: MmapMut,
}

impl MemMapping {
    /// Maps `len` bytes. Fails if the system has no more memory.
    pub fn new(len: usize) -> io::Result<MemMapping> {
        let map = MmapMut::map_anon(len)?;
        if len.is_multiple_of(HUGE_PAGE_SIZE) {
            // Random inserts into a large memtable would miss the translation cache of the
            // processor.
            use_huge_pages(&map);
        }
        Ok(MemMapping { map })
    }

    /// Returns all bytes. They are aligned to a page.
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        &mut self.map
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeroed_and_its_own() {
        for len in [1, 4096, 2 << 20] {
            let mut pages = [MemMapping::new(len).unwrap(), MemMapping::new(len).unwrap()];
            pages[0].as_mut_slice().fill(1);
            assert_eq!(pages[1].as_mut_slice(), vec![0; len]);
            assert_eq!(pages[0].as_mut_slice(), vec![1; len]);
            assert_eq!(pages[0].as_mut_slice().as_ptr() as usize % 4096, 0);
        }
    }
}
