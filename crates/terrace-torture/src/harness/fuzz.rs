//! The attack `fuzz`: random changes of corpus inputs, for every fuzz target.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use terrace_testkit::rng::Rng;

use super::Harness;
use crate::counters::{Counter, Counters};
use crate::fuzz::{self, TARGETS, Target, corpus, mutate};

pub(super) const FUZZ: Harness = Harness {
    id: 50,
    name: "fuzz",
    property: "no input makes a reader panic, hang, exhaust memory or contradict itself",
    check_cases: 200,
    time_share: 27,
    run,
};

fn run(seed: u64, counters: &Counters) -> Result<(), String> {
    let target = &TARGETS[Rng::new(seed).below(TARGETS.len() as u64) as usize];
    run_target(target, seed, counters)
}

/// Runs one case of `target`.
pub(crate) fn run_target(target: &'static Target, seed: u64, counters: &Counters) -> Result<(), String> {
    let mut rng = Rng::new(seed);
    let progress = AtomicU32::new(0);
    let (done_sender, done_receiver) = channel();
    std::thread::scope(|scope| {
        let progress = &progress;
        scope.spawn(move || watch_for_hang(target, seed, progress, &done_receiver));
        let result = run_inputs(target, &mut rng, progress, counters);
        drop(done_sender);
        result
    })
}

/// One input of this many has its checksums verified for the counters.
const CHECKSUM_SAMPLE_ONE_IN: u32 = 16;

fn run_inputs(
    target: &Target,
    rng: &mut Rng,
    progress: &AtomicU32,
    counters: &Counters,
) -> Result<(), String> {
    let corpus = corpus::all_inputs(target);
    let mut input = Vec::new();
    for run in 0..target.executions_per_case {
        // Half of the inputs are changed again, so that inputs get far from the corpus.
        if input.is_empty() || rng.one_in(2) {
            input.clone_from(&corpus[rng.below(corpus.len() as u64) as usize]);
        }
        mutate::mutate(target.format, &mut input, corpus, rng);
        progress.store(run, Ordering::Relaxed);
        fuzz::check_and_minimize(target, &input)
            .map_err(|message| format!("{message}\n(execution {run} of the case)"))?;
        if run % CHECKSUM_SAMPLE_ONE_IN == 0
            && let Some(valid) = target.format.checksums_match(&input)
        {
            counters.add(Counter::FuzzChecksumsSampled, 1);
            counters.add(Counter::FuzzChecksumsValid, valid.into());
        }
    }
    counters.add(Counter::FuzzExecutions, target.executions_per_case.into());
    Ok(())
}

/// Time without progress after which a target counts as hanging, on a busy machine too.
const HANG_TIMEOUT: Duration = Duration::from_secs(60);

/// Aborts the program if an execution does not end, because only this thread can report which one
/// it is.
fn watch_for_hang(target: &Target, seed: u64, progress: &AtomicU32, done: &Receiver<()>) {
    let mut last = None;
    while let Err(RecvTimeoutError::Timeout) = done.recv_timeout(HANG_TIMEOUT) {
        let run = progress.load(Ordering::Relaxed);
        if last.replace(run) == Some(run) {
            eprintln!("VIOLATION in fuzz: {} hangs in execution {run} of seed {seed:#018x}", target.name);
            std::process::abort();
        }
    }
}
