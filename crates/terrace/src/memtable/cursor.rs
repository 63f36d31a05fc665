//! Cursor over the records of a tree, which sees records that are added during the scan.
//!
//! A cursor stands at a record, which never moves, and remembers its leaf. While the leaf is
//! unchanged, a step is a step within the leaf. Otherwise the cursor searches its key again.
//!
//! Memory safety: the pointers of a position belong to the tree that the cursor keeps alive.
#![allow(unsafe_code)] // follows pointers into the arena

use terrace_format::key::{self, SequenceNumber, ValueType};

use super::arena::{ArenaPtr, ArenaRecord};
use super::btree::{BTree, LeafPosition};
use super::node::Node;
use super::optimistic_latch::LatchVersion;
use super::version_chain::{VersionChain, VersionChainPtr};
use crate::error::{Error, Result};
use crate::internal_iterator::InternalIterator;
use crate::sync::Arc;

/// Cursor over the records of a tree. A new cursor has no position.
pub(crate) struct BTreeCursor {
    tree: Arc<BTree>,
    position: Option<CursorPosition>,
}

#[derive(Clone, Copy)]
struct CursorPosition {
    leaf: ArenaPtr<Node>,
    latch_version: LatchVersion,
    index: usize,
    /// Version at which the cursor stands, with all older ones.
    versions: VersionChainPtr,
}

impl BTreeCursor {
    pub(crate) fn new(tree: Arc<BTree>) -> BTreeCursor {
        BTreeCursor { tree, position: None }
    }

    /// Returns the record at the cursor, which has a position.
    fn current_record(&self) -> ArenaRecord<'_> {
        // Callers of `InternalIterator` check `valid` first.
        let position = self.position.as_ref().expect("the iterator is valid");
        self.tree.versions_at(position).newest_record()
    }

    /// Moves to the newest version of the next user key.
    pub(crate) fn next_user_key(&mut self) {
        let Some(position) = &mut self.position else { return };
        if !self.tree.step_in_leaf(position) {
            self.position = self.tree.entry_after(position);
        }
        self.prefetch_upcoming();
    }

    /// Moves to the oldest version of the user key before.
    pub(crate) fn prev_user_key(&mut self) {
        self.position = self.position.and_then(|position| self.tree.oldest_version_before(&position));
    }

    /// Moves to the next version of the current user key, if there is one. Otherwise does nothing
    /// and returns false.
    pub(crate) fn next_version(&mut self) -> bool {
        let Some(position) = self.position else { return false };
        let older = self.tree.versions_at(&position).older();
        self.position = older.map(|versions| position.with_versions(versions)).or(self.position);
        older.is_some()
    }

    /// Moves forward to the first version of the current user key that `sequence` sees, or to the
    /// next user key.
    pub(crate) fn skip_newer_versions(&mut self, sequence: SequenceNumber) {
        let Some(position) = self.position else { return };
        let newest_visible = key::pack_sequence_and_type(sequence, ValueType::FOR_SEEK);
        let (_, visible) = self.tree.versions_at(&position).split_at(|trailer| trailer > newest_visible);
        self.position = match visible {
            Some(versions) => Some(position.with_versions(versions)),
            None => self.tree.entry_after(&position),
        };
    }

    /// Moves back to the newest version of the current user key that `sequence` sees. Returns false
    /// if the cursor is at this version already. The current version is one that `sequence` sees,
    /// and all such versions were inserted before the cursor came here.
    pub(crate) fn skip_to_newest_version(&mut self, sequence: SequenceNumber) -> bool {
        let Some(position) = self.position else { return false };
        let VersionChainPtr::Multiple(_) = position.versions else { return false };
        let newest_visible = key::pack_sequence_and_type(sequence, ValueType::FOR_SEEK);
        let Some(current) = self.tree.current_versions(&position) else { return false };
        let (_, visible) = self.tree.versions_at(&current).split_at(|trailer| trailer > newest_visible);
        let Some(newest) = visible.filter(|newest| newest.as_ptr() != position.versions) else {
            return false;
        };
        self.position = Some(current.with_versions(newest));
        true
    }

    fn prefetch_upcoming(&self) {
        if let Some(position) = &self.position {
            self.tree.prefetch_upcoming(position);
        }
    }
}

impl InternalIterator for BTreeCursor {
    type Error = Error;

    fn valid(&self) -> bool {
        self.position.is_some()
    }

    fn seek_to_first(&mut self) {
        self.position = self.tree.first_in_leaf(self.tree.first_leaf());
    }

    fn seek_to_last(&mut self) {
        let last = self.tree.retry_until_valid(|tree| {
            let (mut leaf, mut latch_version) = tree.read_root()?;
            while leaf.level > 0 {
                let last_child = leaf.child(&tree.context, leaf.len() - 1)?;
                (leaf, latch_version) = tree.descend(leaf, latch_version, last_child)?;
            }
            tree.entry_before(&LeafPosition { leaf, latch_version, index: leaf.len(), is_exact: false })
        });
        self.position = last.and_then(|last| self.tree.oldest_version(&last));
    }

