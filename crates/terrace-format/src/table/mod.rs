//! A table: sorted keys and values in a file that is written once.
//!
//! ```text
//!   +------------+-- --+------------+--------+-----------+-------+--------+
//!   | data block | ... | data block | filter | metaindex | index | footer |    the filter block is optional
//!   +------------+-- --+------------+--------+-----------+-------+--------+
//! ```
//!
//! Every block has a five-byte [trailer](read_block), and is found by a [`BlockHandle`]. The [`Footer`] has the handles of
//! metaindex and index. The index has an entry for each data block: a key that is not below any key of that block and
//! below every key of the next one, and the block's handle. The metaindex has a name and a handle for anything else;
//! `filter.` and the name of a [policy](crate::filter::FilterPolicy) for the filter, [`TableProperties::BLOCK_NAME`] for the [`TableProperties`].
//! Names that a reader does not know, and bytes behind a handle, are left alone.
//!
//! [`TableBuilder`] writes tables. Reading one is a matter of files and caches, and not done here: the pieces are
//! [`Footer::decode`], [`read_block`] and [`Block`](crate::block::Block).

mod block_handle;
mod builder;
mod footer;
mod table_properties;
mod trailer;

pub use block_handle::BlockHandle;
pub use builder::{TableBuilder, TableOptions};
pub use footer::{FOOTER_SIZE, Footer, TABLE_MAGIC};
pub use table_properties::TableProperties;
pub use trailer::{BLOCK_TRAILER_SIZE, read_block, read_block_cow};

#[cfg(test)]
mod tests;
