//! Parallel insertion of replayed records into a memtable: collected, sorted, inserted by several
//! threads.
//!
//! ```text
//!   opener    reads and checks records [ chunk 1 ][ chunk 2 ][ chunk 3 ] ...
//!   helper                                    [ 1: sort, insert ][ 2: sort, insert ] ...
//! ```
//!
//! In log order, each record goes to another leaf of the tree, and most of the time is spent on
//! cache misses. Sorted records of a chunk visit the leaves in order.
//!
//! Records with different sequence numbers may be inserted in any order, because the memtable sorts
//! them by key and sequence number. A caller with a repeated sequence number calls
//! [`ParallelInserter::finish_memtable`] first.

use terrace_env::{Env, Priority};
use terrace_format::batch::BatchRef;
use terrace_format::key::InternalComparator;

use crate::db::components::sorted_chunk::{
    SortedChunk, SortedChunkPool, approx_memtable_bytes, insert_batch,
};
use crate::db::components::task_group::TaskGroup;
use crate::error::Result;
use crate::memtable::{InsertMode, Memtable};
use crate::sync::Arc;

/// Maximum size of a chunk in bytes. A chunk fits into the cache of a core, and still has several
/// records for each leaf of the tree.
const MAX_SORTED_CHUNK_BYTES: usize = 4 << 20;
/// Number of chunks of a small memtable.
const CHUNKS_PER_MEMTABLE: usize = 8;

/// Maximum number of helper threads. glibc reserves 64 MiB of address space for each new thread,
/// and an open should need less than 150 MiB: a helper, a flush thread and a log.
const MAX_INSERT_HELPERS: usize = 1;

/// Inserter that fills one memtable after the other.
pub(super) struct ParallelInserter {
    task_group: TaskGroup,
    chunk: SortedChunk,
    max_chunk_bytes: usize,
    should_sort: bool,
    /// Inserted chunks, for reuse of their memory.
    free_chunks: Arc<SortedChunkPool>,
}

impl ParallelInserter {
    /// Creates an inserter for memtables of about `memtable_size` bytes.
    pub(super) fn new(env: &Env, comparator: &InternalComparator, memtable_size: usize) -> ParallelInserter {
        ParallelInserter::with_max_chunk_bytes(
            env,
            comparator,
            (memtable_size / CHUNKS_PER_MEMTABLE).min(MAX_SORTED_CHUNK_BYTES),
        )
    }

    /// Creates an inserter with chunks of at most `max_chunk_bytes`. With 0, it inserts each batch
    /// at once.
    pub(super) fn with_max_chunk_bytes(
        env: &Env,
        comparator: &InternalComparator,
        max_chunk_bytes: usize,
    ) -> ParallelInserter {
        // The opener inserts chunks, too.
        let threads = env.scheduler.parallelism(Priority::Compaction);
        let helpers = threads.saturating_sub(1).min(MAX_INSERT_HELPERS);
        ParallelInserter {
            task_group: TaskGroup::new(&env.scheduler, Priority::Compaction, helpers),
            chunk: SortedChunk::default(),
            max_chunk_bytes,
            should_sort: comparator.is_bytewise(),
            free_chunks: Arc::default(),
        }
    }

    /// Inserts `batch` into `memtable`, now or later. Its sequence numbers are new, and `memtable`
    /// is the same in all calls until [`ParallelInserter::finish_memtable`].
    pub(super) fn add(&mut self, memtable: &Arc<Memtable>, batch: &BatchRef<'_>) {
        if approx_memtable_bytes(batch) > self.max_chunk_bytes / 2 {
            // A copy of a large batch costs more than it saves.
            return insert_batch(memtable, batch);
        }
        self.chunk.push(batch);
        if self.chunk.memtable_bytes <= self.max_chunk_bytes {
            return;
        }
        let next = self.free_chunks.take();
        let mut chunk = std::mem::replace(&mut self.chunk, next);
        let memtable = Arc::clone(memtable);
        let free_chunks = Arc::clone(&self.free_chunks);
        let should_sort = self.should_sort;
        self.task_group.spawn(Box::new(move || {
            chunk.insert_into(&memtable, should_sort, InsertMode::Concurrent);
            free_chunks.recycle(chunk);
        }));
    }

    /// Waits until all records are in `memtable` and no other thread uses it.
    pub(super) fn finish_memtable(&mut self, memtable: &Memtable) -> Result<()> {
        self.chunk.insert_into(memtable, self.should_sort, InsertMode::Concurrent);
        self.task_group.finish()
    }
}
