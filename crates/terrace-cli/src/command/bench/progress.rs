//! Progress of a bench run: a bar with rate and remaining time, and a result file that is saved
//! after each phase.

use std::fmt::Write;
use std::time::{Duration, Instant};

use indicatif::{HumanDuration, ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};
use terrace_bench::report::model::ResultFile;
use terrace_bench::run::plan::Plan;
use terrace_bench::run::protocol::ProgressTick;
use terrace_bench::run::rounds::Observer;

use crate::failure::{CommandResult, Failure};
use crate::units;

const TEMPLATE: &str = "{msg} {wide_bar:.cyan/dim} {human_pos}/{human_len}  {rate}  {prefix}";

/// Operations per second, without the fraction that the bar's own rate has.
fn rate(state: &ProgressState, out: &mut dyn Write) {
    // Writing to a string never fails.
    let _ = write!(out, "{}/s", units::count(state.per_sec() as u64));
}

/// Observer that shows the progress of a run and saves its results.
pub(super) struct BenchProgress<'a, S> {
    plan: &'a Plan,
    bar: ProgressBar,
    started: Instant,
    /// Engine, round and row that the bar shows.
    current_phase: (String, u32, usize),
    save: S,
    /// First failure to save the results.
    save_failure: Option<Failure>,
}

impl<'a, S: FnMut(&ResultFile) -> CommandResult> BenchProgress<'a, S> {
    pub(super) fn new(plan: &'a Plan, save: S) -> BenchProgress<'a, S> {
        let bar = ProgressBar::with_draw_target(Some(0), ProgressDrawTarget::stderr());
        // An invalid template leaves the default style.
        if let Ok(style) = ProgressStyle::with_template(TEMPLATE) {
            bar.set_style(style.with_key("rate", rate));
        }
        BenchProgress {
            plan,
            bar,
            started: Instant::now(),
            current_phase: (String::new(), 0, 0),
            save,
            save_failure: None,
        }
    }

    /// Removes the bar. Returns the first failure to save.
    pub(super) fn finish(self) -> CommandResult {
        self.bar.finish_and_clear();
        self.save_failure.map_or(Ok(()), Err)
    }

    /// Estimates the remaining time of the whole run from the time of the results so far.
    fn time_left(&self, results: usize) -> Option<Duration> {
        let engines = self.plan.engines.iter().filter(|engine| engine.info.present).count();
        let total = engines * self.plan.phases.len() * self.plan.rounds as usize;
        let share = results as f64 / total as f64;
        (results > 0).then(|| self.started.elapsed().mul_f64((1.0 / share - 1.0).max(0.0)))
    }
}

impl<S: FnMut(&ResultFile) -> CommandResult> Observer for BenchProgress<'_, S> {
    fn on_tick(&mut self, engine: &str, round: u32, tick: ProgressTick) {
        let phase = (engine.to_owned(), round, tick.row);
        if phase != self.current_phase {
            let row = self.plan.phases.get(tick.row).map_or("", |phase| phase.name.as_str());
            self.bar.reset();
            self.bar.set_length(tick.of);
            self.bar.set_message(format!("{}/{} {engine} {row}", round + 1, self.plan.rounds));
            self.current_phase = phase;
        }
        self.bar.set_position(tick.done);
    }

    fn on_result(&mut self, result: &ResultFile) {
        if let Some(left) = self.time_left(result.results.len()) {
            self.bar.set_prefix(format!("{} left", HumanDuration(left)));
        }
        if let Err(failure) = (self.save)(result) {
            self.save_failure.get_or_insert(failure);
        }
    }
}
