//! Consequences of the errors of the client library.

use std::fmt;

use tikv_client::{Error as TikvError, ProtoKeyError, ProtoRegionError};

use crate::error::Error;

/// Reason of a failed attempt.
#[derive(Debug)]
pub(super) enum Failure {
    /// Another transaction has written a key after the start of this one, which had no effect.
    Conflict(Option<Vec<u8>>),
    /// A key has the lock of another transaction. The attempt had no effect.
    Locked(String),
    /// A key has a lock of the transaction that started at this timestamp and whose primary lock is
    /// missing. A commit may have taken effect.
    Orphan(u64, String),
    /// The answer exceeds the limit of this client.
    AnswerTooLarge,
    /// Another attempt may succeed. A commit may have taken effect.
    Transient(String),
    /// Another attempt would fail, too.
    Final(Error),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Conflict(_) => f.write_str("tikv: another transaction has written a key"),
            Failure::Locked(reason) | Failure::Orphan(_, reason) | Failure::Transient(reason) => {
                f.write_str(reason)
            }
            Failure::AnswerTooLarge => f.write_str("tikv: answer of more than 64 MiB"),
            Failure::Final(error) => error.fmt(f),
        }
    }
}

/// Result of an attempt.
pub(super) type Outcome<T> = std::result::Result<T, Failure>;

/// Codes of gRPC.
mod code {
    pub(super) const PERMISSION_DENIED: i32 = 7;
    pub(super) const OUT_OF_RANGE: i32 = 11;
    pub(super) const UNAUTHENTICATED: i32 = 16;
}

/// Returns the consequence of `error` from the cluster with the hosts `names`.
pub(super) fn classify(names: &str, error: TikvError) -> Failure {
    match error {
        TikvError::KeyError(error) => key_failure(names, *error),
        TikvError::MultipleKeyErrors(errors) | TikvError::ExtractedErrors(errors) => {
            most_telling(names, errors)
        }
        TikvError::UndeterminedError(error) => Failure::Transient(message(names, &error)),
        TikvError::ResolveLockError(locks) => {
            let key = locks.first().map(|lock| lock.key.escape_ascii().to_string()).unwrap_or_default();
            Failure::Locked(format!("tikv {names}: another transaction holds the lock of '{key}'"))
        }
        TikvError::TxnNotFound(missing) => Failure::Orphan(
            missing.start_ts,
            format!("tikv {names}: a lock of a transaction that never began"),
        ),
        TikvError::RegionError(error) => region_failure(names, &error),
        TikvError::GrpcAPI(status) => {
            let reason = format!("tikv {names}: {}", status.message());
            match status.code() as i32 {
                code::OUT_OF_RANGE if status.message().contains("message length too large") => {
                    Failure::AnswerTooLarge
                }
                code::PERMISSION_DENIED | code::UNAUTHENTICATED => {
                    Failure::Final(Error::PermissionDenied(reason))
                }
                _ => Failure::Transient(reason),
            }
        }
        error => Failure::Transient(message(names, &error)),
    }
}

/// Returns the message of an error without the source position that the library puts before it.
fn message(names: &str, error: &TikvError) -> String {
    let text = error.to_string();
    let text = match text.split_once("]: ") {
        Some((position, rest)) if position.starts_with('[') => rest.trim(),
        _ => &text,
    };
    format!("tikv {names}: {text}")
}

/// Returns the conflict among the failures, or the first failure.
fn most_telling(names: &str, errors: Vec<TikvError>) -> Failure {
    let mut first = None;
    for error in errors {
        match classify(names, error) {
            conflict @ Failure::Conflict(_) => return conflict,
            failure => first = first.or(Some(failure)),
        }
    }
    first.unwrap_or_else(|| Failure::Transient(format!("tikv {names}: error without a reason")))
}

fn key_failure(names: &str, error: ProtoKeyError) -> Failure {
    if let Some(conflict) = error.conflict {
        return Failure::Conflict(Some(conflict.key));
    }
    if let Some(missing) = &error.txn_not_found {
        let reason = format!("tikv {names}: a lock of a transaction that never began");
        return Failure::Orphan(missing.start_ts, reason);
    }
    match error.abort.to_lowercase() {
        abort if abort.contains("key") && abort.contains("too large") => {
            Failure::Final(Error::InvalidArgument(format!("tikv {names}: {}", error.abort)))
        }
        _ => Failure::Transient(format!("tikv {names}: {error:?}")),
    }
}

fn region_failure(names: &str, error: &ProtoRegionError) -> Failure {
    let reason = format!("tikv {names}: {}", error.message);
    if error.disk_full.is_some() {
        return Failure::Final(Error::OutOfSpace(reason));
    }
    if error.raft_entry_too_large.is_some() {
        return Failure::Final(Error::InvalidArgument(format!("{reason} (raft-entry-max-size)")));
    }
    Failure::Transient(reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conflict_among_other_errors() {
        let locked = TikvError::ResolveLockError(Vec::new());
        let mut conflict = ProtoKeyError::default();
        conflict.conflict.get_or_insert_default().key = b"k".to_vec();
        let conflict = TikvError::KeyError(Box::new(conflict));
        let failure = classify("h", TikvError::MultipleKeyErrors(vec![locked, conflict]));
        assert!(matches!(failure, Failure::Conflict(Some(key)) if key == b"k"));
    }

    #[test]
    fn commit_without_an_answer_is_no_conflict() {
        let lost = TikvError::UndeterminedError(Box::new(TikvError::Unimplemented));
        assert!(matches!(classify("h", lost), Failure::Transient(_)));
    }

    #[test]
    fn message_without_the_source_position() {
        let error = TikvError::InternalError { message: "[/x/y.rs:7]:  no leader".into() };
        assert_eq!(message("h1", &error), "tikv h1: no leader");
    }
}
