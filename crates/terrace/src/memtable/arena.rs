//! Append-only memory for one tree: its records, and whatever else lives as long.
//!
//! ```text
//!   chunk    [ record | record | node      | record | free ... ]      bumped by one atomic addition
//!   record   value length (u32) | key length (u32) | user key | trailer (u64 LE) | value
//! ```
//!
//! Nothing in it is ever moved, dropped or freed before the arena is. A record never changes once it is made; a value
//! that was put in changes only through its own atomics.
//!
//! Memory safety rests on this: what points into an arena is made by the arena, stays within this folder, and is
//! followed only with the arena of the same tree at hand. A thread gets such a pointer from the call that made it, or
//! out of a [`Slot`](super::slot::Slot), whose Release store and Acquire load put the making before the following.
#![allow(unsafe_code)] // memory that threads fill side by side

use std::mem::MaybeUninit;
use std::ptr::NonNull;

use terrace_env::HugePages;
use terrace_format::key::KEY_TRAILER_SIZE;

use super::insert_mode::InsertMode;
use crate::sync::{Arc, AtomicPtr, AtomicUsize, LoomCells, Mutex, Ordering};

/// Chunks double from the least to the greatest size, so that a small tree stays small.
const MIN_CHUNK_SIZE: usize = 16 << 10;
pub(super) const MAX_CHUNK_SIZE: usize = 2 << 20;

/// The bytes before a record's key.
const RECORD_HEADER_SIZE: usize = 8;
const CHUNK_ALIGN: usize = 64;

/// Where a `T` is.
pub(super) struct ArenaPtr<T>(NonNull<T>);

/// Where a record is.
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

// SAFETY: what it points to is shared among threads as the module says.
unsafe impl<T: Sync> Send for ArenaPtr<T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for ArenaPtr<T> {}

impl<T> ArenaPtr<T> {
    pub(super) fn as_ptr(self) -> *mut T {
        self.0.as_ptr()
    }

    /// # Safety
    ///
    /// `at` came from [`At::as_ptr`] of the same type.
    pub(super) unsafe fn from_ptr(at: NonNull<T>) -> ArenaPtr<T> {
        ArenaPtr(at)
    }
}

/// A record: its internal key, and its value.
#[derive(Clone, Copy)]
pub(super) struct ArenaRecord<'a> {
    pub(super) key: &'a [u8],
    pub(super) value: &'a [u8],
}

#[repr(align(64))]
struct CacheLine {
    _bytes: [MaybeUninit<u8>; CHUNK_ALIGN],
}

/// So many chunks of the greatest size are kept for trees to come: all of the largest tree whose size nobody asked for.
const POOLED_CHUNKS_MAX: usize = 16;

/// Memory that trees gave back. What was touched before costs no page fault when it is used again.
pub(crate) struct ChunkPool {
    free_chunks: Mutex<Vec<HugePages>>,
    /// So many are kept.
    max_chunks: usize,
}

impl Default for ChunkPool {
    fn default() -> ChunkPool {
        ChunkPool { free_chunks: Mutex::default(), max_chunks: POOLED_CHUNKS_MAX }
    }
}

impl ChunkPool {
    /// One that keeps about so many bytes at most, or fewer.
    pub(crate) fn with_limit(bytes: usize) -> ChunkPool {
        ChunkPool { max_chunks: (bytes / MAX_CHUNK_SIZE).min(POOLED_CHUNKS_MAX), ..ChunkPool::default() }
    }

    /// The bytes that are kept.
    pub(crate) fn pooled_bytes(&self) -> usize {
        self.free_chunks.lock().len() * MAX_CHUNK_SIZE
    }

    /// Gives all of it to the system.
    pub(crate) fn release_all(&self) {
        let pages = std::mem::take(&mut *self.free_chunks.lock());
        drop(pages); // without the lock: this takes a while
    }

    /// Memory of `size` bytes, rounded up to whole lines, with anything in it.
    fn alloc_chunk(&self, size: usize) -> ChunkMemory {
        let pages = if size == MAX_CHUNK_SIZE { self.alloc_max_chunk() } else { None };
        pages.map_or_else(|| ChunkMemory::alloc_heap(size), ChunkMemory::LargePages)
    }

    fn alloc_max_chunk(&self) -> Option<HugePages> {
        self.pop_free().or_else(|| HugePages::new(MAX_CHUNK_SIZE).ok())
    }

    /// What was used before.
    fn pop_free(&self) -> Option<HugePages> {
        self.free_chunks.lock().pop()
    }

    fn recycle(&self, memory: ChunkMemory) {
        match memory {
            ChunkMemory::LargePages(pages) => {
                let mut spare = self.free_chunks.lock();
                if spare.len() < self.max_chunks {
                    spare.push(pages);
                }
            }
            // SAFETY: leaked when it was made, and the arena that followed pointers into it goes.
            ChunkMemory::Heap(lines) => drop(unsafe { Box::from_raw(lines.as_ptr()) }),
        }
    }
}

