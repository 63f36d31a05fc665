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

use terrace_format::key::Sequence;

use super::publication::Publication;
use crate::sync::{Arc, ArcSwap, AtomicU64, Ordering};

/// The present, for any kind of view.
pub(crate) struct Present<V> {
    view: ArcSwap<V>,
    writes: Publication,
}

impl<V> Present<V> {
    pub(crate) fn new(view: V, visible: Sequence) -> Present<V> {
        Present { view: ArcSwap::from_pointee(view), writes: Publication::new(visible) }
    }

    /// The view, for who needs no number.
    pub(crate) fn view(&self) -> impl Deref<Target = Arc<V>> {
        self.view.load()
    }

    /// What a reader begins with: the view, and then a number that fits it.
    pub(crate) fn look(&self) -> (impl Deref<Target = Arc<V>>, Sequence) {
        let view = self.view.load();
        let sequence = self.visible().load(Ordering::Acquire);
        (view, sequence)
    }

    /// The number of the last visible write, to take a snapshot at.
    pub(crate) fn visible(&self) -> &AtomicU64 {
        self.writes.visible()
    }

    /// The writes on their way to being visible. They are in the view's memtables when they are done.
    pub(crate) fn writes(&self) -> &Publication {
        &self.writes
    }

    /// Replaces the view. One thread at a time.
    pub(crate) fn show(&self, view: V) {
        self.view.store(Arc::new(view));
    }
}
