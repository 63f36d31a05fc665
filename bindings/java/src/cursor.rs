//! Iterators: a call moves one and copies a chunk of entries to an array of Java.
//!
//! ```text
//!   iterator --entry by entry--> chunk of the cursor --one call of JNI--> array of Java
//!
//!   0                                                 table
//!   +---------+-----+-------+---------+-----+-----//--+---------+---------+-//-+-----+---------+
//!   | key len | key | value | key len | key | value   | start 0 | start 1 |    | end | entries |
//!   +---------+-----+-------+---------+-----+-----//--+---------+---------+-//-+-----+---------+
//! ```
//!
//! All numbers have 32 bits and are little-endian. Starts and end are positions in the chunk, so
//! that Java finds each entry without a pass over those before it.
//!
//! An array, not a direct buffer: the compiler of Java turns copies of its parts into few
//! instructions.

use jni_sys::{jint, jlong};
use terrace::{Db, DbIterator, ReadOptions, Snapshot, TransactionIterator};
use terrace_sync::Mutex;

use crate::call::{Failure, bytes, call, free_handle, invalid, optional_bytes, reserve};
use crate::database::{read_options, required};
use crate::raw::{ByteArray, Class, Env, Handle, into_handle};

/// Iterator of a database or of a transaction. The lock excludes threads that use one iterator of
/// Java at the same time, which Java does not forbid.
pub(crate) struct Cursor(Mutex<CursorState>);

struct CursorState {
    iterator: EitherIterator,
    chunk: Chunk,
}

/// Entries of a fill, in the layout of this module. The next fill uses the memory again.
#[derive(Default)]
struct Chunk {
    bytes: Vec<u8>,
    /// Starts of the entries.
    starts: Vec<u32>,
}

#[allow(clippy::large_enum_variant, reason = "the handle is boxed, and a second box would cost each step")]
pub(crate) enum EitherIterator {
    Database(DbIterator),
    Transaction(TransactionIterator),
}

/// Evaluates the same expression for both kinds of iterators.
macro_rules! for_either {
    ($self:ident, $iterator:ident => $call:expr) => {
        match $self {
            EitherIterator::Database($iterator) => $call,
            EitherIterator::Transaction($iterator) => $call,
        }
    };
}

/// Number of bytes of a number.
const NUMBER: usize = size_of::<u32>();

/// Maximum memory of a chunk between two fills, in bytes: the usual length of an array.
const MAX_IDLE_CHUNK: usize = 64 << 10;

impl Chunk {
    fn clear(&mut self) {
        self.bytes.clear();
        self.starts.clear();
    }

    /// Returns the length of the finished chunk with one more entry.
    #[inline]
    fn len_with(&self, key: &[u8], value: &[u8]) -> usize {
        // The table has the starts, that of the new entry, the end and the number of entries.
        self.bytes.len() + NUMBER + key.len() + value.len() + NUMBER * (self.starts.len() + 3)
    }

    /// Appends an entry. All positions fit in 32 bits, because the chunk fits in an array of Java.
    #[inline]
    fn push(&mut self, key: &[u8], value: &[u8]) {
        self.starts.push(self.bytes.len() as u32);
        self.bytes.extend_from_slice(&(key.len() as u32).to_le_bytes());
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(value);
    }

    /// Appends the table if there are entries. Returns all bytes.
    fn finish(&mut self) -> &[u8] {
        if !self.starts.is_empty() {
            let end = self.bytes.len() as u32;
            let count = self.starts.len() as u32;
            let table = self.starts.iter().copied().chain([end, count]);
            self.bytes.extend(table.flat_map(u32::to_le_bytes));
        }
        &self.bytes
    }

    /// Returns the key of the first entry of an unfinished chunk. The chunk is not empty.
    fn first_key(&self) -> &[u8] {
        let end = self.starts.get(1).map_or(self.bytes.len(), |start| *start as usize);
        let entry = self.bytes.get(..end).unwrap_or_default();
        let len = entry.first_chunk().map_or(0, |len| u32::from_le_bytes(*len) as usize);
        entry.get(NUMBER..NUMBER + len).unwrap_or_default()
    }

    /// Removes the entries of an unfinished chunk except the first `count` ones.
    fn truncate(&mut self, count: usize) {
        if let Some(start) = self.starts.get(count) {
            self.bytes.truncate(*start as usize);
            self.starts.truncate(count);
        }
    }

    /// Frees the memory of long entries. It would otherwise remain until the end of the iterator.
    fn shrink(&mut self) {
        if self.bytes.capacity() > MAX_IDLE_CHUNK {
            *self = Chunk::default();
        }
    }
}

/// First move of a fill, with the numbers of the Java class `TerraceIterator`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Move {
    /// Stays at the entry after the last chunk.
    Stay,
    First,
    Last,
    /// Moves to the first key that is not less than the given one.
    Seek,
    /// Moves to the first key after the given one.
    After,
    /// Moves to the last key before the given one.
    Before,
}

