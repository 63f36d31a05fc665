//! `loom_models [NAME]`: explores the loom models of the engine's protocols, or one of them. Prints
//! the name of each model and its number of executions.
//!
//! A violation panics in the model. The program prints it and exits with 1.

use std::panic::catch_unwind;
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};

use terrace::loom_models::{MODELS, Model};

fn main() -> ExitCode {
    let filter = std::env::args().nth(1);
    let chosen: Vec<&Model> =
        MODELS.iter().filter(|model| filter.as_ref().is_none_or(|name| name == model.name)).collect();
    let next = AtomicUsize::new(0);
    let failed = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while let Some(model) = chosen.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if !explore_and_report(model) {
                        failed.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    match (chosen.is_empty(), failed.into_inner()) {
        (true, _) => ExitCode::from(2),
        (_, 0) => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}

/// Explores a model and prints the result. Returns false if an execution violates the invariant.
fn explore_and_report(model: &Model) -> bool {
    let explored = catch_unwind(|| model.explore());
    match &explored {
        Ok(executions) => println!("{} {executions}", model.name),
        Err(panic) => {
            println!("{}, which checks that {}: {}", model.name, model.invariant, panic_message(&**panic));
        }
    }
    explored.is_ok()
}

fn panic_message(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a panic without a message")
}
