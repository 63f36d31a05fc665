//! Append-only memory of one memtable: its records, version nodes and tree nodes.
//!
//! ```text
//!   chunk    [ record | record | node     | record | free ... ]     one atomic addition allocates
//!   record   value length (u32) | key length (u32) | user key | trailer (u64 LE) | value
//! ```
//!
//! The arena moves, drops and frees nothing before its own drop. A record is immutable. A value
//! changes only through its own atomics.
//!
//! Memory safety rests on two rules. An [`ArenaPtr`] comes from an allocation of an arena, and only
//! the unsafe methods [`Arena::get`] and [`Arena::read_record`] of the same arena follow it. A
//! thread gets the pointer from its own allocation or from an
//! [`AtomicTaggedPtr`](super::tagged_ptr::AtomicTaggedPtr): the Release store and the Acquire load
//! order the initialization of the target before its reads.
#![allow(unsafe_code)] // memory that several threads fill at the same time

use std::mem::MaybeUninit;
use std::ptr::NonNull;

use terrace_env::MemMapping;
use terrace_format::key::KEY_TRAILER_SIZE;

use super::insert_mode::InsertMode;
use crate::shared_budget::SharedBudget;
use crate::sync::{Arc, AtomicPtr, AtomicUsize, ForkLocks, ForkParticipant, LoomCells, Mutex, Ordering};

/// Size of the first chunk in bytes. Each chunk has twice the size of the previous one, up to
/// [`MAX_CHUNK_SIZE`]: a small memtable takes little memory.
const MIN_CHUNK_SIZE: usize = 16 << 10;
/// Maximum size of a chunk in bytes, except for chunks of a single large record.
pub(super) const MAX_CHUNK_SIZE: usize = 2 << 20;

/// Bytes before the key of a record: its two lengths.
const RECORD_HEADER_SIZE: usize = 8;
/// Alignment of a chunk in bytes: one cache line.
const CHUNK_ALIGN: usize = 64;

/// Address of a `T` in an arena.
pub(super) struct ArenaPtr<T>(NonNull<T>);

/// Address of a record in an arena.
pub(super) type RecordPtr = ArenaPtr<u8>;

impl<T> Clone for ArenaPtr<T> {
    fn clone(&self) -> ArenaPtr<T> {
        *self
    }
}

impl<T> Copy for ArenaPtr<T> {}

impl<T> PartialEq for ArenaPtr<T> {
    fn eq(&self, other: &ArenaPtr<T>) -> bool {
        self.0 == other.0
    }
}

// SAFETY: a pointer is plain data. A thread that follows it, by the unsafe `Arena::get`, gets a
// shared reference, which `T: Sync` allows in every thread.
unsafe impl<T: Sync> Send for ArenaPtr<T> {}
// SAFETY: threads that share a pointer can only copy it. Copies are safe to send, see `Send`.
unsafe impl<T: Sync> Sync for ArenaPtr<T> {}

impl<T> ArenaPtr<T> {
    pub(super) fn as_ptr(self) -> *mut T {
        self.0.as_ptr()
    }

    /// Returns the address of a value. Only a pointer to a value of an arena may be followed.
    pub(super) fn from_non_null(ptr: NonNull<T>) -> ArenaPtr<T> {
        ArenaPtr(ptr)
    }

    pub(super) fn cast<U>(self) -> ArenaPtr<U> {
        ArenaPtr(self.0.cast())
    }
}

/// Internal key and value of a record.
#[derive(Clone, Copy)]
pub(super) struct ArenaRecord<'a> {
    pub(super) key: &'a [u8],
    pub(super) value: &'a [u8],
}

#[repr(align(64))]
struct CacheLine {
    _bytes: [MaybeUninit<u8>; CHUNK_ALIGN],
}

/// Default maximum number of pooled chunks, of [`MAX_CHUNK_SIZE`] bytes each: enough for the
/// largest memtable of a database with the default `write_buffer_size`.
const POOLED_CHUNKS_MAX: usize = 32;

/// Pool of chunks recycled from flushed memtables. A recycled chunk causes no page faults.
pub(crate) struct ChunkPool {
    free_chunks: Mutex<Vec<MemMapping>>,
    /// Maximum number of pooled chunks.
    max_chunks: usize,
    /// Budget that counts the pooled chunks and those of the arenas.
    budget: Option<Arc<SharedBudget>>,
}

impl Default for ChunkPool {
    fn default() -> ChunkPool {
        ChunkPool { free_chunks: Mutex::default(), max_chunks: POOLED_CHUNKS_MAX, budget: None }
    }
}

