//! The contents that a database may have, given the results of its operations.
//!
//! A failed write may be present or absent. So there are several sets of states: those that a
//! reader may see now, those that a new process may find, and those that a power cut may leave.

use terrace::Error;

use crate::crash_workload::contents::{State, ValueId, describe_difference};
use crate::crash_workload::script::apply_changes;

/// States that the results so far allow.
pub(super) struct AllowedStates {
    /// States that readers may see.
    visible: Vec<State>,
    /// States that a new process may find.
    after_restart: Vec<State>,
    /// States that a power cut may leave: all since the last durable one.
    durable: Vec<State>,
    /// True if the page cache dropped unsynced pages, so that a new process finds one of `durable`.
    pub(super) restart_loses_unsynced: bool,
    /// True after an error that blocks writes, until the next open.
    writes_refused: bool,
    /// True after an open, until the next write.
    unmodified_since_open: bool,
    /// True after a repair of logs with a gap. It may keep later writes without earlier ones.
    partially_salvaged: bool,
    /// Contents of the readable files, for each repair that could not read some others. The next
    /// read clears the list, because it tells which data is left.
    salvaged: Vec<State>,
    /// Results in words, for messages.
    outcomes: Vec<String>,
}

impl AllowedStates {
    pub(super) fn new() -> AllowedStates {
        let empty = || vec![State::new()];
        AllowedStates {
            visible: empty(),
            after_restart: empty(),
            durable: empty(),
            restart_loses_unsynced: false,
            writes_refused: false,
            unmodified_since_open: false,
            partially_salvaged: false,
            salvaged: Vec::new(),
            outcomes: Vec::new(),
        }
    }

    /// Records an acknowledged or failed write.
    pub(super) fn record_write(
        &mut self,
        changes: &[(Vec<u8>, Option<ValueId>)],
        sync: bool,
        error: Option<&Error>,
    ) {
        self.record_outcome("write", error);
        self.unmodified_since_open = false;
        match error {
            None => {
                for state in self.visible.iter_mut().chain(&mut self.after_restart) {
                    apply_changes(state, changes);
                }
                self.update_durable(sync);
            }
            // A retryable error means that nothing was written.
            Some(error) if error.is_retryable() => {}
            Some(Error::BackgroundError(_)) if self.writes_refused => {}
            Some(_) => {
                self.writes_refused = true;
                with_and_without(&mut self.visible, changes);
                with_and_without(&mut self.after_restart, changes);
                self.update_durable(false);
            }
        }
    }

    /// Records the result of an operation that makes all writes durable.
    pub(super) fn record_durable(&mut self, operation: &str, error: Option<&Error>) {
        self.record_outcome(operation, error);
        self.update_durable(error.is_none());
    }

    /// Records the result of an operation that changes no state.
    pub(super) fn record_outcome(&mut self, operation: &str, error: Option<&Error>) {
        match error {
            None => self.outcomes.push(operation.to_owned()),
            Some(error) => self.outcomes.push(format!("{operation}: {error}")),
        }
    }

    fn update_durable(&mut self, durable: bool) {
        if durable {
            self.durable.clear();
        }
        for state in &self.after_restart {
            if !self.durable.contains(state) {
                self.durable.push(state.clone());
            }
        }
    }

    /// Returns true if the failures so far allow too many states to check each of them.
    pub(super) fn has_too_many_states(&self) -> bool {
        const LIMIT: usize = 32;
        self.after_restart.len() > LIMIT || self.visible.len() > LIMIT
    }

    /// Records that a process opened the stored files.
    pub(super) fn record_reopen(&mut self) {
        self.visible.clone_from(if self.restart_loses_unsynced {
            &self.durable
        } else {
            &self.after_restart
        });
        self.after_restart.clone_from(&self.visible);
        self.unmodified_since_open = true;
        self.writes_refused = false;
    }

    /// Records that a repair changed the database.
    pub(super) fn record_repair(&mut self) {
        self.partially_salvaged = self.restart_loses_unsynced;
    }

    /// Records a repair that could not read some files. `salvaged` is the contents of all others.
    pub(super) fn record_unreadable_files(&mut self, salvaged: State) {
        self.salvaged.push(salvaged);
    }

    /// Returns true after a repair that may have lost unreadable data, until the next read.
    pub(super) fn may_lack_unreadable_data(&self) -> bool {
        !self.salvaged.is_empty()
    }

    /// Checks that each key has its value before the repairs, or its value in the files that they
    /// could read.
    fn check_salvaged(&self, found: &State) -> Result<(), String> {
        let expected: Vec<&State> = self.visible.iter().chain(&self.salvaged).collect();
        for key in expected.iter().flat_map(|state| state.keys()).chain(found.keys()) {
            if !expected.iter().any(|state| state.get(key) == found.get(key)) {
                let difference = describe_difference(&self.salvaged[self.salvaged.len() - 1], found);
                let key = key.escape_ascii();
                return Err(format!("a repair lost readable data: {key}; compared with it: {difference}"));
            }
        }
        Ok(())
    }

    /// Checks the state that a reader found, and excludes all others.
    pub(super) fn check_read(&mut self, found: &State) -> Result<(), String> {
        if self.may_lack_unreadable_data() {
            self.check_salvaged(found)?;
            self.salvaged.clear();
            self.visible = vec![found.clone()];
            self.after_restart.clone_from(&self.visible);
            self.durable.clone_from(&self.visible);
        }
        if std::mem::take(&mut self.partially_salvaged) && self.is_mix_of_states(found) {
            self.visible = vec![found.clone()];
            // A repair makes its output durable.
            self.durable.clone_from(&self.visible);
        }
        if !self.visible.contains(found) {
            let difference = describe_difference(&self.visible[self.visible.len() - 1], found);
            return Err(format!(
                "a reader found none of the {} allowed states: {difference}",
                self.visible.len()
            ));
        }
        self.visible = vec![found.clone()];
        if self.unmodified_since_open {
            // Each open without a later write finds the same state.
            self.after_restart.clone_from(&self.visible);
        }
        Ok(())
    }

    /// Returns true if each key has its value of some state that a reader may see.
    fn is_mix_of_states(&self, found: &State) -> bool {
        let mut keys = self.visible.iter().chain([found]).flat_map(State::keys);
        keys.all(|key| self.visible.iter().any(|state| state.get(key) == found.get(key)))
    }

    pub(super) fn allowed_after_kill(&self) -> &[State] {
        if self.restart_loses_unsynced { &self.durable } else { &self.after_restart }
    }

    pub(super) fn allowed_after_power_cut(&self) -> &[State] {
        &self.durable
    }

    /// Returns the most recent results.
    pub(super) fn recent_outcomes(&self) -> String {
        let start = self.outcomes.len().saturating_sub(12);
        format!("results: {}", self.outcomes[start..].join(" | "))
    }
}

fn with_and_without(states: &mut Vec<State>, changes: &[(Vec<u8>, Option<ValueId>)]) {
    for without in states.clone() {
        let mut with = without.clone();
        apply_changes(&mut with, changes);
        if !states.contains(&with) {
            states.push(with);
        }
    }
}
