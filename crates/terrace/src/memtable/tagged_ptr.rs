//! Atomic pointer into an arena that carries the type of its target.
//!
//! ```text
//!   63                               2 1   0
//!   +---------------------------------+-----+
//!   | address, a multiple of eight    | tag |     0 record     1 version node     2 tree node
//!   +---------------------------------+-----+
//! ```
//!
//! The tag keeps a reader from using a target as a value of another type. This module follows no
//! pointer: `version_chain` and `node` do, each for its own tags.

use std::ptr::{NonNull, null_mut};

use terrace_sync::mutant;

use super::arena::ArenaPtr;
use crate::sync::{AtomicPtr, Ordering};

/// Type of the target of a [`TaggedPtr`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tag {
    Record = 0,
    VersionNode = 1,
    TreeNode = 2,
}

const TAG_MASK: usize = 3;

/// Address in an arena with the type of its target, or null.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct TaggedPtr(*mut u8);

impl TaggedPtr {
    pub(super) const NULL: TaggedPtr = TaggedPtr(null_mut());

    #[inline]
    pub(super) fn new<T>(target: ArenaPtr<T>, tag: Tag) -> TaggedPtr {
        TaggedPtr(target.as_ptr().cast::<u8>().map_addr(|address| address | tag as usize))
    }

    /// Returns the type and the address of the target. Null has no target.
    #[inline]
    pub(super) fn target(self) -> Option<(Tag, ArenaPtr<u8>)> {
        let address = NonNull::new(self.0.map_addr(|address| address & !TAG_MASK))?;
        let tag = match self.0.addr() & TAG_MASK {
            0 => Tag::Record,
            1 => Tag::VersionNode,
            _ => Tag::TreeNode,
        };
        Some((tag, ArenaPtr::from_non_null(address)))
    }
}

/// A [`TaggedPtr`] that threads share.
pub(super) struct AtomicTaggedPtr(AtomicPtr<u8>);

impl AtomicTaggedPtr {
    pub(super) fn new(ptr: TaggedPtr) -> AtomicTaggedPtr {
        AtomicTaggedPtr(AtomicPtr::new(ptr.0))
    }

    /// Loads the pointer. The initialization of the target happened before.
    #[inline]
    pub(super) fn load(&self) -> TaggedPtr {
        // Pairs with the Release stores in `store` and `copy_from`.
        TaggedPtr(self.0.load(Ordering::Acquire))
    }

    pub(super) fn store(&self, ptr: TaggedPtr) {
        let order = if mutant!(MemtablePointerStoredRelaxed) { Ordering::Relaxed } else { Ordering::Release };
        self.0.store(ptr.0, order); // Release pairs with the Acquire load in `load`.
    }

    /// Stores the pointer of `other`.
    pub(super) fn copy_from(&self, other: &AtomicTaggedPtr) {
        // The Acquire pairs with the Release store of the pointer in `other`, the Release with
        // `load`.
        self.0.store(other.0.load(Ordering::Acquire), Ordering::Release);
    }
}
