//! Two failures at once.

use terrace_sync::thread;

use crate::db::components::background_error::BackgroundError;
use crate::error::Error;
use crate::sync::Arc;

fn cause(refusal: &BackgroundError) -> Option<String> {
    refusal.check().err().map(|error| error.to_string())
}

pub(super) fn two_errors() {
    let refusal = Arc::new(BackgroundError::new());
    let failing = ["this", "that"].map(|what| {
        let refusal = Arc::clone(&refusal);
        thread::spawn(move || {
            refusal.set(&Error::InvalidArgument(what.into()));
            cause(&refusal)
        })
    });
    let early = cause(&refusal);
    let seen = failing.map(|thread| thread.join().unwrap());
    let stays = cause(&refusal);
    assert!(stays.is_some() && refusal.is_set());
    assert!(seen.iter().all(|seen| *seen == stays), "{seen:?}, and then {stays:?}");
    assert!(early.is_none() || early == stays, "{early:?}, and then {stays:?}");
}