impl Move {
    fn from_number(number: jint) -> Result<Move, Failure> {
        const MOVES: [Move; 6] = [Move::Stay, Move::First, Move::Last, Move::Seek, Move::After, Move::Before];
        let index = usize::try_from(number).ok();
        index.and_then(|index| MOVES.get(index)).copied().ok_or_else(|| invalid("unknown move"))
    }

    fn needs_key(self) -> bool {
        matches!(self, Move::Seek | Move::After | Move::Before)
    }
}

impl EitherIterator {
    fn move_to(&mut self, target: Move, key: &[u8]) {
        for_either!(self, iterator => match target {
            Move::Stay => (),
            Move::First => iterator.seek_to_first(),
            Move::Last => iterator.seek_to_last(),
            Move::Seek => iterator.seek(key),
            Move::After => {
                iterator.seek(key);
                if iterator.valid() && iterator.key() == key {
                    iterator.next();
                }
            }
            Move::Before => {
                iterator.seek(key);
                if iterator.valid() {
                    iterator.prev();
                } else {
                    iterator.seek_to_last();
                }
            }
        });
    }

    /// Copies up to `count` entries to `chunk` and moves beyond them. The finished chunk has at
    /// most `capacity` bytes. If one entry needs more, returns this number. Copies no entry after
    /// damage, which the engine's iterator skips. The call after the last entry returns the error.
    fn copy_entries(
        &mut self,
        forward: bool,
        count: usize,
        capacity: usize,
        chunk: &mut Chunk,
    ) -> Result<Option<usize>, Failure> {
        chunk.clear();
        reserve(&mut chunk.bytes, capacity)?;
        for_either!(self, iterator => {
            iterator.status()?;
            for _ in 0..count {
                if !iterator.valid() {
                    break;
                }
                let key = iterator.key();
                let value = iterator.value();
                let len = chunk.len_with(key, value);
                if len > capacity {
                    if chunk.starts.is_empty() {
                        return Ok(Some(len));
                    }
                    break;
                }
                chunk.push(key, value);
                if forward { iterator.next() } else { iterator.prev() }
            }
            let taken = chunk.starts.len();
            // An error after a single entry is that of the next call.
            if taken > 1 && let Err(error) = iterator.status() {
                // A check at each step would slow down every scan.
                let kept = iterator.entries_before_error(chunk.first_key(), forward, taken);
                chunk.truncate(kept);
                if kept == 0 {
                    return Err(error.into());
                }
            }
        });
        Ok(None)
    }
}

/// Returns a handle for an iterator.
pub(crate) fn new_cursor(iterator: EitherIterator) -> jlong {
    into_handle(Cursor(Mutex::new(CursorState { iterator, chunk: Chunk::default() })))
}

/// Returns `options` with bounds. A null array is no bound.
pub(crate) fn with_bounds(
    env: Env<'_>,
    mut options: ReadOptions,
    [lower, upper, prefix]: [ByteArray<'_>; 3],
) -> Result<ReadOptions, Failure> {
    options.lower_bound = optional_bytes(env, lower)?;
    options.upper_bound = optional_bytes(env, upper)?;
    options.prefix = optional_bytes(env, prefix)?;
    Ok(options)
}

pub(crate) extern "system" fn open<'a>(
    env: Env<'a>,
    class: Class<'a>,
    db: Handle<'a, Db>,
    snapshot: Handle<'a, Snapshot>,
    flags: jint,
    lower: ByteArray<'a>,
    upper: ByteArray<'a>,
    prefix: ByteArray<'a>,
) -> jlong {
    call(env, class, 0, || {
        let options = with_bounds(env, read_options(snapshot, flags), [lower, upper, prefix])?;
        Ok(new_cursor(EitherIterator::Database(required(db)?.raw_iter_with(&options))))
    })
}

/// Moves, and copies up to `count` entries to `array`: see [`EitherIterator::copy_entries`].
/// Returns the number of bytes. If the array is too short for one entry, returns the negative
/// length that it needs.
pub(crate) extern "system" fn fill<'a>(
    env: Env<'a>,
    class: Class<'a>,
    cursor: Handle<'a, Cursor>,
    target: jint,
    key: ByteArray<'a>,
    forward: bool,
    count: jint,
    array: ByteArray<'a>,
) -> jint {
    call(env, class, 0, || {
        let target = Move::from_number(target)?;
        let count = usize::try_from(count).unwrap_or_default();
        let CursorState { iterator, chunk } = &mut *required(cursor)?.0.lock();
        if target.needs_key() {
            iterator.move_to(target, &bytes(env, key, "key")?);
        } else {
            iterator.move_to(target, &[]);
        }
        match iterator.copy_entries(forward, count, env.byte_array_len(array), chunk)? {
            None => {
                let bytes = chunk.finish();
                env.copy_to_array(bytes, array);
                let len = bytes.len() as jint;
                chunk.shrink();
                Ok(len)
            }
            Some(len) => jint::try_from(len)
                .map(|len| -len)
                .map_err(|_| invalid("the entry is longer than an array of Java")),
        }
    })
}

pub(crate) extern "system" fn free<'a>(env: Env<'a>, class: Class<'a>, cursor: Handle<'a, Cursor>) {
    free_handle(env, class, cursor);
}
