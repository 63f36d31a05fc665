//! Signals that ask a run to end early.
//!
//! ```text
//!   SIGHUP, SIGINT, SIGTERM --> a number, and a byte in a pipe
//!                                                 |
//!   the measuring process's output ------------> poll: whichever comes first
//! ```
//!
//! The handler only sets the number and wakes the reader. The run sees it when it reads from the
//! measuring process, kills that process, and then takes the path of every failed run, which
//! removes databases and control groups.

use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::{flag, low_level::pipe};

/// A signal that ends a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Signal {
    /// Number of the signal, 1 or more.
    pub number: u8,
    /// Name of the signal.
    pub name: &'static str,
}

/// Signals that end a run: a closed terminal, Ctrl-C, and plain `kill`.
pub static SIGNALS: [Signal; 3] = [
    Signal { number: SIGHUP as u8, name: "SIGHUP" },
    Signal { number: SIGINT as u8, name: "SIGINT" },
    Signal { number: SIGTERM as u8, name: "SIGTERM" },
];

/// Flag that a signal sets to end a run, and a pipe that wakes a waiting reader.
#[derive(Debug)]
pub struct StopSignal {
    /// Number of the last signal, or 0.
    signal_number: Arc<AtomicUsize>,
    /// Readable after a signal; `None` if no signals are handled.
    wake_pipe: Option<UnixStream>,
}

impl StopSignal {
    /// Creates a flag that is never set.
    pub fn never() -> StopSignal {
        StopSignal { signal_number: Arc::default(), wake_pipe: None }
    }

    /// Creates a flag that each of [`SIGNALS`] sets. The signals no longer end the process. A
    /// signal that the process inherited as ignored stays ignored, as `nohup` and background jobs
    /// expect.
    pub fn on_signals() -> io::Result<StopSignal> {
        let ignored = ignored_signal_mask(&std::fs::read_to_string("/proc/self/status").unwrap_or_default());
        let (woken, waker) = UnixStream::pair()?;
        let stop = StopSignal { signal_number: Arc::default(), wake_pipe: Some(woken) };
        for Signal { number, .. } in SIGNALS.iter().filter(|signal| ignored >> (signal.number - 1) & 1 == 0) {
            // In this order, so that the woken reader finds the number.
            flag::register_usize((*number).into(), Arc::clone(&stop.signal_number), (*number).into())?;
            pipe::register((*number).into(), waker.try_clone()?)?;
        }
        Ok(stop)
    }

    /// The signal that set the flag, if any.
    pub fn signal(&self) -> Option<Signal> {
        // Relaxed: the number publishes no other data.
        let number = self.signal_number.load(Ordering::Relaxed);
        SIGNALS.into_iter().find(|signal| usize::from(signal.number) == number)
    }
}

/// Bit mask of the signals that the process ignores, from its status text; 0 if it is unknown.
fn ignored_signal_mask(status: &str) -> u64 {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

/// Reader that returns end of file after a stop signal.
pub(super) struct InterruptibleReader<'a, R> {
    stop: &'a StopSignal,
    inner: R,
}

impl<'a, R: Read + AsFd> InterruptibleReader<'a, R> {
    pub(super) fn new(stop: &'a StopSignal, inner: R) -> InterruptibleReader<'a, R> {
        InterruptibleReader { stop, inner }
    }

    /// Waits for data or for a stop signal.
    fn wait_readable(&self) -> io::Result<()> {
        let Some(woken) = &self.stop.wake_pipe else { return Ok(()) };
        let mut either = [PollFd::new(&self.inner, PollFlags::IN), PollFd::new(woken, PollFlags::IN)];
        match poll(&mut either, None) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

impl<R: Read + AsFd> Read for InterruptibleReader<'_, R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.wait_readable()?;
        if self.stop.signal().is_some() { Ok(0) } else { self.inner.read(into) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn ignored_signals() {
        for (status, expect) in [
            ("Name:\tterrace\nSigIgn:\t0000000000001003\n", vec![true, true, false]),
            ("SigIgn:\t0000000000000000\n", vec![false; 3]),
            ("no such line", vec![false; 3]),
        ] {
            let mask = ignored_signal_mask(status);
            let found = SIGNALS.iter().map(|signal| mask >> (signal.number - 1) & 1 == 1);
            assert_eq!(found.collect::<Vec<_>>(), expect, "{status}");
        }
    }

    /// A flag without signals, and a function that sets it as a handler would.
    fn manual_stop() -> (StopSignal, impl FnOnce()) {
        let (woken, mut waker) = UnixStream::pair().expect("the test may have two more files");
        let stop = StopSignal { signal_number: Arc::default(), wake_pipe: Some(woken) };
        let asked = Arc::clone(&stop.signal_number);
        (stop, move || {
            asked.store(SIGINT as usize, Ordering::Relaxed);
            waker.write_all(b"!").expect("there is room for a byte");
        })
    }

    #[test]
    fn output_before_stop_is_read() {
        let (mut speaker, listener) = UnixStream::pair().expect("the test may have two more files");
        let (stop, ask) = manual_stop();
        let mut until = InterruptibleReader::new(&stop, listener);
        speaker.write_all(b"one").expect("there is room");
        let mut heard = [0; 8];
        assert_eq!(until.read(&mut heard).expect("it was said"), 3);
        ask();
        speaker.write_all(b"two").expect("there is room");
        assert_eq!(until.read(&mut heard).expect("it ends"), 0);
        assert_eq!(stop.signal().map(|signal| signal.name), Some("SIGINT"));
    }

    #[test]
    fn silent_reader_is_interrupted() {
        let (_speaker, listener) = UnixStream::pair().expect("the test may have two more files");
        let (stop, ask) = manual_stop();
        std::thread::scope(|scope| {
            let mut until = InterruptibleReader::new(&stop, listener);
            let reader = scope.spawn(move || until.read(&mut [0; 8]).expect("it ends"));
            ask();
            assert_eq!(reader.join().expect("it does not panic"), 0);
        });
    }
}
