//! Random operations under random options: every answer must be the model's.
//!
//! Two million operations in each run of the tests. A failure prints its seed, options and last operations;
//! `TERRACE_SEED=0x... cargo test -p terrace --test it model` repeats it.

use std::path::Path;
use std::sync::Arc;

use terrace::Env;
use terrace_env::{Deterministic, SeededRandom};
use terrace_testkit::model::Model;
use terrace_testkit::op::Shape;
use terrace_testkit::run::{Plan, seeds};
use terrace_testkit::settings::{Order, Settings};

use terrace_torture::subject::Engine;

/// Runs `count` plans of `ops` operations in memory, on threads.
fn in_memory(name: &str, count: usize, ops: usize, adjust: impl Fn(&mut Shape, &mut Settings)) {
    for seed in seeds(name, count) {
        let plan = Plan::draw(seed, ops, &adjust);
        run(&plan, Path::new("/db"), &Env::memory());
    }
}

fn run(plan: &Plan, path: &Path, env: &Env) {
    let mut engine = Engine::open(path, &plan.settings, env).unwrap();
    plan.run(&mut engine, &mut Model::new(plan.shape.order)).unwrap();
}

#[test]
fn few_keys_written_over_and_over() {
    in_memory("few keys", 12, 40_000, |shape, _| shape.keys = 20);
}

#[test]
fn many_keys_in_small_files() {
    in_memory("many keys", 12, 40_000, |shape, settings| {
        (shape.keys, shape.value_max, settings.write_buffer_size) = (3_000, 1_000, 0);
    });
}

#[test]
fn reverse_order() {
    in_memory("reverse", 8, 40_000, |shape, settings| {
        (shape.order, settings.order) = (Order::Reverse, Order::Reverse);
    });
}

#[test]
fn any_options() {
    in_memory("any options", 18, 40_000, |_, _| ());
}

/// One thread does everything, so that a seed repeats to the last byte.
#[test]
fn on_one_thread() {
    for seed in seeds("one thread", 4) {
        let plan = Plan::draw(seed, 15_000, |_, _| ());
        let scheduler = Deterministic::new(seed);
        let env = Env { scheduler, random: Arc::new(SeededRandom::new(seed)), ..Env::memory() };
        run(&plan, Path::new("/db"), &env);
    }
}

#[test]
fn on_disk() {
    for seed in seeds("disk", 6) {
        let plan = Plan::draw(seed, 8_000, |shape, _| shape.sync_one_in = 500);
        let dir = tempfile::tempdir().unwrap();
        run(&plan, dir.path(), &Env::system());
    }
}