impl ForkParticipant for ChunkPool {
    fn lock_for_fork(self: Arc<Self>, locks: &mut ForkLocks) {
        locks.lock(&self, |pool| &pool.free_chunks);
    }
}

impl ChunkPool {
    /// Creates a pool of at most `bytes` bytes, rounded down to whole chunks. `budget` counts them
    /// and the memory of the arenas.
    pub(crate) fn with_limit(bytes: usize, budget: Option<Arc<SharedBudget>>) -> ChunkPool {
        let max_chunks = (bytes / MAX_CHUNK_SIZE).min(POOLED_CHUNKS_MAX);
        ChunkPool { free_chunks: Mutex::default(), max_chunks, budget }
    }

    /// Returns true if the databases that share the budget must take little memory.
    fn is_budget_tight(&self) -> bool {
        self.budget.as_ref().is_some_and(|budget| budget.is_tight())
    }

    /// Counts the memory of a new chunk.
    fn reserve(&self, memory: ChunkMemory) -> ChunkMemory {
        if let Some(budget) = &self.budget {
            budget.reserve_memtable(memory.size());
        }
        memory
    }

    /// Ends the count of `bytes` bytes.
    fn release(&self, bytes: usize) {
        if let Some(budget) = &self.budget {
            budget.release_memtable(bytes);
        }
    }

    /// Returns the size of the pooled chunks in bytes.
    pub(crate) fn pooled_bytes(&self) -> usize {
        self.free_chunks.lock().len() * MAX_CHUNK_SIZE
    }

    /// Returns all pooled chunks to the system.
    pub(crate) fn release_all(&self) {
        let chunks = std::mem::take(&mut *self.free_chunks.lock());
        self.release(chunks.len() * MAX_CHUNK_SIZE);
        drop(chunks); // without the lock: unmapping is slow
    }

    /// Returns uninitialized memory of `size` bytes, rounded up to whole cache lines.
    fn alloc_chunk(&self, size: usize) -> ChunkMemory {
        let pages = if size == MAX_CHUNK_SIZE { self.alloc_max_chunk() } else { None };
        pages.unwrap_or_else(|| self.reserve(ChunkMemory::alloc_heap(size)))
    }

    /// Returns memory for a chunk of `size` bytes, or a larger one, or `None` if the system has no
    /// memory.
    fn try_alloc_chunk(&self, size: usize) -> Option<ChunkMemory> {
        if size < MAX_CHUNK_SIZE
            && let Some(memory) = ChunkMemory::try_alloc_heap(size)
        {
            return Some(self.reserve(memory));
        }
        self.alloc_max_chunk()
    }

    fn alloc_max_chunk(&self) -> Option<ChunkMemory> {
        self.pop_free().or_else(|| {
            let pages = MemMapping::new(MAX_CHUNK_SIZE).ok()?;
            Some(self.reserve(ChunkMemory::Mapping(pages)))
        })
    }

    /// Returns a recycled chunk, if the pool holds one.
    fn pop_free(&self) -> Option<ChunkMemory> {
        self.free_chunks.lock().pop().map(ChunkMemory::Mapping)
    }

    fn recycle(&self, memory: ChunkMemory) {
        let size = memory.size();
        match memory {
            ChunkMemory::Mapping(pages) => {
                let mut free_chunks = self.free_chunks.lock();
                if free_chunks.len() < self.max_chunks && !self.is_budget_tight() {
                    free_chunks.push(pages);
                    return;
                }
                drop(free_chunks);
                drop(pages); // without the lock: unmapping is slow
            }
            // SAFETY: `alloc_heap` or `try_alloc_heap` leaked this box. The arena that owned the
            // chunk is being dropped, so nothing follows a pointer into the chunk.
            ChunkMemory::Heap(lines) => drop(unsafe { Box::from_raw(lines.as_ptr()) }),
        }
        self.release(size);
    }
}

impl Drop for ChunkPool {
    fn drop(&mut self) {
        self.release_all();
    }
}

/// Memory of a chunk.
enum ChunkMemory {
    /// Chunk of [`MAX_CHUNK_SIZE`] bytes, mapped by the system.
    Mapping(MemMapping),
    /// Leaked box: a chunk of another size, or a chunk that the system did not map.
    Heap(NonNull<[CacheLine]>),
}

