//! What must be found, worked out before anything runs: which keys exist is a matter of arithmetic.
//!
//! Values are checked from their keys alone; that a key is there at all is checked with this.

use super::ops::{Op, Ops};
use super::phase_spec::{Kind, PhaseSpec};

/// What a phase must come to, whichever engine does it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExpectedResult {
    /// Look-ups that find the key, entries that walks visit, seeks that hit their key. None if that is a race.
    pub found: Option<u64>,
    /// Keys that exist when it has ended.
    pub live: u64,
}

/// The keys that exist.
#[derive(Default)]
struct KeySet {
    bits: Vec<u64>,
    live: u64,
}

impl KeySet {
    fn contains(&self, n: u64) -> bool {
        self.bits.get((n / 64) as usize).is_some_and(|word| word >> (n % 64) & 1 == 1)
    }

    fn set(&mut self, n: u64, exists: bool) {
        if self.contains(n) == exists {
            return;
        }
        let word = (n / 64) as usize;
        if self.bits.len() <= word {
            self.bits.resize(word + 1, 0);
        }
        self.bits[word] ^= 1 << (n % 64);
        self.live = if exists { self.live + 1 } else { self.live - 1 };
    }
}

/// The most keys, and operations, that are followed: half a GiB of bits, and a minute or two.
const MAX_TRACKED_KEYS: u64 = 1 << 32;

/// What each of `phases` must come to. None for those since a limit of time, as nobody knows where it cut, for those
/// since writers beside the threads may have put new keys, and for those since one of more than four billion keys.
pub fn expected_results<'a>(phases: impl Iterator<Item = &'a PhaseSpec>) -> Vec<Option<ExpectedResult>> {
    let mut keys = KeySet::default();
    let mut known = true;
    phases
        .map(|phase| {
            if phase.fresh {
                keys = KeySet::default();
                known = true;
            }
            known &= phase.duration_limit_s == 0 && !is_racy(&keys, phase);
            known &= phase.num.max(phase.keyspace) <= MAX_TRACKED_KEYS;
            known.then(|| apply(&mut keys, phase))
        })
        .collect()
}

fn apply(keys: &mut KeySet, phase: &PhaseSpec) -> ExpectedResult {
    let racy = phase.kind == Kind::Mixed && phase.threads > 1 && keys.live < phase.keyspace;
    let before = keys.live;
    let mut found = 0;
    for thread in 0..phase.threads {
        found += match phase.kind {
            Kind::Scan => before.min(Ops::new(phase, thread).count() as u64),
            Kind::Open | Kind::Compact => 0,
            _ => Ops::new(phase, thread).map(|op| u64::from(apply_and_check_found(keys, op))).sum(),
        };
    }
    ExpectedResult { found: (!racy).then_some(found), live: keys.live }
}

/// Whether writers put keys that may not be there, or put again what is deleted.
fn is_racy(keys: &KeySet, phase: &PhaseSpec) -> bool {
    phase.writers > 0 && (keys.live < phase.keyspace || phase.kind == Kind::Delete)
}

/// Does `op`, and says whether it finds its key.
fn apply_and_check_found(keys: &mut KeySet, op: Op) -> bool {
    match op {
        Op::Get(n) | Op::Seek(n, _) => keys.contains(n),
        Op::ReadModifyWrite(n) => {
            let found = keys.contains(n);
            keys.set(n, true);
            found
        }
        Op::Put(n) | Op::Delete(n) => {
            keys.set(n, matches!(op, Op::Put(_)));
            false
        }
        Op::GetMissing(_) | Op::NextEntry | Op::Open | Op::Compact => false,
    }
}

#[cfg(test)]
mod tests {
    use super::super::phase_spec::Order;
    use super::*;

    fn phase(kind: Kind, order: Order, num: u64) -> PhaseSpec {
        PhaseSpec { kind, order, num, keyspace: 100, ..PhaseSpec::default() }
    }

    /// A typing error took all memory before anything was measured.
    #[test]
    fn more_than_can_be_followed() {
        let huge = phase(Kind::Put, Order::Random, 1 << 40);
        let many = PhaseSpec { keyspace: 1 << 40, ..huge.clone() };
        let after = phase(Kind::Get, Order::Random, 5);
        let anew = PhaseSpec { fresh: true, ..phase(Kind::Put, Order::Seq, 3) };
        check(&[many, after.clone(), huge, after, anew], &[None, None, None, None, Some((0, 3))]);
    }

    #[track_caller]
    fn check(phases: &[PhaseSpec], expect_all: &[Option<(u64, u64)>]) {
        let all = expected_results(phases.iter()).into_iter();
        let all: Vec<_> = all.map(|e| e.map(|e| (e.found.unwrap_or(u64::MAX), e.live))).collect();
        assert_eq!(all, expect_all);
    }

    #[test]
    fn puts_reads_deletes() {
        let phases = [
            phase(Kind::Put, Order::Seq, 50),
            phase(Kind::Get, Order::Seq, 100),
            phase(Kind::Get, Order::Missing, 100),
            phase(Kind::Scan, Order::Seq, 20),
            phase(Kind::Scan, Order::Reverse, 90),
            phase(Kind::Delete, Order::Seq, 30),
            phase(Kind::Seek, Order::Seq, 60),
            PhaseSpec { fresh: true, ..phase(Kind::Get, Order::Random, 9) },
        ];
        let found = [(0, 50), (50, 50), (0, 50), (20, 50), (50, 50), (0, 20), (20, 20), (0, 0)];
        check(&phases, &found.map(Some));
    }

    #[test]
    fn after_a_limit_of_time() {
        let limited = PhaseSpec { duration_limit_s: 1, ..phase(Kind::Put, Order::Seq, 50) };
        let fresh = PhaseSpec { fresh: true, ..phase(Kind::Put, Order::Seq, 5) };
        check(&[limited, phase(Kind::Get, Order::Seq, 5), fresh], &[None, None, Some((0, 5))]);
    }

    #[test]
    fn writers_beside_gets() {
        let gets = PhaseSpec { writers: 1, ..phase(Kind::Get, Order::Random, 9) };
        let some = [phase(Kind::Put, Order::Seq, 50), gets.clone(), phase(Kind::Get, Order::Seq, 5)];
        check(&some, &[Some((0, 50)), None, None]);
        let all = [phase(Kind::Put, Order::Seq, 100), gets, phase(Kind::Get, Order::Seq, 5)];
        check(&all, &[Some((0, 100)), Some((9, 100)), Some((5, 100))]);
    }

    #[test]
    fn racy_phase_has_no_expectation() {
        let mut mixed = PhaseSpec { threads: 2, ..phase(Kind::Mixed, Order::Random, 50) };
        mixed.mix = [("get".to_owned(), 0.5), ("put".to_owned(), 0.5)].into();
        assert_eq!(expected_results([mixed.clone()].iter())[0].map(|e| e.found), Some(None));
        let loaded = expected_results([phase(Kind::Put, Order::Seq, 100), mixed].iter());
        assert!(loaded[1].is_some_and(|e| e.found.is_some()));
    }
}
