//! Threads of the server. They live as long as the server, so they are no jobs of a scheduler.

use std::io;
use std::thread::{Builder, JoinHandle};

/// Starts a thread with the name `name`.
pub(crate) fn start(name: &str, body: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    Builder::new().name(name.to_owned()).spawn(body)
}

/// Starts a thread with a stack of `stack` bytes.
pub(crate) fn start_with_stack(
    name: &str,
    stack: usize,
    body: impl FnOnce() + Send + 'static,
) -> io::Result<JoinHandle<()>> {
    Builder::new().name(name.to_owned()).stack_size(stack).spawn(body)
}

/// Pauses the calling thread for real time, also with a simulated clock, so that a background job
/// does not advance the clock of a test.
pub(crate) fn pause(time: std::time::Duration) {
    std::thread::park_timeout(time);
}
