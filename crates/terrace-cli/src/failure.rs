//! Failures of commands: a message for people and an exit code for scripts.

use std::io;
use std::path::Path;

use terrace::ErrorKind;
use terrace_bench::run::stop_signal::Signal;
use terrace_env::{FileError, LockHolder};

use crate::input::Input;
use crate::lock_holder::describe_lock_holders;

/// All exit codes with their meanings.
pub(crate) static EXIT_CODES: &[(u8, &str)] = &[
    (0, "success"),
    (1, "key not found, or the user declined"),
    (2, "invalid command line"),
    (3, "database error: missing, locked, damaged, or an I/O error"),
    (4, "error in another file: missing, malformed, or an I/O error"),
    (5, "condition not met: the key has another value"),
    (129, "terminated by SIGHUP: the terminal was closed"),
    (130, "terminated by SIGINT: Ctrl-C"),
    (143, "terminated by SIGTERM"),
];

/// Advice that is appended to the message of a corruption error.
pub(crate) const CORRUPTION_ADVICE: &str =
    "terrace verify lists all corruption, terrace repair --dry-run shows what can be recovered";

/// Result of a command.
pub(crate) type CommandResult = Result<(), Failure>;

/// Reason for an exit code other than 0, or for a silent end.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The command worked and its answer is negative: the key is missing, or the user declined.
    NegativeAnswer(String),
    /// The command line is invalid.
    Usage(String),
    /// An operation on the database, or on one of its files, failed.
    Database(String),
    /// Another process, or another handle of this one, has locked the database.
    Locked(String),
    /// Reading or writing another file failed, or its contents are malformed.
    File(String),
    /// A key has another value than the command line requires.
    ConditionNotMet(String),
    /// A signal stopped the program, which has removed its temporary files.
    Interrupted(Signal, String),
    /// The reader of standard output closed the pipe.
    PipeClosed,
}

impl Failure {
    /// Failure to read `path`, or malformed contents of it.
    pub(crate) fn for_file(path: &Path, reason: impl std::fmt::Display) -> Failure {
        Failure::File(format!("{}: {reason}", path.display()))
    }

    /// Failure to listen to signals.
    pub(crate) fn for_signals(error: io::Error) -> Failure {
        Failure::File(format!("listening to signals: {error}"))
    }

    /// Failure to find this program, which starts itself again.
    pub(crate) fn for_own_path(error: io::Error) -> Failure {
        Failure::File(format!("path of this program: {error}"))
    }

    /// Appends `note` to the message.
    pub(crate) fn with_note(mut self, note: &str) -> Failure {
        match &mut self {
            Failure::NegativeAnswer(s)
            | Failure::Usage(s)
            | Failure::Database(s)
            | Failure::Locked(s)
            | Failure::File(s)
            | Failure::ConditionNotMet(s)
            | Failure::Interrupted(_, s) => *s += &format!("; {note}"),
            Failure::PipeClosed => {}
        }
        self
    }

    /// Names the flag that reads a locked database, for a command that has it.
    pub(crate) fn advise_live(self) -> Failure {
        if matches!(self, Failure::Locked(_)) {
            self.with_note("--live reads beside the writer")
        } else {
            self
        }
    }

    /// Names the last line of `script` as the cause. An invalid command there is an error in a
    /// file.
    pub(crate) fn at_line(self, script: &Input) -> Failure {
        let place = |reason: String| script.place_of_line(reason);
        match self {
            Failure::Usage(s) => Failure::File(place(s)),
            Failure::Database(s) => Failure::Database(place(s)),
            Failure::ConditionNotMet(s) => Failure::ConditionNotMet(place(s)),
            other => other,
        }
    }

    /// Exit code of the program.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Failure::PipeClosed => 0,
            Failure::NegativeAnswer(_) => 1,
            Failure::Usage(_) => 2,
            Failure::Database(_) | Failure::Locked(_) => 3,
            Failure::File(_) => 4,
            Failure::ConditionNotMet(_) => 5,
            // Shells report the same code for a program that the signal terminated.
            Failure::Interrupted(signal, _) => 128 + signal.number,
        }
    }

    /// Message for the user, if there is one.
    pub(crate) fn message(&self) -> Option<&str> {
        match self {
            Failure::NegativeAnswer(s)
            | Failure::Usage(s)
            | Failure::Database(s)
            | Failure::Locked(s)
            | Failure::File(s)
            | Failure::ConditionNotMet(s)
            | Failure::Interrupted(_, s) => Some(s),
            Failure::PipeClosed => None,
        }
    }
}

impl From<terrace::Error> for Failure {
    fn from(error: terrace::Error) -> Failure {
        let failure = Failure::Database(error.to_string());
        match error.kind() {
            ErrorKind::Corruption => failure.with_note(CORRUPTION_ADVICE),
            _ if matches!(error, terrace::Error::ComparatorMismatch { .. }) => {
                failure.with_note("--comparator names the comparator of the database")
            }
            _ if error.is_locked() => {
                let holders = lock_holders(&error).map_or(String::new(), |holders| format!(": {holders}"));
                Failure::Locked(format!("{error}{holders}")).with_note("close it there first")
            }
            _ => failure,
        }
    }
}

/// Describes the other processes whose lock on a file caused `error`.
fn lock_holders(error: &terrace::Error) -> Option<String> {
    let terrace::Error::Io(error) = error else { return None };
    match error.lock_holder()? {
        LockHolder::ThisProcess => None,
        LockHolder::OtherProcess | LockHolder::Unknown => describe_lock_holders(&error.path),
    }
}

#[cfg(feature = "store")]
impl From<terrace_store::Error> for Failure {
    fn from(error: terrace_store::Error) -> Failure {
        match error {
            terrace_store::Error::Local(error) => error.into(),
            other => Failure::Database(other.to_string()),
        }
    }
}

impl From<FileError> for Failure {
    fn from(error: FileError) -> Failure {
        terrace::Error::from(error).into()
    }
}

/// An `io::Error` without a path always comes from standard output: errors of other files are
/// converted by [`Failure::for_file`].
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Failure::PipeClosed,
            _ => Failure::File(format!("standard output: {error}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use terrace_bench::run::stop_signal::SIGNALS;

    #[test]
    fn every_failure_has_a_documented_code() {
        let text = String::new;
        let failures = [
            Failure::NegativeAnswer(text()),
            Failure::Usage(text()),
            Failure::Database(text()),
            Failure::File(text()),
            Failure::ConditionNotMet(text()),
        ];
        let interrupted = SIGNALS.map(|signal| Failure::Interrupted(signal, text()));
        for failure in failures.into_iter().chain(interrupted) {
            assert!(EXIT_CODES.iter().any(|(code, _)| *code == failure.exit_code()), "{failure:?}");
        }
    }

    #[test]
    fn closed_pipe_prints_no_message() {
        let failure = Failure::from(io::Error::from(io::ErrorKind::BrokenPipe));
        assert_eq!((failure.exit_code(), failure.message()), (0, None));
    }
}
