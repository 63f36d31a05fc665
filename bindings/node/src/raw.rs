//! Functions of JavaScript without napi-rs, whose conversions take longer than a get.
//!
//! ```text
//!   napi_create_function(data = row) .. call ──> trampoline ──> row.call(&Call) ──> Value
//! ```
//!
//! Node passes an environment, an array of arguments and the data to the trampoline. A [`Call`]
//! lends them to safe code. A [`Value`] cannot outlive its call.
//!
//! This is the only module with unsafe code. Its arguments use three facts:
//!
//! 1. Node calls the trampoline on the thread of the environment, with a live environment.
//! 2. All values of a call are alive until it returns.
//! 3. Node-API checks the types of values, and returns a status other than `napi_ok` for a wrong
//!    one.

#![allow(unsafe_code)]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;

use napi::bindgen_prelude::{JsObjectValue, Object, Unknown};
use napi::{Env, sys};

use crate::error::{Failure, Result};
use crate::handles::Handle;

/// Greatest number of arguments of a function.
const MAX_ARGUMENTS: usize = 8;

/// Bytes that a string gets at first. Most keys and values fit, and need one call of Node-API.
const USUAL_STRING_BYTES: usize = 512;

/// Bytes that remain free after a string that fits: the final zero, and less than a character.
const SPACE_AFTER_STRING: usize = 5;

/// A function for JavaScript.
pub(crate) struct Function {
    pub(crate) name: &'static str,
    pub(crate) call: for<'call> fn(&Call<'call>) -> Result<Value<'call>>,
}

/// Value of JavaScript, alive during a call.
#[derive(Clone, Copy)]
pub(crate) struct Value<'call> {
    raw: sys::napi_value,
    _call: std::marker::PhantomData<&'call ()>,
}

/// Arguments of a call, and the means to create its result.
pub(crate) struct Call<'call> {
    env: sys::napi_env,
    arguments: [Value<'call>; MAX_ARGUMENTS],
    /// Number of arguments that JavaScript has passed.
    len: usize,
}

/// Adds `functions` to `exports`.
pub(crate) fn export_all(
    env: &Env,
    exports: &mut Object<'_>,
    functions: &'static [Function],
) -> napi::Result<()> {
    for function in functions {
        let mut raw = ptr::null_mut();
        let data = ptr::from_ref(function).cast_mut().cast();
        let name = function.name.as_ptr().cast();
        // SAFETY: `env` is the environment of the running module initialisation. `name` and its
        // length describe a string that lives for ever, and so does the row in `data`.
        let status = unsafe {
            sys::napi_create_function(
                env.raw(),
                name,
                function.name.len() as isize,
                Some(trampoline),
                data,
                &mut raw,
            )
        };
        if status != sys::Status::napi_ok {
            return Err(napi::Error::from_reason(format!("cannot create the function {}", function.name)));
        }
        // SAFETY: Node-API created `raw` in `env` just now.
        let value = unsafe { Unknown::from_raw_unchecked(env.raw(), raw) };
        exports.set_named_property(function.name, value)?;
    }
    Ok(())
}

/// Entry point of each function.
unsafe extern "C" fn trampoline(env: sys::napi_env, info: sys::napi_callback_info) -> sys::napi_value {
    let mut count = MAX_ARGUMENTS;
    let mut raw = [ptr::null_mut(); MAX_ARGUMENTS];
    let mut data = ptr::null_mut();
    // SAFETY: `env` and `info` belong to this call. `raw` has space for `count` values, and
    // Node-API fills the missing ones with `undefined`.
    let status =
        unsafe { sys::napi_get_cb_info(env, info, &mut count, raw.as_mut_ptr(), ptr::null_mut(), &mut data) };
    if status != sys::Status::napi_ok {
        return ptr::null_mut();
    }
    // SAFETY: `export_all` stored a reference to a row that lives for ever.
    let function = unsafe { &*data.cast::<Function>() };
    let call = Call { env, arguments: raw.map(Value::new), len: count };
    let result = catch_unwind(AssertUnwindSafe(|| (function.call)(&call)));
    match result.unwrap_or_else(|_| Err(Failure::panicked())) {
        Ok(value) => value.raw,
        Err(failure) => {
            call.throw(&failure);
            ptr::null_mut()
        }
    }
}

impl Value<'_> {
    fn new(raw: sys::napi_value) -> Self {
        Value { raw, _call: std::marker::PhantomData }
    }
}

