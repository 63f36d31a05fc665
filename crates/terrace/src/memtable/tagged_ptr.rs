//! A place in the tree that names what lives in its arena.
//!
//! The two low bits of a pointer into the arena are free: they say what it points to, so that nothing is ever taken for
//! something else.
#![allow(unsafe_code)] // pointers that carry their type

use std::ptr::{NonNull, null_mut};

use terrace_sync::mutant;

use super::arena::ArenaPtr;
use super::node::Node;
use super::version_chain::VersionChain;
use crate::sync::{AtomicPtr, Ordering};

/// What a slot may name.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Tagged {
    Null,
    Versions(VersionChain),
    Node(ArenaPtr<Node>),
}

const TAG_RECORD: usize = 0;
const TAG_VERSIONS: usize = 1;
const TAG_NODE: usize = 2;
const TAG_MASK: usize = 3;

/// One of them, replaced at once.
pub(super) struct AtomicTaggedPtr(AtomicPtr<u8>);

impl AtomicTaggedPtr {
    pub(super) fn new(named: Tagged) -> AtomicTaggedPtr {
        AtomicTaggedPtr(AtomicPtr::new(encode_ptr(named)))
    }

    /// What it names; whatever that is was made before.
    pub(super) fn load(&self) -> Tagged {
        decode_ptr(self.0.load(Ordering::Acquire)) // pairs with the Release below
    }

    pub(super) fn load_versions(&self) -> Option<VersionChain> {
        match self.load() {
            Tagged::Versions(entry) => Some(entry),
            _ => None,
        }
    }

    pub(super) fn load_node(&self) -> Option<ArenaPtr<Node>> {
        match self.load() {
            Tagged::Node(node) => Some(node),
            _ => None,
        }
    }

    pub(super) fn store(&self, named: Tagged) {
        let order = if mutant!(MemtablePointerStoredRelaxed) { Ordering::Relaxed } else { Ordering::Release };
        self.0.store(encode_ptr(named), order); // Release pairs with the Acquire above
    }

    /// Takes over what `other` names.
    pub(super) fn copy_from(&self, other: &AtomicTaggedPtr) {
        self.0.store(other.0.load(Ordering::Acquire), Ordering::Release);
    }
}

fn encode_ptr(named: Tagged) -> *mut u8 {
    let (at, tag) = match named {
        Tagged::Null => (null_mut(), TAG_RECORD),
        Tagged::Versions(VersionChain::Single(at)) => (at.as_ptr(), TAG_RECORD),
        Tagged::Versions(VersionChain::Multiple(at)) => (at.as_ptr().cast(), TAG_VERSIONS),
        Tagged::Node(at) => (at.as_ptr().cast(), TAG_NODE),
    };
    at.map_addr(|address| address | tag)
}

fn decode_ptr(packed: *mut u8) -> Tagged {
    let Some(at) = NonNull::new(packed.map_addr(|address| address & !TAG_MASK)) else { return Tagged::Null };
    match packed.addr() & TAG_MASK {
        // SAFETY: packed from a place of the type that the tag says; likewise below.
        TAG_RECORD => Tagged::Versions(VersionChain::Single(unsafe { ArenaPtr::from_ptr(at) })),
        // SAFETY: as above.
        TAG_VERSIONS => Tagged::Versions(VersionChain::Multiple(unsafe { ArenaPtr::from_ptr(at.cast()) })),
        // SAFETY: as above; nothing is packed with the fourth tag.
        _ => Tagged::Node(unsafe { ArenaPtr::from_ptr(at.cast()) }),
    }
}
