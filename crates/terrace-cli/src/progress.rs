//! Progress bars with a rate and the remaining time, for commands that take longer than a second.
//!
//! Bars are drawn on standard error if it is a terminal. A bar of bytes appears after one second.
//! Other bars appear at once, because no later update may show them. The calling thread draws all
//! of them: a program that cannot start a thread works the same.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::terminal;

/// Time after which a bar appears.
const SHOW_AFTER: Duration = Duration::from_secs(1);

/// Minimum width in columns for a bar with all details. Below it, only the percentage and the
/// remaining time are shown.
const MIN_COLUMNS_FOR_DETAILS: usize = 76;

/// A progress bar, or a line in its place.
pub(crate) struct Progress {
    bar: ProgressBar,
    hidden: bool,
}

impl Progress {
    /// Bar for an operation on `total` bytes, or on an unknown number of bytes. `message` names
    /// the operation.
    pub(crate) fn bytes(message: &'static str, total: Option<u64>) -> Progress {
        let narrow = terminal::error_columns().is_some_and(|columns| columns < MIN_COLUMNS_FOR_DETAILS);
        let template = match total {
            Some(_) if narrow => "{msg} {wide_bar:.cyan/dim} {percent}%  {eta} left",
            Some(_) => {
                "{msg} {wide_bar:.cyan/dim} {binary_bytes}/{binary_total_bytes}  {binary_bytes_per_sec}  {eta} left"
            }
            None => "{msg} {spinner} {binary_bytes}  {binary_bytes_per_sec}",
        };
        Progress::new(message, total, template)
    }

    /// Bar for an operation that knows only its completed share.
    pub(crate) fn share(message: &'static str) -> Progress {
        Progress::new(message, Some(1), "{msg} {wide_bar:.cyan/dim} {percent}%  {elapsed}").shown()
    }

    /// Line for an operation without a measure of progress.
    pub(crate) fn line(message: &'static str) -> Progress {
        Progress::new(message, None, "{msg} ...").shown()
    }

    fn shown(mut self) -> Progress {
        self.bar.set_draw_target(ProgressDrawTarget::stderr());
        self.bar.tick();
        self.hidden = false;
        self
    }

    fn new(message: &'static str, total: Option<u64>, template: &str) -> Progress {
        let bar = ProgressBar::with_draw_target(total, ProgressDrawTarget::hidden()).with_message(message);
        // An invalid template leaves the default style.
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        Progress { bar, hidden: true }
    }

    /// Sets the progress to `done`.
    pub(crate) fn set_position(&mut self, done: u64) {
        self.bar.set_position(done);
        if self.hidden && self.bar.elapsed() > SHOW_AFTER {
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
            self.hidden = false;
        }
    }

    /// Sets the progress to `done` of `total`, which may have changed.
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
