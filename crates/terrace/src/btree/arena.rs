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

use terrace_env::Pages;
use terrace_format::key::TRAILER_SIZE;

use super::Company;
use crate::sync::{Arc, AtomicPtr, AtomicUsize, Mutex, Ordering, Witness};

/// Chunks double from the least to the greatest size, so that a small tree stays small.
const LEAST_CHUNK: usize = 16 << 10;
pub(super) const GREATEST_CHUNK: usize = 2 << 20;

/// The bytes before a record's key.
const HEADER: usize = 8;
const ALIGN: usize = 64;

/// Where a `T` is.
pub(super) struct At<T>(NonNull<T>);

/// Where a record is.
pub(super) type RecordAt = At<u8>;

impl<T> Clone for At<T> {
    fn clone(&self) -> At<T> {
        *self
    }
}

impl<T> Copy for At<T> {}

impl<T> PartialEq for At<T> {
    fn eq(&self, other: &At<T>) -> bool {
        self.0 == other.0
    }
}

// SAFETY: what it points to is shared among threads as the module says.
unsafe impl<T: Sync> Send for At<T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for At<T> {}

impl<T> At<T> {
    pub(super) fn as_ptr(self) -> *mut T {
        self.0.as_ptr()
    }

    /// # Safety
    ///
    /// `at` came from [`At::as_ptr`] of the same type.
    pub(super) unsafe fn from_ptr(at: NonNull<T>) -> At<T> {
        At(at)
    }
}

/// A record: its internal key, and its value.
#[derive(Clone, Copy)]
pub(super) struct Record<'a> {
    pub(super) key: &'a [u8],
    pub(super) value: &'a [u8],
}

#[repr(align(64))]
struct Line {
    _bytes: [MaybeUninit<u8>; ALIGN],
}

/// So many chunks of the greatest size are kept for trees to come: all of the largest tree whose size nobody asked for.
const SPARE_MAX: usize = 16;

/// Memory that trees gave back. What was touched before costs no page fault when it is used again.
pub(crate) struct Spare {
    pages: Mutex<Vec<Pages>>,
    /// So many are kept.
    most: usize,
}

impl Default for Spare {
    fn default() -> Spare {
        Spare { pages: Mutex::default(), most: SPARE_MAX }
    }
}

impl Spare {
    /// One that keeps about so many bytes at most, or fewer.
    pub(crate) fn up_to(bytes: usize) -> Spare {
        Spare { most: (bytes / GREATEST_CHUNK).min(SPARE_MAX), ..Spare::default() }
    }

    /// The bytes that are kept.
    pub(crate) fn bytes(&self) -> usize {
        self.pages.lock().len() * GREATEST_CHUNK
    }

    /// Gives all of it to the system.
    pub(crate) fn let_go(&self) {
        let pages = std::mem::take(&mut *self.pages.lock());
        drop(pages); // without the lock: this takes a while
    }

    /// Memory of `size` bytes, rounded up to whole lines, with anything in it.
    fn give(&self, size: usize) -> Memory {
        let pages = if size == GREATEST_CHUNK { self.large() } else { None };
        pages.map_or_else(|| Memory::lines(size), Memory::Pages)
    }

    fn large(&self) -> Option<Pages> {
        self.again().or_else(|| Pages::new(GREATEST_CHUNK).ok())
    }

    /// What was used before.
    fn again(&self) -> Option<Pages> {
        self.pages.lock().pop()
    }

    fn take_back(&self, memory: Memory) {
        match memory {
            Memory::Pages(pages) => {
                let mut spare = self.pages.lock();
                if spare.len() < self.most {
                    spare.push(pages);
                }
            }
            // SAFETY: leaked when it was made, and the arena that followed pointers into it goes.
            Memory::Lines(lines) => drop(unsafe { Box::from_raw(lines.as_ptr()) }),
        }
    }
}

/// What a chunk is made of.
enum Memory {
    /// A chunk of the greatest size, where the system gave one.
    Pages(Pages),
    /// A leaked box.
    Lines(NonNull<[Line]>),
}

impl Memory {
    fn lines(size: usize) -> Memory {
        let lines = Box::new_uninit_slice(size.div_ceil(ALIGN));
        // SAFETY: lines of bytes that need not be initialised are initialised.
        Memory::Lines(NonNull::from(Box::leak(unsafe { lines.assume_init() })))
    }
}

/// Memory from which pieces are cut off, front to back.
struct Chunk {
    /// The bytes that were cut off, and asked for in vain when it was full.
    used: AtomicUsize,
    start: NonNull<u8>,
    size: usize,
    memory: Memory,
}

impl Chunk {
    fn new(mut memory: Memory) -> Chunk {
        let (start, size) = match &mut memory {
            Memory::Pages(pages) => (NonNull::from(pages.memory()).cast(), GREATEST_CHUNK),
            Memory::Lines(lines) => (lines.cast(), lines.len() * ALIGN),
        };
        Chunk { used: AtomicUsize::new(0), start, size, memory }
    }

    /// Where the arena finds it until it frees it.
    fn boxed(self) -> At<Chunk> {
        At(NonNull::from(Box::leak(Box::new(self))))
    }