/// What a chunk is made of.
enum ChunkMemory {
    /// A chunk of the greatest size, where the system gave one.
    LargePages(HugePages),
    /// A leaked box.
    Heap(NonNull<[CacheLine]>),
}

impl ChunkMemory {
    fn alloc_heap(size: usize) -> ChunkMemory {
        let lines = Box::new_uninit_slice(size.div_ceil(CHUNK_ALIGN));
        // SAFETY: lines of bytes that need not be initialised are initialised.
        ChunkMemory::Heap(NonNull::from(Box::leak(unsafe { lines.assume_init() })))
    }
}

/// Memory from which pieces are cut off, front to back.
struct ArenaChunk {
    /// The bytes that were cut off, and asked for in vain when it was full.
    used: AtomicUsize,
    start: NonNull<u8>,
    size: usize,
    memory: ChunkMemory,
}

impl ArenaChunk {
    fn new(mut memory: ChunkMemory) -> ArenaChunk {
        let (start, size) = match &mut memory {
            ChunkMemory::LargePages(pages) => (NonNull::from(pages.as_mut_slice()).cast(), MAX_CHUNK_SIZE),
            ChunkMemory::Heap(lines) => (lines.cast(), lines.len() * CHUNK_ALIGN),
        };
        ArenaChunk { used: AtomicUsize::new(0), start, size, memory }
    }

    /// Where the arena finds it until it frees it.
    fn leak(self) -> ArenaPtr<ArenaChunk> {
        ArenaPtr(NonNull::from(Box::leak(Box::new(self))))
    }

    /// The next `size` bytes, if they are there, where `align` divides the address.
    #[inline]
    fn try_alloc_bytes(&self, size: usize, align: usize, company: InsertMode) -> Option<NonNull<u8>> {
        // Pieces are multiples of eight; what needs more is given it by asking for more.
        let slack = align - RECORD_HEADER_SIZE;
        let start = match company {
            InsertMode::Concurrent => self.used.fetch_add(size + slack, Ordering::Relaxed),
            InsertMode::Exclusive => {
                let used = self.used.load(Ordering::Relaxed);
                self.used.store(used + size + slack, Ordering::Relaxed);
                used
            }
        };
        let start = start.next_multiple_of(align);
        // SAFETY: within the chunk, as compared.
        (start + size <= self.size).then(|| unsafe { self.start.add(start) })
    }
}

// SAFETY: a chunk is memory and a count; who touches which bytes is the arena's affair.
unsafe impl Send for ArenaChunk {}
// SAFETY: as above.
unsafe impl Sync for ArenaChunk {}

/// The memory of one tree.
pub(super) struct Arena {
    /// Where pieces are cut from: one of `chunks`.
    current_chunk: AtomicPtr<ArenaChunk>,
    /// The bytes used of all other chunks.
    full_chunk_bytes: AtomicUsize,
    chunks: Mutex<Vec<ArenaPtr<ArenaChunk>>>,
    /// Where chunks come from and go to.
    pool: Arc<ChunkPool>,
    loom_cell: LoomCells,
}

impl Arena {
    /// One that begins with the greatest chunk if it is to be filled `soon`, and else with the least, if there is none to be
    /// used again.
    pub(super) fn new(spare: Arc<ChunkPool>, soon: bool) -> Arena {
        // Who has filled trees before will fill this one.
        let large = if soon { spare.alloc_max_chunk() } else { spare.pop_free() };
        let first = large.map_or_else(|| ChunkMemory::alloc_heap(MIN_CHUNK_SIZE), ChunkMemory::LargePages);
        let first = ArenaChunk::new(first).leak();
        Arena {
            current_chunk: AtomicPtr::new(first.as_ptr()),
            full_chunk_bytes: AtomicUsize::new(0),
            chunks: Mutex::new(vec![first]),
            pool: spare,
            loom_cell: LoomCells::new(),
        }
    }

    /// The bytes that were cut off, about.
    pub(super) fn memory_usage(&self) -> usize {
        let current = self.current_chunk();
        self.full_chunk_bytes.load(Ordering::Relaxed) + current.used.load(Ordering::Relaxed).min(current.size)
    }

    /// The bytes that it holds, used or not.
    pub(super) fn allocated_bytes(&self) -> usize {
        self.full_chunk_bytes.load(Ordering::Relaxed) + self.current_chunk().size
    }

