//! What a database may hold, given the answers it gave.
//!
//! Of a failed write it is not known whether it counts, so there are several states: those that a reader may see now,
//! those that a new process may find, and those that a power cut may leave.

use terrace::Error;

use crate::crash_workload::contents::{State, ValueId, describe_difference};
use crate::crash_workload::script::apply_changes;

/// The answers so far.
pub(super) struct AllowedStates {
    /// What readers may see.
    visible: Vec<State>,
    /// What a new process may find.
    after_restart: Vec<State>,
    /// What a power cut may leave: every state since the last that is durable.
    durable: Vec<State>,
    /// What a process finds that is started after the cache dropped pages: as after a power cut.
    pub(super) restart_loses_unsynced: bool,
    /// True from an error after which writes are refused, until it is opened again.
    writes_refused: bool,
    /// True from opening until something is written.
    unmodified_since_open: bool,
    /// True when a repair kept what it could read of logs with a hole: later writes, perhaps, without earlier ones.
    partially_salvaged: bool,
    /// The answers in words, for messages.
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
            outcomes: Vec::new(),
        }
    }

    /// A write was acknowledged, or failed.
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
                self.visible
                    .iter_mut()
                    .chain(&mut self.after_restart)
                    .for_each(|state| apply_changes(state, changes));
                self.update_durable(sync);
            }
            // Nothing is unclear.
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

    /// Something was done that makes everything durable, or failed.
    pub(super) fn record_durable(&mut self, what: &str, error: Option<&Error>) {
        self.record_outcome(what, error);
        self.update_durable(error.is_none());
    }

    /// Notes the outcome of what changes no state.
    pub(super) fn record_outcome(&mut self, what: &str, error: Option<&Error>) {
        match error {
            None => self.outcomes.push(what.to_owned()),
            Some(error) => self.outcomes.push(format!("{what}: {error}")),
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

    /// True when so much failed that there are too many states to tell them apart.
    pub(super) fn has_too_many_states(&self) -> bool {
        const MANY: usize = 32;
        self.after_restart.len() > MANY || self.visible.len() > MANY
    }

    /// A process opened what was stored.
    pub(super) fn record_reopen(&mut self) {
        self.visible.clone_from(if self.restart_loses_unsynced {
            &self.durable
        } else {
            &self.after_restart
        });
        self.after_restart.clone_from(&self.visible);
        (self.unmodified_since_open, self.writes_refused) = (true, false);
    }

    /// A repair changed the database.
    pub(super) fn record_repair(&mut self) {
        self.partially_salvaged = self.restart_loses_unsynced;
    }

    /// A reader saw `found`.
    pub(super) fn check_read(&mut self, found: &State) -> Result<(), String> {
        if std::mem::take(&mut self.partially_salvaged) && self.is_mix_of_states(found) {
            self.visible = vec![found.clone()];
            // A repair is durable.
            self.durable.clone_from(&self.visible);
        }
        if !self.visible.contains(found) {
            let what = describe_difference(&self.visible[self.visible.len() - 1], found);
            return Err(format!(
                "a reader sees none of the {} states that the answers allow: {what}",
                self.visible.len()
            ));
        }
        self.visible = vec![found.clone()];
        if self.unmodified_since_open {
            // What was found once is found again.
            self.after_restart.clone_from(&self.visible);
        }
        Ok(())
    }

    /// True if each key is as it was in some state that a reader may see.
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

    /// The last answers.
    pub(super) fn recent_outcomes(&self) -> String {
        let start = self.outcomes.len().saturating_sub(12);
        format!("answers: {}", self.outcomes[start..].join(" | "))
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
