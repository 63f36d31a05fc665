//! Errors of all engines, in kinds that tell a caller what to do.

/// Result with an [`Error`] of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Error of a store.
///
/// ```text
/// unavailable: etcd 127.0.0.1:2379: connection refused
/// batch too large: 200 operations, the limit of the store is 126
/// ```
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Another writer changed a key on which a conditional write or a transaction depends. Nothing
    /// was written. The caller reads again and tries again.
    #[error("conflict: another writer changed {}", conflict_place(.key))]
    Conflict {
        /// The changed key, if the engine reports it.
        key: Option<Vec<u8>>,
    },
    /// The store is too busy for the call, which had no effect.
    #[error("busy: {0}")]
    Busy(String),
    /// No server answered in time. A failed write had no effect.
    #[error("unavailable: {0}")]
    Unavailable(String),
    /// The write may or may not have taken effect, and the store could not tell in time. The caller
    /// reads before it tries again.
    #[error("commit unknown: {0}")]
    CommitUnknown(String),
    /// The store has removed the versions that the snapshot shows.
    #[error("snapshot too old: {0}")]
    SnapshotTooOld(String),
    /// The batch exceeds a limit of the store. Nothing was sent.
    #[error("batch too large: {found} {unit}, the limit of the store is {limit}")]
    BatchTooLarge {
        /// Unit of the two numbers.
        unit: &'static str,
        /// Size of the batch.
        found: usize,
        /// Maximum size.
        limit: usize,
    },
    /// The store has no space for the write.
    #[error("out of space: {0}")]
    OutOfSpace(String),
    /// The store does not support the operation.
    #[error("not supported: {0}")]
    NotSupported(String),
    /// An argument, an option or an address is wrong.
    #[error("invalid argument: {0}")]
    InvalidArgument(String),
    /// The store refuses the user, the password or the certificate.
    #[error("permission denied: {0}")]
    PermissionDenied(String),
    /// There is no store, and the call may not create one
    /// ([`OpenOptions::create_if_missing`](crate::OpenOptions::create_if_missing)).
    #[error("no store: {0}")]
    Missing(String),
    /// The target of a copy has entries, and the copy may not continue an earlier one.
    #[error("invalid argument: the target has entries already")]
    TargetHasEntries,
    /// Stored bytes do not have the expected form.
    #[error("corruption: {0}")]
    Corruption(String),
    /// The embedded engine returned an error.
    #[error(transparent)]
    Local(terrace::Error),
}

fn conflict_place(key: &Option<Vec<u8>>) -> String {
    match key {
        Some(key) => format!("'{}'", key.escape_ascii()),
        None => "a key that this one read".to_owned(),
    }
}

impl Error {
    /// Returns true if the failed call had no effect and may succeed later.
    ///
    /// ```
    /// use terrace_store::Error;
    ///
    /// assert!(Error::Unavailable("no leader".into()).is_retryable());
    /// assert!(!Error::CommitUnknown("no answer".into()).is_retryable());
    /// ```
    pub fn is_retryable(&self) -> bool {
        match self {
            Error::Conflict { .. } | Error::Busy(_) | Error::Unavailable(_) => true,
            Error::Local(error) => error.is_retryable(),
            _ => false,
        }
    }

    /// Returns true if another writer interfered.
    pub(crate) fn is_conflict(&self) -> bool {
        matches!(self, Error::Conflict { .. })
    }
}

impl From<terrace::Error> for Error {
    fn from(error: terrace::Error) -> Error {
        match error {
            terrace::Error::Conflict { key } => Error::Conflict { key: Some(key) },
            terrace::Error::InvalidArgument(reason) => Error::InvalidArgument(reason),
            terrace::Error::DoesNotExist { path } => {
                Error::Missing(format!("{}: does not exist", path.display()))
            }
            terrace::Error::NotSupported(reason) => Error::NotSupported(reason),
            other => Error::Local(other),
        }
    }
}