    fn seek(&mut self, target: &[u8]) {
        let tree = &self.tree;
        let user_key = key::user_key(target);
        let trailer = key::trailer(target);
        let (first, is_exact) = tree.retry_until_valid(|tree| {
            let position = tree.find_leaf(user_key)?;
            Some((tree.entry_at_or_after(&position)?, position.is_exact))
        });
        self.position = match first {
            Some(first) if is_exact => {
                let (_, visible) = tree.versions_at(&first).split_at(|other| other > trailer);
                visible.map(|versions| first.with_versions(versions)).or_else(|| tree.entry_after(&first))
            }
            first => first,
        };
        if let Some(position) = &self.position {
            self.tree.prefetch_record(position.versions);
        }
    }

    fn next(&mut self) {
        let Some(position) = &mut self.position else { return };
        // The most frequent case: a single version, in an unchanged leaf.
        let is_single = matches!(position.versions, VersionChainPtr::Single(_));
        if !is_single || !self.tree.step_in_leaf(position) {
            self.position = match self.tree.versions_at(position).older() {
                Some(versions) => Some(position.with_versions(versions)),
                None => self.tree.entry_after(position),
            };
        }
        self.prefetch_upcoming();
    }

    fn prev(&mut self) {
        let Some(position) = self.position else { return };
        let tree = &self.tree;
        let trailer = key::trailer(tree.versions_at(&position).newest_record().key);
        // Writers may have added newer versions since the cursor came here.
        let newer = tree.current_versions(&position).and_then(|current| {
            let (newer, _) = tree.versions_at(&current).split_at(|other| other > trailer);
            newer.map(|versions| current.with_versions(versions))
        });
        self.position = newer.or_else(|| tree.oldest_version_before(&position));
    }

    fn key(&self) -> &[u8] {
        self.current_record().key
    }

    fn value(&self) -> &[u8] {
        self.current_record().value
    }

    fn entry(&self) -> Option<(&[u8], &[u8])> {
        let ArenaRecord { key, value } = self.tree.versions_at(&self.position?).newest_record();
        Some((key, value))
    }

    fn status(&self) -> Result<()> {
        Ok(())
    }
}

impl CursorPosition {
    fn new(position: &LeafPosition<'_>, index: usize, versions: VersionChain<'_>) -> CursorPosition {
        CursorPosition {
            leaf: position.leaf.as_ptr(),
            latch_version: position.latch_version,
            index,
            versions: versions.as_ptr(),
        }
    }

    fn with_versions(self, versions: VersionChain<'_>) -> CursorPosition {
        CursorPosition { versions: versions.as_ptr(), ..self }
    }
}

/// Number of records between the cursor and the prefetched record. A cache miss per record is
/// expected, and eight overlapping misses take little longer than one.
const PREFETCH_RECORDS: usize = 8;
/// Number of bytes that are prefetched of a record. Most records are shorter.
const PREFETCH_RECORD_BYTES: usize = 192;

impl BTree {
    /// Prefetches the record a few steps after `position`. The leaf may have changed, which makes
    /// the prefetch useless but harmless.
    fn prefetch_upcoming(&self, position: &CursorPosition) {
        let leaf = self.leaf_at(position);
        if position.index == 0
            && let Some(next) = leaf.right_sibling(&self.context)
        {
            // The slots of the next leaf name the records to prefetch. Without this prefetch, the
            // cursor would wait for each cache line of the leaf.
            self.context.arena.prefetch(next.as_ptr(), size_of::<Node>());
        }
        let ahead = position.index + PREFETCH_RECORDS;
        let len = leaf.len();
        let versions = if ahead < len {
            leaf.versions(&self.context, ahead)
        } else {
            leaf.right_sibling(&self.context).and_then(|next| next.versions(&self.context, ahead - len))
        };
        if let Some(versions) = versions {
            self.prefetch_record(versions.as_ptr());
        }
    }

    fn prefetch_record(&self, versions: VersionChainPtr) {
        match versions {
            VersionChainPtr::Single(record) => self.context.arena.prefetch(record, PREFETCH_RECORD_BYTES),
            VersionChainPtr::Multiple(node) => self.context.arena.prefetch(node, PREFETCH_RECORD_BYTES),
        }
    }

    /// Moves `position` to the newest version of the next key, if that is in the same leaf and the
    /// leaf is unchanged. Otherwise returns false and leaves `position` as it is.
    #[inline]
    fn step_in_leaf(&self, position: &mut CursorPosition) -> bool {
        let leaf = self.leaf_at(position);
        let index = position.index + 1;
        let next = if index < leaf.len() { leaf.versions(&self.context, index) } else { None };
        match next {
            Some(next) if leaf.latch.validate(position.latch_version) => {
                position.index = index;
                position.versions = next.as_ptr();
                true
            }
            _ => false,
        }
    }

