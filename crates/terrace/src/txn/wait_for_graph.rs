//! Wait-for graph: which transaction waits for which others.
//!
//! A transaction waits for at most one lock at a time. It holds its locks until its end, so an edge
//! to a transaction stays true until that transaction has ended. An edge to an ended transaction is
//! harmless, because that one waits for no lock.
//!
//! The edges of a transaction do not change during its wait. They name all transactions that may
//! get the lock before it, and no other one can: only a holder may pass the queue.

use std::collections::{HashMap, HashSet};

use terrace_sync::mutant;

use crate::sync::Mutex;

/// Number of a transaction, unique in its database handle.
pub(crate) type TransactionId = u64;

/// For each waiting transaction, the transactions for which it waits.
#[derive(Default)]
pub(super) struct WaitForGraph {
    edges: Mutex<HashMap<TransactionId, Vec<TransactionId>>>,
}

impl WaitForGraph {
    /// Adds a transaction that waits for `blockers`. Adds nothing and returns false if one of them
    /// waits for `waiter`, directly or not.
    pub(super) fn add(&self, waiter: TransactionId, blockers: Vec<TransactionId>) -> bool {
        let mut edges = self.edges.lock();
        let mut visited = HashSet::new();
        let mut to_visit = blockers.clone();
        while let Some(transaction) = to_visit.pop() {
            if transaction == waiter && !mutant!(DeadlockUnseen) {
                return false;
            }
            if visited.insert(transaction) {
                to_visit.extend(edges.get(&transaction).into_iter().flatten());
            }
        }
        edges.insert(waiter, blockers);
        true
    }

    /// Removes a transaction that waits no longer.
    pub(super) fn remove(&self, waiter: TransactionId) {
        self.edges.lock().remove(&waiter);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transaction_that_closes_a_cycle_is_refused() {
        let graph = WaitForGraph::default();
        assert!(graph.add(1, vec![2, 3]));
        assert!(graph.add(3, vec![4]));
        assert!(!graph.add(4, vec![5, 1]));
        assert!(graph.add(4, vec![5, 2]));
        graph.remove(1);
        assert!(graph.add(2, vec![1]));
        assert!(!graph.add(1, vec![4]));
    }
}
