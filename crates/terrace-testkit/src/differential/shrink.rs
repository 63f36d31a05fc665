//! Shrinks a failing list of operations to a readable one.
//!
//! ```text
//!   1. remove whole kinds of operations, then operations on smaller and smaller sets of keys
//!   2. remove smaller and smaller chunks; if a chunk of writes is needed, try a flush instead
//!   3. simplify single operations
//!   4. join writes to batches, if the list is still long
//! ```
//!
//! Any part of a list is a valid list. So each attempt is another run, which is kept if it fails in
//! any way.

use std::collections::BTreeSet;

use crate::op::{IteratorBounds, IteratorMove, OP_KINDS, Op, Write};

/// Length of a list that needs no batching.
const MAX_UNBATCHED_LEN: usize = 30;

/// Bytes of values that cost as much as one operation.
const VALUE_BYTES_PER_OP: usize = 2048;

/// Shrinks `ops`, for which `fails` returns true. All attempts together run at most `budget`
/// operations; large values count as several.
pub fn shrink(ops: Vec<Op>, budget: usize, fails: &mut dyn FnMut(&[Op]) -> bool) -> Vec<Op> {
    let mut shrinker = Shrinker { ops, budget, fails };
    loop {
        let before = shrinker.ops.clone();
        shrinker.remove_kinds();
        shrinker.remove_keys();
        shrinker.remove_chunks();
        shrinker.simplify();
        if shrinker.ops.len() > MAX_UNBATCHED_LEN {
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
    /// Runs `ops`, and keeps them if they fail.
    fn try_ops(&mut self, ops: Vec<Op>) -> bool {
        let Some(left) = self.budget.checked_sub(cost(&ops)) else { return false };
        self.budget = left;
        let fails = (self.fails)(&ops);
        if fails {
            self.ops = ops;
        }
        fails
    }

    fn replaced(&self, start: usize, len: usize, replacement: &[Op]) -> Vec<Op> {
        let end = (start + len).min(self.ops.len());
        [&self.ops[..start], replacement, &self.ops[end..]].concat()
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
            let mut start = 0;
            while start < keys.len() {
                let removed: BTreeSet<&[u8]> = keys[start..].iter().take(part).map(Vec::as_slice).collect();
                let others = self.ops.iter().filter_map(|op| without_keys(op, &removed)).collect();
                if self.try_ops(others) {
                    keys.drain(start..(start + part).min(keys.len()));
                } else {
                    start += part;
                }
            }
            part /= 2;
        }
    }

    fn remove_chunks(&mut self) {
        let mut part = self.ops.len().div_ceil(2);
        while part > 0 {
            let mut start = 0;
            while start < self.ops.len() {
                let writes = self.ops[start..].iter().take(part).filter(|op| !op.writes().is_empty()).count();
                if self.try_ops(self.replaced(start, part, &[])) {
                    continue;
                }
                if writes > 1 && self.try_ops(self.replaced(start, part, &[Op::Flush])) {
                    continue;
                }
                start += part;
            }
            part /= 2;
        }
    }

    fn simplify(&mut self) {
        for start in 0..self.ops.len() {
            while simplifications(&self.ops[start])
                .into_iter()
                .any(|op| self.try_ops(self.replaced(start, 1, &[op])))
            {}
        }
    }

    fn batch_adjacent_writes(&mut self) {
        let mut start = 0;
        while start + 1 < self.ops.len() {
            let both: Vec<Write> = self.ops[start..start + 2].iter().flat_map(Op::writes).collect();
            let both_write = self.ops[start..start + 2].iter().all(|op| !op.writes().is_empty());
            let batch = Op::Batch { writes: both, sync: false };
            if !both_write || !self.try_ops(self.replaced(start, 2, &[batch])) {
                start += 1;
            }
        }
    }
}

fn cost(ops: &[Op]) -> usize {
    let writes = ops.iter().flat_map(Op::writes);
    let bytes: usize = writes.filter_map(|write| write.value()).map(|value| value.len as usize).sum();
    ops.len() + bytes / VALUE_BYTES_PER_OP
}

/// Returns the operation without the given keys, or None if nothing is left.
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

/// Returns simpler operations.
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
        Op::MultiGet { first, count, snapshot } if *count > 1 => {
            let half = count / 2;
            [(*first, half), (first + half, count - half)]
                .map(|(first, count)| Op::MultiGet { first, count, snapshot: *snapshot })
                .to_vec()
        }
        Op::Scan { snapshot: Some(_) } => vec![Op::Scan { snapshot: None }],
        Op::OpenIterator { slot, snapshot, range } => {
            let unbounded =
                Op::OpenIterator { slot: *slot, snapshot: *snapshot, range: IteratorBounds::default() };
            let without_snapshot = Op::OpenIterator { slot: *slot, snapshot: None, range: range.clone() };
            [unbounded, without_snapshot].into_iter().filter(|simpler| simpler != op).collect()
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

    /// Simulates a bug: fails if a key is deleted, and then a flush, a reopen and a get of the key
    /// follow.
    fn deleted_key_returns(ops: &[Op]) -> bool {
        let mut present = Vec::new();
        let mut deleted = Vec::new();
        let mut flushed = Vec::new();
        let mut reopened = Vec::new();
        for op in ops {
            match op {
                Op::Flush => flushed.append(&mut deleted),
                Op::Reopen => reopened.append(&mut flushed),
                Op::Get { key, .. } if reopened.contains(key) => return true,
                _ => {}
            }
            for write in op.writes() {
                match write.value() {
                    Some(_) => present.push(write.key().to_vec()),
                    None if present.iter().any(|key| key == write.key()) => {
                        deleted.push(write.key().to_vec())
                    }
                    None => {}
                }
            }
        }
        false
    }

    #[test]
    fn failing_list_is_shrunk_to_minimum() {
        for seed in 0..5 {
            let workload = Workload::draw(seed, 20_000, |params, _| params.keys = 50);
            assert!(deleted_key_returns(&workload.ops));
            let short = shrink(workload.ops, 3_000_000, &mut deleted_key_returns);
            let kinds: Vec<&str> = short.iter().map(Op::kind).collect();
            assert!(short.len() <= 5 && kinds.ends_with(&["flush", "reopen", "get"]), "{kinds:?}");
        }
    }

    /// Fails after 200 writes, whether batched or not.
    #[test]
    fn many_writes_are_batched() {
        let workload = Workload::draw(Rng::new(1).next_u64(), 2_000, |_, _| ());
        let mut has_200_writes = |ops: &[Op]| ops.iter().map(|op| op.writes().len()).sum::<usize>() >= 200;
        let short = shrink(workload.ops, 3_000_000, &mut has_200_writes);
        assert!(short.len() <= MAX_UNBATCHED_LEN, "{}", short.len());
    }

    #[test]
    fn shrinking_stops_when_budget_is_exhausted() {
        let workload = Workload::draw(1, 1_000, |_, _| ());
        let mut attempts = 0;
        let mut fails_in_full = |ops: &[Op]| {
            attempts += ops.len();
            ops.len() == 1_000
        };
        assert_eq!(shrink(workload.ops, 2_500, &mut fails_in_full).len(), 1_000);
        assert!(attempts <= 2_500);
    }
}
