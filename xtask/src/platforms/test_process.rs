//! Process of a program of tests, which ends tests that do not end by themselves.
//!
//! ```text
//!   run --> all tests have a result
//!    ^  --> no result for the time limit: the process is killed, its running tests are noted
//!    |                                     |
//!    +---- the tests without a result <----+
//! ```

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use super::directory;

/// Time between two looks at a process.
const POLL: Duration = Duration::from_millis(100);

/// Output of a process that ended, or was killed.
pub(super) struct Output {
    pub(super) stdout: String,
    pub(super) stderr: String,
    /// None if the process was killed.
    pub(super) status: Option<ExitStatus>,
}

/// Runs `command`, with its output in files that begin with `name`. Kills it if its standard output
/// does not grow for `time_limit`.
pub(super) fn run(mut command: Command, name: &str, time_limit: Duration) -> io::Result<Output> {
    let [stdout, stderr] = ["stdout", "stderr"].map(|stream| directory().join(format!("{name}.{stream}")));
    command.stdin(Stdio::null()).stdout(File::create(&stdout)?).stderr(File::create(&stderr)?);
    let mut process = command.spawn()?;
    let mut last_growth = Instant::now();
    let mut len = 0;
    let status = loop {
        if let Some(status) = process.try_wait()? {
            break Some(status);
        }
        let now = fs::metadata(&stdout)?.len();
        if now != len {
            (len, last_growth) = (now, Instant::now());
        }
        if last_growth.elapsed() > time_limit {
            kill(&mut process)?;
            break None;
        }
        std::thread::sleep(POLL);
    };
    let text = |path| fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    Ok(Output { stdout: text(&stdout)?, stderr: text(&stderr)?, status })
}

/// Kills a process and the processes that it started.
fn kill(process: &mut Child) -> io::Result<()> {
    // An error means that it started none, or that the system has no pkill.
    let _ = Command::new("pkill").args(["-KILL", "-P", &process.id().to_string()]).status();
    process.kill()?;
    process.wait().map(drop)
}

/// Tests in the output of a process that was killed.
#[derive(Default, Debug, PartialEq)]
pub(super) struct Progress {
    pub(super) passed: BTreeSet<String>,
    pub(super) failed: BTreeSet<String>,
    pub(super) ignored: BTreeSet<String>,
    /// Tests that ran when the process was killed.
    pub(super) running: BTreeSet<String>,
}

impl Progress {
    /// Reads `test NAME ... RESULT`. A process with one thread prints the name before the test
    /// runs, and a process with more threads names the tests that run for a minute.
    pub(super) fn read(output: &str) -> Progress {
        let mut progress = Progress::default();
        for line in output.lines() {
            let Some(rest) = line.strip_prefix("test ") else { continue };
            if let Some((name, _)) = rest.split_once(" has been running for ") {
                progress.running.insert(name.to_owned());
            } else if let Some((name, result)) = rest.split_once(" ...") {
                progress.running.remove(name);
                let tests = match result.trim() {
                    "ok" => &mut progress.passed,
                    "FAILED" => &mut progress.failed,
                    result if result.starts_with("ignored") => &mut progress.ignored,
                    _ => &mut progress.running,
                };
                tests.insert(name.trim_end_matches(" - should panic").to_owned());
            }
        }
        progress
    }

    /// Returns whether the process started the test.
    pub(super) fn has_started(&self, name: &str) -> bool {
        [&self.passed, &self.failed, &self.ignored, &self.running].iter().any(|tests| tests.contains(name))
    }
}

#[cfg(test)]
mod tests {
    use super::{Progress, run};
    use std::process::Command;
    use std::time::Duration;

    fn names(names: &[&str]) -> std::collections::BTreeSet<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn running_tests_of_two_threads() {
        let progress = Progress::read(
            "running 9 tests\ntest a ... ok\ntest b has been running for over 60 seconds\n\
             test c has been running for over 60 seconds\ntest b ... FAILED\ntest d ... ignored, slow\n",
        );
        assert_eq!(progress.passed, names(&["a"]));
        assert_eq!(progress.failed, names(&["b"]));
        assert_eq!(progress.ignored, names(&["d"]));
        assert_eq!(progress.running, names(&["c"]));
        assert!(progress.has_started("c") && !progress.has_started("e"));
    }

    #[test]
    fn running_test_of_one_thread() {
        let progress = Progress::read("running 2 tests\ntest a - should panic ... ok\ntest b ... ");
        assert_eq!(progress.passed, names(&["a"]));
        assert_eq!(progress.running, names(&["b"]));
    }

    #[test]
    fn silent_process_is_killed() {
        std::fs::create_dir_all(super::directory()).unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", "echo test a ...; exec sleep 600"]);
        let output = run(command, "silent", Duration::from_millis(300)).unwrap();
        assert!(output.status.is_none());
        assert_eq!(Progress::read(&output.stdout).running, names(&["a"]));
    }
}
