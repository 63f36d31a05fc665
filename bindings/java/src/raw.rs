//! Wrappers of the virtual machine's functions, with all unsafe code of this crate.
//!
//! Safe code cannot create the types of this module. It gets their values as arguments of the
//! native functions. The `SAFETY` notes rely on three rules:
//!
//! 1. An [`Env`], [`ByteArray`], [`ObjectArray`] or [`Object`] is an argument of the
//!    running native function, or the virtual machine returned it to that function. It is valid in
//!    this thread until the function returns, and its lifetime does not exceed the call.
//! 2. The class `Native` declares the Java types that the table in `registration.rs` states, so the
//!    virtual machine passes no object of another class.
//! 3. A [`Handle`] is 0, or a result of [`into_handle`] for the same type. The Java class
//!    `NativeHandle` counts the callers of each handle, and passes it to [`Handle::take`] once,
//!    after the last caller.

#![allow(unsafe_code, reason = "the border to Java")]
#![allow(non_snake_case, reason = "JNI_OnLoad")]

use std::ffi::{CStr, c_void};
use std::marker::PhantomData;
use std::ptr;

use jni_sys::{
    JNI_ERR, JNI_OK, JNI_VERSION_1_6, JNIEnv, JNIInvokeInterface__1_4, JNINativeInterface__1_6,
    JNINativeMethod, JavaVM, jint, jlong, jmethodID, jobject, jvalue,
};

use crate::registration::FUNCTIONS;

/// Interface of the virtual machine for the current thread.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct Env<'a>(*mut JNIEnv, PhantomData<&'a ()>);

/// Class whose native function runs.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct Class<'a>(jobject, PhantomData<&'a ()>);

/// Object of Java, or null.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct Object<'a>(jobject, PhantomData<&'a ()>);

/// Array of bytes, or null.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct ByteArray<'a>(jobject, PhantomData<&'a ()>);

/// Array of arrays of bytes, or null.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct ObjectArray<'a>(jobject, PhantomData<&'a ()>);

/// Array of numbers of 64 bits that a native function returns, or null.
#[repr(transparent)]
pub(crate) struct LongArray<'a>(jobject, PhantomData<&'a ()>);

/// The virtual machine has thrown an exception, which the native function leaves to its caller.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Thrown;

/// Method that native code calls.
#[derive(Clone, Copy)]
pub(crate) struct MethodId(jmethodID);

// SAFETY: the virtual machine allows the use of a method id in every thread.
unsafe impl Send for MethodId {}
// SAFETY: the virtual machine allows the use of a method id in every thread.
unsafe impl Sync for MethodId {}

impl<'a> ByteArray<'a> {
    pub(crate) const NULL: ByteArray<'static> = ByteArray(ptr::null_mut(), PhantomData);

    pub(crate) fn is_null(self) -> bool {
        self.0.is_null()
    }

    fn as_argument(self) -> jvalue {
        jvalue { l: self.0 }
    }
}

impl ObjectArray<'_> {
    pub(crate) const NULL: ObjectArray<'static> = ObjectArray(ptr::null_mut(), PhantomData);
}

impl LongArray<'_> {
    pub(crate) const NULL: LongArray<'static> = LongArray(ptr::null_mut(), PhantomData);
}

impl Object<'_> {
    pub(crate) const NULL: Object<'static> = Object(ptr::null_mut(), PhantomData);

    pub(crate) fn is_null(self) -> bool {
        self.0.is_null()
    }
}

