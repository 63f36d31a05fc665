//! Report of the recovery at open, for programs and for people.

use std::fmt;

use terrace_format::filename::FileName;

use crate::error::Corruption;

/// Findings of the open of a database: the end of each log, and the data that is missing.
///
/// ```
/// # use terrace::{Db, Env, LogEndReason, Options};
/// # let options = Options::default().create_if_missing(true).env(Env::in_memory());
/// # let db = Db::open("cities", &options)?;
/// # db.put(b"CH/Bern", b"46.95,7.45")?;
/// # db.close()?;
/// let db = Db::open_read_only("cities", &options)?;
/// assert!(db.recovery().damage.is_empty(), "{:?}", db.recovery().damage);
/// assert_eq!(db.recovery().logs[0].reason, LogEndReason::EndOfFile);
/// # Ok::<(), terrace::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecoveryReport {
    /// Logs of the open, oldest first.
    pub logs: Vec<RecoveredLog>,
    /// Damage whose data the database omits. Without a newer version of its key, an older one may
    /// be visible again. Empty if no data is missing.
    pub damage: Vec<Corruption>,
}

/// End of a log at the open of its database. Prints as `000002.log ends at 68502 of 105508 bytes:
/// incomplete record, perhaps an interrupted write`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecoveredLog {
    /// File number of the log.
    pub number: u64,
    /// Offset in bytes at which the replay ended. No later record was replayed.
    pub end: u64,
    /// Length of the file in bytes.
    pub length: u64,
    /// Reason why the replay ended there.
    pub reason: LogEndReason,
}

/// Reason for the end of the replay of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum LogEndReason {
    /// The file ends with a complete record.
    EndOfFile,
    /// Only zeros follow: preallocated space that no record uses.
    UnusedSpace,
    /// A record begins and does not end. The writing process was probably killed.
    IncompleteRecord,
    /// Damaged bytes follow.
    Damage,
    /// Records follow that a power cut has separated from the earlier ones.
    SequenceGap,
    /// An earlier log ended with such a gap, so no record of this log was replayed.
    AfterSequenceGap,
}

impl fmt::Display for LogEndReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            LogEndReason::EndOfFile => "end of the file",
            LogEndReason::UnusedSpace => "unused space follows",
            LogEndReason::IncompleteRecord => "incomplete record, perhaps an interrupted write",
            LogEndReason::Damage => "damaged bytes follow",
            LogEndReason::SequenceGap => "gap in the sequence numbers",
            LogEndReason::AfterSequenceGap => "gap in the sequence numbers of an earlier log",
        })
    }
}

impl fmt::Display for RecoveredLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RecoveredLog { number, end, length, reason } = self;
        write!(f, "{} ends at {end} of {length} bytes: {reason}", FileName::Log(*number))
    }
}
