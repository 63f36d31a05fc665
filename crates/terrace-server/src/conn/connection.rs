//! Task of a connection.
//!
//! ```text
//!   wait for input, space in the socket, an event of the mailbox, or a deadline
//!     input   -> turn -> [slow pool: next turn] -> [other turns] -> [wait for the sync] -> write
//!     events  -> messages to the output, or the end
//! ```
//!
//! An idle connection holds no buffer: the worker's buffer receives the bytes, and the session
//! keeps only an unfinished command.

use std::future::{Future, poll_fn};
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::{Instant, Sleep};

use super::client::Client;
use super::session::Session;
use super::stream::Stream;
use super::turn::{self, TurnEnd};
use super::worker::{Origin, Worker};
use crate::resp::Reply;
use crate::shared::{Counters, Shared};
use crate::store::Scratch;

/// Time until a new client has to be logged in, and time of a TLS handshake.
pub(super) const LOGIN_TIME: Duration = Duration::from_secs(10);
/// Time until a command has to be complete.
const COMMAND_TIME: Duration = Duration::from_secs(30);
/// Size of the unsent replies above which the connection reads no input, in bytes.
const READ_STOP: usize = 1 << 20;
/// Maximum size of the replies of a worker that wait for the turns of other connections, in bytes.
const MAX_WAITING_OUTPUT: usize = 1 << 20;

/// Reason why a connection continues.
enum Wakeup {
    /// Number of bytes in the worker's buffer.
    Input(usize),
    /// The socket has accepted a part of the output.
    Output,
    Events,
    /// The deadline is over.
    Deadline,
    /// The client or an error ended the connection.
    End,
}

/// Connection of a client.
struct Connection {
    shared: Arc<Shared>,
    worker: Rc<Worker>,
    stream: Stream,
    /// State of the client. A thread of the slow pool may have it in the meantime.
    session: Box<Session>,
    accepted_at: Instant,
    /// Time of the last byte of input.
    last_input: Instant,
    /// Time at which the unfinished command began.
    unfinished_since: Option<Instant>,
    deadline: Option<Pin<Box<Sleep>>>,
}

/// Serves a client until it leaves. Not an async function, because the memory of an idle connection
/// would then contain the arguments twice.
pub(crate) fn serve_connection(
    shared: Arc<Shared>,
    worker: Rc<Worker>,
    stream: Stream,
    id: u64,
    origin: Origin,
) -> impl Future<Output = ()> {
    let client = Arc::new(Client::new(
        id,
        origin.peer,
        origin.local,
        shared.clock.monotonic(),
        &shared.clients.output_limits,
    ));
    let user = Arc::clone(shared.users.default_user());
    let session = Box::new(Session::new(Arc::clone(&client), origin.address, user, shared.needs_no_login()));
    let now = Instant::now();
    shared.clients.insert(&client);
    let mut connection = Connection {
        shared,
        worker,
        stream,
        session,
        accepted_at: now,
        last_input: now,
        unfinished_since: None,
        deadline: None,
    };
    async move {
        connection.run().await;
        connection.session.release(&connection.shared);
        // Not the session's client: a thread of the slow pool may have the session.
        connection.shared.clients.remove(&client);
    }
}

impl Connection {
    async fn run(&mut self) {
        if self.shared.is_draining() {
            self.session.client.drain();
        }
        loop {
            self.update_deadline();
            let was_blocked = self.session.blocked.is_some();
            match self.wait().await {
                Wakeup::Input(len) => {
                    if !self.serve_input(len).await {
                        break;
                    }
                }
                Wakeup::Output => {}
                Wakeup::Events if !self.take_events() => break,
                Wakeup::Events => {}
                Wakeup::Deadline if self.session.blocked.is_none() => break,
                Wakeup::Deadline => {
                    self.session.cancel_blocked(&self.shared, Reply::null_array);
                }
                Wakeup::End => break,
            }
            if was_blocked && self.session.blocked.is_none() && !self.continue_input().await {
                break;
            }
            let is_sent = self.session.output.is_empty() && !self.stream.has_unsent();
            if self.session.should_close && is_sent {
                break;
            }
        }
    }

