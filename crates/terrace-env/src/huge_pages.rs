//! Memory straight from the system, for pieces of a mebibyte or more.

use std::io;

use memmap2::MmapMut;

/// Memory of its own, zeroed at first, and given back to the system as soon as it is dropped, which memory of an allocator
/// need not be. It stays where it is when this is moved.
#[derive(Debug)]
pub struct HugePages {
    map: MmapMut,
}

impl HugePages {
    /// `len` bytes. An error if the system has no more.
    pub fn new(len: usize) -> io::Result<HugePages> {
        Ok(HugePages { map: MmapMut::map_anon(len)? })
    }

    /// All of it, aligned as a page is.
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
            let mut pages = [HugePages::new(len).unwrap(), HugePages::new(len).unwrap()];
            pages[0].as_mut_slice().fill(1);
            assert_eq!(pages[1].as_mut_slice(), vec![0; len]);
            assert_eq!(pages[0].as_mut_slice(), vec![1; len]);
            assert_eq!(pages[0].as_mut_slice().as_ptr() as usize % 4096, 0);
        }
    }
}
