//! A script of a workload: steps drawn from a seed, and the state after each write.

use std::collections::BTreeMap;
use std::fmt;

use terrace_testkit::rng::Rng;

use super::contents::{State, ValueId, ValuePool, fingerprint};

/// One step of a script.
#[derive(Debug, Clone)]
pub enum ScriptStep {
    /// An atomic write.
    Write {
        /// Keys with values, or with None for a deletion.
        changes: Vec<(Vec<u8>, Option<ValueId>)>,
        /// True if the write is durable when it returns.
        sync: bool,
    },
    /// Flush of the memtable.
    Flush,
    /// Compaction of all levels.
    Compact,
    /// Close and open.
    Reopen,
    /// Close, repair of the undamaged database, open.
    Repair,
    /// All background work, until the levels have their target sizes.
    Settle,
    /// Snapshot, which is held until the next one.
    TakeSnapshot,
}

/// Parameters of a random script.
#[derive(Debug, Clone, Copy)]
pub struct ScriptParams {
    /// Number of writes.
    pub writes: usize,
    /// Number of different keys.
    pub keys: u64,
    /// Minimum length of a value in bytes.
    pub min_value_len: u64,
    /// Maximum length of a value in bytes. Most values are near the minimum.
    pub max_value_len: u64,
    /// One write of this many is synced.
    pub sync_one_in: u64,
    /// One step of this many is not a write.
    pub non_write_one_in: u64,
    /// True if half of these steps are opens without writes, which compact the tables of the open
    /// before, and repairs after a flush.
    pub reopens_often: bool,
}

impl ScriptParams {
    /// Draws the parameters of a short script. Some have tiny values. Others fill a memtable in a
    /// few writes, so that several logs are live at once.
    pub fn draw(rng: &mut Rng) -> ScriptParams {
        if rng.one_in(3) {
            return ScriptParams {
                writes: 24,
                keys: rng.pick(&[3, 24]),
                min_value_len: 9_000,
                max_value_len: 40_000,
                sync_one_in: rng.pick(&[3, 6, 12, 40]),
                non_write_one_in: 12,
                reopens_often: false,
            };
        }
        ScriptParams {
            min_value_len: 0,
            writes: rng.pick(&[8, 16, 30, 50]),
            keys: rng.pick(&[3, 8, 24]),
            max_value_len: rng.pick(&[40, 400, 4_000, 12_000, 40_000]),
            sync_one_in: rng.pick(&[1, 3, 9, 40]),
            non_write_one_in: rng.pick(&[4, 10, 30]),
            reopens_often: false,
        }
    }
}

/// Steps, and the state after each write.
#[derive(Debug)]
pub struct Script {
    /// Steps in order.
    pub steps: Vec<ScriptStep>,
    /// Values of the writes, and the one of the post-crash write.
    pub values: ValuePool,
    /// State after each number of writes.
    pub states: Vec<State>,
    /// Fingerprints of the states.
    pub fingerprints: Vec<u64>,
    /// Value of the write after a crash.
    pub post_crash_value: ValueId,
}

/// Key of the write after a crash.
pub const POST_CRASH_KEY: &[u8] = b"~after the crash";

