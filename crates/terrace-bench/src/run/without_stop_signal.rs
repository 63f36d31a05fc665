//! The types of `stop_signal.rs` on a system without signals. There, Ctrl-C ends the program and
//! its measuring process, and databases of the run remain.

use std::io::{self, Read};

/// A signal that ends a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Signal {
    /// Number of the signal, 1 or more.
    pub number: u8,
    /// Name of the signal.
    pub name: &'static str,
}

/// Signals that end a run: none.
pub static SIGNALS: [Signal; 0] = [];

/// Flag that a signal sets to end a run. It is never set.
#[derive(Debug, Default)]
pub struct StopSignal(());

impl StopSignal {
    /// Creates a flag that is never set.
    pub fn never() -> StopSignal {
        StopSignal(())
    }

    /// Creates a flag that each of [`SIGNALS`] sets.
    pub fn on_signals() -> io::Result<StopSignal> {
        Ok(StopSignal::never())
    }

    /// The signal that set the flag, if any.
    pub fn signal(&self) -> Option<Signal> {
        None
    }
}

/// Reader that returns end of file after a stop signal.
pub(super) struct InterruptibleReader<R>(R);

impl<R: Read> InterruptibleReader<R> {
    pub(super) fn new(_stop: &StopSignal, inner: R) -> InterruptibleReader<R> {
        InterruptibleReader(inner)
    }
}

impl<R: Read> Read for InterruptibleReader<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.0.read(into)
    }
}
