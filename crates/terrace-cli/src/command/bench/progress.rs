//! A run as it goes: a bar with rate and time left, and a saved result that grows.

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

/// Operations a second, without the fractions that the bar's own rate has.
fn rate(state: &ProgressState, out: &mut dyn Write) {
    // The bar's line is a string, to which writing never fails.
    let _ = write!(out, "{}/s", units::count(state.per_sec() as u64));
}

/// Watches a run and keeps it.
pub(super) struct BenchProgress<'a, S> {
    plan: &'a Plan,
    bar: ProgressBar,
    started: Instant,
    /// The engine, round and row that the bar is about.
    current_phase: (String, u32, usize),
    save: S,
    /// The first time that it could not be kept.
    save_failure: Option<Failure>,
}

impl<'a, S: FnMut(&ResultFile) -> CommandResult> BenchProgress<'a, S> {
    pub(super) fn new(plan: &'a Plan, save: S) -> BenchProgress<'a, S> {
        let bar = ProgressBar::with_draw_target(Some(0), ProgressDrawTarget::stderr());
        // The template is the constant above; one that does not parse leaves the default look.
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

    /// Takes the bar away; an error if anything could not be kept.
    pub(super) fn finish(self) -> CommandResult {
        self.bar.finish_and_clear();
        self.save_failure.map_or(Ok(()), Err)
    }

    /// How long all of the run may take from here, going by the turns so far.
    fn time_left(&self, results: usize) -> Option<Duration> {
        let engines = self.plan.engines.iter().filter(|engine| engine.info.present).count();
        let all = engines * self.plan.phases.len() * self.plan.rounds as usize;
        let share = results as f64 / all as f64;
        (results > 0).then(|| self.started.elapsed().mul_f64((1.0 / share - 1.0).max(0.0)))
    }
}

impl<S: FnMut(&ResultFile) -> CommandResult> Observer for BenchProgress<'_, S> {
    fn on_tick(&mut self, engine: &str, round: u32, tick: ProgressTick) {
        let at = (engine.to_owned(), round, tick.row);
        if at != self.current_phase {
            let row = self.plan.phases.get(tick.row).map_or("", |phase| phase.name.as_str());
            self.bar.reset();
            self.bar.set_length(tick.of);
            self.bar.set_message(format!("{}/{} {engine} {row}", round + 1, self.plan.rounds));
            self.current_phase = at;
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