impl Script {
    /// Draws the script of a seed.
    pub fn draw(seed: u64, params: ScriptParams) -> Script {
        let mut rng = Rng::new(seed);
        let mut steps = Vec::new();
        let mut values = ValuePool::default();
        let mut writes = 0;
        while writes < params.writes {
            if rng.one_in(params.non_write_one_in) {
                if params.reopens_often && rng.one_in(2) {
                    use ScriptStep::{Compact, Flush, Reopen, Repair};
                    match rng.one_in(4) {
                        true => steps.extend([Flush, Repair]),
                        false => steps.extend([Flush, Reopen, Compact, Reopen]),
                    }
                    continue;
                }
                let non_writes = [
                    ScriptStep::Flush,
                    ScriptStep::Compact,
                    ScriptStep::Reopen,
                    ScriptStep::Repair,
                    ScriptStep::TakeSnapshot,
                ];
                steps.extend(non_writes.into_iter().nth(rng.pick(&[0, 0, 0, 1, 1, 2, 2, 3, 4, 4])));
                continue;
            }
            let changes = (0..1 + rng.skewed(4)).map(|_| {
                let key = format!("key{:02}", rng.below(params.keys)).into_bytes();
                let delete = rng.one_in(5);
                let len = params.min_value_len + rng.skewed(params.max_value_len - params.min_value_len);
                (key, (!delete).then(|| values.generate(len as usize, &mut rng)))
            });
            steps
                .push(ScriptStep::Write { changes: changes.collect(), sync: rng.one_in(params.sync_one_in) });
            writes += 1;
        }
        Script::from_steps(steps, values)
    }

    /// Draws a load of a seed: writes that fill about twenty memtables of 64 KiB, a flush, and the
    /// compactions after the load.
    pub fn draw_load(seed: u64) -> Script {
        let mut rng = Rng::new(seed);
        let params = ScriptParams {
            writes: 60 + rng.below(40) as usize,
            keys: rng.pick(&[24, 60]),
            min_value_len: 9_000,
            max_value_len: 20_000,
            sync_one_in: 20,
            non_write_one_in: u64::MAX,
            reopens_often: false,
        };
        let Script { mut steps, values, .. } = Script::draw(rng.next_u64(), params);
        let snapshot = rng.below(steps.len() as u64) as usize;
        steps.insert(snapshot, ScriptStep::TakeSnapshot);
        steps.extend([ScriptStep::Flush, ScriptStep::Settle]);
        Script::from_steps(steps, values)
    }

    /// Creates a script from steps.
    pub fn from_steps(steps: Vec<ScriptStep>, mut values: ValuePool) -> Script {
        let post_crash_value = values.generate(20, &mut Rng::new(0));
        let mut states = vec![State::new()];
        for step in &steps {
            if let ScriptStep::Write { changes, .. } = step {
                let mut next = states[states.len() - 1].clone();
                apply_changes(&mut next, changes);
                states.push(next);
            }
        }
        let fingerprints = states.iter().map(fingerprint).collect();
        Script { steps, values, states, fingerprints, post_crash_value }
    }

    /// Returns the state after `count` writes and the post-crash write.
    pub fn state_with_post_crash_write(&self, count: usize) -> State {
        let mut state = self.states[count].clone();
        state.insert(POST_CRASH_KEY.to_vec(), self.post_crash_value);
        state
    }

    /// Returns the number of writes that lead to `state`, the largest if there are several; for
    /// messages.
    pub fn write_count_of(&self, state: &State) -> Option<usize> {
        self.states.iter().rposition(|other| other == state)
    }

    /// Returns the number of steps of each kind, for messages.
    pub fn summary(&self) -> String {
        let mut kinds = BTreeMap::<String, usize>::new();
        for step in &self.steps {
            *kinds.entry(step.to_string()).or_default() += 1;
        }
        kinds.iter().map(|(kind, count)| format!("{count} {kind}")).collect::<Vec<_>>().join(", ")
    }
}

/// Applies the changes of a write to a state.
pub fn apply_changes(state: &mut State, changes: &[(Vec<u8>, Option<ValueId>)]) {
    for (key, value) in changes {
        match value {
            Some(id) => drop(state.insert(key.clone(), *id)),
            None => drop(state.remove(key)),
        }
    }
}

impl fmt::Display for ScriptStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ScriptStep::Write { sync: true, .. } => "sync write",
            ScriptStep::Write { sync: false, .. } => "write",
            ScriptStep::Flush => "flush",
            ScriptStep::Compact => "compaction",
            ScriptStep::Reopen => "reopen",
            ScriptStep::Repair => "repair",
            ScriptStep::Settle => "settling",
            ScriptStep::TakeSnapshot => "snapshot",
        })
    }
}
