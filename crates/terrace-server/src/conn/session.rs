//! State of a client that only its connection uses.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::blocked::Waiter;
use super::client::{Client, Unblocked};
use super::pubsub::ChannelKind;
use crate::command::Command;
use crate::metrics::SlowCommand;
use crate::resp::{ArgRange, Parser, Reply};
use crate::shared::Shared;
use crate::store::{Mark, StoreWatch};
use crate::users::User;

/// Replies that the client wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReplyMode {
    On,
    Off,
    /// No reply to the current command and the next one.
    SkipBoth,
    /// No reply to the current command.
    SkipOne,
}

/// Result of the execution of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Execution {
    Done,
    Failed,
}

/// Command that waits for EXEC.
#[derive(Debug)]
pub(crate) struct QueuedCommand {
    pub(crate) command: &'static Command,
    pub(crate) bytes: Vec<u8>,
    pub(crate) args: Vec<ArgRange>,
}

/// Queue of MULTI.
#[derive(Debug, Default)]
pub(crate) struct Multi {
    pub(crate) commands: Vec<QueuedCommand>,
    pub(crate) bytes: usize,
    /// True after an error while commands were queued: EXEC fails.
    pub(crate) is_aborted: bool,
}

/// Command of the client that waits for an element.
#[derive(Debug)]
pub(crate) struct Blocked {
    pub(crate) waiter: Arc<Waiter>,
    /// Moment at which the wait ends without an element.
    pub(crate) deadline: Option<tokio::time::Instant>,
    /// The client wants no reply.
    pub(crate) is_silent: bool,
    /// Entry of the slow log, with the time before the wait.
    pub(crate) slow_command: Option<SlowCommand>,
}

/// Key of WATCH.
#[derive(Debug)]
pub(crate) struct WatchedKey {
    /// Key of the watch table.
    pub(crate) watch_key: Vec<u8>,
    /// Expiry at the time of WATCH. An expiry until EXEC is a change.
    pub(crate) expires_at: Option<u64>,
}

/// State of a client.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) client: Arc<Client>,
    /// Address of the client. None for the Unix socket.
    pub(crate) address: Option<IpAddr>,
    pub(crate) parser: Parser,
    /// Received bytes that no turn has used, beginning with a command.
    pub(crate) pending: Vec<u8>,
    /// True if the parser already knows the command at the start of the pending bytes.
    pub(crate) is_parsed: bool,
    /// Replies that the socket has not accepted.
    pub(crate) output: Vec<u8>,
    pub(crate) is_authenticated: bool,
    pub(crate) is_resp3: bool,
    pub(crate) database: u8,
    /// User whose rights the commands of the client have.
    pub(crate) user: Arc<User>,
    /// Last command, with its slot in the table.
    pub(crate) last_command: Option<(&'static Command, usize)>,
    /// Result of the current command, for the counts. None if it was queued or rejected.
    pub(crate) execution: Option<Execution>,
    /// True if the reply of a script that has effects is an error. Its counts show a failure.
    pub(crate) has_replied_error: bool,
    pub(crate) reply_mode: ReplyMode,
    pub(crate) multi: Option<Multi>,
    /// Keys of WATCH.
    pub(crate) watched: Vec<WatchedKey>,
    pub(crate) mark: Mark,
    /// Keys of WATCH with their states in a shared store.
    pub(crate) store_watches: Vec<StoreWatch>,
    /// Channels, patterns and shard channels.
    pub(crate) subscriptions: [BTreeSet<Vec<u8>>; 3],
    /// Command that waits for an element. The connection runs no other command meanwhile.
    pub(crate) blocked: Option<Box<Blocked>>,
    /// The connection ends after the replies.
    pub(crate) should_close: bool,
    /// Parts of the turn's replies that acknowledge a write. Only in the mode `always`.
    pub(crate) write_replies: Vec<Range<usize>>,
    /// The replies of the turn wait for a sync.
    pub(crate) needs_sync: bool,
}

impl Session {
    /// Creates the state of a new client.
    pub(crate) fn new(
        client: Arc<Client>,
        address: Option<IpAddr>,
        user: Arc<User>,
        is_authenticated: bool,
    ) -> Session {
        Session {
            client,
            address,
            parser: Parser::new(),
            pending: Vec::new(),
            is_parsed: false,
            output: Vec::new(),
            is_authenticated,
            is_resp3: false,
            database: 0,
            user,
            last_command: None,
            execution: None,
            has_replied_error: false,
            reply_mode: ReplyMode::On,
            multi: None,
            watched: Vec::new(),
            mark: Mark::default(),
            store_watches: Vec::new(),
            subscriptions: Default::default(),
            blocked: None,
            should_close: false,
            write_replies: Vec::new(),
            needs_sync: false,
        }
    }

    /// Number of subscriptions to channels and patterns.
    pub(crate) fn subscription_count(&self) -> usize {
        self.subscriptions[0].len() + self.subscriptions[1].len()
    }

    /// True if the client may only subscribe and unsubscribe.
    pub(crate) fn is_subscriber_only(&self) -> bool {
        !self.is_resp3 && self.subscriptions.iter().any(|channels| !channels.is_empty())
    }

    /// Chooses the database.
    pub(crate) fn select(&mut self, database: u8) {
        self.database = database;
        self.client.database.store(database, Ordering::Relaxed);
    }