impl ChunkMemory {
    /// Returns the size in bytes.
    fn size(&self) -> usize {
        match self {
            ChunkMemory::Mapping(_) => MAX_CHUNK_SIZE,
            ChunkMemory::Heap(lines) => lines.len() * CHUNK_ALIGN,
        }
    }

    fn alloc_heap(size: usize) -> ChunkMemory {
        let lines = Box::new_uninit_slice(size.div_ceil(CHUNK_ALIGN));
        // SAFETY: `CacheLine` holds only `MaybeUninit<u8>`, for which any bytes are valid.
        ChunkMemory::Heap(NonNull::from(Box::leak(unsafe { lines.assume_init() })))
    }
}

impl ChunkMemory {
    fn try_alloc_heap(size: usize) -> Option<ChunkMemory> {
        let mut lines = Vec::<CacheLine>::new();
        lines.try_reserve_exact(size.div_ceil(CHUNK_ALIGN)).ok()?;
        // SAFETY: the vector has this capacity, and `CacheLine` holds only `MaybeUninit<u8>`, for
        // which any bytes are valid.
        unsafe { lines.set_len(size.div_ceil(CHUNK_ALIGN)) };
        Some(ChunkMemory::Heap(NonNull::from(Box::leak(lines.into_boxed_slice()))))
    }
}

/// Memory that is allocated from front to back.
struct ArenaChunk {
    /// Allocated bytes, plus the bytes of failed allocations after the chunk was full.
    used: AtomicUsize,
    start: NonNull<u8>,
    size: usize,
    memory: ChunkMemory,
}

impl ArenaChunk {
    fn new(mut memory: ChunkMemory) -> ArenaChunk {
        let size = memory.size();
        let start = match &mut memory {
            ChunkMemory::Mapping(pages) => NonNull::from(pages.as_mut_slice()).cast(),
            ChunkMemory::Heap(lines) => lines.cast(),
        };
        ArenaChunk { used: AtomicUsize::new(0), start, size, memory }
    }

    /// Moves the chunk to the heap. The arena frees it on drop.
    fn leak(self) -> ArenaPtr<ArenaChunk> {
        ArenaPtr(NonNull::from(Box::leak(Box::new(self))))
    }

    /// Allocates `size` bytes at a multiple of `align`, if the chunk has space for them.
    #[inline]
    fn try_alloc_bytes(&self, size: usize, align: usize, mode: InsertMode) -> Option<NonNull<u8>> {
        // Sizes are multiples of eight, and so is `used`. A larger alignment takes additional
        // bytes.
        let slack = align - RECORD_HEADER_SIZE;
        let offset = match mode {
            InsertMode::Concurrent => self.used.fetch_add(size + slack, Ordering::Relaxed),
            InsertMode::Exclusive => {
                let used = self.used.load(Ordering::Relaxed);
                self.used.store(used + size + slack, Ordering::Relaxed);
                used
            }
        };
        let offset = offset.next_multiple_of(align);
        // SAFETY: the comparison proves that the offset lies within the chunk.
        (offset + size <= self.size).then(|| unsafe { self.start.add(offset) })
    }
}

// SAFETY: a chunk owns its memory, and memory belongs to no thread.
unsafe impl Send for ArenaChunk {}
// SAFETY: `try_alloc_bytes`, the only method that threads share, gives each caller bytes of its own
// and changes only an atomic.
unsafe impl Sync for ArenaChunk {}

/// Memory of one memtable.
pub(super) struct Arena {
    /// Chunk of the next allocation: one of `chunks`.
    current_chunk: AtomicPtr<ArenaChunk>,
    /// Bytes of all other chunks.
    full_chunk_bytes: AtomicUsize,
    chunks: Mutex<Vec<ArenaPtr<ArenaChunk>>>,
    /// Next chunk, allocated before the current one is full.
    next_chunk: Mutex<Option<ArenaChunk>>,
    /// Source of new chunks, and destination of the chunks after the drop of the arena.
    pool: Arc<ChunkPool>,
    loom_cell: LoomCells,
}

impl Arena {
    /// Creates an arena.
    ///
    /// The first chunk has the maximum size if `fills_soon` is set or the pool holds a recycled
    /// chunk. Otherwise it has the minimum size.
    pub(super) fn new(pool: Arc<ChunkPool>, fills_soon: bool) -> Arena {
        // A recycled chunk shows that memtables of this database fill up.
        let large =
            if fills_soon && !pool.is_budget_tight() { pool.alloc_max_chunk() } else { pool.pop_free() };
        let first = large.unwrap_or_else(|| pool.alloc_chunk(MIN_CHUNK_SIZE));
        let first = ArenaChunk::new(first).leak();
        Arena {
            current_chunk: AtomicPtr::new(first.as_ptr()),
            full_chunk_bytes: AtomicUsize::new(0),
            chunks: Mutex::new(vec![first]),
            next_chunk: Mutex::new(None),
            pool,
            loom_cell: LoomCells::new(),
        }
    }

