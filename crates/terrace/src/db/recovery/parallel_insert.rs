//! Records of logs on their way into a memtable: gathered, sorted, inserted by several threads.
//!
//! ```text
//!   opener    reads and checks records [ chunk 1 ][ chunk 2 ][ chunk 3 ] ...
//!   a helper                                  [ 1: sort, insert ][ 2: sort, insert ] ...
//! ```
//!
//! In the order of a log each record goes to another end of the tree, and most of its cost is waiting for memory. Those of
//! a chunk go through it from one end to the other.
//!
//! Records of different numbers may be inserted in any order: a memtable has them in that of their keys and numbers. Whoever
//! has numbers that came before calls [`ParallelInserter::finish_memtable`] first.

use terrace_env::{Env, Priority};
use terrace_format::batch::BatchRef;
use terrace_format::key::InternalComparator;

use crate::db::components::sorted_chunk::{
    SortedChunk, SortedChunkPool, approx_memtable_bytes, insert_batch,
};
use crate::db::components::task_group::TaskGroup;
use crate::error::Result;
use crate::memtable::Memtable;
use crate::sync::Arc;

/// What a chunk takes at most, in bytes: so much as a core has at hand, and the tree still has several of its records in
/// each leaf.
const MAX_SORTED_CHUNK_BYTES: usize = 4 << 20;
/// A small memtable has so many.
const CHUNKS_PER_MEMTABLE: usize = 8;

/// Fills one memtable after the other.
pub(super) struct ParallelInserter {
    task_group: TaskGroup,
    chunk: SortedChunk,
    max_chunk_bytes: usize,
    should_sort: bool,
    /// Chunks that were inserted, for their memory.
    free_chunks: Arc<SortedChunkPool>,
}

impl ParallelInserter {
    /// For memtables of about `memtable_size` bytes.
    pub(super) fn new(env: &Env, comparator: &InternalComparator, memtable_size: usize) -> ParallelInserter {
        ParallelInserter::with_max_chunk_bytes(
            env,
            comparator,
            (memtable_size / CHUNKS_PER_MEMTABLE).min(MAX_SORTED_CHUNK_BYTES),
        )
    }

    /// With chunks of at most `chunk_max` bytes; of 0, every batch is inserted by itself, at once.
    pub(super) fn with_max_chunk_bytes(
        env: &Env,
        comparator: &InternalComparator,
        chunk_max: usize,
    ) -> ParallelInserter {
        // The opener's own thread is one.
        let helpers = env.scheduler.parallelism(Priority::Compaction).saturating_sub(1);
        ParallelInserter {
            task_group: TaskGroup::new(&env.scheduler, Priority::Compaction, helpers),
            chunk: SortedChunk::default(),
            max_chunk_bytes: chunk_max,
            should_sort: comparator.is_bytewise(),
            free_chunks: Arc::default(),
        }
    }

    /// Has `batch`, none of whose numbers came before, inserted into `memtable`, which is the same until
    /// [`ParallelInserter::finish_memtable`].
    pub(super) fn add(&mut self, memtable: &Arc<Memtable>, batch: &BatchRef<'_>) {
        if approx_memtable_bytes(batch) > self.max_chunk_bytes / 2 {
            // Not worth a copy.
            return insert_batch(memtable, batch);
        }
        self.chunk.push(batch);
        if self.chunk.memtable_bytes <= self.max_chunk_bytes {
            return;
        }
        let next = self.free_chunks.take();
        let mut chunk = std::mem::replace(&mut self.chunk, next);
        let (memtable, spare, sorts) =
            (Arc::clone(memtable), Arc::clone(&self.free_chunks), self.should_sort);
        self.task_group.spawn(Box::new(move || {
            chunk.insert_into(&memtable, sorts);
            spare.recycle(chunk);
        }));
    }

    /// Returns when all that was given is in `memtable`, and nobody else holds that.
    pub(super) fn finish_memtable(&mut self, memtable: &Memtable) -> Result<()> {
        self.chunk.insert_into(memtable, self.should_sort);
        self.task_group.finish()
    }
}