impl<'a> Env<'a> {
    fn functions(self) -> &'a JNINativeInterface__1_6 {
        // SAFETY: by rule 1, the pointer leads to the table of functions, which never changes.
        let table = unsafe { *self.0 };
        let functions: *const JNINativeInterface__1_6 = table.cast();
        // SAFETY: a virtual machine of Java 11 or later has all functions of version 1.6.
        unsafe { &*functions }
    }

    /// Returns the number of items of an array that is not null.
    fn len(self, array: jobject) -> usize {
        // SAFETY: by rules 1 and 2, `array` is a valid array.
        let len = unsafe { (self.functions().GetArrayLength)(self.0, array) };
        usize::try_from(len).unwrap_or_default()
    }

    pub(crate) fn byte_array_len(self, array: ByteArray<'_>) -> usize {
        if array.is_null() { 0 } else { self.len(array.0) }
    }

    pub(crate) fn object_array_len(self, array: ObjectArray<'_>) -> usize {
        if array.0.is_null() { 0 } else { self.len(array.0) }
    }

    /// Copies the first bytes of `array`. An array that is shorter than `bytes` leaves them as they
    /// are, with an exception.
    ///
    /// The caller knows the length from Java. A question for it would cost as much as the copy.
    pub(crate) fn copy_from_array(self, array: ByteArray<'_>, bytes: &mut [u8]) {
        debug_assert!(bytes.len() <= self.byte_array_len(array), "Java has passed a wrong length");
        let start = bytes.as_mut_ptr().cast();
        let len = bytes.len() as jint;
        if len > 0 {
            // SAFETY: by rule 1, `array` is valid, and `bytes` has `len` bytes. The virtual machine
            // compares `len` with the length of the array.
            unsafe { (self.functions().GetByteArrayRegion)(self.0, array.0, 0, len, start) };
        }
    }

    /// Copies `bytes` to the beginning of `array`, which is not shorter.
    pub(crate) fn copy_to_array(self, bytes: &[u8], array: ByteArray<'_>) {
        assert!(bytes.len() <= self.byte_array_len(array), "the caller has asked for the length");
        let start = bytes.as_ptr().cast();
        let len = bytes.len() as jint;
        if len > 0 {
            // SAFETY: by rule 1, `array` is valid. It has `len` bytes, and so has `bytes`.
            unsafe { (self.functions().SetByteArrayRegion)(self.0, array.0, 0, len, start) };
        }
    }

    /// Creates an array of Java with a copy of `bytes`.
    pub(crate) fn new_byte_array(self, bytes: &[u8]) -> Result<ByteArray<'a>, Thrown> {
        let len = jint::try_from(bytes.len()).map_err(|_| self.throw_out_of_memory())?;
        // SAFETY: the length is not negative.
        let array = unsafe { (self.functions().NewByteArray)(self.0, len) };
        if array.is_null() {
            return Err(Thrown);
        }
        let start = bytes.as_ptr().cast();
        // SAFETY: the new array has `len` bytes, and so has `bytes`.
        unsafe { (self.functions().SetByteArrayRegion)(self.0, array, 0, len, start) };
        Ok(ByteArray(array, PhantomData))
    }

    pub(crate) fn new_long_array(self, numbers: &[i64]) -> Result<LongArray<'a>, Thrown> {
        let len = jint::try_from(numbers.len()).map_err(|_| self.throw_out_of_memory())?;
        // SAFETY: the length is not negative.
        let array = unsafe { (self.functions().NewLongArray)(self.0, len) };
        if array.is_null() {
            return Err(Thrown);
        }
        // SAFETY: the new array has `len` numbers, and so has `numbers`.
        unsafe { (self.functions().SetLongArrayRegion)(self.0, array, 0, len, numbers.as_ptr()) };
        Ok(LongArray(array, PhantomData))
    }

    /// Creates an array of `len` arrays of bytes, which are null at first.
    pub(crate) fn new_object_array(self, len: usize) -> Result<ObjectArray<'a>, Thrown> {
        let len = jint::try_from(len).map_err(|_| self.throw_out_of_memory())?;
        let name = c"[B".as_ptr();
        // SAFETY: the name ends with a zero byte.
        let class = unsafe { (self.functions().FindClass)(self.0, name) };
        if class.is_null() {
            return Err(Thrown);
        }
        // SAFETY: `class` is the class of arrays of bytes, and a null item is allowed.
        let array = unsafe { (self.functions().NewObjectArray)(self.0, len, class, ptr::null_mut()) };
        self.delete_local(class);
        if array.is_null() { Err(Thrown) } else { Ok(ObjectArray(array, PhantomData)) }
    }

    /// Returns the item `index` of `array`, or null beyond its end. The caller releases the item.
    pub(crate) fn item(self, array: ObjectArray<'_>, index: usize) -> ByteArray<'a> {
        if index >= self.object_array_len(array) {
            return ByteArray::NULL;
        }
        // SAFETY: by rules 1 and 2, `array` is a valid array, and `index` is below its length.
        let item = unsafe { (self.functions().GetObjectArrayElement)(self.0, array.0, index as jint) };
        ByteArray(item, PhantomData)
    }

    /// Stores `item` in `array` and releases it. Does nothing beyond the end of `array`.
    pub(crate) fn set_item(self, array: ObjectArray<'_>, index: usize, item: ByteArray<'_>) {
        if index < self.object_array_len(array) {
            // SAFETY: `array` holds arrays of bytes, and `index` is below its length.
            unsafe { (self.functions().SetObjectArrayElement)(self.0, array.0, index as jint, item.0) };
        }
        self.release(item);
    }

    /// Releases an array before the native function returns. A function with many arrays would
    /// otherwise exhaust the table of the virtual machine.
    pub(crate) fn release(self, array: ByteArray<'_>) {
        self.delete_local(array.0);
    }

    fn delete_local(self, object: jobject) {
        // SAFETY: `object` is null or a local reference that nothing uses afterwards.
        unsafe { (self.functions().DeleteLocalRef)(self.0, object) };
    }

    fn throw_out_of_memory(self) -> Thrown {
        // SAFETY: the name ends with a zero byte.
        let class = unsafe { (self.functions().FindClass)(self.0, c"java/lang/OutOfMemoryError".as_ptr()) };
        if !class.is_null() {
            let message = c"longer than an array of Java".as_ptr();
            // SAFETY: `class` is a class of exceptions, and the message ends with a zero byte.
            unsafe { (self.functions().ThrowNew)(self.0, class, message) };
        }
        Thrown
    }

    /// Calls the static method `method` of `class` with a number and an array of bytes. The method
    /// throws an exception.
    pub(crate) fn throw_through(self, class: Class<'_>, kind: jint, message: ByteArray<'_>) -> Thrown {
        let name = c"fail".as_ptr();
        let signature = c"(I[B)V".as_ptr();
        // SAFETY: the names end with a zero byte, and `class` is valid by rule 1.
        let method = unsafe { (self.functions().GetStaticMethodID)(self.0, class.0, name, signature) };
        if !method.is_null() {
            let arguments = [jvalue { i: kind }, message.as_argument()];
            let arguments = arguments.as_ptr();
            // SAFETY: the signature of `method` is the one that `arguments` have.
            unsafe { (self.functions().CallStaticVoidMethodA)(self.0, class.0, method, arguments) };
        }
        Thrown
    }

    /// Returns the method of the object's class. Returns None, with an exception, if there is none.
    pub(crate) fn method(self, object: Object<'_>, name: &CStr, signature: &CStr) -> Option<MethodId> {
        // SAFETY: by rule 1, `object` is valid, and the caller has checked that it is not null.
        let class = unsafe { (self.functions().GetObjectClass)(self.0, object.0) };
        let name = name.as_ptr();
        let signature = signature.as_ptr();
        // SAFETY: the names end with a zero byte, and `class` is valid.
        let method = unsafe { (self.functions().GetMethodID)(self.0, class, name, signature) };
        self.delete_local(class);
        (!method.is_null()).then_some(MethodId(method))
    }

    /// Calls a method that compares two objects. `method` is one of the class of `object`.
    /// Returns None after an exception.
    pub(crate) fn call_int(self, object: &Global, method: MethodId, a: &[u8], b: &[u8]) -> Option<jint> {
        let a = self.new_byte_array(a).ok()?;
        let b = self.new_byte_array(b).ok()?;
        let arguments = [a.as_argument(), b.as_argument()];
        let arguments = arguments.as_ptr();
        // SAFETY: the signature of `method` is the one that `arguments` have.
        let result = unsafe { (self.functions().CallIntMethodA)(self.0, object.0, method.0, arguments) };
        self.release(a);
        self.release(b);
        (!self.has_exception()).then_some(result)
    }

    /// Calls a method with the signature `([B)V`. Prints and drops its exception.
    pub(crate) fn call_void(self, object: &Global, method: MethodId, bytes: &[u8]) {
        if let Ok(bytes) = self.new_byte_array(bytes) {
            let arguments = [bytes.as_argument()];
            let arguments = arguments.as_ptr();
            // SAFETY: the signature of `method` is the one that `arguments` have.
            unsafe { (self.functions().CallVoidMethodA)(self.0, object.0, method.0, arguments) };
            self.release(bytes);
        }
        self.print_exception();
    }

    fn has_exception(self) -> bool {
        // SAFETY: by rule 1, the environment is valid.
        unsafe { (self.functions().ExceptionCheck)(self.0) }
    }

    /// Prints the exception with its stack, if there is one, and drops it.
    pub(crate) fn print_exception(self) {
        if self.has_exception() {
            // SAFETY: by rule 1, the environment is valid. The function also drops the exception.
            unsafe { (self.functions().ExceptionDescribe)(self.0) };
            // SAFETY: by rule 1, the environment is valid.
            unsafe { (self.functions().ExceptionClear)(self.0) };
        }
    }

    /// Prints `message` and ends the process.
    pub(crate) fn end_process(self, message: &CStr) -> ! {
        // SAFETY: the message ends with a zero byte.
        unsafe { (self.functions().FatalError)(self.0, message.as_ptr()) }
    }

    pub(crate) fn virtual_machine(self) -> Option<VirtualMachine> {
        let mut vm = ptr::null_mut();
        // SAFETY: by rule 1, the environment is valid, and `vm` is a place for the result.
        let status = unsafe { (self.functions().GetJavaVM)(self.0, &mut vm) };
        (status == JNI_OK).then_some(VirtualMachine(vm))
    }

    /// Returns a reference that keeps `object` alive in all threads.
    pub(crate) fn global(self, object: Object<'_>) -> Option<Global> {
        let vm = self.virtual_machine()?;
        // SAFETY: by rule 1, `object` is valid.
        let object = unsafe { (self.functions().NewGlobalRef)(self.0, object.0) };
        (!object.is_null()).then_some(Global(object, vm))
    }

    /// Finds a class and registers its native functions.
    pub(crate) fn register(self, class: &CStr, functions: &[NativeFunction]) -> Result<(), Thrown> {
        // SAFETY: the name ends with a zero byte.
        let class = unsafe { (self.functions().FindClass)(self.0, class.as_ptr()) };
        if class.is_null() {
            return Err(Thrown);
        }
        let methods: Vec<JNINativeMethod> = functions.iter().map(NativeFunction::as_method).collect();
        let start = methods.as_ptr();
        let count = methods.len() as jint;
        // SAFETY: `start` leads to `count` methods. Rule 2 states that their signatures are right.
        let status = unsafe { (self.functions().RegisterNatives)(self.0, class, start, count) };
        if status == JNI_OK { Ok(()) } else { Err(Thrown) }
    }
}

