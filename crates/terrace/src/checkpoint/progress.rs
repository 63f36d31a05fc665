//! Progress of a copy, for the caller that waits for it.

/// Number of bytes done and in total.
pub(super) struct Progress<'a> {
    done: u64,
    total: u64,
    report: &'a mut dyn FnMut(u64, u64),
}

impl Progress<'_> {
    pub(super) fn new(report: &mut dyn FnMut(u64, u64)) -> Progress<'_> {
        Progress { done: 0, total: 0, report }
    }

    /// Adds `bytes` to the total.
    pub(super) fn add_expected(&mut self, bytes: u64) {
        self.total = self.total.saturating_add(bytes);
    }

    /// Counts `bytes` as done and calls the caller. The total is an estimate: it is never below the
    /// bytes done.
    pub(super) fn add(&mut self, bytes: u64) {
        self.done = self.done.saturating_add(bytes);
        self.total = self.total.max(self.done);
        (self.report)(self.done, self.total);
    }
}
