//! Regions of memory, and which parts of them are in use.

use std::ptr::NonNull;

use super::granules::{GRANULE, Granules};
use crate::pages::Pages;

/// The size of a large page.
pub(super) const REGION: usize = 2 << 20;

/// Where a piece begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Piece {
    region: u16,
    granule: u16,
}

/// More regions can't be told in a [`Piece`]: 128 GiB.
const REGIONS_MAX: usize = 1 << 16;

/// Memory that hands out pieces of itself.
pub(super) struct Arena {
    regions: Vec<Option<Region>>,
    /// Of each region, side by side: no run of free granules is longer.
    longest: Vec<u16>,
    /// One that is all free. There are no two: the next to come free goes back to the system.
    idle: Option<usize>,
}

pub(super) struct Region {
    granules: Granules,
    /// Of `pages`, found once: nobody borrows these as a whole while parts of them are others'.
    start: NonNull<u8>,
    _pages: Pages,
}

// SAFETY: it owns what `start` points to.
unsafe impl Send for Region {}

impl Region {
    fn new(at: usize) -> Option<Region> {
        let pages = if at == 0 { Pages::small(REGION) } else { Pages::new(REGION) };
        let mut pages = pages.ok()?;
        let start = NonNull::from(pages.memory()).cast();
        Some(Region { granules: Granules::new(), start, _pages: pages })
    }
}

impl Arena {
    pub(super) const fn new() -> Arena {
        Arena { regions: Vec::new(), longest: Vec::new(), idle: None }
    }

    /// So many granules side by side, and where they are; their bytes are initialised. They are the caller's until given back. None
    /// if the system has no more memory.
    pub(super) fn take(&mut self, count: usize) -> Option<(Piece, NonNull<u8>)> {
        let mut from = 0;
        loop {
            let may = self.longest[from..].iter().position(|longest| usize::from(*longest) >= count);
            let at = match may {
                Some(more) => from + more,
                None => self.add()?,
            };
            if let Some(found) = self.take_in(at, count) {
                return Some(found);
            }
            from = at + 1;
        }
    }

    fn take_in(&mut self, at: usize, count: usize) -> Option<(Piece, NonNull<u8>)> {
        let region = self.regions[at].as_mut()?;
        let granule = region.granules.take(count);
        self.longest[at] = region.granules.longest() as u16;
        let granule = granule?;
        self.idle = self.idle.filter(|idle| *idle != at);
        // SAFETY: within the region, of which there are so many granules.
        let start = unsafe { region.start.add(granule * GRANULE) };
        Some((Piece { region: at as u16, granule: granule as u16 }, start))
    }

    /// Puts a new region into the first place that is free.
    fn add(&mut self) -> Option<usize> {
        let free = self.regions.iter().position(Option::is_none);
        let at = free.unwrap_or(self.regions.len());
        let region = Some(at).filter(|at| *at < REGIONS_MAX).and_then(Region::new)?;
        if free.is_none() {
            self.regions.push(None);
            self.longest.push(0);
        }
        self.longest[at] = region.granules.longest() as u16;
        self.regions[at] = Some(region);
        Some(at)
    }

    /// Takes back a piece of so many granules. A region that nobody needs is to be dropped.
    pub(super) fn give_back(&mut self, piece: Piece, count: usize) -> Option<Region> {
        let at = usize::from(piece.region);
        let region = self.regions[at].as_mut()?;
        region.granules.give_back(usize::from(piece.granule), count);
        self.longest[at] = region.granules.longest() as u16;
        if !region.granules.all_free() {
            return None;
        }
        if self.idle.is_none() {
            self.idle = Some(at);
            return None;
        }
        self.longest[at] = 0;
        self.regions[at].take()
    }

    /// The bytes that it has from the system.
    #[cfg(test)]
    pub(super) fn size(&self) -> usize {
        self.regions.iter().flatten().count() * REGION
    }
}
