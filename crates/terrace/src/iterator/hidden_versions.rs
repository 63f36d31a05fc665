//! Hidden versions of one user key, and the decision to seek beyond them (a reseek).
//!
//! ```text
//!   run 1   a@99 ─> a@98 ─> .. ─> a@87 ═════ reseek ═════> b@3       after 12 steps
//!   run 2   a@60 ════════════════ reseek ═════════════════> c@9      at the first version
//! ```
//!
//! A seek costs about as much as a dozen steps. Therefore a key with few versions takes only steps,
//! and a key with many versions costs at most a seek per run more than twice the cheaper way.

/// Number of hidden versions of a user key that an iterator passes step by step, in all runs
/// together.
const MAX_HIDDEN_STEPS: u32 = 12;

/// Hidden versions of one user key that an iterator has met in one step of its caller.
#[derive(Default)]
pub(super) struct HiddenVersions {
    count: u32,
    /// Bit `i` is set if run `i` has had its reseek.
    reseeked_runs: u64,
}

impl HiddenVersions {
    /// Counts a hidden version. Returns true if `run` should seek beyond the remaining versions.
    ///
    /// That happens once per run at most: in a damaged table, a seek may not leave the key. The
    /// 65th and later runs only step.
    #[inline]
    pub(super) fn should_reseek(&mut self, run: Option<usize>) -> bool {
        self.count += 1;
        self.count > MAX_HIDDEN_STEPS && run.is_some_and(|run| self.reseek_once(run))
    }

    #[cold]
    fn reseek_once(&mut self, run: usize) -> bool {
        let bit = u32::try_from(run).ok().and_then(|run| 1u64.checked_shl(run)).unwrap_or(0);
        let is_first = self.reseeked_runs & bit == 0 && bit != 0;
        self.reseeked_runs |= bit;
        is_first
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_run_reseeks_once_after_the_steps() {
        let mut hidden = HiddenVersions::default();
        assert!((0..MAX_HIDDEN_STEPS).all(|i| !hidden.should_reseek(Some(i as usize % 2))));
        let reseeks = [Some(0), Some(0), Some(1), Some(63), Some(63), Some(64), None];
        assert_eq!(
            reseeks.map(|run| hidden.should_reseek(run)),
            [true, false, true, true, false, false, false]
        );
    }
}
