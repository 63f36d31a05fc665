//! Calls of Java: arguments as bytes, and errors and panics as exceptions.

use std::ops::Deref;
use std::panic::{AssertUnwindSafe, catch_unwind};

use jni_sys::jint;
use terrace::{Error, ErrorKind};

use crate::raw::{ByteArray, Class, Env, Handle, ObjectArray, Thrown};

/// Failure of a native function.
pub(crate) enum Failure {
    /// The virtual machine has thrown an exception already.
    Thrown,
    /// An error that becomes a `TerraceException`.
    Error { kind: Kind, message: String },
}

/// Kinds of errors, with the numbers of the Java class `ErrorKind`.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Kind {
    NotFound = 0,
    Corruption = 1,
    Unsupported = 2,
    Invalid = 3,
    Io = 4,
    Busy = 5,
    Locked = 6,
    Internal = 7,
    /// The database was closed beside the call. Java refuses later calls itself.
    Closed = 8,
}

impl From<Thrown> for Failure {
    fn from(_: Thrown) -> Failure {
        Failure::Thrown
    }
}

impl From<Error> for Failure {
    #[cold]
    fn from(error: Error) -> Failure {
        let kind = match error.kind() {
            _ if error.is_locked() => Kind::Locked,
            _ if error.is_closed() => Kind::Closed,
            ErrorKind::NotFound => Kind::NotFound,
            ErrorKind::Corruption => Kind::Corruption,
            ErrorKind::NotSupported => Kind::Unsupported,
            ErrorKind::InvalidArgument => Kind::Invalid,
            ErrorKind::Io => Kind::Io,
            ErrorKind::Busy => Kind::Busy,
        };
        Failure::Error { kind, message: error.to_string() }
    }
}

/// Returns an error for a wrong argument.
#[cold]
pub(crate) fn invalid(message: impl Into<String>) -> Failure {
    Failure::Error { kind: Kind::Invalid, message: format!("invalid argument: {}", message.into()) }
}

/// Returns the result of `work`, or `default` with an exception.
///
/// After a panic that leaves a database in doubt, the engine rejects all writes, so no later call
/// sees a half-made change.
#[inline]
pub(crate) fn call<T>(
    env: Env<'_>,
    class: Class<'_>,
    default: T,
    work: impl FnOnce() -> Result<T, Failure>,
) -> T {
    let failure = match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(value)) => return value,
        Ok(Err(failure)) => failure,
        Err(panic) => {
            let message = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
            let message = message.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
            Failure::Error { kind: Kind::Internal, message: format!("internal error: {message}") }
        }
    };
    throw(env, class, failure);
    default
}

/// Frees the value of a handle, which becomes invalid.
pub(crate) fn free_handle<T>(env: Env<'_>, class: Class<'_>, handle: Handle<'_, T>) {
    call(env, class, (), || {
        drop(handle.take());
        Ok(())
    });
}

#[cold]
fn throw(env: Env<'_>, class: Class<'_>, failure: Failure) {
    let Failure::Error { kind, message } = failure else { return };
    if let Ok(message) = env.new_byte_array(message.as_bytes()) {
        env.throw_through(class, kind as jint, message);
    }
}

/// Number of bytes that need no allocation.
const INLINE: usize = 160;

/// Copy of an array of Java.
pub(crate) struct Bytes {
    inline: [u8; INLINE],
    inline_len: usize,
    heap: Vec<u8>,
}

impl Deref for Bytes {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        if self.heap.is_empty() { &self.inline[..self.inline_len] } else { &self.heap }
    }
}

impl AsRef<[u8]> for Bytes {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

/// Copies an argument. A null array is an error that names the argument.
#[inline]
pub(crate) fn bytes(env: Env<'_>, array: ByteArray<'_>, name: &str) -> Result<Bytes, Failure> {
    bytes_of_len(env, array, env.byte_array_len(array) as jint, name)
}

/// Copies an argument whose length Java has passed. A null array is an error that names the
/// argument.
#[inline]
pub(crate) fn bytes_of_len(
    env: Env<'_>,
    array: ByteArray<'_>,
    len: jint,
    name: &str,
) -> Result<Bytes, Failure> {
    if array.is_null() {
        return Err(invalid(format!("{name} is null")));
    }
    let len = usize::try_from(len).map_err(|_| invalid(format!("the length of the {name} is negative")))?;
    let mut copy = Bytes { inline: [0; INLINE], inline_len: 0, heap: Vec::new() };
    if len <= INLINE {
        env.copy_from_array(array, &mut copy.inline[..len]);
        copy.inline_len = len;
    } else {
        copy.heap = vec(env, array, len)?;
    }
    Ok(copy)
}

/// Copies an argument that may be null.
pub(crate) fn optional_bytes(env: Env<'_>, array: ByteArray<'_>) -> Result<Option<Vec<u8>>, Failure> {
    if array.is_null() { Ok(None) } else { vec(env, array, env.byte_array_len(array)).map(Some) }
}

/// Reserves memory for `len` more bytes.
#[inline]
pub(crate) fn reserve(bytes: &mut Vec<u8>, len: usize) -> Result<(), Failure> {
    bytes
        .try_reserve(len)
        .map_err(|_| Failure::Error { kind: Kind::Io, message: format!("io: no memory for {len} bytes") })
}

/// Copies the first `len` bytes of an array.
pub(crate) fn vec(env: Env<'_>, array: ByteArray<'_>, len: usize) -> Result<Vec<u8>, Failure> {
    if len > env.byte_array_len(array) {
        return Err(invalid("the length is beyond the end of the array"));
    }
    let mut copy = Vec::new();
    reserve(&mut copy, len)?;
    copy.resize(len, 0);
    env.copy_from_array(array, &mut copy);
    Ok(copy)
}

/// Copies an argument that is text.
pub(crate) fn text(env: Env<'_>, array: ByteArray<'_>, name: &str) -> Result<String, Failure> {
    let bytes = bytes(env, array, name)?;
    let text = std::str::from_utf8(&bytes).map_err(|_| invalid(format!("{name} is no valid UTF-8")))?;
    if text.contains('\0') {
        return Err(invalid(format!("{name} contains a zero byte")));
    }
    Ok(text.to_owned())
}

/// Copies all items of an array. A null item is an error that names the argument.
pub(crate) fn items(env: Env<'_>, array: ObjectArray<'_>, name: &str) -> Result<Vec<Bytes>, Failure> {
    (0..env.object_array_len(array))
        .map(|index| {
            let item = env.item(array, index);
            let copy = bytes(env, item, name);
            env.release(item);
            copy
        })
        .collect()
}

/// Creates an array of arrays. A None becomes null.
pub(crate) fn new_items<'a, B: AsRef<[u8]>>(
    env: Env<'a>,
    items: impl ExactSizeIterator<Item = Option<B>>,
) -> Result<ObjectArray<'a>, Failure> {
    let array = env.new_object_array(items.len())?;
    for (index, item) in items.enumerate() {
        if let Some(item) = item {
            env.set_item(array, index, env.new_byte_array(item.as_ref())?);
        }
    }
    Ok(array)
}