    /// Stores a record whose key is `user_key` followed by `trailer`. Both parts are shorter than 4 GiB.
    #[inline]
    pub(super) fn add_record(
        &self,
        user_key: &[u8],
        trailer: u64,
        value: &[u8],
        company: InsertMode,
    ) -> RecordPtr {
        let key_len = user_key.len() + KEY_TRAILER_SIZE;
        let record = self.alloc_bytes(
            (RECORD_HEADER_SIZE + key_len + value.len()).next_multiple_of(RECORD_HEADER_SIZE),
            RECORD_HEADER_SIZE,
            company,
        );
        let mut put = {
            let mut at = record;
            move |bytes: &[u8]| {
                // SAFETY: the four pieces end within what was cut off, which nobody else knows of yet.
                unsafe { at.copy_from_nonoverlapping(NonNull::from(bytes).cast(), bytes.len()) };
                // SAFETY: as above.
                at = unsafe { at.add(bytes.len()) };
            }
        };
        put(&((value.len() as u64) | (key_len as u64) << 32).to_ne_bytes());
        put(user_key);
        put(&trailer.to_le_bytes());
        put(value);
        self.loom_cell.record_write(record.as_ptr());
        ArenaPtr(record)
    }

    /// The record there.
    pub(super) fn read_record(&self, at: RecordPtr) -> ArenaRecord<'_> {
        self.loom_cell.check_read(at.as_ptr());
        // SAFETY: a record was made there, eight bytes aligned, before whoever calls knew of it; nobody changes it.
        let lengths = unsafe { at.0.cast::<u64>().read() };
        let (value_len, key_len) = (lengths as u32 as usize, (lengths >> 32) as usize);
        // SAFETY: as above.
        let key = unsafe { at.0.add(RECORD_HEADER_SIZE) };
        // SAFETY: as above.
        let value = unsafe { key.add(key_len) };
        ArenaRecord {
            // SAFETY: as above; the arena keeps the bytes while it is borrowed.
            key: unsafe { NonNull::slice_from_raw_parts(key, key_len).as_ref() },
            // SAFETY: as for the key.
            value: unsafe { NonNull::slice_from_raw_parts(value, value_len).as_ref() },
        }
    }

    /// Keeps `value`, which is never dropped.
    pub(super) fn alloc_value<T>(&self, value: T) -> ArenaPtr<T> {
        const { assert!(align_of::<T>() >= RECORD_HEADER_SIZE && align_of::<T>() <= CHUNK_ALIGN) };
        let at = self
            .alloc_bytes(
                size_of::<T>().next_multiple_of(RECORD_HEADER_SIZE),
                align_of::<T>(),
                InsertMode::Concurrent,
            )
            .cast();
        // SAFETY: a piece of that size and alignment, which nobody else knows of yet.
        unsafe { at.write(value) };
        self.loom_cell.record_write(at.as_ptr().cast());
        ArenaPtr(at)
    }

    /// The value there.
    pub(super) fn get<T>(&self, at: ArenaPtr<T>) -> &T {
        self.loom_cell.check_read(at.as_ptr().cast());
        // SAFETY: a value was put there before whoever calls knew of it; it stays as long as the arena.
        unsafe { at.0.as_ref() }
    }

    /// Has the processor fetch the first `bytes` of what is there, about, which will be read soon.
    #[inline]
    pub(super) fn prefetch<T>(&self, at: ArenaPtr<T>, bytes: usize) {
        terrace_env::prefetch(at.as_ptr(), bytes);
    }

    fn current_chunk(&self) -> &ArenaChunk {
        // Pairs with the Release in `grow`: the chunk was made before.
        let current = self.current_chunk.load(Ordering::Acquire);
        // SAFETY: `current` points to one of `chunks`, from the beginning on, and those live as long as the arena.
        unsafe { &*current }
    }

    #[inline]
    fn alloc_bytes(&self, size: usize, align: usize, company: InsertMode) -> NonNull<u8> {
        loop {
            let current = self.current_chunk();
            if size > current.size / 4 {
                return self.alloc_dedicated_chunk(size);
            } else if let Some(piece) = current.try_alloc_bytes(size, align, company) {
                return piece;
            }
            self.add_chunk(current);
        }
    }

    /// A large piece, in a chunk of its own.
    fn alloc_dedicated_chunk(&self, size: usize) -> NonNull<u8> {
        let chunk = ArenaChunk::new(self.pool.alloc_chunk(size));
        let piece = chunk.start;
        self.full_chunk_bytes.fetch_add(size, Ordering::Relaxed);
        self.chunks.lock().push(chunk.leak());
        piece
    }

    /// Begins a new chunk, unless somebody else has done so since `full` was found full.
    fn add_chunk(&self, full: &ArenaChunk) {
        let mut chunks = self.chunks.lock();
        if std::ptr::eq(self.current_chunk(), full) {
            let next = ArenaChunk::new(self.pool.alloc_chunk((full.size * 2).min(MAX_CHUNK_SIZE))).leak();
            self.full_chunk_bytes.fetch_add(full.size, Ordering::Relaxed);
            // Pairs with the Acquire in `current`.
            self.current_chunk.store(next.as_ptr(), Ordering::Release);
            chunks.push(next);
        }
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        for chunk in self.chunks.lock().drain(..) {
            // SAFETY: boxed when it was made, and `current` is not followed any more.
            let chunk = unsafe { Box::from_raw(chunk.as_ptr()) };
            self.pool.recycle(chunk.memory);
        }
    }
}