/// Arguments.
impl<'call> Call<'call> {
    /// Returns the number of arguments that JavaScript has passed.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn argument(&self, index: usize) -> Value<'call> {
        self.arguments[index]
    }

    /// Returns the argument `index`, which is an integer.
    pub(crate) fn integer(&self, index: usize) -> Result<u64> {
        let mut number = 0.0;
        // SAFETY: facts 1, 2 and 3.
        let status = unsafe { sys::napi_get_value_double(self.env, self.arguments[index].raw, &mut number) };
        if status != sys::Status::napi_ok || number < 0.0 || number.fract() != 0.0 {
            return Err(Failure::wrong_type(format!("argument {index} must be an integer")));
        }
        Ok(number as u64)
    }

    pub(crate) fn handle(&self, index: usize) -> Result<Handle> {
        self.integer(index)
    }

    /// Appends the bytes of `value` to `bytes`: those of a `Uint8Array`, or of a string in UTF-8.
    pub(crate) fn append_bytes(&self, value: Value<'_>, bytes: &mut Vec<u8>) -> Result<()> {
        match self.append_string(value, bytes, USUAL_STRING_BYTES)? {
            true => Ok(()),
            false => self.append_buffer(value, bytes),
        }
    }

    /// Appends a string of probably `length` bytes in UTF-8.
    pub(crate) fn append_text(&self, value: Value<'_>, bytes: &mut Vec<u8>, length: usize) -> Result<()> {
        match self.append_string(value, bytes, length + SPACE_AFTER_STRING)? {
            true => Ok(()),
            false => Err(Failure::wrong_type("the argument must be a string")),
        }
    }

    /// Returns the bytes of argument `index`, or None if it is `undefined` or `null`.
    pub(crate) fn optional_bytes(&self, index: usize) -> Result<Option<Vec<u8>>> {
        let mut kind = 0;
        // SAFETY: facts 1 and 2.
        let status = unsafe { sys::napi_typeof(self.env, self.arguments[index].raw, &mut kind) };
        let is_absent = [sys::ValueType::napi_undefined, sys::ValueType::napi_null].contains(&kind);
        if status == sys::Status::napi_ok && is_absent {
            return Ok(None);
        }
        let mut bytes = Vec::new();
        self.append_bytes(self.arguments[index], &mut bytes)?;
        Ok(Some(bytes))
    }

    /// Appends a string, whose length is probably below `guess`. Returns false if `value` is none.
    fn append_string(&self, value: Value<'_>, bytes: &mut Vec<u8>, guess: usize) -> Result<bool> {
        let start = bytes.len();
        bytes.try_reserve(guess).map_err(|_| Failure::out_of_memory(guess))?;
        let space = bytes.capacity() - start;
        let mut written = 0;
        let target = bytes.spare_capacity_mut().as_mut_ptr().cast();
        // SAFETY: facts 1, 2 and 3. `target` has space for `space` bytes, the final zero included.
        let status =
            unsafe { sys::napi_get_value_string_utf8(self.env, value.raw, target, space, &mut written) };
        if status != sys::Status::napi_ok {
            return Ok(false);
        }
        // A character takes up to four bytes, so that a string that did not fit leaves less free.
        if written + SPACE_AFTER_STRING > space {
            let length = self.string_length(value)?;
            if length > written {
                return self.append_string(value, bytes, length + SPACE_AFTER_STRING);
            }
        }
        // SAFETY: Node-API has initialised `written` bytes, which are fewer than `space`.
        unsafe { bytes.set_len(start + written) };
        Ok(true)
    }

    fn string_length(&self, value: Value<'_>) -> Result<usize> {
        let mut length = 0;
        // SAFETY: facts 1, 2 and 3. Without a target, Node-API only counts.
        let status =
            unsafe { sys::napi_get_value_string_utf8(self.env, value.raw, ptr::null_mut(), 0, &mut length) };
        match status {
            sys::Status::napi_ok => Ok(length),
            _ => Err(Failure::wrong_type("a string has no length")),
        }
    }

    fn append_buffer(&self, value: Value<'_>, bytes: &mut Vec<u8>) -> Result<()> {
        let wrong_type = || Failure::wrong_type("a key or value must be a string or a Uint8Array");
        let mut is_buffer = false;
        // SAFETY: facts 1, 2 and 3.
        let status = unsafe { sys::napi_is_buffer(self.env, value.raw, &mut is_buffer) };
        // `napi_get_buffer_info` of Node 18 ends the process if the value is none.
        if status != sys::Status::napi_ok || !is_buffer {
            return Err(wrong_type());
        }
        let mut data = ptr::null_mut();
        let mut length = 0;
        // SAFETY: facts 1, 2 and 3.
        let status = unsafe { sys::napi_get_buffer_info(self.env, value.raw, &mut data, &mut length) };
        if status != sys::Status::napi_ok {
            return Err(wrong_type());
        }
        if length == 0 {
            return Ok(());
        }
        bytes.try_reserve(length).map_err(|_| Failure::out_of_memory(length))?;
        // SAFETY: Node-API returned the memory of a live typed array, and no JavaScript of this
        // thread runs before the end of the copy. If the memory is a `SharedArrayBuffer`, another
        // thread may change the bytes meanwhile, as with each access of Node itself.
        let slice = unsafe { std::slice::from_raw_parts(data.cast::<u8>(), length) };
        bytes.extend_from_slice(slice);
        Ok(())
    }
}

