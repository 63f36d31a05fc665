//! State of a client that other threads may see, and the list of all clients.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::task::Waker;
use std::time::Duration;

use terrace_sync::native_locks::Mutex;

/// Size of the unread messages at which a client is disconnected, in bytes.
const HARD_LIMIT: usize = 32 << 20;
/// Size of the unread messages that a client may keep for [`SOFT_LIMIT_TIME`] only, in bytes.
const SOFT_LIMIT: usize = 8 << 20;
/// Time for which the unread messages may exceed [`SOFT_LIMIT`].
const SOFT_LIMIT_TIME: Duration = Duration::from_secs(60);

/// Bytes of a message in version 3 of the protocol. All receivers share them.
pub(crate) type Message = Arc<[u8]>;

/// Type of a client for CLIENT LIST and CLIENT KILL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ClientType {
    Normal,
    PubSub,
}

/// A connected client.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) id: u64,
    pub(crate) peer: String,
    pub(crate) local: String,
    /// Monotonic time of the accept.
    pub(crate) connected_at: Duration,
    pub(crate) name: Mutex<Vec<u8>>,
    /// Milliseconds of the monotonic clock at the last command.
    pub(crate) last_active_ms: AtomicU64,
    /// Name of the last command.
    pub(crate) last_command: Mutex<&'static str>,
    pub(crate) database: AtomicU8,
    /// Name of the user.
    pub(crate) user: Mutex<Arc<str>>,
    pub(crate) is_monitor: AtomicBool,
    /// True after CLIENT NO-EVICT ON: the client is disconnected last for its memory.
    pub(crate) is_kept: AtomicBool,
    pub(crate) is_resp3: AtomicBool,
    /// Number of queued commands of MULTI plus one, or 0 outside of MULTI.
    pub(crate) queued: AtomicUsize,
    /// Numbers of subscriptions to channels, patterns and shard channels.
    pub(crate) subscriptions: [AtomicUsize; 3],
    /// Bytes of unfinished input and unsent output.
    pub(crate) buffered: AtomicUsize,
    /// True while a command waits for an element.
    pub(crate) is_blocked: AtomicBool,
    /// True if the mailbox needs the attention of the connection.
    has_events: AtomicBool,
    mailbox: Mutex<Mailbox>,
}

/// Reply to a command that waited for an element.
#[derive(Debug)]
pub(crate) struct Unblocked {
    pub(crate) reply: Vec<u8>,
    /// True if the reply has to wait for a sync.
    pub(crate) needs_sync: bool,
}

#[derive(Debug, Default)]
struct Mailbox {
    messages: VecDeque<Message>,
    bytes: usize,
    /// Monotonic time since which the bytes exceed the soft limit.
    over_soft_limit_since: Option<Duration>,
    waker: Option<Waker>,
    /// Reply to the command that waited for an element.
    unblocked: Option<Unblocked>,
    is_killed: bool,
    is_draining: bool,
}

impl Client {
    /// Creates the state of a client that connected at `now`.
    pub(crate) fn new(id: u64, peer: String, local: String, now: Duration) -> Client {
        Client {
            id,
            peer,
            local,
            connected_at: now,
            name: Mutex::new(Vec::new()),
            last_active_ms: AtomicU64::new(now.as_millis() as u64),
            last_command: Mutex::new("NULL"),
            database: AtomicU8::new(0),
            user: Mutex::new("default".into()),
            is_monitor: AtomicBool::new(false),
            is_kept: AtomicBool::new(false),
            is_resp3: AtomicBool::new(false),
            queued: AtomicUsize::new(0),
            subscriptions: Default::default(),
            buffered: AtomicUsize::new(0),
            is_blocked: AtomicBool::new(false),
            has_events: AtomicBool::new(false),
            mailbox: Mutex::new(Mailbox::default()),
        }
    }

    /// Delivers a message of a channel. A client that does not read its messages is disconnected.
    pub(crate) fn deliver(&self, message: &Message, now: Duration) {
        let mut mailbox = self.mailbox.lock();
        mailbox.messages.push_back(Arc::clone(message));
        mailbox.bytes += message.len();
        let is_over = mailbox.bytes > SOFT_LIMIT;
        let since = mailbox.over_soft_limit_since.unwrap_or(now);
        mailbox.over_soft_limit_since = is_over.then_some(since);
        if mailbox.bytes > HARD_LIMIT || (is_over && now.saturating_sub(since) > SOFT_LIMIT_TIME) {
            mailbox.is_killed = true;
            mailbox.messages.clear();
            mailbox.bytes = 0;
        }
        self.wake(&mailbox);
    }

