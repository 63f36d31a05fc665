//! Iterators: a call moves one and copies a chunk of entries to an array of Java.
//!
//! ```text
//!   iterator --entry by entry--> chunk of the cursor --one call of JNI--> array of Java
//! ```
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
    /// Entries of the last fill. The next one uses the memory again.
    chunk: Vec<u8>,
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

/// Number of bytes of the lengths of an entry.
const LENGTHS: usize = 8;

/// Maximum memory of a chunk between two fills, in bytes: the usual length of an array.
const MAX_IDLE_CHUNK: usize = 64 << 10;

/// First move of a fill, with the numbers of the Java class `TerraceIterator`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Move {
    /// Stays at the entry after the last chunk.
    Stay,
    First,
    Last,
    /// To the first key that is not less than the given one.
    Seek,
    /// To the first key after the given one.
    After,
    /// To the last key before the given one.
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

    /// Copies up to `count` entries to `chunk` and moves beyond them. Each entry is the lengths of
    /// key and value as little-endian numbers of 32 bits, the key, and the value. The chunk has at
    /// most `capacity` bytes. If one entry is longer, returns its length.
    fn copy_entries(
        &mut self,
        forward: bool,
        count: usize,
        capacity: usize,
        chunk: &mut Vec<u8>,
    ) -> Result<Option<usize>, Failure> {
        chunk.clear();
        for_either!(self, iterator => {
            for _ in 0..count {
                if !iterator.valid() {
                    break;
                }
                let key = iterator.key();
                let value = iterator.value();
                let len = LENGTHS + key.len() + value.len();
                if chunk.len() + len > capacity {
                    if chunk.is_empty() {
                        return Ok(Some(len));
                    }
                    break;
                }
                reserve(chunk, len)?;
                append_entry(key, value, chunk);
                if forward { iterator.next() } else { iterator.prev() }
            }
            iterator.status()?;
        });
        Ok(None)
    }
}

/// Appends an entry that fits in an array of Java, so that its lengths fit in 32 bits.
#[inline]
fn append_entry(key: &[u8], value: &[u8], chunk: &mut Vec<u8>) {
    let lens = [(key.len() as u32).to_le_bytes(), (value.len() as u32).to_le_bytes()];
    chunk.extend_from_slice(lens.as_flattened());
    chunk.extend_from_slice(key);
    chunk.extend_from_slice(value);
}

/// Returns a handle for an iterator.
pub(crate) fn new_cursor(iterator: EitherIterator) -> jlong {
    into_handle(Cursor(Mutex::new(CursorState { iterator, chunk: Vec::new() })))
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
/// Returns the number of bytes, or the length of an entry that is longer than the array, negative.
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
                env.copy_to_array(chunk, array);
                let len = chunk.len() as jint;
                // One long entry should not occupy memory until the end of the iterator.
                chunk.clear();
                chunk.shrink_to(MAX_IDLE_CHUNK);
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
