//! Front end: a server whose records are in a store that other front ends share.
//!
//! ```text
//!   command    transaction of the store: map of namespaces, keys, members; commit if unchanged
//!   conflict   another front end was faster: the command runs again
//! ```
//!
//! The locks of the gate protect a command only against the clients of this server. Against other
//! front ends, the commit compares what the command has read: the map of namespaces and the records
//! of its keys. A change of a member also writes the record of its key, so that the record stands
//! for the whole object.
//!
//! ```text
//!   open      layout of the store         transaction   reads and writes of a view
//!   watch     WATCH                       cursors       cursors of SCAN, for all front ends
//!   cleanup   expired keys, garbage and old cursors
//! ```

mod cleanup;
mod cursors;
mod open;
mod transaction;
mod watch;

pub(super) use cleanup::Cleanup;
pub(super) use open::open;
pub(super) use transaction::StoreTransaction;
pub(crate) use watch::StoreWatch;
