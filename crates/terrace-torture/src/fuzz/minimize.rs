//! What an input does to a target, and for those that break it: a smaller one, and a message.

use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

use super::Target;

/// What no input may take, of the processor.
const MAX_CPU_TIME: Duration = Duration::from_secs(1);

/// Runs `target` on `input`. If anything is wrong, the message has the smallest input that was found to show it.
pub fn check_and_minimize(target: &Target, input: &[u8]) -> Result<(), String> {
    let Some(why) = find_fault(target, input) else { return Ok(()) };
    let smallest = minimize(target, input.to_vec());
    let why = find_fault(target, &smallest).unwrap_or(why);
    Err(format!(
        "{} of {} bytes: {why}\n{}",
        target.name,
        smallest.len(),
        save_and_describe(target, &smallest)
    ))
}

/// Where the input is kept, and what it is if it is short.
fn save_and_describe(target: &Target, input: &[u8]) -> String {
    let path = std::env::temp_dir().join(format!(
        "terrace-{}-{:08x}",
        target.name,
        terrace_format::crc::value(input)
    ));
    let kept = match std::fs::write(&path, input) {
        Ok(()) => format!("input kept in {}", path.display()),
        Err(error) => format!("input not kept: {error}"),
    };
    const MAX_SHOWN_LEN: usize = 400;
    if input.len() > MAX_SHOWN_LEN { kept } else { format!("{kept}: b\"{}\"", input.escape_ascii()) }
}

fn find_fault(target: &Target, input: &[u8]) -> Option<String> {
    let began = Instant::now();
    if let Some(panic) = run_capturing_panic(target, input) {
        return Some(panic);
    }
    // A busy machine makes anything slow; only what takes a processor that long is at fault.
    if began.elapsed() > MAX_CPU_TIME {
        let before = thread_cpu_time();
        run_capturing_panic(target, input);
        let took = thread_cpu_time().saturating_sub(before);
        return (took > MAX_CPU_TIME).then(|| format!("took {took:?} of a processor"));
    }
    None
}

/// The time that this thread had a processor.
fn thread_cpu_time() -> Duration {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    // A clock that counts a thread's time is not below zero.
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

thread_local! {
    static CAPTURING_PANICS: Cell<bool> = const { Cell::new(false) };
    /// The first panic of a watched run, also if the engine caught it.
    static FIRST_PANIC: RefCell<Option<String>> = const { RefCell::new(None) };
}

fn run_capturing_panic(target: &Target, input: &[u8]) -> Option<String> {
    install_panic_hook();
    CAPTURING_PANICS.set(true);
    let ended = catch_unwind(AssertUnwindSafe(|| target.check(input)));
    CAPTURING_PANICS.set(false);
    let panic = FIRST_PANIC.take();
    panic.or_else(|| ended.is_err().then(|| "a panic without a message".to_owned()))
}

/// Panics of watched threads are kept and not printed: making an input smaller takes many.
fn install_panic_hook() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if !CAPTURING_PANICS.get() {
                return usual(panic);
            }
            FIRST_PANIC.with_borrow_mut(|first| first.get_or_insert_with(|| panic.to_string()).len());
        }));
    });
}

/// Runs that making an input smaller may take.
const MAX_MINIMIZE_RUNS: usize = 2_000;

/// Takes parts out as long as the target still breaks; halves first, then ever smaller ones.
fn minimize(target: &Target, mut input: Vec<u8>) -> Vec<u8> {
    let (mut part, mut tries) = (input.len() / 2, 0);
    while part > 0 {
        let mut at = 0;
        while at < input.len() && tries < MAX_MINIMIZE_RUNS {
            let mut less = input.clone();
            less.drain(at..(at + part).min(input.len()));
            tries += 1;
            if run_capturing_panic(target, &less).is_some() {
                input = less;
            } else {
                at += part;
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
        let what = check_and_minimize(&target, b"a long text with an x in it").expect_err("it has one");
        assert!(
            what.starts_with("test of 1 bytes") && what.contains("there is an x") && what.ends_with("b\"x\""),
            "{what}"
        );
    }

    #[test]
    fn excessive_memory_is_reported() {
        let target = target(|_| drop(std::hint::black_box(Vec::<u8>::with_capacity(65 << 20))));
        let what = check_and_minimize(&target, b"").expect_err("too much");
        assert!(what.contains("held 68157440 bytes"), "{what}");
    }

    #[test]
    fn caught_panic_is_reported() {
        let target = target(|_| drop(catch_unwind(|| panic!("behind the back"))));
        let what = check_and_minimize(&target, b"").expect_err("it panicked");
        assert!(what.contains("behind the back"), "{what}");
    }
}