/// Row of the table of native functions.
pub(crate) struct NativeFunction {
    pub(crate) name: &'static CStr,
    pub(crate) signature: &'static CStr,
    pub(crate) function: *const c_void,
}

// SAFETY: the pointer leads to code, which every thread may run.
unsafe impl Sync for NativeFunction {}

impl NativeFunction {
    fn as_method(&self) -> JNINativeMethod {
        JNINativeMethod {
            name: self.name.as_ptr().cast_mut(),
            signature: self.signature.as_ptr().cast_mut(),
            fnPtr: self.function.cast_mut(),
        }
    }
}

/// Virtual machine of the process.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct VirtualMachine(*mut JavaVM);

// SAFETY: every thread may use the virtual machine.
unsafe impl Send for VirtualMachine {}
// SAFETY: every thread may use the virtual machine.
unsafe impl Sync for VirtualMachine {}

impl VirtualMachine {
    fn functions(self) -> &'static JNIInvokeInterface__1_4 {
        // SAFETY: the virtual machine is never destroyed while this library is loaded.
        let table = unsafe { *self.0 };
        let functions: *const JNIInvokeInterface__1_4 = table.cast();
        // SAFETY: a virtual machine of Java 11 or later has all functions of version 1.4.
        unsafe { &*functions }
    }

    /// Calls `work` with the environment of this thread, and attaches the thread if it is none of
    /// Java's. The thread stays attached until it ends, because attaching it takes microseconds.
    /// Returns None if it cannot be attached.
    pub(crate) fn with_env<T>(self, work: impl FnOnce(Env<'_>) -> T) -> Option<T> {
        let env = self.env_of_thread().or_else(|| self.attach())?;
        Some(work(env))
    }

    /// Returns the environment of this thread, or None if it is not attached.
    pub(crate) fn env_of_thread<'a>(self) -> Option<Env<'a>> {
        let mut env = ptr::null_mut();
        let get_env = self.functions().GetEnv;
        // SAFETY: `env` is a place for the result.
        let status = unsafe { get_env(self.0, &mut env, JNI_VERSION_1_6) };
        (status == JNI_OK).then_some(Env(env.cast(), PhantomData))
    }

    fn attach<'a>(self) -> Option<Env<'a>> {
        let mut env = ptr::null_mut();
        let attach = self.functions().AttachCurrentThreadAsDaemon;
        // SAFETY: `env` is a place for the result, and the arguments may be null.
        let status = unsafe { attach(self.0, &mut env, ptr::null_mut()) };
        if status != JNI_OK {
            return None;
        }
        ATTACHMENT.with(|attachment| attachment.set(Some(Attachment(self))));
        Some(Env(env.cast(), PhantomData))
    }
}

