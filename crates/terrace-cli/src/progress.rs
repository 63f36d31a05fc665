//! Bars with a rate and the time left, for what takes longer than a second.
//!
//! Drawn on standard error, and only if that is a terminal. A bar is not drawn in the first second; a spinner is, for
//! nobody comes by to draw it later.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::terminal;

/// What stays quiet for this long gets a bar.
const SHOW_AFTER: Duration = Duration::from_secs(1);

/// The fewest columns in which a bar has room beside all its figures; in fewer it keeps the percentage and the time.
const MIN_COLUMNS_FOR_DETAILS: usize = 76;

/// A bar.
pub(crate) struct Progress {
    bar: ProgressBar,
    hidden: bool,
}

impl Progress {
    /// Of `total` bytes, or of bytes without a known end, which `what` is done to.
    pub(crate) fn bytes(what: &'static str, total: Option<u64>) -> Progress {
        let narrow =
            terminal::columns(std::io::stderr()).is_some_and(|columns| columns < MIN_COLUMNS_FOR_DETAILS);
        let template = match total {
            Some(_) if narrow => "{msg} {wide_bar:.cyan/dim} {percent}%  {eta} left",
            Some(_) => {
                "{msg} {wide_bar:.cyan/dim} {binary_bytes}/{binary_total_bytes}  {binary_bytes_per_sec}  {eta} left"
            }
            None => "{msg} {spinner} {binary_bytes}  {binary_bytes_per_sec}",
        };
        Progress::new(what, total, template)
    }

    /// Of work without a measure.
    pub(crate) fn spinner(what: &'static str) -> Progress {
        let progress = Progress::new(what, None, "{msg} {spinner} {elapsed}");
        progress.bar.enable_steady_tick(Duration::from_millis(200));
        progress.bar.set_draw_target(ProgressDrawTarget::stderr());
        progress
    }

    fn new(what: &'static str, total: Option<u64>, template: &str) -> Progress {
        let bar = ProgressBar::with_draw_target(total, ProgressDrawTarget::hidden()).with_message(what);
        // The templates are the constants above; one that does not parse leaves the default look.
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        Progress { bar, hidden: true }
    }

    /// Work has come to `done`.
    pub(crate) fn set_position(&mut self, done: u64) {
        self.bar.set_position(done);
        if self.hidden && self.bar.elapsed() > SHOW_AFTER {
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
            self.hidden = false;
        }
    }

    /// Work has come to `done` of `total`, which may be news.
    pub(crate) fn set_position_and_total(&mut self, done: u64, total: u64) {
        self.bar.set_length(total);
        self.set_position(done);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
