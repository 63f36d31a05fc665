//! Table: sorted keys and values in a file that is written once.
//!
//! ```text
//!   +------------+-- --+------------+--------+-----------+-------+--------+
//!   | data block | ... | data block | filter | metaindex | index | footer |  optional: filter
//!   +------------+-- --+------------+--------+-----------+-------+--------+
//! ```
//!
//! Every block has a five-byte [trailer](read_block), and a [`BlockHandle`] locates it. The
//! [`Footer`] has the handles of metaindex and index.
//!
//! - The index has one entry for each data block: a separator key and the handle of the block. The
//!   separator is not below any key of its block, and below every key of the next block.
//! - The metaindex maps names to the handles of all other blocks. The filter block has the name
//!   `filter.` and the name of its [policy](crate::filter::FilterPolicy). The [`TableProperties`]
//!   have the name [`TableProperties::BLOCK_NAME`]. Readers ignore unknown names and bytes after a
//!   handle.
//!
//! [`TableBuilder`] writes tables. Reading a table needs files and caches, so it is not part of
//! this crate. The parts of a reader are [`Footer::decode`], [`read_block`] and
//! [`Block`](crate::block::Block).

mod block_handle;
mod builder;
mod footer;
mod table_properties;
mod trailer;

pub use block_handle::BlockHandle;
pub use builder::{TableBuilder, TableOptions};
pub use footer::{FOOTER_SIZE, Footer, TABLE_MAGIC};
pub use table_properties::TableProperties;
pub use trailer::{
    BLOCK_TRAILER_SIZE, codec_of_stored_block, read_block, read_block_cow, uncompressed_block,
};

#[cfg(test)]
mod tests;
