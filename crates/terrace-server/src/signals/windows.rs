//! Control events of a console. No event reloads certificates: a restart does.

use std::io;

use tokio::signal::windows::{
    CtrlBreak, CtrlC, CtrlClose, CtrlShutdown, ctrl_break, ctrl_c, ctrl_close, ctrl_shutdown,
};

use super::ServerSignal;

/// Number of the signal of other systems that Ctrl-C stands for.
const INTERRUPT: i32 = 2;

/// Number of the signal of other systems that the other events stand for.
const TERMINATE: i32 = 15;

/// Streams of the events that the server handles.
pub(super) struct SignalStreams {
    interrupt: CtrlC,
    stop: CtrlBreak,
    close: CtrlClose,
    shutdown: CtrlShutdown,
}

impl SignalStreams {
    pub(super) fn new(_has_certificates: bool) -> io::Result<SignalStreams> {
        Ok(SignalStreams {
            interrupt: ctrl_c()?,
            stop: ctrl_break()?,
            close: ctrl_close()?,
            shutdown: ctrl_shutdown()?,
        })
    }

    /// Waits for an event.
    pub(super) async fn next(&mut self) -> ServerSignal {
        tokio::select! {
            _ = self.interrupt.recv() => ServerSignal::End(INTERRUPT),
            _ = self.stop.recv() => ServerSignal::End(TERMINATE),
            _ = self.close.recv() => ServerSignal::End(TERMINATE),
            _ = self.shutdown.recv() => ServerSignal::End(TERMINATE),
        }
    }
}
