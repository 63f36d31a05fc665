//! From a list of operations that fails to one that a person can read.
//!
//! ```text
//!   1. leave out whole kinds of operations, then whatever concerns ever smaller sets of keys
//!   2. leave out ever smaller parts; where one is needed for what it writes, try a flush in its place
//!   3. make single operations simpler
//!   4. join writes to batches, if the list is still long
//! ```
//!
//! Any part of a list is a list, so every attempt is just another run: kept if it still fails, whatever the failure.

use std::collections::BTreeSet;

use crate::op::{IteratorBounds, IteratorMove, OP_KINDS, Op, Write};

/// A list of so many operations is short enough.
const SHORT_ENOUGH: usize = 30;

/// Bytes of values that take as long as an operation without any.
const VALUE_BYTES_PER_OP: usize = 2048;

/// Shrinks `ops`, for which `fails` is true, by attempts of at most `budget` operations in all; one with a large value
/// counts as several.
pub fn shrink(ops: Vec<Op>, budget: usize, fails: &mut dyn FnMut(&[Op]) -> bool) -> Vec<Op> {
    let mut shrinker = Shrinker { ops, budget, fails };
    loop {
        let before = shrinker.ops.clone();
        shrinker.remove_kinds();
        shrinker.remove_keys();
        shrinker.remove_chunks();
        shrinker.simplify();
        if shrinker.ops.len() > SHORT_ENOUGH {
            shrinker.batch_adjacent_writes();
        }
        if shrinker.ops == before {
            return before;
        }
    }
}

struct Shrinker<'a> {
    ops: Vec<Op>,
    budget: usize,
    fails: &'a mut dyn FnMut(&[Op]) -> bool,
}

impl Shrinker<'_> {
    /// Goes on with `ops` if they fail.
    fn try_ops(&mut self, ops: Vec<Op>) -> bool {
        let Some(left) = self.budget.checked_sub(cost(&ops)) else { return false };
        self.budget = left;
        let fails = (self.fails)(&ops);
        if fails {
            self.ops = ops;
        }
        fails
    }

    fn replaced(&self, at: usize, len: usize, by: &[Op]) -> Vec<Op> {
        let end = (at + len).min(self.ops.len());
        [&self.ops[..at], by, &self.ops[end..]].concat()
    }

    fn remove_kinds(&mut self) {
        for kind in OP_KINDS {
            let others: Vec<Op> = self.ops.iter().filter(|op| op.kind() != *kind).cloned().collect();
            if others.len() < self.ops.len() {
                self.try_ops(others);
            }
        }
    }

    fn remove_keys(&mut self) {
        let keys: BTreeSet<Vec<u8>> =
            self.ops.iter().flat_map(Op::writes).map(|write| write.key().to_vec()).collect();
        let mut keys: Vec<Vec<u8>> = keys.into_iter().collect();
        let mut part = keys.len().div_ceil(2);
        while part > 0 {
            let mut at = 0;
            while at < keys.len() {
                let some: BTreeSet<&[u8]> = keys[at..].iter().take(part).map(Vec::as_slice).collect();
                let others = self.ops.iter().filter_map(|op| without_keys(op, &some)).collect();
                if self.try_ops(others) {
                    keys.drain(at..(at + part).min(keys.len()));
                } else {
                    at += part;
                }
            }
            part /= 2;
        }
    }

    fn remove_chunks(&mut self) {
        let mut part = self.ops.len().div_ceil(2);
        while part > 0 {
            let mut at = 0;
            while at < self.ops.len() {
                let writes = self.ops[at..].iter().take(part).filter(|op| !op.writes().is_empty()).count();
                if self.try_ops(self.replaced(at, part, &[])) {
                    continue;
                }
                if writes > 1 && self.try_ops(self.replaced(at, part, &[Op::Flush])) {
                    continue;
                }
                at += part;
            }
            part /= 2;
        }
    }

    fn simplify(&mut self) {
        for at in 0..self.ops.len() {
            while simplifications(&self.ops[at])
                .into_iter()
                .any(|op| self.try_ops(self.replaced(at, 1, &[op])))
            {}
        }
    }

    fn batch_adjacent_writes(&mut self) {
        let mut at = 0;
        while at + 1 < self.ops.len() {
            let both: Vec<Write> = self.ops[at..at + 2].iter().flat_map(Op::writes).collect();
            let joins = self.ops[at..at + 2].iter().all(|op| !op.writes().is_empty());
            let batch = Op::Batch { writes: both, sync: false };
            if !joins || !self.try_ops(self.replaced(at, 2, &[batch])) {
                at += 1;
            }
        }
    }
}

fn cost(ops: &[Op]) -> usize {
    let writes = ops.iter().flat_map(Op::writes);
    let bytes: usize = writes.filter_map(|write| write.value()).map(|value| value.len as usize).sum();
    ops.len() + bytes / VALUE_BYTES_PER_OP
}

