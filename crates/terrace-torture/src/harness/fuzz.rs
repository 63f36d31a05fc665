//! Hostile bytes: random changes of the inputs in the corpora, given to everything that reads bytes.

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
    let mut rng = Rng::new(seed);
    let target = &TARGETS[rng.below(TARGETS.len() as u64) as usize];
    let progress = AtomicU32::new(0);
    let (done, watched) = channel();
    std::thread::scope(|scope| {
        let progress = &progress;
        scope.spawn(move || watch_for_hang(target, seed, progress, &watched));
        let result = run_inputs(target, &mut rng, progress, counters);
        drop(done);
        result
    })
}

/// Of how many inputs one is looked at for its checksums.
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
        // What was changed already is changed on, half of the time: so inputs get far from where they began.
        if input.is_empty() || rng.one_in(2) {
            input.clone_from(&corpus[rng.below(corpus.len() as u64) as usize]);
        }
        mutate::mutate(target.format, &mut input, corpus, rng);
        progress.store(run, Ordering::Relaxed);
        fuzz::check_and_minimize(target, &input)
            .map_err(|what| format!("{what}\n(run {run} of the case)"))?;
        if run % CHECKSUM_SAMPLE_ONE_IN == 0
            && let Some(passes) = target.format.checksums_match(&input)
        {
            counters.add(Counter::FuzzChecksumsSampled, 1);
            counters.add(Counter::FuzzChecksumsValid, passes.into());
        }
    }
    counters.add(Counter::FuzzExecutions, target.executions_per_case.into());
    Ok(())
}

/// After this long without an end something hangs, however busy the machine is.
const HANG_TIMEOUT: Duration = Duration::from_secs(60);

/// Ends the program if a run does not end: nothing else could say which one it is.
fn watch_for_hang(target: &Target, seed: u64, progress: &AtomicU32, done: &Receiver<()>) {
    let mut last = None;
    while let Err(RecvTimeoutError::Timeout) = done.recv_timeout(HANG_TIMEOUT) {
        let run = progress.load(Ordering::Relaxed);
        if last.replace(run) == Some(run) {
            eprintln!("VIOLATION in fuzz: {} hangs in run {run} of seed {seed:#018x}", target.name);
            std::process::abort();
        }
    }
}
