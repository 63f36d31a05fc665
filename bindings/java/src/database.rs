//! Open, close, reads and writes of a database.

use std::ops::Bound;
use std::path::PathBuf;
use std::time::Duration;

use jni_sys::{jint, jlong};
use terrace::{Db, ErrorKind, FollowOptions, ReadOptions, Snapshot, WriteBatch, WriteOptions};

use crate::call::{
    Failure, bytes_of_len, call, free_handle, invalid, items, new_items, optional_bytes, text, vec,
};
use crate::options::{UserOptions, user_options};
use crate::raw::{ByteArray, Class, Env, Handle, Object, ObjectArray, into_handle};

/// Bit of the flags of a read: [`ReadOptions::verify_checksums`].
const VERIFY_CHECKSUMS: jint = 1;
/// Bit of the flags of a read: the blocks stay out of the block cache.
const SKIP_CACHE: jint = 2;

/// Returns the value of a handle. Java passes 0 only because of an error in its own classes.
pub(crate) fn required<'a, T>(handle: Handle<'a, T>) -> Result<&'a T, Failure> {
    handle.get().ok_or_else(|| invalid("the handle is 0"))
}

/// Returns the options of a read.
#[inline]
pub(crate) fn read_options(snapshot: Handle<'_, Snapshot>, flags: jint) -> ReadOptions {
    ReadOptions::default()
        .verify_checksums(flags & VERIFY_CHECKSUMS != 0)
        .fill_cache(flags & SKIP_CACHE == 0)
        .snapshot(snapshot.get().cloned())
}

/// `mode` is 0 for writing, 1 for reading only, and 2 for a follower, which reads new writes each
/// `follow_millis`.
pub(crate) extern "system" fn open<'a>(
    env: Env<'a>,
    class: Class<'a>,
    path: ByteArray<'a>,
    mode: jint,
    options: ByteArray<'a>,
    comparator: Object<'a>,
    comparator_name: ByteArray<'a>,
    logger: Object<'a>,
    follow_millis: jlong,
) -> jlong {
    call(env, class, 0, || {
        let path = PathBuf::from(text(env, path, "path")?);
        let options = user_options(env, UserOptions { options, comparator, comparator_name, logger })?;
        let db = match mode {
            0 => Db::open(path, &options)?,
            1 => Db::open_read_only(path, &options)?,
            _ => {
                let every = Duration::from_millis(follow_millis.unsigned_abs());
                Db::follow(path, &options, &FollowOptions::default().every(every))?
            }
        };
        Ok(into_handle(db))
    })
}

/// Closes a database for all handles. The handle stays valid for calls that still run. Files that
/// were removed before are no error, as in leveldbjni: programs delete the directory of an open
/// database.
pub(crate) extern "system" fn shutdown<'a>(env: Env<'a>, class: Class<'a>, db: Handle<'a, Db>) {
    call(env, class, (), || match required(db)?.shutdown() {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error.into()),
        _ => Ok(()),
    });
}

pub(crate) extern "system" fn free<'a>(env: Env<'a>, class: Class<'a>, db: Handle<'a, Db>) {
    free_handle(env, class, db);
}

pub(crate) extern "system" fn get<'a>(
    env: Env<'a>,
    class: Class<'a>,
    db: Handle<'a, Db>,
    key: ByteArray<'a>,
    key_len: jint,
    snapshot: Handle<'a, Snapshot>,
    flags: jint,
) -> ByteArray<'a> {
    call(env, class, ByteArray::NULL, || {
        let key = bytes_of_len(env, key, key_len, "key")?;
        match required(db)?.get_pinned_with(&key, &read_options(snapshot, flags))? {
            Some(value) => Ok(env.new_byte_array(&value)?),
            None => Ok(ByteArray::NULL),
        }
    })
}

pub(crate) extern "system" fn get_many<'a>(
    env: Env<'a>,
    class: Class<'a>,
    db: Handle<'a, Db>,
    keys: ObjectArray<'a>,
    snapshot: Handle<'a, Snapshot>,
    flags: jint,
) -> ObjectArray<'a> {
    call(env, class, ObjectArray::NULL, || {
        let keys = items(env, keys, "key")?;
        let values = required(db)?.multi_get_with(&keys, &read_options(snapshot, flags))?;
        new_items(env, values.into_iter())
    })
}

#[inline]
fn write_options(sync: bool) -> WriteOptions {
    WriteOptions::default().sync(sync)
}

pub(crate) extern "system" fn put<'a>(
    env: Env<'a>,
    class: Class<'a>,
    db: Handle<'a, Db>,
    key: ByteArray<'a>,
    key_len: jint,
    value: ByteArray<'a>,
    value_len: jint,
    sync: bool,
) {
    call(env, class, (), || {
        let key = bytes_of_len(env, key, key_len, "key")?;
        let value = bytes_of_len(env, value, value_len, "value")?;
        Ok(required(db)?.put_with(&key, &value, &write_options(sync))?)
    });
}

pub(crate) extern "system" fn delete<'a>(
    env: Env<'a>,
    class: Class<'a>,
    db: Handle<'a, Db>,
    key: ByteArray<'a>,
    key_len: jint,
    sync: bool,
) {
    call(env, class, (), || {
        let key = bytes_of_len(env, key, key_len, "key")?;
        Ok(required(db)?.delete_with(&key, &write_options(sync))?)
    });
}

/// `rep` begins with `len` bytes of a batch in LevelDB's format.
pub(crate) extern "system" fn write<'a>(
    env: Env<'a>,
    class: Class<'a>,
    db: Handle<'a, Db>,
    rep: ByteArray<'a>,
    len: jint,
    sync: bool,
) {
    call(env, class, (), || {
        let len = usize::try_from(len).map_err(|_| invalid("the length of the batch is negative"))?;
        let rep = vec(env, rep, len)?;
        let batch = WriteBatch::from_bytes(rep).map_err(|error| invalid(format!("batch: {error}")))?;
        Ok(required(db)?.write_with(&batch, &write_options(sync))?)
    });
}

/// Deletes the keys from `from` on and before `to`. A null array is no bound.
pub(crate) extern "system" fn delete_range<'a>(
    env: Env<'a>,
    class: Class<'a>,
    db: Handle<'a, Db>,
    from: ByteArray<'a>,
    to: ByteArray<'a>,
) {
    call(env, class, (), || {
        let from = optional_bytes(env, from)?.map_or(Bound::Unbounded, Bound::Included);
        let to = optional_bytes(env, to)?.map_or(Bound::Unbounded, Bound::Excluded);
        Ok(required(db)?.delete_range((from, to))?)
    });
}

pub(crate) extern "system" fn snapshot<'a>(env: Env<'a>, class: Class<'a>, db: Handle<'a, Db>) -> jlong {
    call(env, class, 0, || Ok(into_handle(required(db)?.snapshot())))
}

pub(crate) extern "system" fn free_snapshot<'a>(
    env: Env<'a>,
    class: Class<'a>,
    snapshot: Handle<'a, Snapshot>,
) {
    free_handle(env, class, snapshot);
}

pub(crate) extern "system" fn property<'a>(
    env: Env<'a>,
    class: Class<'a>,
    db: Handle<'a, Db>,
    name: ByteArray<'a>,
) -> ByteArray<'a> {
    call(env, class, ByteArray::NULL, || {
        let name = text(env, name, "name")?;
        match required(db)?.property(&name) {
            Some(value) => Ok(env.new_byte_array(value.as_bytes())?),
            None => Ok(ByteArray::NULL),
        }
    })
}
