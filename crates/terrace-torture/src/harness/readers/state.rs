//! The table of states in which an engine leaves a database.

mod closed;
mod killed;
mod power_cut;
mod repaired;

use std::path::Path;

use terrace_testkit::differential::{OpResult, Workload};
use terrace_testkit::model::Model;
use terrace_testkit::rng::Rng;
use terrace_testkit::settings::ComparatorKind;
use terrace_testkit::stock_leveldb::StockLevelDb;

use crate::harness::leveldb_interop::EngineKind;

/// Number of operations of a workload.
const OPERATIONS_PER_CASE: usize = 600;

/// Row of the table of states.
pub(super) struct State {
    /// Name in messages.
    pub(super) name: &'static str,
    /// Lets an engine leave a database in an empty directory and describes its origin. None means
    /// that there is no database to read.
    pub(super) leave: fn(&Writer, &mut Rng, &Path) -> OpResult<Option<String>>,
}

/// Engine that leaves a database, and the seed of its operations.
pub(super) struct Writer {
    pub(super) engine: EngineKind,
    pub(super) stock: &'static StockLevelDb,
    pub(super) seed: u64,
}

/// All states.
pub(super) static STATES: &[State] = &[
    State { name: "closed", leave: closed::leave },
    State { name: "killed", leave: killed::leave },
    State { name: "power cut", leave: power_cut::leave },
    State { name: "repaired", leave: repaired::leave },
];

impl Writer {
    /// Draws operations and options that all readers support: bytewise order, and no zstd.
    fn draw_workload(&self, sync_one_in: u64) -> Workload {
        Workload::draw(self.seed, OPERATIONS_PER_CASE, |params, settings| {
            params.terrace_only_features = false;
            params.comparator = ComparatorKind::Bytewise;
            params.sync_one_in = sync_one_in;
            settings.comparator = ComparatorKind::Bytewise;
        })
    }

    /// Runs the first operations of a workload on a database, and closes it.
    fn run_and_close(&self, workload: &Workload, operations: usize, dir: &Path) -> OpResult<()> {
        let mut database = self.engine.open(self.stock, dir, &workload.settings)?;
        if operations > 0 {
            let mut model = Model::new(workload.params.comparator);
            let ran = workload.run_part(0..operations, &mut *database, &mut model);
            ran.map_err(|report| report.to_string())?;
        }
        Ok(())
    }
}
