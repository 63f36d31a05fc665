//! Iterators over several sorted runs: one level, several runs as one, and the user's view of them.
//!
//! ```text
//!   DbIterator --> DbIter --> MergingIter --> ChildIter --> BTreeCursor
//!                                                       \-> LevelIter --> TableIter --> BlockIter
//! ```

mod bounds;
mod db_iter;
mod db_iterator;
mod entries;
mod hidden_versions;
mod level_iter;
mod merging_iter;
mod prefetch;
mod range_bound;
mod read_sample;

pub(crate) use bounds::{IterBounds, is_after_begin, is_before_end};
pub(crate) use db_iter::DbIter;
pub use db_iterator::DbIterator;
pub use entries::Iter;
pub(crate) use entries::IterSource;
pub(crate) use entries::copy_entry;
pub(crate) use level_iter::{LevelIter, SortedRun};
pub(crate) use merging_iter::{ChildIter, MergingIter};
pub(crate) use range_bound::RangeBound;
pub(crate) use read_sample::{IterObserver, READ_BYTES_PERIOD};
