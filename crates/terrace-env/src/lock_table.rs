//! Lock table: the file locks of this process. A file has one exclusive holder or any number of
//! shared holders.

use std::collections::BTreeMap;

use crate::fs::LockMode;

/// Table of the held locks, by the identity of the locked file.
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

    /// Returns true if no held lock on `id` conflicts with `mode`.
    pub(crate) fn can_lock(&self, id: &Id, mode: LockMode) -> bool {
        match self.locks.get(id) {
            None => true,
            Some(LockState::Shared(_)) => mode == LockMode::Shared,
            Some(LockState::Exclusive) => false,
        }
    }

    /// Inserts a lock that [`LockTable::can_lock`] permits.
    pub(crate) fn insert(&mut self, id: Id, mode: LockMode) {
        debug_assert!(self.can_lock(&id, mode));
        match (mode, self.locks.get_mut(&id)) {
            (LockMode::Shared, Some(LockState::Shared(count))) => *count += 1,
            (LockMode::Shared, _) => drop(self.locks.insert(id, LockState::Shared(1))),
            (LockMode::Exclusive, _) => drop(self.locks.insert(id, LockState::Exclusive)),
        }
    }

    /// Removes one lock on `id`.
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
        let mut table = LockTable::new();
        let can_lock = |table: &LockTable<u8>| {
            (table.can_lock(&1, LockMode::Exclusive), table.can_lock(&1, LockMode::Shared))
        };
        assert_eq!(can_lock(&table), (true, true));
        table.insert(1, LockMode::Exclusive);
        assert_eq!(can_lock(&table), (false, false));
        assert!(table.can_lock(&2, LockMode::Exclusive));
        table.remove(&1);
        table.insert(1, LockMode::Shared);
        table.insert(1, LockMode::Shared);
        assert_eq!(can_lock(&table), (false, true));
        table.remove(&1);
        assert_eq!(can_lock(&table), (false, true));
        table.remove(&1);
        assert_eq!(can_lock(&table), (true, true));
    }
}
