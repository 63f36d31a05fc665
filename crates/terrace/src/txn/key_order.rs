//! User key as the key of an ordered map.

use std::cmp::Ordering;

use terrace_format::comparator::Comparator;

use crate::sync::Arc;

/// User key in the order of the comparator of its database.
#[derive(Clone)]
pub(super) struct OrderedKey {
    pub(super) comparator: Arc<dyn Comparator>,
    pub(super) bytes: Vec<u8>,
}

impl Ord for OrderedKey {
    fn cmp(&self, other: &OrderedKey) -> Ordering {
        self.comparator.compare(&self.bytes, &other.bytes)
    }
}

impl PartialOrd for OrderedKey {
    fn partial_cmp(&self, other: &OrderedKey) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for OrderedKey {
    fn eq(&self, other: &OrderedKey) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for OrderedKey {}
