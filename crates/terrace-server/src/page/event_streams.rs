//! Event streams: messages of the server to all open pages.

use hyper::body::Bytes;
use serde::Serialize;
use terrace_sync::native_locks::Mutex;
use tokio::sync::mpsc::{Receiver, Sender, channel};

/// Maximum number of streams.
const MAX_STREAMS: usize = 64;
/// Number of messages that a page may leave unread. Then its stream ends.
const MAX_UNREAD: usize = 64;

/// Open event streams.
#[derive(Debug, Default)]
pub(super) struct EventStreams {
    senders: Mutex<Vec<Sender<Bytes>>>,
}

impl EventStreams {
    /// Opens a stream. None if too many are open.
    pub(super) fn open(&self) -> Option<Receiver<Bytes>> {
        let mut senders = self.senders.lock();
        senders.retain(|sender| !sender.is_closed());
        if senders.len() >= MAX_STREAMS {
            return None;
        }
        let (sender, receiver) = channel(MAX_UNREAD);
        senders.push(sender);
        Some(receiver)
    }

    /// True without an open page.
    pub(super) fn is_empty(&self) -> bool {
        self.senders.lock().is_empty()
    }

    /// Sends the event `name` to all pages. Ends the streams of pages that do not read.
    pub(super) fn send(&self, name: &str, data: &impl Serialize) {
        if self.is_empty() {
            return;
        }
        let data = serde_json::to_string(data).unwrap_or_default();
        let message = Bytes::from(format!("event: {name}\ndata: {data}\n\n"));
        self.senders.lock().retain(|sender| sender.try_send(message.clone()).is_ok());
    }

    /// Ends all streams.
    pub(super) fn close(&self) {
        self.senders.lock().clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unread_stream_ends() {
        let streams = EventStreams::default();
        let mut receiver = streams.open().unwrap();
        for number in 0..2 * MAX_UNREAD {
            streams.send("second", &number);
        }
        assert!(streams.is_empty());
        assert_eq!(receiver.try_recv().unwrap(), "event: second\ndata: 0\n\n");
    }

    #[test]
    fn number_of_streams_is_limited() {
        let streams = EventStreams::default();
        let open: Vec<_> = (0..MAX_STREAMS).map(|_| streams.open().unwrap()).collect();
        assert!(streams.open().is_none());
        drop(open);
        assert!(streams.open().is_some());
    }
}
