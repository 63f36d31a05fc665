//! A workload in turns: each engine first finds exactly what the other wrote.

use terrace_testkit::differential::{Workload, compare_contents};
use terrace_testkit::model::Model;
use terrace_testkit::rng::Rng;
use terrace_testkit::settings::Settings;
use terrace_testkit::stock_leveldb::stock_leveldb_or_skip;

use super::{EngineKind, Harness, error_text};
use crate::counters::{Counter, Counters};

/// Number of operations of a turn.
const OPERATIONS_PER_TURN: usize = 600;

pub(in super::super) const ALTERNATE_WITH_LEVELDB: Harness = Harness {
    id: 40,
    name: "alternate-with-leveldb",
    property: "each engine reads what the other wrote, in turns",
    check_cases: 150,
    time_share: 1,
    run,
};

fn run(seed: u64, counters: &Counters) -> Result<(), String> {
    let Some(stock) = stock_leveldb_or_skip() else { return Ok(()) };
    let mut rng = Rng::new(!seed);
    let turns = 2 + rng.below(4) as usize;
    let workload = Workload::draw(seed, turns * OPERATIONS_PER_TURN, |params, _| {
        params.terrace_only_features = false;
        params.sync_one_in = 0;
    });
    let dir = tempfile::tempdir().map_err(error_text)?;
    let mut model = Model::new(workload.params.comparator);
    let mut engine = rng.pick(&[EngineKind::LevelDb, EngineKind::Terrace]);
    for turn in 0..turns {
        let settings = Settings::draw(&mut rng, workload.params.comparator);
        let context =
            |message: String| format!("turn {turn} of {turns}, {engine:?}, [{settings}]: {message}");
        let mut database = engine.open(stock, dir.path(), &settings).map_err(context)?;
        compare_contents(&mut *database, &mut model).map_err(context)?;
        let part = turn * OPERATIONS_PER_TURN..(turn + 1) * OPERATIONS_PER_TURN;
        workload.run_part(part, &mut *database, &mut model).map_err(|report| context(report.to_string()))?;
        model.drop_readers();
        engine = engine.other();
    }
    counters.add(Counter::LevelDbHandovers, turns as u64 - 1);
    Ok(())
}
