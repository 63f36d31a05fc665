//! Memory from the system, in large pages where it has them.
//!
//! A walk through much memory costs a walk through the page table for each page of it; of two mebibytes there are few, and
//! they are filled by one fault, not 512.
//!
//! That fault takes a tenth of a millisecond where the machine has the memory. A virtual one may have given it back to its
//! host, and then waits for 512 small pages of that, for several milliseconds. So it is timed: where large pages are dear, most
//! memory is in small ones, which come when they are used.

use std::hint::black_box;
use std::io;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use memmap2::MmapMut;

use crate::clock::{Clock, SystemClock};

/// A large page that takes longer is dear.
const DEAR: Duration = Duration::from_millis(1);
/// So many others do without large pages behind one that was dear, before the next one is tried.
const WITHOUT: u32 = 63;

/// How many of these are to come. Relaxed, and not of `sync`: nothing but time depends on it.
static TO_COME: AtomicU32 = AtomicU32::new(0);

/// Memory of its own, zeroed at first, and given back to the system when dropped. It stays where it is when this is
/// moved. Pages are large where the system has such for whoever asks (transparent huge pages of Linux), if the length is a
/// multiple of their size, and they are not dear.
#[derive(Debug)]
pub struct Pages {
    map: MmapMut,
}

impl Pages {
    /// `len` bytes. An error if the system has no more.
    pub fn new(len: usize) -> io::Result<Pages> {
        let mut pages = Pages::small(len)?;
        if are_due(&TO_COME) {
            note(&TO_COME, pages.enlarge());
        }
        Ok(pages)
    }

    /// Asks for large pages, and gives how long the first one took.
    fn enlarge(&mut self) -> Duration {
        #[cfg(target_os = "linux")]
        let _ = self.map.advise(memmap2::Advice::HugePage); // small pages do as well
        let start = SystemClock.monotonic();
        self.map.iter_mut().take(1).for_each(|byte| *black_box(byte) = 0);
        SystemClock.monotonic().saturating_sub(start)
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

/// True if the next pages are to be large ones, with so many others to come before these.
fn are_due(to_come: &AtomicU32) -> bool {
    to_come.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_err()
}

/// Takes note of how long a large page took.
fn note(to_come: &AtomicU32, took: Duration) {
    to_come.store(if took > DEAR { WITHOUT } else { 0 }, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_pages_that_are_dear_are_seldom_asked_for() {
        let to_come = AtomicU32::new(0);
        let asked = |micros: u64| {
            let due = (0..WITHOUT + 1).map(|_| {
                let due = are_due(&to_come);
                if due {
                    note(&to_come, Duration::from_micros(micros));
                }
                u32::from(due)
            });
            due.sum::<u32>()
        };
        assert_eq!([100, 1000, 5000, 5000, 100, 100].map(asked), [64, 64, 1, 1, 64, 64]);
    }

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
