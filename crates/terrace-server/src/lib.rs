//! Server that speaks the Redis protocol over a LevelDB directory or a shared store.
//!
//! ```text
//!   resp/     the protocol as bytes: parser and replies
//!   conn/     sockets, workers, turns, clients, channels
//!   command/  the table of commands and their functions
//!   script/   Lua scripts: interpreter, libraries, limits
//!   metrics/  counts, durations, slow commands
//!   http/     listeners of the page and of GET /metrics
//!   unix_sockets/, signals/, systemd    parts that Windows lacks or has in another form
//!   page/     web page: listener, access, API
//!   store/    records of both layouts, atomicity, durability, expiry
//!   server    starts and ends all of it
//! ```
//!
//! [`serve`] runs a server until its end is requested. The guide is `docs/guide/server.md`.

mod command;
mod config;
mod conn;
mod engine_events;
mod failure;
mod glob;
mod http;
mod listeners;
mod metrics;
#[cfg(windows)]
mod no_systemd;
mod page;
#[doc(hidden)]
pub mod resp;
mod script;
mod server;
mod settings;
mod shared;
mod signals;
mod store;
#[cfg(unix)]
mod systemd;
mod threads;
mod unix_sockets;
mod users;

#[cfg(windows)]
use no_systemd as systemd;

pub use config::{IfBusy, PageConfig, ServeError, ServerConfig, TlsConfig};
pub use conn::TlsFiles;
pub use std::net::IpAddr;

pub use server::{Addresses, ServerHandle, serve};
pub use store::{Layout, SharedStoreConfig, SyncMode};
pub use users::{Role, UserConfig, hash_password};
