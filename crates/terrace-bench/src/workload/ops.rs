//! Operations of one thread in sequence, as [`super::phase_spec`] defines them.

use super::keys::{SplitMix64, Zipf, scramble};
use super::phase_spec::{Kind, Order, PhaseSpec};

/// One operation. The numbers are key numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Puts a key.
    Put(u64),
    /// Deletes a key.
    Delete(u64),
    /// Gets a key.
    Get(u64),
    /// Gets a key next to this one that was never put.
    GetMissing(u64),
    /// Visits the next entry of the thread's scan.
    NextEntry,
    /// Seeks to a key, then moves this many steps forward.
    Seek(u64, u64),
    /// Gets a key, then puts it.
    ReadModifyWrite(u64),
    /// Puts a key in a transaction.
    TxnPut(u64),
    /// Increments the count of a key in a transaction.
    TxnReadModifyWrite(u64),
    /// Visits this many keys from a key on, then increments the count of the key, in a transaction.
    TxnScan(u64, u64),
    /// Closes and reopens the database.
    Open,
    /// Compacts the whole database.
    Compact,
    /// Copies the database.
    Checkpoint,
    /// Gets the age of a value.
    Age,
}

/// Names of the operations in a mix, in the order in which their shares are summed.
pub static MIX_NAMES: [&str; 5] = ["get", "put", "insert", "scan", "rmw"];

/// Iterator over the operations of one thread.
#[derive(Clone, Debug)]
pub struct Ops<'a> {
    phase: &'a PhaseSpec,
    thread: u64,
    random: SplitMix64,
    zipf: Option<Zipf>,
    /// Share of each operation of a mix, plus the shares before it.
    cumulative_shares: [f64; 5],
    /// Number of operations of the threads before this one.
    ops_of_earlier_threads: u64,
    done: u64,
    total: u64,
    inserted: u64,
}

impl<'a> Ops<'a> {
    /// Creates the operations of thread `thread` of `phase`.
    pub fn new(phase: &'a PhaseSpec, thread: u32) -> Ops<'a> {
        let thread = u64::from(thread);
        let threads = u64::from(phase.threads);
        let share = phase.num / threads;
        let remainder = phase.num % threads;
        let zipf = match phase.order {
            Order::Zipf => Some(Zipf::for_scrambling()),
            Order::Latest => Some(Zipf::new(phase.keyspace)),
            _ => None,
        };
        let mut sum = 0.0;
        let cumulative_shares = MIX_NAMES.map(|name| {
            sum += phase.mix.get(name).copied().unwrap_or(0.0);
            sum
        });
        Ops {
            phase,
            thread,
            random: SplitMix64(phase.seed.wrapping_add(thread)),
            zipf,
            cumulative_shares,
            ops_of_earlier_threads: share * thread + remainder.min(thread),
            done: 0,
            total: share + u64::from(thread < remainder),
            inserted: 0,
        }
    }

    #[inline]
    fn next_key(&mut self) -> u64 {
        let keyspace = self.phase.keyspace;
        let sequential = |ops: &Ops<'_>| {
            let n = ops.ops_of_earlier_threads + ops.done;
            // The branch avoids the division, the slowest instruction here.
            if n < keyspace { n } else { n % keyspace }
        };
        match self.phase.order {
            Order::Seq => sequential(self),
            Order::Reverse => keyspace - 1 - sequential(self),
            Order::Random | Order::Missing => self.random.next_u64() % keyspace,
            Order::Hot => self.random.next_u64() % (keyspace / 100).max(1),
            Order::Zipf => scramble(self.next_rank(), keyspace),
            Order::Latest => self.next_latest_key(),
        }
    }

    // Not inlined, so that orders with one random number per key stay fast.
    #[inline(never)]
    fn next_rank(&mut self) -> u64 {
        // `zipf` is present for exactly the orders that call this.
        self.zipf.as_ref().map_or(0, |zipf| zipf.next_rank(&mut self.random))
    }

    #[inline(never)]
    fn next_latest_key(&mut self) -> u64 {
        let rank = self.next_rank();
        match self.inserted.checked_sub(rank + 1) {
            Some(newer) => self.inserted_key(newer),
            None => self.phase.keyspace - 1 - (rank - self.inserted),
        }
    }

    fn inserted_key(&self, j: u64) -> u64 {
        self.phase.keyspace + j * u64::from(self.phase.threads) + self.thread
    }

