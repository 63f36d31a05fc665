//! What is now: the view that readers read, and the number up to which they may see.
//!
//! ```text
//!   writer:     insert into the memtable ── number (Release)
//!   install:    oldest reader ── merge ── view
//!   reader:                                 view ── number (Acquire) ── read
//! ```
//!
//! A reader loads the view first. The other way round, a merge in between could drop versions that the older number
//! still needs: the view is only as new as the number that a merge saw before it began, and so a number that is loaded
//! behind the view is never too old for it.

use std::ops::Deref;

use terrace_format::key::SequenceNumber;

use super::commit_publisher::CommitPublisher;
use crate::sync::{Arc, ArcSwap, AtomicU64, Ordering};

/// The present, for any kind of view.
pub(crate) struct ReadStateCell<V> {
    current: ArcSwap<V>,
    publisher: CommitPublisher,
}

impl<V> ReadStateCell<V> {
    pub(crate) fn new(view: V, visible: SequenceNumber) -> ReadStateCell<V> {
        ReadStateCell { current: ArcSwap::from_pointee(view), publisher: CommitPublisher::new(visible) }
    }

    /// The view, for who needs no number.
    pub(crate) fn current(&self) -> impl Deref<Target = Arc<V>> {
        self.current.load()
    }

    /// What a reader begins with: the view, and then a number that fits it.
    pub(crate) fn load(&self) -> (impl Deref<Target = Arc<V>>, SequenceNumber) {
        let view = self.current.load();
        let sequence = self.visible_seqno().load(Ordering::Acquire);
        (view, sequence)
    }

    /// The number of the last visible write, to take a snapshot at.
    pub(crate) fn visible_seqno(&self) -> &AtomicU64 {
        self.publisher.visible_seqno()
    }

    /// The writes on their way to being visible. They are in the view's memtables when they are done.
    pub(crate) fn publisher(&self) -> &CommitPublisher {
        &self.publisher
    }

    /// Replaces the view. One thread at a time.
    pub(crate) fn install(&self, view: V) {
        self.current.store(Arc::new(view));
    }
}