    /// Delivers the reply to the command that waited for an element. The caller has claimed it.
    pub(crate) fn unblock(&self, unblocked: Unblocked) {
        let mut mailbox = self.mailbox.lock();
        mailbox.unblocked = Some(unblocked);
        self.wake(&mailbox);
    }

    /// Returns the reply to the command that waited for an element.
    pub(crate) fn take_unblocked(&self) -> Option<Unblocked> {
        self.mailbox.lock().unblocked.take()
    }

    /// Disconnects the client without further replies.
    pub(crate) fn kill(&self) {
        let mut mailbox = self.mailbox.lock();
        mailbox.is_killed = true;
        self.wake(&mailbox);
    }

    /// Disconnects the client after its current turn and its pending replies.
    pub(crate) fn drain(&self) {
        let mut mailbox = self.mailbox.lock();
        mailbox.is_draining = true;
        self.wake(&mailbox);
    }

    fn wake(&self, mailbox: &Mailbox) {
        self.has_events.store(true, Ordering::Release);
        if let Some(waker) = &mailbox.waker {
            waker.wake_by_ref();
        }
    }

    /// Registers the waker of the connection. Returns true if the mailbox needs attention.
    pub(crate) fn register(&self, waker: &Waker) -> bool {
        let mut mailbox = self.mailbox.lock();
        if !mailbox.waker.as_ref().is_some_and(|known| known.will_wake(waker)) {
            mailbox.waker = Some(waker.clone());
        }
        self.has_events()
    }

    /// True if the mailbox needs attention.
    pub(crate) fn has_events(&self) -> bool {
        self.has_events.load(Ordering::Acquire)
    }

    /// Appends the messages to `output` and returns true if the client was killed or drained.
    pub(crate) fn take_events(&self, is_resp3: bool, output: &mut Vec<u8>) -> (bool, bool) {
        let mut mailbox = self.mailbox.lock();
        self.has_events.store(false, Ordering::Release);
        for message in mailbox.messages.drain(..) {
            let begin = output.len();
            output.extend_from_slice(&message);
            // In version 2, a message is an array. A line of MONITOR is a status in both.
            if !is_resp3 && message.first() == Some(&b'>') {
                output[begin] = b'*';
            }
        }
        mailbox.bytes = 0;
        mailbox.over_soft_limit_since = None;
        (mailbox.is_killed, mailbox.is_draining)
    }

    /// Type of the client.
    pub(crate) fn client_type(&self) -> ClientType {
        let is_subscribed = self.subscriptions.iter().any(|count| count.load(Ordering::Relaxed) > 0);
        if is_subscribed { ClientType::PubSub } else { ClientType::Normal }
    }

    /// Letters of the flags in CLIENT LIST.
    fn flags(&self) -> String {
        let letters = [
            ('O', self.is_monitor.load(Ordering::Relaxed)),
            ('P', self.client_type() == ClientType::PubSub),
            ('b', self.is_blocked.load(Ordering::Relaxed)),
            ('x', self.queued.load(Ordering::Relaxed) > 0),
            ('e', self.is_kept.load(Ordering::Relaxed)),
        ];
        let flags: String = letters.iter().filter(|(_, is_set)| *is_set).map(|(letter, _)| letter).collect();
        if flags.is_empty() { "N".into() } else { flags }
    }

    /// Line of CLIENT LIST.
    pub(crate) fn describe(&self, now: Duration) -> String {
        let load = |number: &AtomicUsize| number.load(Ordering::Relaxed);
        let idle_ms = (now.as_millis() as u64).saturating_sub(self.last_active_ms.load(Ordering::Relaxed));
        format!(
            "id={} addr={} laddr={} fd=0 name={} age={} idle={} flags={} db={} sub={} psub={} ssub={} \
             multi={} qbuf={} qbuf-free=0 argv-mem=0 multi-mem=0 rbs=0 rbp=0 obl=0 oll=0 omem=0 tot-mem={} \
             events=r cmd={} user={} redir=-1 resp={}",
            self.id,
            self.peer,
            self.local,
            String::from_utf8_lossy(&self.name.lock()),
            now.saturating_sub(self.connected_at).as_secs(),
            idle_ms / 1000,
            self.flags(),
            self.database.load(Ordering::Relaxed),
            load(&self.subscriptions[0]),
            load(&self.subscriptions[1]),
            load(&self.subscriptions[2]),
            load(&self.queued) as i64 - 1,
            load(&self.buffered),
            load(&self.buffered),
            *self.last_command.lock(),
            *self.user.lock(),
            if self.is_resp3.load(Ordering::Relaxed) { 3 } else { 2 },
        )
    }
}

