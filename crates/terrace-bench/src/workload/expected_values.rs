//! Expected results, computed before anything runs: the operations determine which keys exist.
//!
//! The key determines its value, so values need no expected results. These results check that a key
//! exists at all.

use super::ops::{Op, Ops};
use super::phase_spec::{Kind, PhaseSpec};

/// Result that every engine must return for a phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExpectedResult {
    /// Number of keys that gets find, entries that scans visit, and seeks that find their key, if
    /// each operation is executed once. `None` if a race decides it.
    pub found: Option<u64>,
    /// Number of keys after the phase.
    pub live: u64,
}

/// Set of existing keys.
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

/// Maximum number of keys, and of operations, that are tracked: 512 MiB of bits, and one or two
/// minutes.
const MAX_TRACKED_KEYS: u64 = 1 << 32;

/// Computes the expected result of each of `phases`. There is none from a phase on whose writes a
/// time limit cuts off, that has more than 2^32 keys, or has writers that may put new keys, until a
/// phase begins with an empty database.
pub fn expected_results<'a>(phases: impl Iterator<Item = &'a PhaseSpec>) -> Vec<Option<ExpectedResult>> {
    let mut keys = KeySet::default();
    let mut known = true;
    phases
        .map(|phase| {
            if phase.fresh {
                keys = KeySet::default();
                known = true;
            }
            known &= !is_cut_off(phase) && !is_racy(&keys, phase);
            known &= phase.num.max(phase.keyspace) <= MAX_TRACKED_KEYS;
            known.then(|| apply(&mut keys, phase))
        })
        .collect()
}

fn apply(keys: &mut KeySet, phase: &PhaseSpec) -> ExpectedResult {
    let reads_and_puts = phase.kind == Kind::Mixed || phase.kind.counts();
    let racy = reads_and_puts && phase.threads > 1 && keys.live < phase.keyspace;
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

/// Returns whether the time limit decides which keys exist after the phase.
fn is_cut_off(phase: &PhaseSpec) -> bool {
    phase.duration_limit_s > 0 && phase.writes() && !phase.completes
}

/// Returns whether concurrent writers may put keys that do not exist, or put deleted keys again.
fn is_racy(keys: &KeySet, phase: &PhaseSpec) -> bool {
    phase.writers > 0 && (keys.live < phase.keyspace || phase.kind == Kind::Delete)
}

/// Applies `op`, and returns whether it finds its key.
fn apply_and_check_found(keys: &mut KeySet, op: Op) -> bool {
    match op {
        Op::Get(n) | Op::Seek(n, _) => keys.contains(n),
        Op::ReadModifyWrite(n) | Op::TxnReadModifyWrite(n) | Op::TxnScan(n, _) => {
            let found = keys.contains(n);
            keys.set(n, true);
            found
        }
        Op::Put(n) | Op::TxnPut(n) | Op::Delete(n) => {
            keys.set(n, !matches!(op, Op::Delete(_)));
            false
        }
        Op::GetMissing(_) | Op::NextEntry | Op::Open | Op::Compact | Op::Checkpoint | Op::Age => false,
    }
}

#[cfg(test)]
mod tests {
    use super::super::phase_spec::Order;
    use super::*;

    fn phase(kind: Kind, order: Order, num: u64) -> PhaseSpec {
        PhaseSpec { kind, order, num, keyspace: 100, ..PhaseSpec::default() }
    }

    /// Regression: a typing error exhausted the memory before anything was measured.
    #[test]
    fn more_keys_than_the_limit() {
        let huge = phase(Kind::Put, Order::Random, 1 << 40);
        let many = PhaseSpec { keyspace: 1 << 40, ..huge.clone() };
        let after = phase(Kind::Get, Order::Random, 5);
        let fresh = PhaseSpec { fresh: true, ..phase(Kind::Put, Order::Seq, 3) };
        check(&[many, after.clone(), huge, after, fresh], &[None, None, None, None, Some((0, 3))]);
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
    fn phases_after_a_time_limit() {
        let limited = PhaseSpec { duration_limit_s: 1, ..phase(Kind::Put, Order::Seq, 50) };
        let fresh = PhaseSpec { fresh: true, ..phase(Kind::Put, Order::Seq, 5) };
        check(&[limited, phase(Kind::Get, Order::Seq, 5), fresh], &[None, None, Some((0, 5))]);
    }

    #[test]
    fn phases_after_a_completed_phase() {
        let put = PhaseSpec { duration_limit_s: 1, completes: true, ..phase(Kind::Put, Order::Seq, 50) };
        let get = PhaseSpec { duration_limit_s: 1, ..phase(Kind::Get, Order::Seq, 60) };
        check(&[put, get.clone(), get], &[Some((0, 50)), Some((50, 50)), Some((50, 50))]);
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