thread_local! {
    /// Attachment of a thread that is none of Java's. Its destructor runs when the thread ends.
    static ATTACHMENT: std::cell::Cell<Option<Attachment>> = const { std::cell::Cell::new(None) };
}

struct Attachment(VirtualMachine);

impl Drop for Attachment {
    fn drop(&mut self) {
        let detach = self.0.functions().DetachCurrentThread;
        // SAFETY: this thread was attached, and no native function of Java runs in it.
        unsafe { detach(self.0.0) };
    }
}

/// Reference that keeps an object alive, for all threads.
pub(crate) struct Global(jobject, VirtualMachine);

// SAFETY: the virtual machine allows the use of a global reference in every thread.
unsafe impl Send for Global {}
// SAFETY: the virtual machine allows the use of a global reference in every thread.
unsafe impl Sync for Global {}

impl Global {
    pub(crate) fn virtual_machine(&self) -> VirtualMachine {
        self.1
    }
}

impl Drop for Global {
    fn drop(&mut self) {
        self.1.with_env(|env| {
            // SAFETY: the reference is valid, and nothing uses it afterwards.
            unsafe { (env.functions().DeleteGlobalRef)(env.0, self.0) };
        });
    }
}

/// Number that stands for a value of type `T` in Java, or 0.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct Handle<'a, T>(jlong, PhantomData<&'a T>);

