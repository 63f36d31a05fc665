//! SIGTERM, SIGINT and SIGHUP.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

use super::ServerSignal;

/// Streams of the signals that the server handles.
pub(super) struct SignalStreams {
    terminate: Signal,
    interrupt: Signal,
    hangup: Option<Signal>,
}

impl SignalStreams {
    /// Without certificates, SIGHUP ends the process: the terminal was closed.
    pub(super) fn new(has_certificates: bool) -> io::Result<SignalStreams> {
        Ok(SignalStreams {
            hangup: has_certificates.then(|| signal(SignalKind::hangup())).transpose()?,
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    /// Waits for a signal.
    pub(super) async fn next(&mut self) -> ServerSignal {
        let hangup = &mut self.hangup;
        let reload = async {
            match hangup {
                Some(hangup) => hangup.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = self.terminate.recv() => ServerSignal::End(SignalKind::terminate().as_raw_value()),
            _ = self.interrupt.recv() => ServerSignal::End(SignalKind::interrupt().as_raw_value()),
            _ = reload => ServerSignal::Reload,
        }
    }
}
