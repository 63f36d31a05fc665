//! How a command ends when it does not end well: a sentence for people, an exit code for scripts.

use std::io;
use std::path::Path;

use terrace::ErrorKind;
use terrace_bench::run::stop_signal::Signal;
use terrace_env::FileError;

/// Every exit code with its meaning.
pub(crate) static EXIT_CODES: &[(u8, &str)] = &[
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
pub(crate) const CORRUPTION_ADVICE: &str =
    "terrace verify finds all damage, terrace repair --dry-run says what can be saved";

/// What a command returns.
pub(crate) type CommandResult = Result<(), Failure>;

/// An end that is not "done".
#[derive(Debug)]
pub(crate) enum Failure {
    /// Nothing went wrong; the answer is no.
    NegativeAnswer(String),
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
    pub(crate) fn for_file(path: &Path, reason: impl std::fmt::Display) -> Failure {
        Failure::File(format!("{}: {reason}", path.display()))
    }

    /// The same, and one thing more to know.
    pub(crate) fn with_note(mut self, more: &str) -> Failure {
        match &mut self {
            Failure::NegativeAnswer(s)
            | Failure::Usage(s)
            | Failure::Database(s)
            | Failure::File(s)
            | Failure::Interrupted(_, s) => *s += &format!("; {more}"),
            Failure::PipeClosed => {}
        }
        self
    }

    /// The exit code.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Failure::PipeClosed => 0,
            Failure::NegativeAnswer(_) => 1,
            Failure::Usage(_) => 2,
            Failure::Database(_) => 3,
            Failure::File(_) => 4,
            // What a shell says of a program that the signal ended.
            Failure::Interrupted(signal, _) => 128 + signal.number,
        }
    }

    /// What to tell the user, if anything.
    pub(crate) fn message(&self) -> Option<&str> {
        match self {
            Failure::NegativeAnswer(s)
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
            ErrorKind::Corruption => failure.with_note(CORRUPTION_ADVICE),
            _ if error.is_locked() => failure.with_note("it has to be closed there first"),
            _ => failure,
        }
    }
}

impl From<FileError> for Failure {
    fn from(error: FileError) -> Failure {
        terrace::Error::from(error).into()
    }
}

/// A bare `io::ErrorOut` is always one of standard output: whoever reads a file says which ([`Failure::for_file`]).
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