impl<'a, T> Handle<'a, T> {
    /// Returns the value, or None for 0.
    pub(crate) fn get(self) -> Option<&'a T> {
        // SAFETY: by rule 3, the number is 0 or the address of a value that lives through the call.
        unsafe { (self.0 as *const T).as_ref() }
    }

    /// Takes the value out of the handle, which becomes invalid.
    pub(crate) fn take(self) -> Option<Box<T>> {
        let value = self.0 as *mut T;
        // SAFETY: by rule 3, the address is that of a box, and this is its last use.
        (!value.is_null()).then(|| unsafe { Box::from_raw(value) })
    }
}

/// Entry point, which the virtual machine calls after it has loaded this library.
// The name is the one that the virtual machine looks for, with this signature. No other library of
// the process sees it, because the virtual machine loads libraries with local symbols.
#[unsafe(no_mangle)]
extern "system" fn JNI_OnLoad(vm: VirtualMachine, _reserved: *mut c_void) -> jint {
    match vm.env_of_thread().map(|env| env.register(c"org/terracedb/Native", FUNCTIONS)) {
        Some(Ok(())) => JNI_VERSION_1_6,
        _ => JNI_ERR,
    }
}

/// Turns a value into a number for Java.
pub(crate) fn into_handle<T: Send + Sync>(value: T) -> jlong {
    Box::into_raw(Box::new(value)) as jlong
}