    /// Returns the approximate number of allocated bytes.
    pub(super) fn memory_usage(&self) -> usize {
        let current = self.current_chunk();
        self.full_chunk_bytes.load(Ordering::Relaxed) + current.used.load(Ordering::Relaxed).min(current.size)
    }

    /// Returns the size of all chunks in bytes, used or not.
    pub(super) fn allocated_bytes(&self) -> usize {
        self.full_chunk_bytes.load(Ordering::Relaxed) + self.current_chunk().size
    }

    /// Adds a record with the internal key `user_key`, `trailer`. The key and the value are shorter
    /// than 4 GiB each.
    #[inline]
    pub(super) fn add_record(
        &self,
        user_key: &[u8],
        trailer: u64,
        value: &[u8],
        mode: InsertMode,
    ) -> RecordPtr {
        let key_len = user_key.len() + KEY_TRAILER_SIZE;
        let record = self.alloc_bytes(
            (RECORD_HEADER_SIZE + key_len + value.len()).next_multiple_of(RECORD_HEADER_SIZE),
            RECORD_HEADER_SIZE,
            mode,
        );
        let mut append = {
            let mut end = record;
            move |bytes: &[u8]| {
                // SAFETY: `alloc_bytes` returned space for the header, the key, the trailer and the
                // value. No other thread has the address yet.
                unsafe { end.copy_from_nonoverlapping(NonNull::from(bytes).cast(), bytes.len()) };
                // SAFETY: the end of the appended part lies within the allocation, or at its end.
                end = unsafe { end.add(bytes.len()) };
            }
        };
        append(&((value.len() as u64) | (key_len as u64) << 32).to_ne_bytes());
        append(user_key);
        append(&trailer.to_le_bytes());
        append(value);
        self.loom_cell.record_write(record.as_ptr());
        ArenaPtr(record)
    }

