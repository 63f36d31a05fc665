//! Current read state and visible sequence number.
//!
//! ```text
//!   writer:     insert into the memtable ── sequence number (Release)
//!   install:    oldest reader ── compaction ── read state
//!   reader:                                    read state ── sequence number (Acquire) ── read
//! ```
//!
//! A reader loads the read state first and the sequence number second. In the opposite order, a
//! compaction in between could drop versions that the older sequence number needs. A compaction
//! keeps all versions for sequence numbers from its start on, and its read state is installed
//! later. So a sequence number that is loaded after the read state is never too old for it.

use std::ops::Deref;

use terrace_format::key::SequenceNumber;

use super::commit_publisher::CommitPublisher;
use crate::sync::{Arc, ArcSwap, AtomicU64, Ordering};

/// Current read state, of any type, with the commit publisher.
pub(crate) struct ReadStateCell<V> {
    current: ArcSwap<V>,
    /// Twice the number of installed read states, and one more during an install. A reader that
    /// loads the same number before and after its read knows that it did not use a replaced one:
    /// the drop of its reference orders the loads.
    install_count: AtomicU64,
    publisher: CommitPublisher,
}

/// Stamp of the state of a database at one moment. [`Db::state_stamp`](crate::Db::state_stamp)
/// returns it.
#[derive(Debug, Clone, Copy)]
pub struct StateStamp {
    install_count: u64,
    sequence: SequenceNumber,
}

impl<V> ReadStateCell<V> {
    pub(crate) fn new(view: V, visible: SequenceNumber) -> ReadStateCell<V> {
        ReadStateCell {
            current: ArcSwap::from_pointee(view),
            install_count: AtomicU64::new(0),
            publisher: CommitPublisher::new(visible),
        }
    }

    /// Returns the read state without a sequence number.
    pub(crate) fn current(&self) -> impl Deref<Target = Arc<V>> {
        self.current.load()
    }

    /// Returns the read state, and then a sequence number that fits it.
    pub(crate) fn load(&self) -> (impl Deref<Target = Arc<V>>, SequenceNumber) {
        let view = self.current.load();
        let sequence = self.visible_seqno().load(Ordering::Acquire);
        (view, sequence)
    }

    /// Returns the read state and the sequence number of one moment, for a read of several keys.
    ///
    /// The read state of [`ReadStateCell::load`] may be older than its sequence number. The read
    /// could then see a write and lack an ingested table that became visible before the write.
    /// Deleted ranges that drop tables have the same effect. A read of one key cannot show this
    /// order. If the read state is the current one after the load of the sequence number, it was
    /// the current one at the load.
    pub(crate) fn load_one_moment(&self) -> (impl Deref<Target = Arc<V>>, SequenceNumber) {
        loop {
            let (view, sequence) = self.load();
            if Arc::ptr_eq(&view, &self.current()) {
                return (view, sequence);
            }
        }
    }

    /// Returns the sequence number of the last visible write, for a snapshot.
    pub(crate) fn visible_seqno(&self) -> &AtomicU64 {
        self.publisher.visible_seqno()
    }

    /// Returns the publisher of the running writes. They are inserted into the memtables of the
    /// read state before they become visible.
    pub(crate) fn publisher(&self) -> &CommitPublisher {
        &self.publisher
    }

    /// Replaces the read state. Only one thread at a time may call this.
    pub(crate) fn install(&self, view: V) {
        // A reader of the new state sees at least the first addition.
        self.install_count.fetch_add(1, Ordering::Release);
        self.current.store(Arc::new(view));
        self.install_count.fetch_add(1, Ordering::Release);
    }

    /// Returns a number that is different before and after an install, and odd during an install.
    #[inline]
    pub(crate) fn install_count(&self) -> u64 {
        self.install_count.load(Ordering::Acquire)
    }

    /// Returns the stamp of the current state.
    pub(crate) fn stamp(&self) -> StateStamp {
        // In this order, an install between the loads changes the count.
        let install_count = self.install_count();
        StateStamp { install_count, sequence: self.visible_seqno().load(Ordering::Acquire) }
    }

    /// Returns true if all loads since `stamp` have returned the same read state and the same
    /// sequence number. False without a change is possible.
    pub(crate) fn is_unchanged_since(&self, stamp: StateStamp) -> bool {
        let now = self.stamp();
        let is_installing = stamp.install_count % 2 == 1;
        !is_installing && now.install_count == stamp.install_count && now.sequence == stamp.sequence
    }
}
