//! Value that a delayed job uses unless it was cancelled before.

use crate::sync::Mutex;

/// Value that its owner can withdraw. After [`Cancellable::cancel`], no job uses the value.
pub(crate) struct Cancellable<T>(Mutex<Option<T>>);

impl<T> Cancellable<T> {
    pub(crate) fn new(value: T) -> Cancellable<T> {
        Cancellable(Mutex::new(Some(value)))
    }

    /// Calls `job` with the value, unless it was withdrawn.
    pub(crate) fn run(&self, job: impl FnOnce(&T)) {
        if let Some(value) = &*self.0.lock() {
            job(value);
        }
    }

    /// Withdraws the value, and waits for the job that uses it.
    pub(crate) fn cancel(&self) {
        *self.0.lock() = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_job_uses_a_withdrawn_value() {
        let value = Cancellable::new(7);
        let mut seen = Vec::new();
        value.run(|value| seen.push(*value));
        value.cancel();
        value.run(|value| seen.push(*value));
        assert_eq!(seen, [7]);
    }
}
