//! Bulk loads and checkpoints of a thread.

use std::fs;
use std::thread;
use std::time::Duration;

use super::worker::Worker;
use crate::engine::{EntrySource, Result};
use crate::workload::keys;
use crate::workload::ops::{Op, Ops};

/// Time between two checkpoints, in which the writers change the database.
const CHECKPOINT_PAUSE: Duration = Duration::from_millis(500);

impl Worker<'_> {
    /// Loads the keys of all `ops` by one call. Returns true if the phase ends.
    pub(super) fn bulk_load(&mut self, ops: &mut Ops<'_>) -> Result<bool> {
        let values = self.checker.values;
        let key_size = self.shared.phase.key_size;
        let mut loaded = 0;
        let mut next = |key: &mut Vec<u8>, value: &mut Vec<u8>| {
            let Some(Op::Put(n)) = ops.next() else { return false };
            key.resize(key_size, 0);
            keys::write_key(n, key);
            values.write(n, value);
            loaded += 1;
            true
        };
        self.store.bulk_load(EntrySource::new(&mut next))?;
        self.count_put(loaded as usize * (key_size + self.shared.phase.value_size));
        if loaded > 0 {
            self.checker.stats.record_mean(self.shared, loaded);
        }
        Ok(self.is_over())
    }

    /// Copies the database once for each of `ops`. Returns true if the phase ends.
    pub(super) fn make_checkpoints(&mut self, ops: &mut Ops<'_>) -> Result<bool> {
        let copy = self.shared.dir.with_extension("checkpoint");
        for _ in ops {
            thread::sleep(CHECKPOINT_PAUSE);
            self.checker.stats.resume_clock(self.shared);
            self.store.checkpoint(&copy)?;
            let is_over = self.finish_ops(1);
            fs::remove_dir_all(&copy).map_err(|e| format!("{}: {e}", copy.display()))?;
            self.checker.stats.resume_clock(self.shared);
            if is_over {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

    use crate::engine::faulty::FaultyEngine;
    use crate::report::model::Settings;
    use crate::run::phase::PhaseRunner;
    use crate::workload::suites;

    const NUM: u64 = 5000;

    /// Runs the workloads of `names`. Returns operations and found keys of each.
    fn run(engine: &FaultyEngine, names: &[&str]) -> Vec<(u64, u64)> {
        let dir = tempfile::tempdir().expect("a directory for the test");
        let mut runner = PhaseRunner::new(engine, dir.path().join("db"), Settings::default());
        let results = names.iter().map(|name| {
            let mut phase = suites::by_name(name).expect("a workload of the table").to_phase(NUM);
            phase.settle = false;
            let result = runner.run(&phase, &AtomicU64::new(0)).expect("no fault is injected");
            assert_eq!(result.writers_latency_ns.is_some(), phase.writers > 0, "{name}");
            (result.ops, result.found)
        });
        let results = results.collect();
        let names: Vec<_> = std::fs::read_dir(dir.path()).expect("the directory exists").collect();
        assert_eq!(names.len(), 1, "a copy is left: {names:?}");
        results
    }

    #[test]
    fn workloads_execute_all_operations() {
        let workloads = ["fillseq", "checkpoint", "follow", "follow-replay", "follow-age", "readseq"];
        let all = (NUM, NUM);
        assert_eq!(
            run(&FaultyEngine::default(), &workloads),
            [(NUM, 0), (1, 0), all, (NUM, 0), (NUM / 100, 0), all]
        );
    }

    #[test]
    fn load_puts_the_keys_of_a_fill() {
        let found = |fill| run(&FaultyEngine::default(), &[fill, "readseq"])[1].1;
        assert_eq!(found("bulkload"), found("fillrandom"));
    }
}
