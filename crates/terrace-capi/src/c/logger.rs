//! `leveldb_logger_t`: receiver of the info log lines. LevelDB's C interface cannot create one.

use std::ffi::{c_char, c_void};
use std::fmt;
use std::sync::Arc;

use terrace::Logger;

use super::callback_state::CallbackState;
use crate::ffi::run_or_default;

type LogFn = unsafe extern "C" fn(*mut c_void, *const c_char, usize);

pub(super) struct LoggerHandle(pub(super) Arc<CallbackLogger>);

pub(super) struct CallbackLogger {
    state: CallbackState,
    log: LogFn,
}

impl Logger for CallbackLogger {
    fn log(&self, line: fmt::Arguments<'_>) {
        let line = line.to_string();
        // SAFETY: the callback takes `state` and one byte range, which lives through the call.
        unsafe { (self.log)(self.state.pointer(), line.as_ptr().cast(), line.len()) };
    }
}

/// Returns null, which means the file `LOG`, if there is no callback.
#[unsafe(no_mangle)]
extern "C" fn terrace_logger_create(
    state: *mut c_void,
    destructor: Option<unsafe extern "C" fn(*mut c_void)>,
    log: Option<LogFn>,
) -> Option<Box<LoggerHandle>> {
    let state = CallbackState::new(state, destructor);
    Some(Box::new(LoggerHandle(Arc::new(CallbackLogger { state, log: log? }))))
}

#[unsafe(no_mangle)]
extern "C" fn terrace_logger_destroy(logger: Option<Box<LoggerHandle>>) {
    run_or_default(|| drop(logger));
}
