//! Checks an input, and minimizes and describes one that fails.

use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

use super::Target;

/// Maximum processor time of one execution.
const MAX_CPU_TIME: Duration = Duration::from_secs(1);

/// Runs `target` on `input`. An error contains the smallest failing input that was found.
pub fn check_and_minimize(target: &Target, input: &[u8]) -> Result<(), String> {
    let Some(fault) = find_fault(target, input) else { return Ok(()) };
    let smallest = minimize(target, input.to_vec());
    let fault = find_fault(target, &smallest).unwrap_or(fault);
    Err(format!(
        "{} of {} bytes: {fault}\n{}",
        target.name,
        smallest.len(),
        save_and_describe(target, &smallest)
    ))
}

/// Saves the input, and describes its path and, if it is short, its bytes.
fn save_and_describe(target: &Target, input: &[u8]) -> String {
    let path = std::env::temp_dir().join(format!(
        "terrace-{}-{:08x}",
        target.name,
        terrace_format::crc::value(input)
    ));
    let saved = match std::fs::write(&path, input) {
        Ok(()) => format!("input saved to {}", path.display()),
        Err(error) => format!("input not saved: {error}"),
    };
    const MAX_SHOWN_LEN: usize = 400;
    if input.len() > MAX_SHOWN_LEN { saved } else { format!("{saved}: b\"{}\"", input.escape_ascii()) }
}

fn find_fault(target: &Target, input: &[u8]) -> Option<String> {
    let started = Instant::now();
    if let Some(panic) = run_capturing_panic(target, input) {
        return Some(panic);
    }
    // On a busy machine any input may be slow, so only processor time counts.
    if started.elapsed() > MAX_CPU_TIME {
        let before = thread_cpu_time();
        run_capturing_panic(target, input);
        let elapsed = thread_cpu_time().saturating_sub(before);
        return (elapsed > MAX_CPU_TIME).then(|| format!("took {elapsed:?} of processor time"));
    }
    None
}

/// Returns the processor time of this thread.
fn thread_cpu_time() -> Duration {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    // This clock is never negative.
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

thread_local! {
    static CAPTURING_PANICS: Cell<bool> = const { Cell::new(false) };
    /// First panic of the current execution, even if the engine caught it.
    static FIRST_PANIC: RefCell<Option<String>> = const { RefCell::new(None) };
}

fn run_capturing_panic(target: &Target, input: &[u8]) -> Option<String> {
    install_panic_hook();
    CAPTURING_PANICS.set(true);
    let result = catch_unwind(AssertUnwindSafe(|| target.check(input)));
    CAPTURING_PANICS.set(false);
    let panic = FIRST_PANIC.take();
    panic.or_else(|| result.is_err().then(|| "a panic without a message".to_owned()))
}

/// Installs a hook that stores panics of watched threads without printing them, because minimizing
/// causes many.
fn install_panic_hook() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let default_hook = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if !CAPTURING_PANICS.get() {
                return default_hook(panic);
            }
            FIRST_PANIC.with_borrow_mut(|first| first.get_or_insert_with(|| panic.to_string()).len());
        }));
    });
}

/// Maximum number of executions for minimizing.
const MAX_MINIMIZE_RUNS: usize = 2_000;

/// Removes parts of the input while the target still fails: first halves, then smaller parts.
fn minimize(target: &Target, mut input: Vec<u8>) -> Vec<u8> {
    let mut part = input.len() / 2;
    let mut runs = 0;
    while part > 0 {
        let mut offset = 0;
        while offset < input.len() && runs < MAX_MINIMIZE_RUNS {
            let mut shorter = input.clone();
            shorter.drain(offset..(offset + part).min(input.len()));
            runs += 1;
            if run_capturing_panic(target, &shorter).is_some() {
                input = shorter;
            } else {
                offset += part;
            }
        }
        part /= 2;
    }
    input
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fuzz::input_format::InputFormat;

    fn target(run: fn(&[u8])) -> Target {
        Target {
            name: "test",
            property: "",
            format: InputFormat::NoChecksums,
            executions_per_case: 1,
            seed_inputs: Vec::new,
            run,
        }
    }

    #[test]
    fn failing_input_is_minimized() {
        let target = target(|input| assert!(!input.contains(&b'x'), "there is an x"));
        assert_eq!(check_and_minimize(&target, b"abc"), Ok(()));
        let message = check_and_minimize(&target, b"a long text with an x in it").expect_err("it has one");
        assert!(
            message.starts_with("test of 1 bytes")
                && message.contains("there is an x")
                && message.ends_with("b\"x\""),
            "{message}"
        );
    }

    #[test]
    fn excessive_memory_is_reported() {
        let target = target(|_| drop(std::hint::black_box(Vec::<u8>::with_capacity(65 << 20))));
        let message = check_and_minimize(&target, b"").expect_err("too much");
        assert!(message.contains("held 68157440 bytes"), "{message}");
    }

    #[test]
    fn caught_panic_is_reported() {
        let target = target(|_| drop(catch_unwind(|| panic!("caught panic"))));
        let message = check_and_minimize(&target, b"").expect_err("it panicked");
        assert!(message.contains("caught panic"), "{message}");
    }
}
