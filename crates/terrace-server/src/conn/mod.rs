//! Connections: sockets, turns, and the state of each client.
//!
//! ```text
//!   worker      one thread: its connections, its read buffer, its memory for commands
//!   connection  one task: wait, read, run a turn, write
//!   turn        parses and runs commands until the input ends or a limit is reached
//!   blocked     clients that wait for elements
//!   session     state of a client that only its connection uses
//!   client      state of a client that other threads may see: name, mailbox, kill
//! ```

mod blocked;
mod client;
mod connection;
mod internal_client;
mod login;
mod monitor;
mod output_limits;
mod output_memory;
mod pause;
mod pubsub;
mod session;
mod slow_pool;
mod stream;
mod tls;
mod turn;
mod worker;

pub(crate) use blocked::{BlockedClients, BlockedCommand, Waiter};
pub(crate) use client::{Client, ClientRegistry, ClientType, Unblocked};
pub(crate) use connection::serve_connection;
pub(crate) use internal_client::{InternalClient, encode_command};
pub(crate) use login::{LoginAttempts, is_equal};
pub(crate) use monitor::Monitors;
pub(crate) use pause::{Pause, PauseKind};
pub(crate) use pubsub::{ChannelKind, LateMessage, PubSub};
pub(crate) use session::{Blocked, Execution, Multi, QueuedCommand, ReplyMode, Session, WatchedKey};
pub(crate) use slow_pool::{MAX_LONG_JOBS, SLOW_THREADS, SlowPool};
pub(crate) use tls::Tls;
pub use tls::TlsFiles;
pub(crate) use worker::{NewClient, NewConnection, Origin, Socket, Worker};