/// The operation, or what of it does not concern the keys.
fn without_keys(op: &Op, keys: &BTreeSet<&[u8]>) -> Option<Op> {
    match op {
        Op::Put { key, .. } | Op::Delete { key, .. } | Op::Get { key, .. }
            if keys.contains(key.as_slice()) =>
        {
            None
        }
        Op::MoveIterator { movement: IteratorMove::Seek(key), .. } if keys.contains(key.as_slice()) => None,
        Op::Batch { writes, sync } => {
            let writes: Vec<Write> =
                writes.iter().filter(|write| !keys.contains(write.key())).cloned().collect();
            (!writes.is_empty()).then_some(Op::Batch { writes, sync: *sync })
        }
        op => Some(op.clone()),
    }
}

/// Operations that do less.
fn simplifications(op: &Op) -> Vec<Op> {
    match op {
        Op::Put { key, value, sync: true } => vec![Op::Put { key: key.clone(), value: *value, sync: false }],
        Op::Delete { key, sync: true } => vec![Op::Delete { key: key.clone(), sync: false }],
        Op::Batch { writes, sync } => {
            let half = writes.len().div_ceil(2);
            let parts = [&writes[..half], &writes[half..], writes.get(1..).unwrap_or(&[])];
            let parts = parts.iter().filter(|part| part.len() < writes.len());
            parts.map(|part| Op::Batch { writes: part.to_vec(), sync: *sync }).collect()
        }
        Op::Get { key, snapshot: Some(_) } => vec![Op::Get { key: key.clone(), snapshot: None }],
        Op::MultiGet { first, count, snapshot: at } if *count > 1 => {
            let half = count / 2;
            [(*first, half), (first + half, count - half)]
                .map(|(first, count)| Op::MultiGet { first, count, snapshot: *at })
                .to_vec()
        }
        Op::Scan { snapshot: Some(_) } => vec![Op::Scan { snapshot: None }],
        Op::OpenIterator { slot, snapshot: at, range } => {
            let whole = Op::OpenIterator { slot: *slot, snapshot: *at, range: IteratorBounds::default() };
            let now = Op::OpenIterator { slot: *slot, snapshot: None, range: range.clone() };
            [whole, now].into_iter().filter(|simpler| simpler != op).collect()
        }
        Op::CompactRange { begin, end } if begin.is_some() || end.is_some() => {
            vec![Op::CompactRange { begin: None, end: None }]
        }
        Op::ReopenWith { .. } => vec![Op::Reopen],
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::differential::Workload;
    use crate::rng::Rng;

    /// Stands for a database: fails if something was deleted that was there, then flushed, reopened and looked up.
    fn comes_back(ops: &[Op]) -> bool {
        let (mut there, mut doomed, mut flushed, mut back) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for op in ops {
            match op {
                Op::Flush => flushed.append(&mut doomed),
                Op::Reopen => back.append(&mut flushed),
                Op::Get { key, .. } if back.contains(key) => return true,
                _ => {}
            }
            for write in op.writes() {
                match write.value() {
                    Some(_) => there.push(write.key().to_vec()),
                    None if there.iter().any(|key| key == write.key()) => doomed.push(write.key().to_vec()),
                    None => {}
                }
            }
        }
        false
    }

    #[test]
    fn finds_minimal_operations() {
        for seed in 0..5 {
            let plan = Workload::draw(seed, 20_000, |shape, _| shape.keys = 50);
            assert!(comes_back(&plan.ops));
            let short = shrink(plan.ops, 3_000_000, &mut comes_back);
            let kinds: Vec<&str> = short.iter().map(Op::kind).collect();
            assert!(short.len() <= 5 && kinds.ends_with(&["flush", "reopen", "get"]), "{kinds:?}");
        }
    }

    /// Fails after so many writes, however they come.
    #[test]
    fn many_writes_are_batched() {
        let plan = Workload::draw(Rng::new(1).next_u64(), 2_000, |_, _| ());
        let mut many = |ops: &[Op]| ops.iter().map(|op| op.writes().len()).sum::<usize>() >= 200;
        let short = shrink(plan.ops, 3_000_000, &mut many);
        assert!(short.len() <= SHORT_ENOUGH, "{}", short.len());
    }

    #[test]
    fn stops_when_budget_is_exhausted() {
        let plan = Workload::draw(1, 1_000, |_, _| ());
        let mut attempts = 0;
        let mut all = |ops: &[Op]| {
            attempts += ops.len();
            ops.len() == 1_000
        };
        assert_eq!(shrink(plan.ops, 2_500, &mut all).len(), 1_000);
        assert!(attempts <= 2_500);
    }
}
