//! What writers wait for, and how long: counted, and told in the info log if it was long.
//!
//! ```text
//!   Waited: for=flush us=48211 frozen=2 level_0=7 merge_level=0 merge_bytes=201326592 merge_us=310422
//! ```

use std::fmt;
use std::time::Duration;

use super::{Engine, State};
use crate::metrics::Span;

/// Waits of this length and above have a line of their own in the info log.
const LONG: Duration = Duration::from_millis(10);

/// What may be the reason of a wait.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scene {
    /// Memtables on their way to a table.
    frozen: usize,
    level_0_files: usize,
    /// The level from which the running merge takes files, what it reads, and for how long it has run.
    merge: Option<(usize, u64, Duration)>,
}

/// For the info log.
impl fmt::Display for Scene {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "frozen={} level_0={}", self.frozen, self.level_0_files)?;
        match self.merge {
            Some((level, bytes, time)) => {
                write!(f, " merge_level={level} merge_bytes={bytes} merge_us={}", time.as_micros())
            }
            None => f.write_str(" merge=none"),
        }
    }
}

impl Engine {
    pub(super) fn scene(&self, state: &State) -> Scene {
        let since = |began| self.options.env.clock.monotonic().saturating_sub(began);
        Scene {
            frozen: state.frozen.len(),
            level_0_files: state.set.version.levels[0].len(),
            merge: state.running.map(|running| (running.level, running.bytes, since(running.began))),
        }
    }

    /// Does what a writer has to wait for. `scene` is that at the beginning; None where the one at the end says as much.
    #[cold]
    pub(super) fn wait_timed<T>(&self, span: Span, scene: Option<Scene>, wait: impl FnOnce() -> T) -> T {
        let clock = &self.options.env.clock;
        let began = clock.monotonic();
        let outcome = wait();
        self.note_wait(span, scene, clock.monotonic().saturating_sub(began));
        outcome
    }

    /// Takes note of a wait that is over. Called without `state`.
    #[cold]
    pub(super) fn note_wait(&self, span: Span, scene: Option<Scene>, time: Duration) {
        self.tables.metrics().spans.count(span, time);
        if time >= LONG {
            let scene = scene.unwrap_or_else(|| self.scene(&self.state.lock()));
            let (name, micros) = (span.name(), time.as_micros());
            self.logger.log(format_args!("Waited: for={name} us={micros} {scene}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(merge: Option<(usize, u64, Duration)>, expect: &str) {
        assert_eq!(Scene { frozen: 2, level_0_files: 7, merge }.to_string(), expect);
    }

    #[test]
    fn scenes() {
        check(None, "frozen=2 level_0=7 merge=none");
        let merge = (0, 1 << 20, Duration::from_millis(3));
        check(Some(merge), "frozen=2 level_0=7 merge_level=0 merge_bytes=1048576 merge_us=3000");
    }
}
