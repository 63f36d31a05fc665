//! Who holds which lock within this process: one exclusive holder, or any number of shared ones.

use std::collections::BTreeMap;

use crate::fs::LockMode;

/// The locks that are held, by the identity of the locked file.
#[derive(Debug)]
pub(crate) struct LockTable<Id> {
    locks: BTreeMap<Id, LockState>,
}

#[derive(Debug, Clone, Copy)]
enum LockState {
    Exclusive,
    Shared(usize),
}

impl<Id: Ord> LockTable<Id> {
    pub(crate) const fn new() -> LockTable<Id> {
        LockTable { locks: BTreeMap::new() }
    }

    /// True if nobody stands in the way of a claim on `id`.
    pub(crate) fn can_lock(&self, id: &Id, mode: LockMode) -> bool {
        match self.locks.get(id) {
            None => true,
            Some(LockState::Shared(_)) => mode == LockMode::Shared,
            Some(LockState::Exclusive) => false,
        }
    }

    /// Notes a claim that was admitted.
    pub(crate) fn insert(&mut self, id: Id, mode: LockMode) {
        debug_assert!(self.can_lock(&id, mode));
        match (mode, self.locks.get_mut(&id)) {
            (LockMode::Shared, Some(LockState::Shared(count))) => *count += 1,
            (LockMode::Shared, _) => drop(self.locks.insert(id, LockState::Shared(1))),
            (LockMode::Exclusive, _) => drop(self.locks.insert(id, LockState::Exclusive)),
        }
    }

    /// Takes one claim on `id` back.
    pub(crate) fn remove(&mut self, id: &Id) {
        match self.locks.get_mut(id) {
            Some(LockState::Shared(count)) if *count > 1 => *count -= 1,
            _ => drop(self.locks.remove(id)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exclusive_and_shared_locks() {
        let mut claims = LockTable::new();
        let admitted = |claims: &LockTable<u8>| {
            (claims.can_lock(&1, LockMode::Exclusive), claims.can_lock(&1, LockMode::Shared))
        };
        assert_eq!(admitted(&claims), (true, true));
        claims.insert(1, LockMode::Exclusive);
        assert_eq!(admitted(&claims), (false, false));
        assert!(claims.can_lock(&2, LockMode::Exclusive));
        claims.remove(&1);
        claims.insert(1, LockMode::Shared);
        claims.insert(1, LockMode::Shared);
        assert_eq!(admitted(&claims), (false, true));
        claims.remove(&1);
        assert_eq!(admitted(&claims), (false, true));
        claims.remove(&1);
        assert_eq!(admitted(&claims), (true, true));
    }
}
