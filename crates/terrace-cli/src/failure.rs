//! How a command ends when it does not end well: a sentence for people, an exit code for scripts.

use std::io;
use std::path::Path;

use terrace::ErrorKind;
use terrace_bench::run::stop::Signal;
use terrace_env::FileError;

/// Every exit code with its meaning.
pub(crate) static EXITS: &[(u8, &str)] = &[
    (0, "done"),
    (1, "the answer is no: the key is not there, or a question was answered with no"),
    (2, "the command line asks for something that can't be"),
    (3, "the database: missing, locked, damaged, or its disk refuses"),
    (4, "another file: missing, malformed, or its disk refuses"),
    (129, "ended by SIGHUP: the terminal is gone"),
    (130, "ended by SIGINT: Ctrl-C"),
    (143, "ended by SIGTERM"),
];

/// What helps against damage.
pub(crate) const DAMAGED: &str =
    "terrace verify finds all damage, terrace repair --dry-run says what can be saved";

/// What a command returns.
pub(crate) type Outcome = Result<(), Failure>;

/// An end that is not "done".
#[derive(Debug)]
pub(crate) enum Failure {
    /// Nothing went wrong; the answer is no.
    No(String),
    /// The command line makes no sense.
    Usage(String),
    /// The database, or a file of one.
    Database(String),
    /// Input and output that is not a database.
    File(String),
    /// A signal asked for the end, and all that was made for the time being is gone.
    Interrupted(Signal, String),
    /// Whoever read our output has seen enough.
    PipeClosed,
}

impl Failure {
    /// `path` could not be read, or is not what it should be.
    pub(crate) fn reading(path: &Path, reason: impl std::fmt::Display) -> Failure {
        Failure::File(format!("{}: {reason}", path.display()))
    }

    /// The same, and one thing more to know.
    pub(crate) fn and(mut self, more: &str) -> Failure {
        match &mut self {
            Failure::No(s)
            | Failure::Usage(s)
            | Failure::Database(s)
            | Failure::File(s)
            | Failure::Interrupted(_, s) => *s += &format!("; {more}"),
            Failure::PipeClosed => {}
        }
        self
    }

    /// The exit code.
    pub(crate) fn code(&self) -> u8 {
        match self {
            Failure::PipeClosed => 0,
            Failure::No(_) => 1,
            Failure::Usage(_) => 2,
            Failure::Database(_) => 3,
            Failure::File(_) => 4,
            // What a shell says of a program that the signal ended.
            Failure::Interrupted(signal, _) => 128 + signal.number,
        }
    }

    /// What to tell the user, if anything.
    pub(crate) fn sentence(&self) -> Option<&str> {
        match self {
            Failure::No(s)
            | Failure::Usage(s)
            | Failure::Database(s)
            | Failure::File(s)
            | Failure::Interrupted(_, s) => Some(s),
            Failure::PipeClosed => None,
        }
    }
}

impl From<terrace::Error> for Failure {
    fn from(error: terrace::Error) -> Failure {
        let failure = Failure::Database(error.to_string());
        match error.kind() {
            ErrorKind::Corruption => failure.and(DAMAGED),
            _ if error.is_locked() => failure.and("it has to be closed there first"),
            _ => failure,
        }
    }
}

impl From<FileError> for Failure {
    fn from(error: FileError) -> Failure {
        terrace::Error::from(error).into()
    }
}

/// A bare `io::Error` is always one of standard output: whoever reads a file says which ([`Failure::reading`]).
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
    use terrace_bench::run::stop::SIGNALS;

    #[test]
    fn every_failure_has_a_documented_code() {
        let text = String::new;
        let failures =
            [Failure::No(text()), Failure::Usage(text()), Failure::Database(text()), Failure::File(text())];
        let interrupted = SIGNALS.map(|signal| Failure::Interrupted(signal, text()));
        for failure in failures.into_iter().chain(interrupted) {
            assert!(EXITS.iter().any(|(code, _)| *code == failure.code()), "{failure:?}");
        }
    }

    #[test]
    fn a_closed_pipe_is_not_worth_a_word() {
        let failure = Failure::from(io::Error::from(io::ErrorKind::BrokenPipe));
        assert_eq!((failure.code(), failure.sentence()), (0, None));
    }
}
