//! Reasons why a command has no normal reply.

use std::borrow::Cow;

/// Result of a command or of a part of it.
pub(crate) type CommandResult<T = ()> = Result<T, Failure>;

/// Reason why a command has no normal reply. Nothing was written.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Error for the client. Its text begins with a code.
    Reply(Cow<'static, str>),
    /// Error of the database.
    Engine(terrace::Error),
    /// Error of the shared store.
    Store(terrace_store::Error),
    /// The command would wait for storage. A thread of the slow pool repeats it.
    WouldWait,
    /// The command is long. A thread of the slow pool repeats it.
    IsLong,
    /// The command is a script. The script thread repeats it.
    NeedsScriptThread,
    /// The command cannot be part of a series. It is repeated alone.
    NeedsOwnBatch,
    /// A writer has changed the database between two reads. The command is repeated with a
    /// snapshot.
    NeedsSnapshot,
}

impl Failure {
    /// Unknown word, or too many of them.
    pub(crate) const SYNTAX: Failure = Failure::Reply(Cow::Borrowed("ERR syntax error"));
    /// Value of another type than the command needs.
    pub(crate) const WRONG_TYPE: Failure =
        Failure::Reply(Cow::Borrowed("WRONGTYPE Operation against a key holding the wrong kind of value"));
    /// Text that is no integer.
    pub(crate) const NOT_AN_INTEGER: Failure =
        Failure::Reply(Cow::Borrowed("ERR value is not an integer or out of range"));

    /// Error with the text `text`.
    pub(crate) fn reply(text: impl Into<Cow<'static, str>>) -> Failure {
        Failure::Reply(text.into())
    }

    /// Result without a value in place of an error for the client. Other failures remain.
    pub(crate) fn ignore_reply<T>(self) -> CommandResult<Option<T>> {
        match self {
            Failure::Reply(_) => Ok(None),
            other => Err(other),
        }
    }

    /// True if another front end has interfered, so that the command has to run again.
    pub(crate) fn is_conflict(&self) -> bool {
        let Failure::Store(error) = self else { return false };
        matches!(error, terrace_store::Error::Conflict { .. } | terrace_store::Error::SnapshotTooOld(_))
    }

    /// Text of the error reply.
    pub(crate) fn text(&self) -> Cow<'_, str> {
        match self {
            Failure::Reply(text) => Cow::Borrowed(text),
            Failure::Engine(error) => Cow::Owned(engine_text(error)),
            Failure::Store(error) => Cow::Owned(store_text(error)),
            Failure::WouldWait => Cow::Borrowed("ERR the command has to wait for storage"),
            Failure::IsLong => Cow::Borrowed("ERR a long command cannot run here"),
            Failure::NeedsOwnBatch => Cow::Borrowed("ERR the command needs a batch of its own"),
            Failure::NeedsSnapshot => Cow::Borrowed("ERR the database has changed between two reads"),
            Failure::NeedsScriptThread => Cow::Borrowed("ERR a script cannot run here"),
        }
    }
}

fn engine_text(error: &terrace::Error) -> String {
    match error {
        terrace::Error::BackgroundError(cause) => {
            format!(
                "MISCONF Errors writing to the database, which refuses writes until it is reopened: {cause}"
            )
        }
        terrace::Error::Corruption(damage) => format!("ERR damaged: {damage}"),
        error if error.is_retryable() => format!("ERR no space: {error}"),
        error => format!("ERR {error}"),
    }
}

/// Returns the error of a store. Clients of a Redis cluster know the first two codes.
fn store_text(error: &terrace_store::Error) -> String {
    use terrace_store::Error;
    match error {
        Error::Conflict { .. } | Error::Busy(_) | Error::SnapshotTooOld(_) => {
            format!("TRYAGAIN nothing was written: {error}")
        }
        Error::Unavailable(_) => format!("CLUSTERDOWN nothing was written: {error}"),
        Error::CommitUnknown(_) => format!("COMMITUNKNOWN the write may or may not have happened: {error}"),
        Error::Local(error) => engine_text(error),
        error => format!("ERR {error}"),
    }
}

impl From<terrace_store::Error> for Failure {
    fn from(error: terrace_store::Error) -> Failure {
        Failure::Store(error)
    }
}

impl From<terrace::Error> for Failure {
    fn from(error: terrace::Error) -> Failure {
        if error.is_would_wait() { Failure::WouldWait } else { Failure::Engine(error) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_is_no_error_for_the_client() {
        assert!(matches!(Failure::from(terrace::Error::WouldWait), Failure::WouldWait));
    }

    #[test]
    fn errors_of_a_store() {
        use terrace_store::Error;
        for (error, code) in [
            (Error::Conflict { key: None }, "TRYAGAIN "),
            (Error::Unavailable("no leader".into()), "CLUSTERDOWN "),
            (Error::CommitUnknown("no answer".into()), "COMMITUNKNOWN "),
            (Error::BatchTooLarge { unit: "operations", found: 200, limit: 126 }, "ERR batch too large: 200"),
        ] {
            let text = Failure::from(error).text().into_owned();
            assert!(text.starts_with(code), "{text}");
        }
    }

    #[test]
    fn refused_writes() {
        let cause = std::sync::Arc::new(terrace::Error::NotSupported("sync".into()));
        let text = Failure::from(terrace::Error::BackgroundError(cause)).text().into_owned();
        assert!(text.starts_with("MISCONF ") && text.contains("sync"), "{text}");
    }
}
