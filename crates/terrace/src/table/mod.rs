//! Table files: readers, writers, and the cache of open tables.

mod block_fetcher;
mod block_pool;
mod index_reader;
mod key_bounds_check;
mod mapped_blocks;
pub(crate) mod restart_index_slot;
mod sorted_table;
mod sst_file_reader;
mod table_cache;
mod table_codec;
mod table_guard;
mod table_iter;
mod table_lookup;
mod table_memory;
mod table_reader;
mod table_writer;

pub(crate) use block_fetcher::{read_block, read_block_bytes, read_exact_at, read_footer};
pub(crate) use sorted_table::stored_comparator_name;
pub use sorted_table::{SortedTable, SortedTableInfo};
pub use sst_file_reader::{SstFileReader, SstIterator};
pub(crate) use table_cache::{TableCache, TableHandle, TableRef, TableStats};
pub(crate) use table_codec::{block_codec, codec_of_tables, index_needs_marker};
pub(crate) use table_iter::{DataBlockIter, TableIter};
pub(crate) use table_lookup::{FoundEntry, LookupKey, PinnedEntry, PreparedTable, TableLookup};
pub(crate) use table_memory::TableMemory;
pub(crate) use table_reader::{BlockReadOptions, TableReader, TableReaderContext};
pub(crate) use table_writer::{FinishedTable, TableWriter};
pub use terrace_format::table::{TableBuilder, TableOptions};
