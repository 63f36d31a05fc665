//! One place that runs the program: in a directory of its own, without a terminal.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::unwrap_used,
    reason = "tests make the files that the program reads, and fail where that fails"
)]

use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

/// A directory in which the program runs; gone when dropped.
pub(crate) struct CliTest {
    dir: TempDir,
}

/// How a run ended.
#[derive(Debug)]
pub(crate) struct ProgramResult {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl CliTest {
    pub(crate) fn new() -> CliTest {
        CliTest { dir: tempfile::tempdir().unwrap() }
    }

    /// With a database `db` of these entries.
    pub(crate) fn with_entries(entries: &str) -> CliTest {
        let trial = CliTest::new();
        trial.run_with_input("load db - --create --format tsv", entries.as_bytes()).assert_output(0, "");
        trial
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn file(&self, name: &str, contents: impl AsRef<[u8]>) -> &CliTest {
        fs::write(self.path(name), contents).unwrap();
        self
    }

    pub(crate) fn read(&self, name: &str) -> Vec<u8> {
        fs::read(self.path(name)).unwrap()
    }

    /// The files in the folder `name`, sorted.
    pub(crate) fn list(&self, name: &str) -> Vec<String> {
        let entries = fs::read_dir(self.path(name)).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    /// The one file in the database `db` whose name ends with `end` or begins with it.
    pub(crate) fn find_file(&self, part: &str) -> String {
        let names = self.list("db");
        let mut fitting = names.iter().filter(|name| name.starts_with(part) || name.ends_with(part));
        format!("db/{}", fitting.next_back().unwrap_or_else(|| panic!("no {part} among {names:?}")))
    }

    /// Runs `terrace` with the words of `line`.
    #[track_caller]
    pub(crate) fn run(&self, line: &str) -> ProgramResult {
        self.run_with_input(line, b"")
    }

    /// The same, with standard input.
    #[track_caller]
    pub(crate) fn run_with_input(&self, line: &str, input: &[u8]) -> ProgramResult {
        let mut child = self.start(line);
        // A program that does not want its input may be gone before it is written.
        let _ = child.stdin.take().unwrap().write_all(input);
        CliTest::wait(child)
    }

    /// Starts it, and does not wait for its end.
    pub(crate) fn start(&self, line: &str) -> Child {
        // Whoever runs the tests may ignore a signal, as `nohup` does, and hands that down.
        let mut command = Command::new("env");
        command.args(["--default-signal=HUP,INT,TERM", env!("CARGO_BIN_EXE_terrace")]);
        command.args(line.split_whitespace()).current_dir(self.dir.path()).env("TMPDIR", self.dir.path());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    /// How it ends.
    #[track_caller]
    pub(crate) fn wait(child: Child) -> ProgramResult {
        let output = child.wait_with_output().unwrap();
        ProgramResult {
            code: output.status.code().expect("not killed by a signal"),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

impl ProgramResult {
    /// Ended with `code`, having printed `out`.
    #[track_caller]
    pub(crate) fn assert_output(&self, code: i32, out: &str) {
        assert_eq!((self.code, self.out.as_str()), (code, out), "{}", self.err);
    }

    /// Failed with `code`, saying exactly `sentence`.
    #[track_caller]
    pub(crate) fn assert_error(&self, code: i32, sentence: &str) {
        assert_eq!((self.code, self.err.as_str()), (code, format!("terrace: {sentence}\n").as_str()));
    }

    /// Ended with `code`; every one of `parts` is in the output or the messages.
    #[track_caller]
    pub(crate) fn assert_contains(&self, code: i32, parts: &[&str]) {
        assert_eq!(self.code, code, "{self:?}");
        let said = format!("{}{}", self.out, self.err);
        for part in parts {
            assert!(said.contains(part), "no {part:?} in\n{said}");
        }
    }
}