    #[inline(never)]
    fn next_mixed(&mut self) -> Op {
        let drawn = self.random.next_f64();
        let index = self.cumulative_shares.iter().position(|sum| drawn < *sum).unwrap_or(0);
        match MIX_NAMES[index] {
            "insert" => {
                self.inserted += 1;
                Op::Put(self.inserted_key(self.inserted - 1))
            }
            "put" => Op::Put(self.next_key()),
            "scan" => {
                let from = self.next_key();
                Op::Seek(from, self.random.next_u64() % self.phase.seek_next.max(1) + 1)
            }
            "rmw" => Op::ReadModifyWrite(self.next_key()),
            _ => self.next_get(),
        }
    }

    #[inline]
    fn next_get(&mut self) -> Op {
        let key = self.next_key();
        if self.phase.order == Order::Missing { Op::GetMissing(key) } else { Op::Get(key) }
    }
}

impl Iterator for Ops<'_> {
    type Item = Op;

    #[inline(always)]
    fn next(&mut self) -> Option<Op> {
        if self.done == self.total {
            return None;
        }
        let op = match self.phase.kind {
            Kind::Put | Kind::Load | Kind::FollowReplay => Op::Put(self.next_key()),
            Kind::Delete => Op::Delete(self.next_key()),
            Kind::Get | Kind::Follow => self.next_get(),
            Kind::Scan => Op::NextEntry,
            Kind::Seek => Op::Seek(self.next_key(), self.phase.seek_next),
            Kind::Open => Op::Open,
            Kind::Compact => Op::Compact,
            Kind::Checkpoint => Op::Checkpoint,
            Kind::FollowAge => Op::Age,
            Kind::Mixed => self.next_mixed(),
            Kind::TxnPut => Op::TxnPut(self.next_key()),
            Kind::TxnReadModifyWrite => Op::TxnReadModifyWrite(self.next_key()),
            Kind::TxnScan => Op::TxnScan(self.next_key(), self.phase.seek_next),
        };
        self.done += 1;
        Some(op)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn phase(kind: Kind, order: Order, num: u64, threads: u32) -> PhaseSpec {
        PhaseSpec { kind, order, num, threads, keyspace: 10, ..PhaseSpec::default() }
    }

    #[track_caller]
    fn check(phase: &PhaseSpec, expect: &[&[Op]]) {
        let threads: Vec<Vec<Op>> = (0..phase.threads).map(|t| Ops::new(phase, t).collect()).collect();
        assert_eq!(threads, expect);
    }

    #[test]
    fn shares_of_threads() {
        let puts = |numbers: &[u64]| numbers.iter().map(|n| Op::Put(*n)).collect::<Vec<_>>();
        let phase = phase(Kind::Put, Order::Seq, 11, 3);
        check(&phase, &[&puts(&[0, 1, 2, 3]), &puts(&[4, 5, 6, 7]), &puts(&[8, 9, 0])]);
    }

    #[test]
    fn reverse_order() {
        check(&phase(Kind::Get, Order::Reverse, 2, 1), &[&[Op::Get(9), Op::Get(8)]]);
    }

    #[test]
    fn random_numbers_are_splitmix_from_the_seed() {
        let mut random = SplitMix64(301);
        let expect = [Op::GetMissing(random.next_u64() % 10), Op::GetMissing(random.next_u64() % 10)];
        check(&phase(Kind::Get, Order::Missing, 2, 1), &[&expect]);
    }

    #[test]
    fn latest_follows_the_inserts_of_its_thread() {
        let mut mixed = phase(Kind::Mixed, Order::Latest, 500, 2);
        mixed.mix = [("get".to_owned(), 0.5), ("insert".to_owned(), 0.5)].into();
        let mut inserted = 0;
        let mut latest = 0;
        for op in Ops::new(&mixed, 1) {
            match op {
                Op::Put(n) => {
                    assert_eq!(n, 10 + 2 * inserted + 1);
                    inserted += 1;
                }
                Op::Get(n) if n >= 10 => {
                    assert!(n % 2 == 1 && n < 10 + 2 * inserted);
                    latest += 1;
                }
                Op::Get(_) => {}
                other => panic!("{other:?} is not in the mix"),
            }
        }
        assert!(inserted > 50 && latest > 50, "{inserted} inserts, {latest} reads of them");
    }
}
