//! Transactions of real threads, beside plain writers. A replay in the order of the commits judges
//! every read.

use terrace_linearizability::transactions::run_transactions;

use super::Harness;
use crate::counters::{Counter, Counters};

pub(super) const ANOMALIES: Harness = Harness {
    id: 47,
    name: "anomalies",
    property: "transactions are serializable, or allow only write skew under snapshot isolation",
    check_cases: 400,
    time_share: 10,
    run,
};

fn run(seed: u64, counters: &Counters) -> Result<(), String> {
    let outcome = run_transactions(seed)?;
    counters.add(Counter::Transactions, outcome.committed);
    counters.add(Counter::TransactionConflicts, outcome.conflicts);
    counters.add(Counter::WriteSkews, outcome.write_skews);
    Ok(())
}
