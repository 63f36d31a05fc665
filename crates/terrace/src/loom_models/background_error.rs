//! Model of two concurrent background errors.

use terrace_sync::thread;

use crate::db::components::background_error::BackgroundError;
use crate::error::Error;
use crate::sync::Arc;

fn message(background_error: &BackgroundError) -> Option<String> {
    background_error.check().err().map(|error| error.to_string())
}

pub(super) fn two_errors() {
    let background_error = Arc::new(BackgroundError::new());
    let failing = ["this", "that"].map(|text| {
        let background_error = Arc::clone(&background_error);
        thread::spawn(move || {
            background_error.set(&Error::InvalidArgument(text.into()));
            message(&background_error)
        })
    });
    let early = message(&background_error);
    let seen = failing.map(|thread| thread.join().unwrap());
    let stays = message(&background_error);
    assert!(stays.is_some() && background_error.is_set());
    assert!(seen.iter().all(|seen| *seen == stays), "{seen:?}, and then {stays:?}");
    assert!(early.is_none() || early == stays, "{early:?}, and then {stays:?}");
}
