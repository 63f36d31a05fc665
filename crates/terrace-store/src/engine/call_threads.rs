//! Threads on which the clients of distributed engines run, and the calls that wait for them.

use std::future::Future;
use std::sync::mpsc;

use tokio::runtime::{Builder, Runtime};

use crate::error::{Error, Result};

/// Call that waits for the result of work that has started.
pub(super) type Waiting<T> = Box<dyn FnOnce() -> Result<T> + Send>;

/// Threads of one client.
pub(super) struct CallThreads {
    /// None only during the drop.
    runtime: Option<Runtime>,
}

impl CallThreads {
    /// Starts `count` threads with the name `name`.
    pub(super) fn new(name: &str, count: usize) -> Result<CallThreads> {
        let runtime =
            Builder::new_multi_thread().worker_threads(count).thread_name(name).enable_all().build();
        let runtime = runtime.map_err(|error| Error::Unavailable(format!("threads for {name}: {error}")))?;
        Ok(CallThreads { runtime: Some(runtime) })
    }

    /// Starts `work`. The returned call waits for its result. It may run on any thread, also on one
    /// of another runtime.
    pub(super) fn start<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Waiting<T> {
        let (sender, receiver) = mpsc::sync_channel(1);
        if let Some(runtime) = &self.runtime {
            runtime.spawn(async move {
                // The caller may have dropped the receiver, such as that of a page read ahead.
                let _ = sender.send(work.await);
            });
        }
        Box::new(move || {
            receiver.recv().unwrap_or_else(|_| Err(Error::Unavailable("the store was closed".into())))
        })
    }

    /// Executes `work` and waits for its result.
    pub(super) fn run<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Result<T> {
        self.start(work)()
    }
}

impl Drop for CallThreads {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // A drop that waits panics on the threads of another runtime.
            runtime.shutdown_background();
        }
    }
}
