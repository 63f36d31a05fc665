//! What is done to a store: steps drawn from a seed, and the state after each write.

use std::collections::BTreeMap;
use std::fmt;

use terrace_testkit::rng::Rng;

use super::contents::{State, ValueId, ValuePool, fingerprint};

/// One thing to do.
#[derive(Debug, Clone)]
pub enum ScriptStep {
    /// One write, all of it or nothing.
    Write {
        /// Values, or None for a delete.
        changes: Vec<(Vec<u8>, Option<ValueId>)>,
        /// Whether it is durable when it returns.
        sync: bool,
    },
    /// Memory becomes a table.
    Flush,
    /// Everything is merged.
    Compact,
    /// Close and open again.
    Reopen,
    /// Close, repair what is not broken, open again.
    Repair,
    /// Take a snapshot, which is held until the next.
    TakeSnapshot,
}

/// How a script is drawn.
#[derive(Debug, Clone, Copy)]
pub struct ScriptParams {
    /// Writes.
    pub writes: usize,
    /// Different keys.
    pub keys: u64,
    /// The shortest value.
    pub min_value_len: u64,
    /// The longest; most are near the shortest.
    pub max_value_len: u64,
    /// One write in so many is synced.
    pub sync_one_in: u64,
    /// One step in so many is no write.
    pub non_write_one_in: u64,
}

impl ScriptParams {
    /// Short lives of every kind: tiny values, and such that fill memory tables in a few writes, so that several logs
    /// are needed at once.
    pub fn draw(rng: &mut Rng) -> ScriptParams {
        if rng.one_in(3) {
            return ScriptParams {
                writes: 24,
                keys: rng.pick(&[3, 24]),
                min_value_len: 9_000,
                max_value_len: 40_000,
                sync_one_in: rng.pick(&[3, 6, 12, 40]),
                non_write_one_in: 12,
            };
        }
        ScriptParams {
            min_value_len: 0,
            writes: rng.pick(&[8, 16, 30, 50]),
            keys: rng.pick(&[3, 8, 24]),
            max_value_len: rng.pick(&[40, 400, 4_000, 12_000, 40_000]),
            sync_one_in: rng.pick(&[1, 3, 9, 40]),
            non_write_one_in: rng.pick(&[4, 10, 30]),
        }
    }
}

/// Steps, and the states that they lead through.
#[derive(Debug)]
pub struct Script {
    /// What is done.
    pub steps: Vec<ScriptStep>,
    /// The values that it writes, and one more.
    pub values: ValuePool,
    /// Each state, after so many writes.
    pub states: Vec<State>,
    /// The same as fingerprints.
    pub fingerprints: Vec<u64>,
    /// The value that is written once more after a crash.
    pub post_crash_value: ValueId,
}

/// The key that is written once more after a crash.
pub const POST_CRASH_KEY: &[u8] = b"~after the crash";

impl Script {
    /// The script of a seed.
    pub fn draw(seed: u64, shape: ScriptParams) -> Script {
        let mut rng = Rng::new(seed);
        let (mut steps, mut values) = (Vec::new(), ValuePool::default());
        let mut writes = 0;
        while writes < shape.writes {
            if rng.one_in(shape.non_write_one_in) {
                let others = [
                    ScriptStep::Flush,
                    ScriptStep::Compact,
                    ScriptStep::Reopen,
                    ScriptStep::Repair,
                    ScriptStep::TakeSnapshot,
                ];
                steps.extend(others.into_iter().nth(rng.pick(&[0, 0, 0, 1, 1, 2, 2, 3, 4, 4])));
                continue;
            }
            let changes = (0..1 + rng.skewed(4)).map(|_| {
                let key = format!("key{:02}", rng.below(shape.keys)).into_bytes();
                let delete = rng.one_in(5);
                let len = shape.min_value_len + rng.skewed(shape.max_value_len - shape.min_value_len);
                (key, (!delete).then(|| values.generate(len as usize, &mut rng)))
            });
            steps.push(ScriptStep::Write { changes: changes.collect(), sync: rng.one_in(shape.sync_one_in) });
            writes += 1;
        }
        Script::from_steps(steps, values)
    }

    /// A script of these steps.
    pub fn from_steps(steps: Vec<ScriptStep>, mut values: ValuePool) -> Script {
        let after = values.generate(20, &mut Rng::new(0));
        let mut states = vec![State::new()];
        for step in &steps {
            if let ScriptStep::Write { changes, .. } = step {
                let mut next = states[states.len() - 1].clone();
                apply_changes(&mut next, changes);
                states.push(next);
            }
        }
        let prints = states.iter().map(fingerprint).collect();
        Script { steps, values, states, fingerprints: prints, post_crash_value: after }
    }

    /// The state after `count` writes and the one after a crash.
    pub fn state_with_post_crash_write(&self, count: usize) -> State {
        let mut state = self.states[count].clone();
        state.insert(POST_CRASH_KEY.to_vec(), self.post_crash_value);
        state
    }

    /// The writes that lead to `state`, the last number if there are several; for messages.
    pub fn write_count_of(&self, state: &State) -> Option<usize> {
        self.states.iter().rposition(|other| other == state)
    }

    /// How many steps of each kind there are, for messages.
    pub fn summary(&self) -> String {
        let mut kinds = BTreeMap::<String, usize>::new();
        self.steps.iter().for_each(|step| *kinds.entry(step.to_string()).or_default() += 1);
        kinds.iter().map(|(kind, count)| format!("{count} {kind}")).collect::<Vec<_>>().join(", ")
    }
}

/// Does to a state what a write does.
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
            ScriptStep::Reopen => "reopening",
            ScriptStep::Repair => "repair",
            ScriptStep::TakeSnapshot => "snapshot",
        })
    }
}
