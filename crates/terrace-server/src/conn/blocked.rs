//! Clients that wait until a key has an element.
//!
//! ```text
//!   client   holds the pass of its keys: finds no element, then insert
//!   writer   holds the whole gate: commit; then serves the first client of each changed key
//!   end      element, timeout, CLIENT UNBLOCK, disconnection: whoever claims the client first
//! ```
//!
//! A client is inserted under the locks of its keys. Therefore a writer of one of the keys either
//! sees the client, or the client sees the written element. The claim of a client decides who
//! replies, so that an element is taken for one client and no client gets two replies.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use terrace_sync::native_locks::Mutex;

use super::client::Client;
use crate::failure::CommandResult;
use crate::resp::Reply;
use crate::store::{DATABASES, View};

/// Command that waits for an element.
pub(crate) trait BlockedCommand: Debug + Send + Sync {
    /// Runs the command for `key`, which has changed. Returns false, without writes and without a
    /// reply, if the key has no element for this command. The caller commits.
    ///
    /// # Errors
    ///
    /// The client gets the error in place of an element.
    fn serve(&self, view: &mut View<'_>, database: u8, key: &[u8], reply: &mut Reply) -> CommandResult<bool>;

    /// True if the command ends when its key is deleted.
    fn ends_without_key(&self) -> bool {
        false
    }
}

/// Client that waits.
#[derive(Debug)]
pub(crate) struct Waiter {
    pub(crate) client: Arc<Client>,
    pub(crate) is_resp3: bool,
    pub(crate) command: Box<dyn BlockedCommand>,
    /// Keys that the client waits for: the number of the database, one byte, and the Redis key.
    keys: Vec<Vec<u8>>,
    /// Position in the queues, different for all waiters.
    pub(crate) ticket: u64,
}

/// Queues of one server.
#[derive(Debug, Default)]
struct Queues {
    last_ticket: u64,
    by_key: HashMap<Vec<u8>, BTreeMap<u64, Arc<Waiter>>>,
    by_client: HashMap<u64, Arc<Waiter>>,
}

/// All clients that wait.
#[derive(Debug, Default)]
pub(crate) struct BlockedClients {
    count: AtomicUsize,
    queues: Mutex<Queues>,
}

impl BlockedClients {
    /// Appends a client to the queues of `keys`. The caller holds the locks of the keys.
    pub(crate) fn insert(
        &self,
        client: &Arc<Client>,
        is_resp3: bool,
        keys: Vec<Vec<u8>>,
        command: Box<dyn BlockedCommand>,
    ) -> Arc<Waiter> {
        let mut queues = self.queues.lock();
        queues.last_ticket += 1;
        let ticket = queues.last_ticket;
        let waiter = Arc::new(Waiter { client: Arc::clone(client), is_resp3, command, keys, ticket });
        for key in &waiter.keys {
            queues.by_key.entry(key.clone()).or_default().insert(ticket, Arc::clone(&waiter));
        }
        queues.by_client.insert(client.id, Arc::clone(&waiter));
        client.is_blocked.store(true, Ordering::Relaxed);
        self.count.store(queues.by_client.len(), Ordering::SeqCst);
        waiter
    }

    /// Removes a waiter. Returns true for the first caller, who has to reply.
    pub(crate) fn claim(&self, waiter: &Waiter) -> bool {
        let mut queues = self.queues.lock();
        let known = queues.by_client.get(&waiter.client.id);
        if known.is_none_or(|known| known.ticket != waiter.ticket) {
            return false;
        }
        queues.by_client.remove(&waiter.client.id);
        for key in &waiter.keys {
            if let Some(queue) = queues.by_key.get_mut(key) {
                queue.remove(&waiter.ticket);
                if queue.is_empty() {
                    queues.by_key.remove(key);
                }
            }
        }
        waiter.client.is_blocked.store(false, Ordering::Relaxed);
        self.count.store(queues.by_client.len(), Ordering::SeqCst);
        true
    }

    /// Returns the waiter of the client with the number `client_id`.
    pub(crate) fn of_client(&self, client_id: u64) -> Option<Arc<Waiter>> {
        self.queues.lock().by_client.get(&client_id).cloned()
    }

    /// Returns the first waiter of `key` after the position `ticket`.
    pub(crate) fn next(&self, key: &[u8], ticket: u64) -> Option<Arc<Waiter>> {
        let queues = self.queues.lock();
        let (_, waiter) = queues.by_key.get(key)?.range(ticket + 1..).next()?;
        Some(Arc::clone(waiter))
    }

    /// Number of clients that wait.
    pub(crate) fn len(&self) -> usize {
        self.count.load(Ordering::SeqCst)
    }

    /// True if a client waits for one of `keys` in any database. The caller holds the locks of the
    /// keys, which are the same in all databases.
    pub(crate) fn has_waiter<'k>(&self, mut keys: impl Iterator<Item = &'k [u8]>) -> bool {
        if self.len() == 0 {
            return false;
        }
        let queues = self.queues.lock();
        keys.any(|key| {
            let mut wanted = [&[0], key].concat();
            (0..DATABASES).any(|database| {
                wanted[0] = database as u8;
                queues.by_key.contains_key(&wanted)
            })
        })
    }

    /// Keys for which clients wait.
    pub(crate) fn keys(&self) -> Vec<Vec<u8>> {
        self.queues.lock().by_key.keys().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[derive(Debug)]
    struct Never;

    impl BlockedCommand for Never {
        fn serve(&self, _: &mut View<'_>, _: u8, _: &[u8], _: &mut Reply) -> CommandResult<bool> {
            Ok(false)
        }
    }

    fn insert(clients: &BlockedClients, id: u64, keys: &[&[u8]]) -> Arc<Waiter> {
        let client = Arc::new(Client::new(id, String::new(), String::new(), Duration::ZERO, &Arc::default()));
        let keys = keys.iter().map(|key| [&[0], *key].concat()).collect();
        clients.insert(&client, false, keys, Box::new(Never))
    }

    #[test]
    fn first_come_first_served() {
        let clients = BlockedClients::default();
        let first = insert(&clients, 7, &[b"a", b"b"]);
        let second = insert(&clients, 3, &[b"b"]);
        assert_eq!(clients.next(b"\0b", 0).unwrap().ticket, first.ticket);
        assert_eq!(clients.next(b"\0b", first.ticket).unwrap().ticket, second.ticket);
        assert!(clients.next(b"\0b", second.ticket).is_none());
    }

    #[test]
    fn one_claim() {
        let clients = BlockedClients::default();
        let waiter = insert(&clients, 1, &[b"a", b"b"]);
        assert!(clients.has_waiter([&b"b"[..]].into_iter()));
        assert!(!clients.has_waiter([&b"c"[..]].into_iter()));
        assert!(clients.claim(&waiter) && !clients.claim(&waiter));
        assert!(clients.len() == 0 && clients.keys().is_empty());
    }

    #[test]
    fn claim_of_an_earlier_command() {
        let clients = BlockedClients::default();
        let earlier = insert(&clients, 1, &[b"a"]);
        assert!(clients.claim(&earlier));
        let later = insert(&clients, 1, &[b"a"]);
        assert!(!clients.claim(&earlier) && clients.claim(&later));
    }
}
