//! Runs the program in a new directory and without a terminal.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::unwrap_used,
    reason = "tests create the files that the program reads, and fail if that fails"
)]

use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

/// A directory in which the program runs; removed on drop.
pub(crate) struct CliTest {
    dir: TempDir,
}

/// Exit code and output of a run.
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

    /// Creates a test directory with a database `db` that holds `entries`.
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

    pub(crate) fn create_dir(&self, name: &str) {
        fs::create_dir(self.path(name)).unwrap();
    }

    #[cfg(unix)]
    pub(crate) fn set_mode(&self, name: &str, mode: u32) {
        use std::os::unix::fs::PermissionsExt;
        fs::set_permissions(self.path(name), fs::Permissions::from_mode(mode)).unwrap();
    }

    pub(crate) fn read(&self, name: &str) -> Vec<u8> {
        fs::read(self.path(name)).unwrap()
    }

    /// Names of the files in the directory `name`, sorted.
    pub(crate) fn list(&self, name: &str) -> Vec<String> {
        let entries = fs::read_dir(self.path(name)).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    /// The last file of the database `db` whose name begins or ends with `part`.
    pub(crate) fn find_file(&self, part: &str) -> String {
        let names = self.list("db");
        let mut matching = names.iter().filter(|name| name.starts_with(part) || name.ends_with(part));
        format!("db/{}", matching.next_back().unwrap_or_else(|| panic!("no {part} among {names:?}")))
    }

    /// Runs `terrace` with the words of `line` as arguments.
    #[track_caller]
    pub(crate) fn run(&self, line: &str) -> ProgramResult {
        self.run_with_input(line, b"")
    }

    /// Runs `terrace` for a terminal with `columns`.
    #[track_caller]
    pub(crate) fn run_in_columns(&self, line: &str, columns: usize) -> ProgramResult {
        CliTest::wait(self.command(line).env("COLUMNS", columns.to_string()).spawn().unwrap())
    }

    /// Runs `script` in a shell, in which `$0` is `terrace`.
    #[cfg(unix)]
    #[track_caller]
    pub(crate) fn run_in_shell(&self, script: &str) -> ProgramResult {
        let mut shell = Command::new("sh");
        shell.args(["-c", script, env!("CARGO_BIN_EXE_terrace")]).current_dir(self.dir.path());
        shell.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        CliTest::wait(shell.spawn().unwrap())
    }

    /// Runs `terrace` with `input` as its standard input.
    #[track_caller]
    pub(crate) fn run_with_input(&self, line: &str, input: &[u8]) -> ProgramResult {
        let mut child = self.start(line);
        // A program that does not read its input may exit before the input is written.
        let _ = child.stdin.take().unwrap().write_all(input);
        CliTest::wait(child)
    }

    /// Starts `terrace` without waiting for its end.
    pub(crate) fn start(&self, line: &str) -> Child {
        self.command(line).spawn().unwrap()
    }

    fn command(&self, line: &str) -> Command {
        let mut command = program();
        command.args(line.split_whitespace()).current_dir(self.dir.path());
        command.env("TMPDIR", self.dir.path()).env("TMP", self.dir.path());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Runs `terrace` as another user, for whom permissions count. That user may read the directory
    /// of the test.
    #[cfg(unix)]
    pub(crate) fn run_as_nobody(&self, line: &str) -> std::process::Output {
        self.set_mode("", 0o755);
        let program = self.path("terrace");
        copy_program(&program);
        let mut words = vec!["timeout", "20", program.to_str().unwrap()];
        if rustix::process::geteuid().is_root() {
            words.splice(0..0, ["setpriv", "--reuid", "54321", "--regid", "54321", "--clear-groups"]);
        }
        words.extend(line.split_whitespace());
        Command::new(words[0]).args(&words[1..]).current_dir(self.path("")).output().unwrap()
    }

    /// Waits for the end of `child`.
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

/// Copies the program to `target` by a process of its own. If this process wrote the copy, a child
/// that another test forks at this time could keep it open for writing, and the system would refuse
/// to execute it.
#[cfg(unix)]
pub(crate) fn copy_program(target: &std::path::Path) {
    assert!(Command::new("cp").arg(env!("CARGO_BIN_EXE_terrace")).arg(target).status().unwrap().success());
}

/// Returns a command for `terrace`. The caller of the tests may ignore a signal, as `nohup` does,
/// and child processes inherit that.
#[cfg(unix)]
fn program() -> Command {
    let mut command = Command::new("env");
    command.args(["--default-signal=HUP,INT,TERM", env!("CARGO_BIN_EXE_terrace")]);
    command
}

#[cfg(not(unix))]
fn program() -> Command {
    Command::new(env!("CARGO_BIN_EXE_terrace"))
}

/// Returns the system's text for a missing file.
pub(crate) fn missing_file() -> String {
    std::io::Error::from_raw_os_error(2).to_string()
}

/// Returns the system's text for a path through a missing directory.
pub(crate) fn missing_directory() -> String {
    std::io::Error::from_raw_os_error(if cfg!(windows) { 3 } else { 2 }).to_string()
}

/// Returns `text` with the separator of paths that Unix has.
pub(crate) fn portable(text: &str) -> String {
    if cfg!(windows) { text.replace('\\', "/") } else { text.to_owned() }
}

impl ProgramResult {
    /// Asserts the exit code and standard output.
    #[track_caller]
    pub(crate) fn assert_output(&self, code: i32, out: &str) {
        assert_eq!((self.code, portable(&self.out)), (code, portable(out)), "{}", self.err);
    }

    /// Asserts the exit code and the exact message.
    #[track_caller]
    pub(crate) fn assert_error(&self, code: i32, message: &str) {
        let message = format!("terrace: {message}\n");
        assert_eq!((self.code, portable(&self.err)), (code, portable(&message)));
    }

    /// Asserts the exit code, and that output and messages contain every one of `parts`.
    #[track_caller]
    pub(crate) fn assert_contains(&self, code: i32, parts: &[&str]) {
        assert_eq!(self.code, code, "{self:?}");
        let output = portable(&format!("{}{}", self.out, self.err));
        for part in parts {
            assert!(output.contains(&portable(part)), "no {part:?} in\n{output}");
        }
    }
}