    /// Moves the events of the mailbox to the output. Returns false if the client was killed.
    fn take_events(&mut self) -> bool {
        let session = &mut *self.session;
        let (is_killed, is_draining) = session.client.take_events(session.is_resp3, &mut session.output);
        session.should_close |= is_draining;
        if session.blocked.is_some() {
            if is_draining {
                session.cancel_blocked(&self.shared, |reply| reply.error(b"UNBLOCKED the server ends"));
            }
            if let Some(unblocked) = session.client.take_unblocked() {
                session.log_blocked(&self.shared, unblocked.time);
                session.end_blocked(&unblocked);
            }
        }
        self.account();
        !is_killed
    }

    /// Waits for the next reason to continue.
    async fn wait(&mut self) -> Wakeup {
        poll_fn(|cx| self.poll(cx)).await
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Wakeup> {
        if self.session.client.register(cx.waker()) {
            return Poll::Ready(Wakeup::Events);
        }
        if self.stream.has_unsent() {
            if self.stream.poll_flush(cx).is_err() {
                return Poll::Ready(Wakeup::End);
            }
            if !self.stream.has_unsent() {
                return Poll::Ready(Wakeup::Output);
            }
        }
        if !self.session.output.is_empty() {
            match self.stream.poll_write(cx, &self.session.output) {
                Poll::Ready(Ok(len)) if len > 0 => {
                    self.session.output.drain(..len);
                    self.account();
                    return Poll::Ready(Wakeup::Output);
                }
                Poll::Ready(_) => return Poll::Ready(Wakeup::End),
                Poll::Pending => {}
            }
        }
        if self.is_reading() {
            let mut buffer = self.worker.read_buffer.borrow_mut();
            match self.stream.poll_read(cx, &mut buffer) {
                Poll::Ready(Ok(len)) if len > 0 => return Poll::Ready(Wakeup::Input(len)),
                Poll::Ready(_) => return Poll::Ready(Wakeup::End),
                Poll::Pending => {}
            }
        }
        match &mut self.deadline {
            Some(deadline) => deadline.as_mut().poll(cx).map(|()| Wakeup::Deadline),
            None => Poll::Pending,
        }
    }

    /// True if the connection accepts input now.
    fn is_reading(&self) -> bool {
        let session = &self.session;
        // The input of a client that waits for an element shows when the client leaves.
        let has_space = session.blocked.is_none() || session.pending.len() < READ_STOP;
        session.output.len() <= READ_STOP && !session.should_close && has_space
    }

    /// Sets the next moment at which the connection, or the wait for an element, ends without
    /// input.
    fn update_deadline(&mut self) {
        let session = &self.session;
        let idle = self.shared.settings.idle_timeout();
        let login = (!session.is_authenticated).then(|| self.accepted_at + LOGIN_TIME);
        let command = self.unfinished_since.map(|since| since + COMMAND_TIME);
        let idle = idle.filter(|_| session.subscription_count() == 0);
        // A moment that the clock cannot represent never comes.
        let idle = idle.and_then(|time| self.last_input.checked_add(time));
        let unsent = session.client.note_unsent(session.output.len(), || self.shared.clock.monotonic());
        let output = unsent.and_then(|time| Instant::now().checked_add(time));
        let next = match &session.blocked {
            Some(blocked) => blocked.deadline,
            None => [login, command, idle, output].into_iter().flatten().min(),
        };
        if next != self.deadline.as_ref().map(|deadline| deadline.deadline()) {
            self.deadline = next.map(|at| Box::pin(tokio::time::sleep_until(at)));
        }
    }

    /// Runs turns until the input of `len` bytes is used. Returns false if the connection ends.
    async fn serve_input(&mut self, len: usize) -> bool {
        Counters::add_bytes(&self.shared.counters.bytes_received, len);
        if self.shared.settings.idle_timeout().is_some() {
            self.last_input = Instant::now();
        }
        if self.session.blocked.is_some() {
            let worker = Rc::clone(&self.worker);
            self.session.pending.extend_from_slice(&worker.read_buffer.borrow()[..len]);
            self.account();
            return true;
        }
        let end = self.first_turn(len);
        self.run_turns(end).await
    }

    /// Continues with the input after a command that has waited for an element. Returns false if
    /// the connection ends.
    async fn continue_input(&mut self) -> bool {
        self.unfinished_since = None;
        let end = if self.session.pending.is_empty() { TurnEnd::InputUsed } else { TurnEnd::Limit };
        self.run_turns(end).await
    }

    /// Sends the replies of a turn, and runs further turns until the input is used. Returns false
    /// if the connection ends.
    async fn run_turns(&mut self, mut end: TurnEnd) -> bool {
        loop {
            if !self.finish_turn().await {
                return false;
            }
            if matches!(end, TurnEnd::InputUsed | TurnEnd::Blocked) || self.session.should_close {
                break;
            }
            if end == TurnEnd::Limit {
                tokio::task::yield_now().await;
                if self.session.client.has_events() && !self.take_events() {
                    return false;
                }
                if !self.drain_output().await {
                    return false;
                }
                end = self.pending_turn();
            } else if end == TurnEnd::Paused {
                if !self.wait_for_pause().await {
                    return false;
                }
                end = self.pending_turn();
            } else {
                end = match self.slow_turn(end).await {
                    Some(end) => end,
                    None => return false,
                };
            }
        }
        self.note_unfinished();
        self.account();
        true
    }

    fn note_unfinished(&mut self) {
        if self.session.pending.is_empty() {
            self.unfinished_since = None;
        } else if self.unfinished_since.is_none() {
            self.unfinished_since = Some(Instant::now());
        }
    }

    /// Runs a turn on the bytes in the worker's buffer, or appends them to an unfinished command.
    fn first_turn(&mut self, len: usize) -> TurnEnd {
        let worker = Rc::clone(&self.worker);
        let mut buffer = worker.read_buffer.borrow_mut();
        if !self.session.pending.is_empty() {
            self.session.pending.extend_from_slice(&buffer[..len]);
            drop(buffer);
            return self.pending_turn();
        }
        let (used, end) = self.turn(&mut buffer[..len]);
        self.session.pending.extend_from_slice(&buffer[used..len]);
        end
    }

    /// Runs a turn on the kept bytes.
    fn pending_turn(&mut self) -> TurnEnd {
        let mut pending = std::mem::take(&mut self.session.pending);
        let (used, end) = self.turn(&mut pending);
        self.keep(pending, used);
        end
    }

    /// Keeps the bytes of `pending` after the first `used`.
    fn keep(&mut self, mut pending: Vec<u8>, used: usize) {
        if used < pending.len() {
            pending.drain(..used);
            self.session.pending = pending;
        }
    }

    fn turn(&mut self, input: &mut [u8]) -> (usize, TurnEnd) {
        let session = &mut *self.session;
        let mut scratch = self.worker.scratch.borrow_mut();
        let mut reply = self.worker.reply.borrow_mut();
        let mut arg_ranges = self.worker.arg_ranges.borrow_mut();
        reply.set_resp3(session.is_resp3);
        // A parsed command that waited has its arguments in memory of its own.
        let is_swapped = !session.is_parsed;
        if is_swapped {
            session.parser.swap_memory(&mut arg_ranges);
        }
        let result = turn::run(&self.shared, session, input, &mut scratch, &mut reply);
        if is_swapped && !session.is_parsed {
            session.parser.swap_memory(&mut arg_ranges);
        }
        session.append_replies(&mut reply);
        if reply.bytes_mut().capacity() == 0 {
            *reply.bytes_mut() = self.worker.output_memory.borrow_mut().take();
        }
        result
    }

    /// Continues with the next commands in the slow pool or on the script thread, as `end` demands.
    async fn slow_turn(&mut self, end: TurnEnd) -> Option<TurnEnd> {
        let placeholder = Box::new(Session::new(
            Arc::clone(&self.session.client),
            None,
            Arc::clone(&self.session.user),
            false,
        ));
        let mut session = std::mem::replace(&mut self.session, placeholder);
        let shared = Arc::clone(&self.shared);
        let (sender, receiver) = oneshot::channel();
        let job = move |scratch: &mut Scratch| {
            let mut pending = std::mem::take(&mut session.pending);
            let mut reply = Reply::new();
            reply.set_resp3(session.is_resp3);
            let (used, end) = turn::run(&shared, &mut session, &mut pending, scratch, &mut reply);
            session.append_replies(&mut reply);
            // The receiver is missing if the worker has ended.
            let _ = sender.send((session, pending, used, end));
        };
        match end {
            TurnEnd::NeedsScriptThread => self.shared.script_queue.submit_long(job),
            TurnEnd::IsLong => self.shared.slow_pool.submit_long(job),
            _ => self.shared.slow_pool.submit_waiting(job),
        }
        let (session, pending, used, end) = receiver.await.ok()?;
        self.session = session;
        self.keep(pending, used);
        Some(end)
    }

    /// Waits for the end of CLIENT PAUSE. Returns false if the connection ends.
    async fn wait_for_pause(&mut self) -> bool {
        /// Time between two looks at the events of the client.
        const PERIOD: Duration = Duration::from_millis(50);
        while let Some((_, rest)) = self.shared.pause.current(self.shared.clock.monotonic()) {
            self.shared.pause.wait(rest.min(PERIOD)).await;
            if self.session.client.has_events() && !self.take_events() || self.session.should_close {
                return false;
            }
        }
        true
    }

    /// Waits for the sync of the turn's writes if the mode demands it, and sends the replies as far
    /// as the socket accepts them. The other turns come first, so that one sync serves all of them.
    /// Returns false if the connection ends.
    async fn finish_turn(&mut self) -> bool {
        self.wait_for_other_turns().await;
        if std::mem::take(&mut self.session.needs_sync) {
            let ticket = self.shared.store.durability.request();
            if let Err(cause) = self.shared.store.durability.wait(ticket).await {
                self.session.replace_write_replies(&cause);
            }
        }
        let is_end = self.worker.waiting_output.get() == 0;
        self.worker.scratch.borrow().release_state(&self.shared.store, is_end);
        self.session.write_replies.clear();
        if self.session.client.is_over_limit(self.session.output.len()) {
            return false;
        }
        let is_open = poll_fn(|cx| Poll::Ready(self.send(cx))).await.is_ok();
        self.recycle_output();
        is_open
    }

    /// Waits while other connections of the worker with input run their turns. Then all of them
    /// send, so a program that waits for several replies wakes up once.
    async fn wait_for_other_turns(&self) {
        let len = self.session.output.len();
        let waiting_output = &self.worker.waiting_output;
        if len == 0 || waiting_output.get() + len > MAX_WAITING_OUTPUT {
            return;
        }
        waiting_output.set(waiting_output.get() + len);
        let mut is_queued = false;
        poll_fn(|cx| {
            if std::mem::replace(&mut is_queued, true) {
                return Poll::Ready(());
            }
            // To the end of the queue of this thread.
            cx.waker().wake_by_ref();
            Poll::Pending
        })
        .await;
        waiting_output.set(waiting_output.get() - len);
    }

    /// Sends the output as far as the socket accepts it.
    fn send(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        let mut sent = 0;
        let output = &mut self.session.output;
        while sent < output.len() {
            match self.stream.poll_write(cx, &output[sent..]) {
                Poll::Ready(Ok(0)) => return Err(io::ErrorKind::WriteZero.into()),
                Poll::Ready(len) => sent += len?,
                Poll::Pending => break,
            }
        }
        Counters::add_bytes(&self.shared.counters.bytes_sent, sent);
        if sent == output.len() {
            output.clear();
        } else {
            output.drain(..sent);
        }
        Ok(())
    }

    /// Returns the memory of sent replies to the worker.
    fn recycle_output(&mut self) {
        let output = &mut self.session.output;
        if output.is_empty() {
            self.worker.output_memory.borrow_mut().give(std::mem::take(output));
        }
    }

    /// Waits until little enough output is unsent. Returns false if the connection ends.
    async fn drain_output(&mut self) -> bool {
        while self.session.output.len() > READ_STOP {
            let sent = poll_fn(|cx| {
                if self.session.client.has_events() {
                    return Poll::Ready(None);
                }
                self.stream.poll_write(cx, &self.session.output).map(Some)
            });
            match sent.await {
                None if self.take_events() => {}
                Some(Ok(len)) if len > 0 => drop(self.session.output.drain(..len)),
                _ => return false,
            }
        }
        true
    }

    /// Records the buffered bytes, and disconnects the largest client if all of them have too many.
    fn account(&self) {
        let bytes = self.session.pending.capacity() + self.session.output.capacity();
        if bytes != self.session.client.buffered.load(std::sync::atomic::Ordering::Relaxed) {
            self.shared.clients.set_buffered(&self.session.client, bytes);
            if self.shared.clients.buffered() > self.shared.client_memory {
                self.shared.clients.kill_largest();
            }
        }
    }
}