    /// The next `size` bytes, if they are there, where `align` divides the address.
    #[inline]
    fn cut(&self, size: usize, align: usize, company: Company) -> Option<NonNull<u8>> {
        // Pieces are multiples of eight; what needs more is given it by asking for more.
        let slack = align - HEADER;
        let start = match company {
            Company::Others => self.used.fetch_add(size + slack, Ordering::Relaxed),
            Company::Alone => {
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
unsafe impl Send for Chunk {}
// SAFETY: as above.
unsafe impl Sync for Chunk {}

/// The memory of one tree.
pub(super) struct Arena {
    /// Where pieces are cut from: one of `chunks`.
    current: AtomicPtr<Chunk>,
    /// The bytes used of all other chunks.
    filled: AtomicUsize,
    chunks: Mutex<Vec<At<Chunk>>>,
    /// Where chunks come from and go to.
    spare: Arc<Spare>,
    witness: Witness,
}

impl Arena {
    /// One that begins with the greatest chunk if it is to be filled `soon`, and else with the least, if there is none to be
    /// used again.
    pub(super) fn new(spare: Arc<Spare>, soon: bool) -> Arena {
        // Who has filled trees before will fill this one.
        let large = if soon { spare.large() } else { spare.again() };
        let first = large.map_or_else(|| Memory::lines(LEAST_CHUNK), Memory::Pages);
        let first = Chunk::new(first).boxed();
        Arena {
            current: AtomicPtr::new(first.as_ptr()),
            filled: AtomicUsize::new(0),
            chunks: Mutex::new(vec![first]),
            spare,
            witness: Witness::new(),
        }
    }

    /// The bytes that were cut off, about.
    pub(super) fn bytes(&self) -> usize {
        let current = self.current();
        self.filled.load(Ordering::Relaxed) + current.used.load(Ordering::Relaxed).min(current.size)
    }

    /// The bytes that it holds, used or not.
    pub(super) fn held(&self) -> usize {
        self.filled.load(Ordering::Relaxed) + self.current().size
    }

    /// Stores a record whose key is `user_key` followed by `trailer`. Both parts are shorter than 4 GiB.
    #[inline]
    pub(super) fn record(&self, user_key: &[u8], trailer: u64, value: &[u8], company: Company) -> RecordAt {
        let key_len = user_key.len() + TRAILER_SIZE;
        let record = self.cut((HEADER + key_len + value.len()).next_multiple_of(HEADER), HEADER, company);
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
        self.witness.wrote(record.as_ptr());
        At(record)
    }

    /// The record there.
    pub(super) fn read(&self, at: RecordAt) -> Record<'_> {
        self.witness.reads(at.as_ptr());
        // SAFETY: a record was made there, eight bytes aligned, before whoever calls knew of it; nobody changes it.
        let lengths = unsafe { at.0.cast::<u64>().read() };
        let (value_len, key_len) = (lengths as u32 as usize, (lengths >> 32) as usize);
        // SAFETY: as above.
        let key = unsafe { at.0.add(HEADER) };
        // SAFETY: as above.
        let value = unsafe { key.add(key_len) };
        Record {
            // SAFETY: as above; the arena keeps the bytes while it is borrowed.
            key: unsafe { NonNull::slice_from_raw_parts(key, key_len).as_ref() },
            // SAFETY: as for the key.
            value: unsafe { NonNull::slice_from_raw_parts(value, value_len).as_ref() },
        }
    }

    /// Keeps `value`, which is never dropped.
    pub(super) fn put<T>(&self, value: T) -> At<T> {
        const { assert!(align_of::<T>() >= HEADER && align_of::<T>() <= ALIGN) };
        let at = self.cut(size_of::<T>().next_multiple_of(HEADER), align_of::<T>(), Company::Others).cast();
        // SAFETY: a piece of that size and alignment, which nobody else knows of yet.
        unsafe { at.write(value) };
        self.witness.wrote(at.as_ptr().cast());
        At(at)
    }

    /// The value there.
    pub(super) fn get<T>(&self, at: At<T>) -> &T {
        self.witness.reads(at.as_ptr().cast());
        // SAFETY: a value was put there before whoever calls knew of it; it stays as long as the arena.
        unsafe { at.0.as_ref() }
    }

    /// Has the processor fetch the first `bytes` of what is there, about, which will be read soon.
    #[inline]
    pub(super) fn fetch_ahead<T>(&self, at: At<T>, bytes: usize) {
        terrace_env::fetch_ahead(at.as_ptr(), bytes);
    }

    fn current(&self) -> &Chunk {
        // Pairs with the Release in `grow`: the chunk was made before.
        let current = self.current.load(Ordering::Acquire);
        // SAFETY: `current` points to one of `chunks`, from the beginning on, and those live as long as the arena.
        unsafe { &*current }
    }

    #[inline]
    fn cut(&self, size: usize, align: usize, company: Company) -> NonNull<u8> {
        loop {
            let current = self.current();
            if size > current.size / 4 {
                return self.cut_alone(size);
            } else if let Some(piece) = current.cut(size, align, company) {
                return piece;
            }
            self.grow(current);
        }
    }

    /// A large piece, in a chunk of its own.
    fn cut_alone(&self, size: usize) -> NonNull<u8> {
        let chunk = Chunk::new(self.spare.give(size));
        let piece = chunk.start;
        self.filled.fetch_add(size, Ordering::Relaxed);
        self.chunks.lock().push(chunk.boxed());
        piece
    }

    /// Begins a new chunk, unless somebody else has done so since `full` was found full.
    fn grow(&self, full: &Chunk) {
        let mut chunks = self.chunks.lock();
        if std::ptr::eq(self.current(), full) {
            let next = Chunk::new(self.spare.give((full.size * 2).min(GREATEST_CHUNK))).boxed();
            self.filled.fetch_add(full.size, Ordering::Relaxed);
            // Pairs with the Acquire in `current`.
            self.current.store(next.as_ptr(), Ordering::Release);
            chunks.push(next);
        }
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        for chunk in self.chunks.lock().drain(..) {
            // SAFETY: boxed when it was made, and `current` is not followed any more.
            let chunk = unsafe { Box::from_raw(chunk.as_ptr()) };
            self.spare.take_back(chunk.memory);
        }
    }
}
