//! What a store must be able to do to be crashed.

use std::fmt::Debug;
use std::sync::Arc;

use terrace_env::FileSystem;

use super::contents::Entry;

/// A store on a file system. Errors are for a person.
pub trait CrashableStore: Sized {
    /// How it is opened.
    type Options: Clone + Debug;

    /// Opens or creates it.
    fn open(fs: &Arc<dyn FileSystem>, options: &Self::Options) -> Result<Self, String>;

    /// Puts and deletes, all of them or none; durable when it returns if `sync`.
    fn write(&mut self, changes: &[(&[u8], Option<&[u8]>)], sync: bool) -> Result<(), String>;

    /// Everything, in order; a store with several ways to read compares them.
    fn entries(&self) -> Result<Vec<Entry>, String>;

    /// Makes everything durable and gives it up.
    fn close(self) -> Result<(), String>;

    /// Makes everything durable, in whatever way `step` says.
    fn make_durable(self, step: &super::script::ScriptStep) -> Result<Self, String>;

    /// Remembers this moment.
    fn take_snapshot(&mut self) {}

    /// Everything of the moment that is remembered, which is forgotten.
    fn read_snapshot(&mut self) -> Option<Result<Vec<Entry>, String>> {
        None
    }
}
