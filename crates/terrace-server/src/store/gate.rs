//! Locks that make commands atomic.
//!
//! ```text
//!   write command   its own slot of the gate, then the stripes of its keys in order
//!   EXEC, FLUSHALL  all slots of the gate: no write command is running
//! ```
//!
//! Each thread has a slot of its own, so that write commands of different threads share no cache
//! line here. A thread holds these locks while a command runs, never while it waits for a client.

use terrace_sync::native_locks::{Mutex, MutexGuard};

/// Number of stripes.
const STRIPES: usize = 1024;

/// Lock in a cache line of its own.
#[derive(Debug, Default)]
#[repr(align(128))]
struct GateSlot(Mutex<()>);

/// Gate and stripes of a database.
#[derive(Debug)]
pub(crate) struct Gate {
    slots: Vec<GateSlot>,
    stripes: Vec<Mutex<()>>,
}

/// Right to run a write command, or to run alone.
#[derive(Debug)]
#[must_use]
pub(crate) struct Pass<'a> {
    _stripes: Stripes<'a>,
    _slots: Slots<'a>,
}

/// Guards of slots. A field is held for its drop.
#[derive(Debug)]
#[allow(dead_code)]
enum Slots<'a> {
    Own(MutexGuard<'a, ()>),
    All(Vec<MutexGuard<'a, ()>>),
}

/// Guards of stripes. A field is held for its drop.
#[derive(Debug)]
#[allow(dead_code)]
enum Stripes<'a> {
    None,
    One(MutexGuard<'a, ()>),
    Some(Vec<MutexGuard<'a, ()>>),
}

impl Gate {
    /// Creates a gate for `threads` threads.
    pub(crate) fn new(threads: usize) -> Gate {
        Gate {
            slots: (0..threads.max(1)).map(|_| GateSlot::default()).collect(),
            stripes: (0..STRIPES).map(|_| Mutex::new(())).collect(),
        }
    }

    /// Waits until no other write command uses one of `keys` and nothing runs alone.
    pub(crate) fn enter<'a>(&'a self, slot: usize, keys: &[&[u8]]) -> Pass<'a> {
        let own = self.slots[slot % self.slots.len()].0.lock();
        Pass { _stripes: self.lock_stripes(keys), _slots: Slots::Own(own) }
    }

    /// Like [`Gate::enter`]. Returns None while a command runs alone.
    pub(crate) fn try_enter<'a>(&'a self, slot: usize, keys: &[&[u8]]) -> Option<Pass<'a>> {
        let own = self.slots[slot % self.slots.len()].0.try_lock()?;
        Some(Pass { _stripes: self.lock_stripes(keys), _slots: Slots::Own(own) })
    }

    /// Waits until no write command is running, and lets none start. Returns None while another
    /// command runs alone, or a write command has the first slot.
    pub(crate) fn try_enter_alone(&self) -> Option<Pass<'_>> {
        let (first, rest) = self.slots.split_first()?;
        let mut all = vec![first.0.try_lock()?];
        // No other command runs alone without the first slot.
        all.extend(rest.iter().map(|slot| slot.0.lock()));
        Some(Pass { _stripes: Stripes::None, _slots: Slots::All(all) })
    }

    fn lock_stripes(&self, keys: &[&[u8]]) -> Stripes<'_> {
        match keys {
            [] => Stripes::None,
            [key] => Stripes::One(self.stripes[stripe(key)].lock()),
            keys => Stripes::Some(self.lock_in_order(keys)),
        }
    }

    fn lock_in_order(&self, keys: &[&[u8]]) -> Vec<MutexGuard<'_, ()>> {
        let mut stripes: Vec<usize> = keys.iter().map(|key| stripe(key)).collect();
        stripes.sort_unstable();
        stripes.dedup();
        stripes.into_iter().map(|stripe| self.stripes[stripe].lock()).collect()
    }
}

/// Stripe of a key, by a multiplication for each eight bytes. Keys of one stripe only wait for each
/// other.
fn stripe(key: &[u8]) -> usize {
    const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;
    let mix = |hash: u64, word: u64| (hash.rotate_left(5) ^ word).wrapping_mul(MULTIPLIER);
    let (words, rest) = key.as_chunks::<8>();
    let hash = words.iter().fold(key.len() as u64, |hash, word| mix(hash, u64::from_le_bytes(*word)));
    let hash = rest.iter().fold(hash, |hash, byte| mix(hash, u64::from(*byte)));
    (hash >> 54) as usize % STRIPES
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn repeated_keys_do_not_deadlock() {
        let gate = Gate::new(1);
        drop(gate.enter(0, &[b"b", b"a", b"b"]));
        drop(gate.enter(0, &[b"a"]));
    }

    #[test]
    fn alone_excludes_write_commands() {
        let gate = Gate::new(4);
        let running = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for slot in 0..3 {
                let gate = &gate;
                let running = &running;
                scope.spawn(move || {
                    for round in 0..2000u32 {
                        let pass = gate.enter(slot, &[&round.to_le_bytes()]);
                        running.fetch_add(1, Ordering::SeqCst);
                        running.fetch_sub(1, Ordering::SeqCst);
                        drop(pass);
                    }
                });
            }
            for _ in 0..500 {
                let _pass = loop {
                    if let Some(pass) = gate.try_enter_alone() {
                        break pass;
                    }
                };
                assert_eq!(running.load(Ordering::SeqCst), 0);
            }
        });
    }
}
