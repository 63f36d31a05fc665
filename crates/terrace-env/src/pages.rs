//! Memory from the system, in large pages where it has them.
//!
//! A walk through much memory costs a walk through the page table for each page of it; of two mebibytes there are few, and
//! they are filled by one fault, not 512.

use std::io;

use memmap2::MmapMut;

/// Memory of its own, zeroed at first, and given back to the system when dropped. It stays where it is when this is
/// moved. Pages are large where the system has such for whoever asks (transparent huge pages of Linux), if the length is a
/// multiple of their size.
#[derive(Debug)]
pub struct Pages {
    map: MmapMut,
}

impl Pages {
    /// `len` bytes. An error if the system has no more.
    pub fn new(len: usize) -> io::Result<Pages> {
        let pages = Pages::small(len)?;
        #[cfg(target_os = "linux")]
        let _ = pages.map.advise(memmap2::Advice::HugePage); // small pages do as well
        Ok(pages)
    }

    /// As [`Pages::new`], in pages of the usual size, for memory of which little may be used.
    pub fn small(len: usize) -> io::Result<Pages> {
        Ok(Pages { map: MmapMut::map_anon(len)? })
    }

    /// All of it, aligned as a page is.
    pub fn memory(&mut self) -> &mut [u8] {
        &mut self.map
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeroed_and_its_own() {
        for len in [1, 4096, 2 << 20] {
            let mut pages = [Pages::new(len).unwrap(), Pages::new(len).unwrap()];
            pages[0].memory().fill(1);
            assert_eq!(pages[1].memory(), vec![0; len]);
            assert_eq!(pages[0].memory(), vec![1; len]);
            assert_eq!(pages[0].memory().as_ptr() as usize % 4096, 0);
        }
    }
}
