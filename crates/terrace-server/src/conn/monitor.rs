//! Clients of MONITOR: they receive every command.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use terrace_sync::native_locks::Mutex;

use super::client::{Client, Message};

/// Clients that receive every command.
#[derive(Debug, Default)]
pub(crate) struct Monitors {
    count: AtomicUsize,
    clients: Mutex<Vec<Arc<Client>>>,
}

impl Monitors {
    /// Adds a client. A client that is one already is added once.
    pub(crate) fn insert(&self, client: &Arc<Client>) {
        let mut clients = self.clients.lock();
        if !clients.iter().any(|other| Arc::ptr_eq(other, client)) {
            clients.push(Arc::clone(client));
        }
        client.is_monitor.store(true, Ordering::Relaxed);
        self.count.store(clients.len(), Ordering::Relaxed);
    }

    /// Removes a client.
    pub(crate) fn remove(&self, client: &Arc<Client>) {
        if client.is_monitor.swap(false, Ordering::Relaxed) {
            let mut clients = self.clients.lock();
            clients.retain(|other| !Arc::ptr_eq(other, client));
            self.count.store(clients.len(), Ordering::Relaxed);
        }
    }

    /// True if a client monitors. Costs one load.
    pub(crate) fn is_active(&self) -> bool {
        self.count.load(Ordering::Relaxed) > 0
    }

    /// Sends a command to all of them. `origin` is the database and the address of its client.
    pub(crate) fn send<'a>(
        &self,
        wall_us: u64,
        origin: (u8, &str),
        args: impl Iterator<Item = &'a [u8]>,
        now: Duration,
    ) {
        let (database, peer) = origin;
        let mut line =
            format!("+{}.{:06} [{database} {peer}]", wall_us / 1_000_000, wall_us % 1_000_000).into_bytes();
        for arg in args {
            line.extend_from_slice(b" \"");
            line.extend(arg.iter().flat_map(|byte| escape(*byte)));
            line.push(b'"');
        }
        line.extend_from_slice(b"\r\n");
        let message = Message::from(line);
        for client in self.clients.lock().iter() {
            client.deliver(&message, now);
        }
    }
}

/// Bytes that stand for `byte` between quotes.
fn escape(byte: u8) -> Vec<u8> {
    match byte {
        b'\\' | b'"' => vec![b'\\', byte],
        b'\n' => b"\\n".to_vec(),
        b'\r' => b"\\r".to_vec(),
        b'\t' => b"\\t".to_vec(),
        0x07 => b"\\a".to_vec(),
        0x08 => b"\\b".to_vec(),
        b' '..=b'~' => vec![byte],
        other => format!("\\x{other:02x}").into_bytes(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_of_a_command() {
        let monitors = Monitors::default();
        let client = Arc::new(Client::new(1, String::new(), String::new(), Duration::ZERO, &Arc::default()));
        monitors.insert(&client);
        monitors.insert(&client);
        monitors.send(1_500_000, (3, "1.2.3.4:5"), [&b"set"[..], b"a\"\0\n"].into_iter(), Duration::ZERO);
        let mut output = Vec::new();
        client.take_events(false, &mut output);
        assert_eq!(output, b"+1.500000 [3 1.2.3.4:5] \"set\" \"a\\\"\\x00\\n\"\r\n");
        monitors.remove(&client);
        assert!(!monitors.is_active());
    }
}
