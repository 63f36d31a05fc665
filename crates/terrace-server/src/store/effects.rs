//! Effects of a command besides its batch, which most commands do not have.

use std::ops::{Deref, DerefMut};

use super::entry::Entry;
use super::key_events::KeyEvent;
use super::marker::Spaces;
use crate::conn::LateMessage;

/// Effects of a command besides its batch.
pub(crate) struct Effects {
    /// Expired entries with objects that the command has met. A write of their keys discards them.
    pub(super) expired: Vec<(Vec<u8>, Entry)>,
    /// Keys of changed records that are not in the batch.
    pub(super) changed: Vec<Vec<u8>>,
    /// Records of keys that clients may wait for, although the key has not changed.
    pub(super) ready: Vec<Vec<u8>>,
    /// Map of namespaces that the batch stores.
    pub(super) spaces: Option<Spaces>,
    /// Changed keys of the watch table, besides those of `changed` and of the batch.
    pub(super) marked: Vec<Vec<u8>>,
    /// Namespaces of the snapshot that the view shows.
    pub(super) snapshot_spaces: Option<Spaces>,
    /// Keyspace events that the commit publishes.
    pub(super) events: Vec<KeyEvent>,
    /// Messages that are sent after the commit of a transaction.
    pub(crate) messages: Vec<LateMessage>,
    /// Size of `messages`, in bytes.
    pub(crate) message_bytes: usize,
}

impl Effects {
    const NONE: Effects = Effects {
        expired: Vec::new(),
        changed: Vec::new(),
        ready: Vec::new(),
        spaces: None,
        marked: Vec::new(),
        snapshot_spaces: None,
        events: Vec::new(),
        messages: Vec::new(),
        message_bytes: 0,
    };
}

/// Effects that get memory with the first change, because every command creates and drops them.
pub(crate) struct LazyEffects(Option<Box<Effects>>);

impl LazyEffects {
    pub(super) const NONE: LazyEffects = LazyEffects(None);

    /// Returns the effects if there are any. Gets no memory, unlike a change of their fields.
    pub(crate) fn existing(&mut self) -> Option<&mut Effects> {
        self.0.as_deref_mut()
    }
}

impl Deref for LazyEffects {
    type Target = Effects;

    fn deref(&self) -> &Effects {
        static NONE: Effects = Effects::NONE;
        self.0.as_deref().unwrap_or(&NONE)
    }
}

impl DerefMut for LazyEffects {
    fn deref_mut(&mut self) -> &mut Effects {
        self.0.get_or_insert_with(|| Box::new(Effects::NONE))
    }
}