/// All connected clients.
#[derive(Debug, Default)]
pub(crate) struct ClientRegistry {
    last_id: AtomicU64,
    count: AtomicUsize,
    clients: Mutex<BTreeMap<u64, Arc<Client>>>,
    /// Bytes of unfinished input and unsent output of all clients.
    buffered: AtomicUsize,
}

impl ClientRegistry {
    /// Returns the number for a new client.
    pub(crate) fn next_id(&self) -> u64 {
        self.last_id.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Number of clients that ever connected.
    pub(crate) fn total(&self) -> u64 {
        self.last_id.load(Ordering::Relaxed)
    }

    /// Number of connected clients.
    pub(crate) fn len(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// Bytes of unfinished input and unsent output of all clients.
    pub(crate) fn buffered(&self) -> usize {
        self.buffered.load(Ordering::Relaxed)
    }

    /// Adds a client.
    pub(crate) fn insert(&self, client: &Arc<Client>) {
        let mut clients = self.clients.lock();
        clients.insert(client.id, Arc::clone(client));
        self.count.store(clients.len(), Ordering::Relaxed);
    }

    /// Removes a client.
    pub(crate) fn remove(&self, client: &Client) {
        self.set_buffered(client, 0);
        let mut clients = self.clients.lock();
        clients.remove(&client.id);
        self.count.store(clients.len(), Ordering::Relaxed);
    }

    /// Returns all clients, by their numbers.
    pub(crate) fn all(&self) -> Vec<Arc<Client>> {
        self.clients.lock().values().cloned().collect()
    }

    /// Records the buffered bytes of a client.
    pub(crate) fn set_buffered(&self, client: &Client, bytes: usize) {
        let before = client.buffered.swap(bytes, Ordering::Relaxed);
        // Wraps for a decrease; the sum of all clients is right again.
        self.buffered.fetch_add(bytes.wrapping_sub(before), Ordering::Relaxed);
    }

    /// Disconnects the client with the most buffered bytes.
    pub(crate) fn kill_largest(&self) {
        let clients = self.clients.lock();
        let largest = clients.values().max_by_key(|client| {
            (!client.is_kept.load(Ordering::Relaxed), client.buffered.load(Ordering::Relaxed))
        });
        if let Some(largest) = largest {
            largest.kill();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client() -> Client {
        Client::new(1, "127.0.0.1:1".into(), "127.0.0.1:2".into(), Duration::ZERO)
    }

    #[test]
    fn messages_in_both_versions() {
        let client = client();
        client.deliver(&Message::from(&b">1\r\n:1\r\n"[..]), Duration::ZERO);
        let mut output = Vec::new();
        assert_eq!(client.take_events(false, &mut output), (false, false));
        assert_eq!(output, b"*1\r\n:1\r\n");
        assert!(!client.has_events());
    }

    #[test]
    fn reader_that_is_too_slow() {
        let client = client();
        let message = Message::from(vec![b'>'; 9 << 20]);
        client.deliver(&message, Duration::ZERO);
        client.deliver(&message, Duration::from_secs(59));
        assert!(!client.mailbox.lock().is_killed);
        client.deliver(&message, Duration::from_secs(61));
        assert_eq!(client.take_events(true, &mut Vec::new()), (true, false));
    }

    #[test]
    fn unread_messages_have_a_hard_limit() {
        let client = client();
        let message = Message::from(vec![b'>'; 17 << 20]);
        client.deliver(&message, Duration::ZERO);
        client.deliver(&message, Duration::ZERO);
        assert_eq!(client.take_events(true, &mut Vec::new()), (true, false));
    }

    #[test]
    fn buffered_bytes_of_all_clients() {
        let registry = ClientRegistry::default();
        let client = Arc::new(client());
        registry.insert(&client);
        registry.set_buffered(&client, 100);
        registry.set_buffered(&client, 30);
        assert_eq!((registry.buffered(), registry.len()), (30, 1));
        registry.remove(&client);
        assert_eq!((registry.buffered(), registry.len()), (0, 0));
    }
}
