//! Namespaces of the Redis databases. FLUSHDB gives a database a new one, SWAPDB exchanges two.

use std::sync::atomic::{AtomicU16, AtomicUsize, Ordering};

use terrace::Db;
use terrace_env::{Random, SystemRandom};
use terrace_sync::native_locks::Mutex;

use super::layout::{DATABASES, Layout, garbage_prefix, parse_garbage_key};
use super::marker::{self, Spaces};

/// Number of consecutive transactions with the same guard. They are often committed as one group,
/// and few guards of a group leave the others to the groups of other servers.
const TRANSACTIONS_OF_GUARD: usize = 16;

/// Current namespace of each database.
#[derive(Debug)]
pub(crate) struct Namespaces {
    spaces: [AtomicU16; DATABASES],
    /// Position in a shared store of the map that was read last.
    position: Mutex<u64>,
    /// Number of the next transaction of a shared store. Each server begins with a random one, so
    /// that several servers use different guards.
    next_transaction: AtomicUsize,
}

impl Namespaces {
    /// Reads the map of a directory.
    pub(crate) fn load(db: &Db, layout: Layout) -> Result<Namespaces, String> {
        let spaces = match layout {
            Layout::Raw => marker::initial_spaces(),
            Layout::Typed => {
                let stored = db.get(marker::SPACES_KEY).map_err(|error| error.to_string())?;
                stored
                    .as_deref()
                    .and_then(marker::decode_spaces)
                    .ok_or("the map of the databases is damaged")?
            }
        };
        Ok(Namespaces::new(&spaces))
    }

    /// Creates the map `spaces`.
    pub(super) fn new(spaces: &Spaces) -> Namespaces {
        Namespaces {
            spaces: spaces.map(AtomicU16::new),
            position: Mutex::new(0),
            next_transaction: AtomicUsize::new(SystemRandom::new().next_u64() as usize),
        }
    }

    /// Installs the map that a shared store has at `position`, unless a later one is known.
    pub(super) fn install_newer(&self, spaces: &Spaces, position: u64) {
        if *spaces == self.all() {
            return;
        }
        let mut known = self.position.lock();
        if position >= *known {
            *known = position;
            self.install(spaces);
        }
    }

    /// Returns the key of the guard of the map for the next transaction of a shared store.
    pub(super) fn next_guard(&self) -> Vec<u8> {
        // Relaxed: any guard is correct.
        let transaction = self.next_transaction.fetch_add(1, Ordering::Relaxed);
        marker::map_guard_key(transaction / TRANSACTIONS_OF_GUARD)
    }

    /// Returns the namespace of `database`.
    pub(crate) fn space(&self, database: u8) -> u16 {
        // A command that runs beside SWAPDB or FLUSHDB may use either namespace. Acquire: its read
        // of the database comes after this load. Otherwise it could see a new namespace without a
        // record that was written there before SWAPDB.
        self.spaces[usize::from(database)].load(Ordering::Acquire)
    }

    /// Returns the map.
    pub(crate) fn all(&self) -> Spaces {
        std::array::from_fn(|database| self.space(database as u8))
    }

    /// Installs the map that a committed batch has stored. The caller holds the whole gate.
    pub(crate) fn install(&self, spaces: &Spaces) {
        for (space, new) in self.spaces.iter().zip(spaces) {
            space.store(*new, Ordering::Release); // Pairs with the load in `space`.
        }
    }
}

/// Returns the namespaces that wait for their garbage collection.
pub(crate) fn garbage_spaces(db: &Db) -> terrace::Result<Vec<u16>> {
    let mut records = db.prefix(garbage_prefix());
    let mut spaces = Vec::new();
    while let Some((key, _)) = records.next_entry()? {
        spaces.extend(parse_garbage_key(key));
    }
    Ok(spaces)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn transactions_take_turns_with_the_guards() {
        let namespaces = Namespaces::new(&marker::initial_spaces());
        let all: BTreeSet<Vec<u8>> = marker::map_guard_keys().collect();
        let taken: Vec<Vec<u8>> =
            (0..all.len() * TRANSACTIONS_OF_GUARD).map(|_| namespaces.next_guard()).collect();
        assert_eq!(taken.iter().cloned().collect::<BTreeSet<_>>(), all);
        for neighbours in taken.chunks(TRANSACTIONS_OF_GUARD) {
            let guards: BTreeSet<_> = neighbours.iter().collect();
            assert!(guards.len() <= 2, "{guards:?}");
        }
    }

    #[test]
    fn newest_map_is_kept() {
        let with_first = |space: u16| {
            let mut spaces = marker::initial_spaces();
            spaces[0] = space;
            spaces
        };
        let namespaces = Namespaces::new(&with_first(0));
        for (space, position, expected) in [(20, 7, 20), (19, 6, 20), (21, 8, 21), (22, 8, 22)] {
            namespaces.install_newer(&with_first(space), position);
            assert_eq!(namespaces.space(0), expected, "position {position}");
        }
    }
}
