//! Client inside of the server: the web page runs commands as one.

use std::sync::Arc;

use super::client::Client;
use super::session::Session;
use super::turn::{self, TurnEnd};
use crate::resp::Reply;
use crate::shared::Shared;
use crate::store::{Scratch, SyncMode};

/// Client without a socket. Its user may run all commands.
#[derive(Debug)]
pub(crate) struct InternalClient {
    session: Session,
}

impl InternalClient {
    /// Creates a client with the name `name`. The list of clients does not have it.
    pub(crate) fn new(shared: &Shared, name: &str) -> InternalClient {
        let now = shared.clock.monotonic();
        let id = shared.clients.next_id();
        let limits = &shared.clients.output_limits;
        let client = Client::new(id, name.to_owned(), String::new(), now, limits);
        let user = Arc::clone(shared.users.default_user());
        InternalClient { session: Session::new(Arc::new(client), None, user, true) }
    }

    /// Chooses the database.
    pub(crate) fn select(&mut self, database: u8) {
        self.session.select(database);
    }

    /// Runs the commands in `input` and returns their replies in version 2 of the protocol. The
    /// thread may wait. A reply acknowledges a write as it does for other clients.
    pub(crate) fn run(&mut self, shared: &Shared, scratch: &mut Scratch, mut input: Vec<u8>) -> Vec<u8> {
        let mut reply = Reply::new();
        let (_, end) = turn::run(shared, &mut self.session, &mut input, scratch, &mut reply);
        if end == TurnEnd::Paused {
            reply.error(b"ERR clients are paused");
        }
        if self.session.needs_sync && shared.store.durability.mode() == SyncMode::Always {
            if let Err(error) = shared.store.backend.sync() {
                let mut failed = Reply::new();
                failed.error(format!("MISCONF Errors writing to the database: {error}").as_bytes());
                return failed.into_bytes();
            }
            self.session.needs_sync = false;
            self.session.write_replies.clear();
        }
        reply.into_bytes()
    }

    /// Ends watches and everything else that the client has left.
    pub(crate) fn release(mut self, shared: &Shared) {
        self.session.release(shared);
    }
}

/// Encodes a command.
pub(crate) fn encode_command(args: &[&[u8]]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", args.len()).into_bytes();
    for arg in args {
        bytes.extend_from_slice(format!("${}\r\n", arg.len()).as_bytes());
        bytes.extend_from_slice(arg);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}
