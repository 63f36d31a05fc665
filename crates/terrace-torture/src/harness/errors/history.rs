//! What a database may hold, given the answers it gave.
//!
//! Of a failed write it is not known whether it counts, so there are several states: those that a reader may see now,
//! those that a new process may find, and those that a power cut may leave.

use terrace::Error;

use crate::life::contents::{State, ValueId, difference};
use crate::life::script::apply;

/// The answers so far.
pub(super) struct History {
    /// What readers may see.
    live: Vec<State>,
    /// What a new process may find.
    stored: Vec<State>,
    /// What a power cut may leave: every state since the last that is durable.
    safe: Vec<State>,
    /// What a process finds that is started after the cache dropped pages: as after a power cut.
    pub(super) reopening_may_lose: bool,
    /// True from an error after which writes are refused, until it is opened again.
    refused: bool,
    /// True from opening until something is written.
    untouched: bool,
    /// True when a repair kept what it could read of logs with a hole: later writes, perhaps, without earlier ones.
    in_parts: bool,
    /// The answers in words, for messages.
    log: Vec<String>,
}

impl History {
    pub(super) fn new() -> History {
        let empty = || vec![State::new()];
        History {
            live: empty(),
            stored: empty(),
            safe: empty(),
            reopening_may_lose: false,
            refused: false,
            untouched: false,
            in_parts: false,
            log: Vec::new(),
        }
    }

    /// A write was acknowledged, or failed.
    pub(super) fn write(
        &mut self,
        changes: &[(Vec<u8>, Option<ValueId>)],
        sync: bool,
        error: Option<&Error>,
    ) {
        self.note("write", error);
        self.untouched = false;
        match error {
            None => {
                self.live.iter_mut().chain(&mut self.stored).for_each(|state| apply(state, changes));
                self.keep(sync);
            }
            // Nothing is unclear.
            Some(error) if error.is_resumable() => {}
            Some(Error::Refused(_)) if self.refused => {}
            Some(_) => {
                self.refused = true;
                with_and_without(&mut self.live, changes);
                with_and_without(&mut self.stored, changes);
                self.keep(false);
            }
        }
    }

    /// Something was done that makes everything durable, or failed.
    pub(super) fn settle(&mut self, what: &str, error: Option<&Error>) {
        self.note(what, error);
        self.keep(error.is_none());
    }

    /// Notes the outcome of what changes no state.
    pub(super) fn note(&mut self, what: &str, error: Option<&Error>) {
        match error {
            None => self.log.push(what.to_owned()),
            Some(error) => self.log.push(format!("{what}: {error}")),
        }
    }

    fn keep(&mut self, durable: bool) {
        if durable {
            self.safe.clear();
        }
        for state in &self.stored {
            if !self.safe.contains(state) {
                self.safe.push(state.clone());
            }
        }
    }

    /// True when so much failed that there are too many states to tell them apart.
    pub(super) fn is_unclear(&self) -> bool {
        const MANY: usize = 32;
        self.stored.len() > MANY || self.live.len() > MANY
    }

    /// A process opened what was stored.
    pub(super) fn reopened(&mut self) {
        self.live.clone_from(if self.reopening_may_lose { &self.safe } else { &self.stored });
        self.stored.clone_from(&self.live);
        (self.untouched, self.refused) = (true, false);
    }

    /// A repair changed the database.
    pub(super) fn repaired(&mut self) {
        self.in_parts = self.reopening_may_lose;
    }

    /// A reader saw `found`.
    pub(super) fn saw(&mut self, found: &State) -> Result<(), String> {
        if std::mem::take(&mut self.in_parts) && self.is_of_parts(found) {
            self.live = vec![found.clone()];
            // A repair is durable.
            self.safe.clone_from(&self.live);
        }
        if !self.live.contains(found) {
            let what = difference(&self.live[self.live.len() - 1], found);
            return Err(format!(
                "a reader sees none of the {} states that the answers allow: {what}",
                self.live.len()
            ));
        }
        self.live = vec![found.clone()];
        if self.untouched {
            // What was found once is found again.
            self.stored.clone_from(&self.live);
        }
        Ok(())
    }

    /// True if each key is as it was in some state that a reader may see.
    fn is_of_parts(&self, found: &State) -> bool {
        let mut keys = self.live.iter().chain([found]).flat_map(State::keys);
        keys.all(|key| self.live.iter().any(|state| state.get(key) == found.get(key)))
    }

    pub(super) fn after_kill(&self) -> &[State] {
        if self.reopening_may_lose { &self.safe } else { &self.stored }
    }

    pub(super) fn after_power_cut(&self) -> &[State] {
        &self.safe
    }

    /// The last answers.
    pub(super) fn log(&self) -> String {
        let start = self.log.len().saturating_sub(12);
        format!("answers: {}", self.log[start..].join(" | "))
    }
}

fn with_and_without(states: &mut Vec<State>, changes: &[(Vec<u8>, Option<ValueId>)]) {
    for without in states.clone() {
        let mut with = without.clone();
        apply(&mut with, changes);
        if !states.contains(&with) {
            states.push(with);
        }
    }
}
