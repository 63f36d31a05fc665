//! Interface of a store under crash tests.

use std::fmt::Debug;
use std::sync::Arc;

use terrace_env::FileSystem;

use super::contents::Entry;

/// A store on a file system. Errors are messages for people.
pub trait CrashableStore: Sized {
    /// Options of an open.
    type Options: Clone + Debug;

    /// Opens or creates the store.
    fn open(fs: &Arc<dyn FileSystem>, options: &Self::Options) -> Result<Self, String>;

    /// Writes a batch of puts and deletions. It is durable on return if `sync` is set.
    fn write(&mut self, changes: &[(&[u8], Option<&[u8]>)], sync: bool) -> Result<(), String>;

    /// Returns all entries in order. A store with several ways to read compares them.
    fn entries(&self) -> Result<Vec<Entry>, String>;

    /// Makes all writes durable and closes the store.
    fn close(self) -> Result<(), String>;

    /// Makes all writes durable by the operation that `step` names.
    fn make_durable(self, step: &super::script::ScriptStep) -> Result<Self, String>;

    /// Takes a snapshot.
    fn take_snapshot(&mut self) {}

    /// Returns all entries of the last snapshot and releases it.
    fn read_snapshot(&mut self) -> Option<Result<Vec<Entry>, String>> {
        None
    }
}
