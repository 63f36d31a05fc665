//! A place in the tree that names what lives in its arena.
//!
//! The two low bits of a pointer into the arena are free: they say what it points to, so that nothing is ever taken for
//! something else.
#![allow(unsafe_code)] // pointers that carry their type

use std::ptr::{NonNull, null_mut};

use terrace_sync::mutant;

use super::arena::At;
use super::node::Node;
use super::versions::Entry;
use crate::sync::{AtomicPtr, Ordering};

/// What a slot may name.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Named {
    Nothing,
    Entry(Entry),
    Node(At<Node>),
}

const RECORD: usize = 0;
const VERSIONS: usize = 1;
const NODE: usize = 2;
const TAG: usize = 3;

/// One of them, replaced at once.
pub(super) struct Slot(AtomicPtr<u8>);

impl Slot {
    pub(super) fn new(named: Named) -> Slot {
        Slot(AtomicPtr::new(pack(named)))
    }

    /// What it names; whatever that is was made before.
    pub(super) fn load(&self) -> Named {
        unpack(self.0.load(Ordering::Acquire)) // pairs with the Release below
    }

    pub(super) fn entry(&self) -> Option<Entry> {
        match self.load() {
            Named::Entry(entry) => Some(entry),
            _ => None,
        }
    }

    pub(super) fn node(&self) -> Option<At<Node>> {
        match self.load() {
            Named::Node(node) => Some(node),
            _ => None,
        }
    }

    pub(super) fn store(&self, named: Named) {
        let order = if mutant!(MemtablePointerStoredRelaxed) { Ordering::Relaxed } else { Ordering::Release };
        self.0.store(pack(named), order); // Release pairs with the Acquire above
    }

    /// Takes over what `other` names.
    pub(super) fn copy(&self, other: &Slot) {
        self.0.store(other.0.load(Ordering::Acquire), Ordering::Release);
    }
}

fn pack(named: Named) -> *mut u8 {
    let (at, tag) = match named {
        Named::Nothing => (null_mut(), RECORD),
        Named::Entry(Entry::Only(at)) => (at.as_ptr(), RECORD),
        Named::Entry(Entry::Newest(at)) => (at.as_ptr().cast(), VERSIONS),
        Named::Node(at) => (at.as_ptr().cast(), NODE),
    };
    at.map_addr(|address| address | tag)
}

fn unpack(packed: *mut u8) -> Named {
    let Some(at) = NonNull::new(packed.map_addr(|address| address & !TAG)) else { return Named::Nothing };
    match packed.addr() & TAG {
        // SAFETY: packed from a place of the type that the tag says; likewise below.
        RECORD => Named::Entry(Entry::Only(unsafe { At::from_ptr(at) })),
        // SAFETY: as above.
        VERSIONS => Named::Entry(Entry::Newest(unsafe { At::from_ptr(at.cast()) })),
        // SAFETY: as above; nothing is packed with the fourth tag.
        _ => Named::Node(unsafe { At::from_ptr(at.cast()) }),
    }
}
