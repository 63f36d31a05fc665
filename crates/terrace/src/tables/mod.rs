//! Table files: opening them, keeping them open within a budget, reading them.

mod ends;
mod file;
mod index;
mod memory;
mod reader;
mod slots;
mod spare;
mod writer;

pub use file::{TableCursor, TableFile};
pub(crate) use memory::Memory;
pub(crate) use reader::{Answer, BlockRead, Hit, SharedValue, Table, TableContext, TableIter, Target};
pub(crate) use reader::{fetch, fetch_bytes, read_exact, read_footer};
pub(crate) use slots::{TableCache, TableRef, TableSlot, Tally};
pub(crate) use writer::{NewTable, TableWriter};
