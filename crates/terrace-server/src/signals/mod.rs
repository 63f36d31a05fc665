//! Signals to the server.

#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

use std::io;

#[cfg(unix)]
use unix::SignalStreams;
#[cfg(windows)]
use windows::SignalStreams;

use crate::config::ServerConfig;

/// Signal to the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ServerSignal {
    /// Ends the server. The number is that of the signal.
    End(i32),
    /// Reloads the certificates. Windows has no such signal.
    #[cfg_attr(windows, allow(dead_code))]
    Reload,
}

/// Signals that end the server, and SIGHUP, which reloads certificates. A server in another program
/// gets none.
pub(crate) struct Signals(Option<SignalStreams>);

impl Signals {
    pub(crate) fn new(config: &ServerConfig) -> io::Result<Signals> {
        if !config.is_program {
            return Ok(Signals(None));
        }
        Ok(Signals(Some(SignalStreams::new(config.tls.is_some())?)))
    }

    /// Waits for a signal.
    pub(crate) async fn next(&mut self) -> ServerSignal {
        match &mut self.0 {
            Some(streams) => streams.next().await,
            None => std::future::pending().await,
        }
    }

    /// Waits for a signal that ends the server.
    pub(crate) async fn next_end(&mut self) -> i32 {
        loop {
            if let ServerSignal::End(number) = self.next().await {
                return number;
            }
        }
    }
}