    /// Returns the record at `ptr`.
    ///
    /// # Safety
    ///
    /// [`Arena::add_record`] of this arena returned `ptr`, and the caller got it from that call or
    /// by an Acquire load that pairs with a Release store after it.
    pub(super) unsafe fn read_record(&self, ptr: RecordPtr) -> ArenaRecord<'_> {
        self.loom_cell.check_read(ptr.as_ptr());
        // SAFETY: the caller passes the address of a complete record. Records are aligned to eight
        // bytes, begin with their lengths and never change.
        let lengths = unsafe { ptr.0.cast::<u64>().read() };
        let value_len = lengths as u32 as usize;
        let key_len = (lengths >> 32) as usize;
        // SAFETY: the key follows the header in the allocation of the record.
        let key = unsafe { ptr.0.add(RECORD_HEADER_SIZE) };
        // SAFETY: the value follows the `key_len` bytes of the key in the allocation of the record.
        let value = unsafe { key.add(key_len) };
        ArenaRecord {
            // SAFETY: `add_record` wrote `key_len` bytes at `key`. They stay unchanged as long as
            // the arena, which `&self` borrows.
            key: unsafe { NonNull::slice_from_raw_parts(key, key_len).as_ref() },
            // SAFETY: `add_record` wrote `value_len` bytes at `value`. They stay unchanged as long
            // as the arena, which `&self` borrows.
            value: unsafe { NonNull::slice_from_raw_parts(value, value_len).as_ref() },
        }
    }

    /// Moves `value` into the arena. Its destructor never runs.
    pub(super) fn alloc_value<T>(&self, value: T) -> ArenaPtr<T> {
        const { assert!(align_of::<T>() >= RECORD_HEADER_SIZE && align_of::<T>() <= CHUNK_ALIGN) };
        let ptr = self
            .alloc_bytes(
                size_of::<T>().next_multiple_of(RECORD_HEADER_SIZE),
                align_of::<T>(),
                InsertMode::Concurrent,
            )
            .cast();
        // SAFETY: `alloc_bytes` returned memory of the size and alignment of a `T`. No other thread
        // has the address yet.
        unsafe { ptr.write(value) };
        self.loom_cell.record_write(ptr.as_ptr().cast());
        ArenaPtr(ptr)
    }

    /// Returns the value at `ptr`.
    ///
    /// # Safety
    ///
    /// [`Arena::alloc_value`] of this arena returned `ptr` for a `T`, and the caller got it from
    /// that call or by an Acquire load that pairs with a Release store after it.
    pub(super) unsafe fn get<T>(&self, ptr: ArenaPtr<T>) -> &T {
        self.loom_cell.check_read(ptr.as_ptr().cast());
        // SAFETY: the caller passes the address of an initialized `T`. It stays in place as long as
        // the arena, which `&self` borrows, and changes only through its own atomics.
        unsafe { ptr.0.as_ref() }
    }

    /// Prefetches about `bytes` bytes at `ptr` into the processor's cache.
    #[inline]
    pub(super) fn prefetch<T>(&self, ptr: ArenaPtr<T>, bytes: usize) {
        terrace_env::prefetch(ptr.as_ptr(), bytes);
    }

    /// Prefetches about `bytes` bytes before `ptr` into the processor's cache.
    #[inline]
    pub(super) fn prefetch_before<T>(&self, ptr: ArenaPtr<T>, bytes: usize) {
        terrace_env::prefetch(ptr.as_ptr().cast::<u8>().wrapping_sub(bytes), bytes);
    }

    /// Allocates the next chunk if less than an eighth of the current one is left after `bytes`
    /// bytes. This share is for the nodes of the tree, and for other threads that insert at the
    /// same time. Returns false if the system has no memory.
    #[inline]
    pub(super) fn try_reserve(&self, bytes: usize) -> bool {
        let current = self.current_chunk();
        let used = current.used.load(Ordering::Relaxed);
        used.saturating_add(bytes) < current.size - current.size / 8 || self.reserve_next_chunk(current)
    }

    #[cold]
    fn reserve_next_chunk(&self, current: &ArenaChunk) -> bool {
        let mut next = self.next_chunk.lock();
        if next.is_none() {
            let memory = self.pool.try_alloc_chunk((current.size * 2).min(MAX_CHUNK_SIZE));
            *next = memory.map(ArenaChunk::new);
        }
        next.is_some()
    }

    fn current_chunk(&self) -> &ArenaChunk {
        // Pairs with the Release store in `add_chunk`: the chunk is initialized.
        let current = self.current_chunk.load(Ordering::Acquire);
        // SAFETY: `current_chunk` always points to one of `chunks`. The arena frees its chunks only
        // on drop, and `&self` keeps it alive.
        unsafe { &*current }
    }

    #[inline(always)]
    fn alloc_bytes(&self, size: usize, align: usize, mode: InsertMode) -> NonNull<u8> {
        loop {
            let current = self.current_chunk();
            if size > current.size / 4 {
                return self.alloc_dedicated_chunk(size);
            } else if let Some(start) = current.try_alloc_bytes(size, align, mode) {
                return start;
            }
            self.add_chunk(current);
        }
    }

    /// Allocates a separate chunk for a large record.
    fn alloc_dedicated_chunk(&self, size: usize) -> NonNull<u8> {
        let chunk = ArenaChunk::new(self.pool.alloc_chunk(size));
        let start = chunk.start;
        self.full_chunk_bytes.fetch_add(size, Ordering::Relaxed);
        self.chunks.lock().push(chunk.leak());
        start
    }

    /// Adds a chunk, unless another thread already replaced the chunk `full`.
    fn add_chunk(&self, full: &ArenaChunk) {
        let mut chunks = self.chunks.lock();
        if std::ptr::eq(self.current_chunk(), full) {
            let reserved = self.next_chunk.lock().take();
            let next = reserved.unwrap_or_else(|| {
                ArenaChunk::new(self.pool.alloc_chunk((full.size * 2).min(MAX_CHUNK_SIZE)))
            });
            let next = next.leak();
            self.full_chunk_bytes.fetch_add(full.size, Ordering::Relaxed);
            // Pairs with the Acquire load in `current_chunk`.
            self.current_chunk.store(next.as_ptr(), Ordering::Release);
            chunks.push(next);
        }
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        for chunk in self.chunks.get_mut().drain(..) {
            // SAFETY: `leak` boxed the chunk. `&mut self` proves that no thread uses the arena, and
            // `drain` yields each chunk once.
            let chunk = unsafe { Box::from_raw(chunk.as_ptr()) };
            self.pool.recycle(chunk.memory);
        }
        if let Some(chunk) = self.next_chunk.lock().take() {
            self.pool.recycle(chunk.memory);
        }
    }
}