    /// Logs in as `user`.
    pub(crate) fn log_in(&mut self, user: &Arc<User>) {
        *self.client.user.lock() = Arc::clone(&user.name);
        self.user = Arc::clone(user);
        self.is_authenticated = true;
    }

    /// Chooses the version of the protocol.
    pub(crate) fn set_resp3(&mut self, is_resp3: bool, reply: &mut Reply) {
        self.is_resp3 = is_resp3;
        self.client.is_resp3.store(is_resp3, Ordering::Relaxed);
        reply.set_resp3(is_resp3);
    }

    /// Ends all watches.
    pub(crate) fn unwatch(&mut self, shared: &Shared) {
        for watched in self.watched.drain(..) {
            shared.store.watch_table.remove(&watched.watch_key, &self.mark);
        }
        self.store_watches.clear();
        self.mark.store(false, Ordering::SeqCst);
    }

    /// Ends MULTI and all watches. Returns the queue.
    pub(crate) fn end_multi(&mut self, shared: &Shared) -> Option<Multi> {
        self.unwatch(shared);
        self.client.queued.store(0, Ordering::Relaxed);
        self.multi.take()
    }

    /// Adds or removes a subscription. Returns true if it changed.
    pub(crate) fn set_subscription(
        &mut self,
        shared: &Shared,
        kind: ChannelKind,
        channel: &[u8],
        is_on: bool,
    ) -> bool {
        let channels = &mut self.subscriptions[kind as usize];
        let changed = if is_on { channels.insert(channel.to_vec()) } else { channels.remove(channel) };
        if changed && is_on {
            shared.pubsub.subscribe(kind, channel, &self.client);
        } else if changed {
            shared.pubsub.unsubscribe(kind, channel, &self.client);
        }
        self.client.subscriptions[kind as usize].store(channels.len(), Ordering::Relaxed);
        changed
    }

    /// Ends the wait for an element with `unblocked`, whose sender has claimed the waiter.
    pub(crate) fn end_blocked(&mut self, unblocked: &Unblocked) {
        let Some(blocked) = self.blocked.take() else { return };
        if blocked.is_silent {
            return;
        }
        let begin = self.output.len();
        self.output.extend_from_slice(&unblocked.reply);
        if unblocked.needs_sync {
            self.write_replies.push(begin..self.output.len());
            self.needs_sync = true;
        }
    }

    /// Adds the command that has waited to the slow log, if it took long without its wait: before
    /// it, and `time` after it. The waiter got an element, or CLIENT UNBLOCK ended its wait.
    pub(crate) fn log_blocked(&mut self, shared: &Shared, time: Duration) {
        let entry = self.blocked.as_mut().and_then(|blocked| blocked.slow_command.take());
        if let Some(mut entry) = entry {
            entry.time += time;
            entry.at = shared.clock.wall_us() / 1_000_000;
            if shared.slow_log.wants(entry.time) {
                shared.slow_log.push(entry);
            }
        }
    }

    /// Ends the wait for an element with the reply that `write` appends, unless another thread has
    /// ended it.
    pub(crate) fn cancel_blocked(&mut self, shared: &Shared, write: impl FnOnce(&mut Reply)) {
        let Some(blocked) = &mut self.blocked else { return };
        // The other thread is sending its reply.
        blocked.deadline = None;
        if shared.blocked.claim(&blocked.waiter) {
            let mut reply = Reply::new();
            reply.set_resp3(self.is_resp3);
            write(&mut reply);
            self.end_blocked(&Unblocked {
                reply: reply.into_bytes(),
                needs_sync: false,
                time: Duration::ZERO,
            });
        }
    }

    /// Ends MULTI, all watches, all subscriptions and the wait for an element.
    pub(crate) fn release(&mut self, shared: &Shared) {
        if let Some(blocked) = self.blocked.take() {
            shared.blocked.claim(&blocked.waiter);
        }
        shared.monitors.remove(&self.client);
        self.end_multi(shared);
        for kind in [ChannelKind::Channel, ChannelKind::Pattern, ChannelKind::Shard] {
            for channel in std::mem::take(&mut self.subscriptions[kind as usize]) {
                shared.pubsub.unsubscribe(kind, &channel, &self.client);
            }
            self.client.subscriptions[kind as usize].store(0, Ordering::Relaxed);
        }
    }
}

/// Replies that wait for a sync.
impl Session {
    /// Moves the replies of a turn to the output.
    pub(crate) fn append_replies(&mut self, reply: &mut Reply) {
        if self.output.is_empty() {
            std::mem::swap(&mut self.output, reply.bytes_mut());
            return;
        }
        let offset = self.output.len();
        for range in &mut self.write_replies {
            *range = range.start + offset..range.end + offset;
        }
        self.output.extend_from_slice(reply.as_bytes());
        reply.bytes_mut().clear();
    }

    /// Replaces the replies of the turn's writes by an error, because the sync has failed.
    pub(crate) fn replace_write_replies(&mut self, cause: &str) {
        let error =
            format!("-MISCONF Errors writing to the database: {}\r\n", cause.replace(['\r', '\n'], " "));
        let mut output = Vec::with_capacity(self.output.len());
        let mut done = 0;
        for range in self.write_replies.drain(..) {
            output.extend_from_slice(self.output.get(done..range.start).unwrap_or_default());
            output.extend_from_slice(error.as_bytes());
            done = range.end;
        }
        output.extend_from_slice(self.output.get(done..).unwrap_or_default());
        self.output = output;
    }
}