    /// Calls `read` until it returns a result. It returns None if a node changed meanwhile.
    fn retry_until_valid<'a, T>(&'a self, read: impl Fn(&'a BTree) -> Option<T>) -> T {
        let mut turn = 0;
        loop {
            match read(self) {
                Some(result) => return result,
                None => crate::sync::spin_or_yield(&mut turn),
            }
        }
    }

    /// Returns the key at a position or the next key. The outer None means that the leaf changed
    /// and the caller must search again.
    fn entry_at_or_after(&self, position: &LeafPosition<'_>) -> Option<Option<CursorPosition>> {
        let LeafPosition { leaf, latch_version, index, .. } = *position;
        let next = leaf.right_sibling(&self.context);
        let entry = if index < leaf.len() {
            Some(CursorPosition::new(position, index, leaf.versions(&self.context, index)?))
        } else {
            None
        };
        if !leaf.latch.validate(latch_version) {
            return None;
        }
        Some(entry.or_else(|| self.first_in_leaf(next?)))
    }

    /// Returns the key before a position in the same leaf, if there is one. The outer None means
    /// that the leaf changed and the caller must search again.
    fn entry_before(&self, position: &LeafPosition<'_>) -> Option<Option<CursorPosition>> {
        let LeafPosition { leaf, latch_version, index, .. } = *position;
        let entry = match index.checked_sub(1) {
            Some(index) => Some(CursorPosition::new(position, index, leaf.versions(&self.context, index)?)),
            None => None,
        };
        leaf.latch.validate(latch_version).then_some(entry)
    }

    /// Returns the first key of a leaf. Only the leaf of an empty tree has none.
    fn first_in_leaf(&self, leaf: &Node) -> Option<CursorPosition> {
        self.retry_until_valid(|tree| {
            let latch_version = leaf.latch.read_version();
            tree.entry_at_or_after(&LeafPosition { leaf, latch_version, index: 0, is_exact: false })
        })
    }

    /// Returns the first key after `position`.
    fn entry_after(&self, position: &CursorPosition) -> Option<CursorPosition> {
        let next_position = LeafPosition { index: position.index + 1, ..self.leaf_position(position) };
        if let Some(next) = self.entry_at_or_after(&next_position) {
            return next;
        }
        let user_key = key::user_key(self.versions_at(position).newest_record().key);
        self.retry_until_valid(|tree| {
            let mut position = tree.find_leaf(user_key)?;
            position.index += usize::from(position.is_exact);
            tree.entry_at_or_after(&position)
        })
    }

    /// Returns all present versions of the key at `position`.
    fn current_versions(&self, position: &CursorPosition) -> Option<CursorPosition> {
        self.entry_at_or_after(&self.leaf_position(position)).unwrap_or_else(|| {
            let user_key = key::user_key(self.versions_at(position).newest_record().key);
            self.retry_until_valid(|tree| tree.entry_at_or_after(&tree.find_leaf(user_key)?))
        })
    }

    /// Returns the oldest version of the key before `position`.
    fn oldest_version_before(&self, position: &CursorPosition) -> Option<CursorPosition> {
        let before = match self.entry_before(&self.leaf_position(position)) {
            Some(Some(before)) => Some(before),
            // The cursor is at the beginning of its leaf, or the leaf changed.
            _ => {
                let user_key = key::user_key(self.versions_at(position).newest_record().key);
                self.retry_until_valid(|tree| tree.entry_before(&tree.find_leaf_before(user_key)?))
            }
        };
        self.oldest_version(&before?)
    }

    fn leaf_position(&self, position: &CursorPosition) -> LeafPosition<'_> {
        let CursorPosition { latch_version, index, .. } = *position;
        LeafPosition { leaf: self.leaf_at(position), latch_version, index, is_exact: true }
    }

    fn leaf_at(&self, position: &CursorPosition) -> &Node {
        // SAFETY: positions are private to this module, and a cursor uses them only with the tree
        // that created them. That tree holds its nodes in this arena.
        unsafe { self.context.arena.get(position.leaf) }
    }

    fn versions_at(&self, position: &CursorPosition) -> VersionChain<'_> {
        // SAFETY: positions are private to this module, and a cursor uses them only with the tree
        // that created them. The versions came from a slot of that tree, so they lie in this arena.
        unsafe { VersionChain::new(&self.context.arena, position.versions) }
    }

    fn oldest_version(&self, position: &CursorPosition) -> Option<CursorPosition> {
        let (oldest, _) = self.versions_at(position).split_at(|_| true);
        oldest.map(|versions| position.with_versions(versions))
    }
}
