//! Who holds which lock within this process: one exclusive holder, or any number of shared ones.

use std::collections::BTreeMap;

use crate::fs::LockMode;

/// The locks that are held, by the identity of the locked file.
#[derive(Debug)]
pub(crate) struct Claims<Id> {
    held: BTreeMap<Id, Holders>,
}

#[derive(Debug, Clone, Copy)]
enum Holders {
    Exclusive,
    Shared(usize),
}

impl<Id: Ord> Claims<Id> {
    pub(crate) const fn new() -> Claims<Id> {
        Claims { held: BTreeMap::new() }
    }

    /// True if nobody stands in the way of a claim on `id`.
    pub(crate) fn admits(&self, id: &Id, mode: LockMode) -> bool {
        match self.held.get(id) {
            None => true,
            Some(Holders::Shared(_)) => mode == LockMode::Shared,
            Some(Holders::Exclusive) => false,
        }
    }

    /// Notes a claim that was admitted.
    pub(crate) fn add(&mut self, id: Id, mode: LockMode) {
        debug_assert!(self.admits(&id, mode));
        match (mode, self.held.get_mut(&id)) {
            (LockMode::Shared, Some(Holders::Shared(count))) => *count += 1,
            (LockMode::Shared, _) => drop(self.held.insert(id, Holders::Shared(1))),
            (LockMode::Exclusive, _) => drop(self.held.insert(id, Holders::Exclusive)),
        }
    }

    /// Takes one claim on `id` back.
    pub(crate) fn release(&mut self, id: &Id) {
        match self.held.get_mut(id) {
            Some(Holders::Shared(count)) if *count > 1 => *count -= 1,
            _ => drop(self.held.remove(id)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_excludes_whom() {
        let mut claims = Claims::new();
        let admitted = |claims: &Claims<u8>| {
            (claims.admits(&1, LockMode::Exclusive), claims.admits(&1, LockMode::Shared))
        };
        assert_eq!(admitted(&claims), (true, true));
        claims.add(1, LockMode::Exclusive);
        assert_eq!(admitted(&claims), (false, false));
        assert!(claims.admits(&2, LockMode::Exclusive));
        claims.release(&1);
        claims.add(1, LockMode::Shared);
        claims.add(1, LockMode::Shared);
        assert_eq!(admitted(&claims), (false, true));
        claims.release(&1);
        assert_eq!(admitted(&claims), (false, true));
        claims.release(&1);
        assert_eq!(admitted(&claims), (true, true));
    }
}
