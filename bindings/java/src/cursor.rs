//! Iterators: a call moves one and copies a chunk of entries to the buffer of its Java object.

use jni_sys::{jint, jlong};
use terrace::{Db, DbIterator, ReadOptions, Snapshot, TransactionIterator};
use terrace_sync::Mutex;

use crate::call::{Failure, bytes, call, free_handle, invalid, optional_bytes};
use crate::database::{read_options, required};
use crate::raw::{Buffer, ByteArray, Class, Env, Handle, into_handle};

/// Iterator of a database or of a transaction. The lock excludes threads that use one iterator of
/// Java at the same time, which Java does not forbid.
pub(crate) struct Cursor(Mutex<EitherIterator>);

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

    /// Copies up to `count` entries to `buffer` and moves beyond them. Each entry is the lengths of
    /// key and value as little-endian numbers of 32 bits, the key, and the value. Returns the
    /// number of bytes. If the buffer is too small for one entry, returns its length, negative.
    fn copy_entries(&mut self, forward: bool, count: usize, buffer: &mut [u8]) -> Result<jint, Failure> {
        let mut used = 0;
        for_either!(self, iterator => {
            for _ in 0..count {
                if !iterator.valid() {
                    break;
                }
                let key = iterator.key();
                let value = iterator.value();
                let Some(end) = copy_entry(key, value, buffer, used) else {
                    if used > 0 {
                        break;
                    }
                    let len = jint::try_from(8 + key.len() + value.len());
                    return Ok(-len.map_err(|_| invalid("the entry is longer than a buffer of Java"))?);
                };
                used = end;
                if forward { iterator.next() } else { iterator.prev() }
            }
            iterator.status()?;
        });
        Ok(used as jint)
    }
}

/// Copies an entry to `buffer` at `start`. Returns its end, or None if it does not fit.
#[inline]
fn copy_entry(key: &[u8], value: &[u8], buffer: &mut [u8], start: usize) -> Option<usize> {
    let lens = [u32::try_from(key.len()).ok()?.to_le_bytes(), u32::try_from(value.len()).ok()?.to_le_bytes()];
    let end = start + 8 + key.len() + value.len();
    let entry = buffer.get_mut(start..end)?;
    let (head, rest) = entry.split_at_mut(8);
    head.copy_from_slice(lens.as_flattened());
    let (key_out, value_out) = rest.split_at_mut(key.len());
    key_out.copy_from_slice(key);
    value_out.copy_from_slice(value);
    Some(end)
}

/// Returns a handle for an iterator.
pub(crate) fn new_cursor(iterator: EitherIterator) -> jlong {
    into_handle(Cursor(Mutex::new(iterator)))
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

/// Moves, and copies up to `count` entries: see [`EitherIterator::copy_entries`].
pub(crate) extern "system" fn fill<'a>(
    env: Env<'a>,
    class: Class<'a>,
    cursor: Handle<'a, Cursor>,
    target: jint,
    key: ByteArray<'a>,
    forward: bool,
    count: jint,
    buffer: Buffer<'a>,
) -> jint {
    call(env, class, 0, || {
        let target = Move::from_number(target)?;
        let count = usize::try_from(count).unwrap_or_default();
        let mut iterator = required(cursor)?.0.lock();
        if target.needs_key() {
            iterator.move_to(target, &bytes(env, key, "key")?);
        } else {
            iterator.move_to(target, &[]);
        }
        let memory = env.buffer_memory(buffer).ok_or_else(|| invalid("the buffer is not direct"))?;
        iterator.copy_entries(forward, count, memory)
    })
}

pub(crate) extern "system" fn free<'a>(env: Env<'a>, class: Class<'a>, cursor: Handle<'a, Cursor>) {
    free_handle(env, class, cursor);
}
