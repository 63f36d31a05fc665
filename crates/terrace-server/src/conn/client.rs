//! State of a client that other threads may see, and the list of all clients.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::task::Waker;
use std::time::Duration;

use terrace_sync::native_locks::Mutex;

use super::output_limits::{OutputLimit, OutputLimits};

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
    /// Bytes of output that the connection could not send.
    unsent: AtomicUsize,
    output_limits: Arc<OutputLimits>,
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
    /// Time that the command took after the wait.
    pub(crate) time: Duration,
}

#[derive(Debug, Default)]
struct Mailbox {
    messages: VecDeque<Message>,
    bytes: usize,
    /// Monotonic time since which the unsent output exceeds the soft limit.
    over_soft_limit_since: Option<Duration>,
    waker: Option<Waker>,
    /// Reply to the command that waited for an element.
    unblocked: Option<Unblocked>,
    is_killed: bool,
    is_draining: bool,
}

impl Client {
    /// Creates the state of a client that connected at `now`.
    pub(crate) fn new(
        id: u64,
        peer: String,
        local: String,
        now: Duration,
        output_limits: &Arc<OutputLimits>,
    ) -> Client {
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
            unsent: AtomicUsize::new(0),
            output_limits: Arc::clone(output_limits),
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
        self.check_output(&mut mailbox, now);
        self.wake(&mailbox);
    }

    /// Records the bytes that the connection could not send. Returns the time after which the
    /// client is disconnected for them, unless it reads before.
    pub(crate) fn note_unsent(&self, bytes: usize, now: impl FnOnce() -> Duration) -> Option<Duration> {
        if self.unsent.swap(bytes, Ordering::Relaxed) == 0 && bytes == 0 {
            return None;
        }
        let now = now();
        let mut mailbox = self.mailbox.lock();
        self.check_output(&mut mailbox, now);
        if mailbox.is_killed {
            self.wake(&mailbox);
        }
        let soft_time = self.output_limit().soft_time();
        mailbox.over_soft_limit_since.map(|since| since.saturating_add(soft_time).saturating_sub(now))
    }

    /// True if the client is disconnected for `bytes` of replies before they are sent.
    pub(crate) fn is_over_limit(&self, bytes: usize) -> bool {
        self.output_limit().is_over_hard(bytes)
    }

    /// Bytes of replies and messages that the client has not read.
    fn output_bytes(&self) -> usize {
        self.unsent.load(Ordering::Relaxed) + self.mailbox.lock().bytes
    }

    /// Limit on the unsent output. That of MONITOR consists of messages, too.
    fn output_limit(&self) -> OutputLimit {
        let is_monitor = self.is_monitor.load(Ordering::Relaxed);
        self.output_limits.of(if is_monitor { ClientType::PubSub } else { self.client_type() })
    }

    /// Disconnects the client if its unsent output exceeds the limit.
    fn check_output(&self, mailbox: &mut Mailbox, now: Duration) {
        let limit = self.output_limit();
        let bytes = mailbox.bytes + self.unsent.load(Ordering::Relaxed);
        let since = mailbox.over_soft_limit_since.unwrap_or(now);
        mailbox.over_soft_limit_since = limit.is_over_soft(bytes).then_some(since);
        let is_late =
            mailbox.over_soft_limit_since.is_some() && now.saturating_sub(since) > limit.soft_time();
        if limit.is_over_hard(bytes) || is_late {
            mailbox.is_killed = true;
            mailbox.messages.clear();
            mailbox.bytes = 0;
        }
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

    /// Line of CLIENT LIST. `query_bytes` is the size of the command if it is running one.
    pub(crate) fn describe(&self, now: Duration, query_bytes: Option<usize>) -> String {
        let load = |number: &AtomicUsize| number.load(Ordering::Relaxed);
        let query_bytes = query_bytes.unwrap_or_else(|| load(&self.buffered));
        let idle_ms = (now.as_millis() as u64).saturating_sub(self.last_active_ms.load(Ordering::Relaxed));
        format!(
            "id={} addr={} laddr={} fd=0 name={} age={} idle={} flags={} db={} sub={} psub={} ssub={} \
             multi={} qbuf={query_bytes} qbuf-free=0 argv-mem=0 multi-mem=0 rbs=0 rbp=0 obl=0 oll=0 omem={} tot-mem={} \
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
            self.output_bytes(),
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
    /// Limits on the unsent output of each client.
    pub(crate) output_limits: Arc<OutputLimits>,
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
        Client::new(1, "127.0.0.1:1".into(), "127.0.0.1:2".into(), Duration::ZERO, &Arc::default())
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
        client.subscriptions[0].store(1, Ordering::Relaxed);
        let message = Message::from(vec![b'>'; 9 << 20]);
        client.deliver(&message, Duration::ZERO);
        client.deliver(&message, Duration::from_secs(59));
        assert!(!client.mailbox.lock().is_killed);
        client.deliver(&message, Duration::from_secs(61));
        assert_eq!(client.take_events(true, &mut Vec::new()), (true, false));
    }

    #[test]
    fn unsent_output_counts_as_unread() {
        let client = client();
        client.subscriptions[0].store(1, Ordering::Relaxed);
        let message = Message::from(vec![b'>'; 17 << 20]);
        client.deliver(&message, Duration::ZERO);
        assert_eq!(client.take_events(true, &mut Vec::new()), (false, false));
        let soft_end = client.note_unsent(17 << 20, || Duration::from_secs(1));
        assert_eq!(soft_end, Some(Duration::from_secs(59)));
        assert_eq!(client.note_unsent(0, || Duration::from_secs(2)), None);
        client.note_unsent(17 << 20, || Duration::from_secs(3));
        client.deliver(&message, Duration::from_secs(4));
        assert_eq!(client.take_events(true, &mut Vec::new()), (true, false));
    }

    #[test]
    fn unread_messages_have_a_hard_limit() {
        let client = client();
        client.subscriptions[0].store(1, Ordering::Relaxed);
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