/// Results.
impl<'call> Call<'call> {
    /// Returns the value that `create` stores.
    fn created(&self, create: impl FnOnce(*mut sys::napi_value) -> sys::napi_status) -> Result<Value<'call>> {
        let mut raw = ptr::null_mut();
        match create(&mut raw) {
            sys::Status::napi_ok => Ok(Value::new(raw)),
            status => Err(Failure::new("LEVEL_NOT_SUPPORTED", self.reason(status))),
        }
    }

    /// Describes a failed creation, and removes the exception that V8 may have thrown.
    fn reason(&self, status: sys::napi_status) -> String {
        let mut exception = ptr::null_mut();
        // SAFETY: fact 1. Without an exception, Node-API stores `undefined`.
        unsafe { sys::napi_get_and_clear_last_exception(self.env, &mut exception) };
        format!("Node cannot create the value (status {status}): it is too large for a string or Buffer")
    }

    pub(crate) fn undefined(&self) -> Result<Value<'call>> {
        // SAFETY: fact 1.
        self.created(|raw| unsafe { sys::napi_get_undefined(self.env, raw) })
    }

    pub(crate) fn null(&self) -> Result<Value<'call>> {
        // SAFETY: fact 1.
        self.created(|raw| unsafe { sys::napi_get_null(self.env, raw) })
    }

    pub(crate) fn boolean(&self, value: bool) -> Result<Value<'call>> {
        // SAFETY: fact 1.
        self.created(|raw| unsafe { sys::napi_get_boolean(self.env, value, raw) })
    }

    pub(crate) fn number(&self, value: u64) -> Result<Value<'call>> {
        // SAFETY: fact 1.
        self.created(|raw| unsafe { sys::napi_create_double(self.env, value as f64, raw) })
    }

    /// Returns a copy of `bytes` as a string. Invalid UTF-8 becomes U+FFFD.
    pub(crate) fn string(&self, bytes: &[u8]) -> Result<Value<'call>> {
        let data = bytes.as_ptr().cast();
        let length = bytes.len() as isize;
        if bytes.is_ascii() {
            // V8 copies Latin-1 without decoding.
            // SAFETY: fact 1. `data` and `length` describe a slice.
            return self
                .created(|raw| unsafe { sys::napi_create_string_latin1(self.env, data, length, raw) });
        }
        // SAFETY: fact 1. `data` and `length` describe a slice.
        self.created(|raw| unsafe { sys::napi_create_string_utf8(self.env, data, length, raw) })
    }

    /// Returns a copy of `bytes` as a Buffer.
    pub(crate) fn buffer(&self, bytes: &[u8]) -> Result<Value<'call>> {
        let data = bytes.as_ptr().cast();
        let length = bytes.len();
        // SAFETY: fact 1. `data` and `length` describe a slice.
        self.created(|raw| unsafe {
            sys::napi_create_buffer_copy(self.env, length, data, ptr::null_mut(), raw)
        })
    }

    fn throw(&self, failure: &Failure) {
        let code = format!("{}\0", failure.code);
        let message = failure.message.replace('\0', "\\0") + "\0";
        // SAFETY: fact 1. Both strings end with a zero byte.
        unsafe { sys::napi_throw_error(self.env, code.as_ptr().cast(), message.as_ptr().cast()) };
    }
}
