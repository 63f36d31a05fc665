//! The commands, one file each. [`crate::cli::COMMANDS`] lists them.

pub(crate) mod backup;
pub(crate) mod bench;
pub(crate) mod checkpoint;
pub(crate) mod compact;
pub(crate) mod completions;
pub(crate) mod convert;
pub(crate) mod count;
pub(crate) mod delete;
#[cfg(all(feature = "server", feature = "store"))]
pub(crate) mod demo;
pub(crate) mod destroy;
pub(crate) mod dump;
pub(crate) mod get;
pub(crate) mod load;
pub(crate) mod man;
#[cfg(feature = "store")]
pub(crate) mod migrate;
pub(crate) mod put;
pub(crate) mod repair;
pub(crate) mod restore;
pub(crate) mod scan;
#[cfg(feature = "server")]
pub(crate) mod serve;
pub(crate) mod shell;
pub(crate) mod stat;
pub(crate) mod tour;
pub(crate) mod verify;
#[cfg(feature = "server")]
pub(crate) mod view;
