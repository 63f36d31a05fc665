//! A process that has a database open and obeys commands on its standard input.
//!
//! ```text
//!   command                              answer
//!     (the open itself)                    ok, or: error TEXT
//!     read                                 for each entry: KEY LENGTH HASH; then ok
//!     write sync|nosync [OPERATION]..      ok, or: error TEXT
//!     batch HEX                            ok, or: error TEXT; goleveldb only, for `followers`
//!     compact                              ok
//!     load SEED COUNT                      ok, or: error TEXT; Terrace only
//!     close                                ok, or: error TEXT; the process ends
//!
//!   OPERATION    put KEY LENGTH PATTERN, or: delete KEY
//!   value        the first LENGTH bytes of the repeated pattern
//!   HASH         FNV-1a with 64 bits, hexadecimal
//! ```
//!
//! An answer to a write acknowledges it. Several commands may be sent before the first answer.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};

use super::engine::EngineSettings;
use super::history::{Contents, ValueId};

/// Maximum time for an answer. goleveldb waits a few seconds before it tries a failed flush again.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(20);

/// Answer to a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Answer {
    Ok,
    Error(String),
    /// The process has ended.
    Ended,
    /// The process gave no answer in time.
    Timeout,
}

/// A running engine. Dropping it kills the process.
pub(super) struct EngineProcess {
    child: Child,
    stdin: ChildStdin,
    lines: Receiver<String>,
}

impl EngineProcess {
    /// Starts the engine, which opens the database in `dir`. The answer is that of the open.
    pub(super) fn open(settings: &EngineSettings, dir: &Path) -> Result<(EngineProcess, Answer), String> {
        let mut command = settings.command(dir)?;
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().map_err(|error| format!("{command:?}: {error}"))?;
        let (Some(stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(format!("{command:?}: no pipes"));
        };
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        let mut process = EngineProcess { child, stdin, lines };
        let answer = process.answer();
        Ok((process, answer))
    }

    /// Sends a command. If the process has ended, the missing answer shows it.
    pub(super) fn send(&mut self, command: &str) {
        let _ = writeln!(self.stdin, "{command}");
    }

    /// Waits for the answer to the oldest command without an answer.
    pub(super) fn answer(&mut self) -> Answer {
        self.answer_with_entries(&mut BTreeMap::new())
    }

    /// Waits for an answer and collects the entries before it.
    fn answer_with_entries(&mut self, entries: &mut Contents) -> Answer {
        loop {
            let line = match self.lines.recv_timeout(ANSWER_TIMEOUT) {
                Ok(line) => line,
                Err(RecvTimeoutError::Timeout) => return Answer::Timeout,
                Err(RecvTimeoutError::Disconnected) => return Answer::Ended,
            };
            if line == "ok" {
                return Answer::Ok;
            }
            if let Some(text) = line.strip_prefix("error ") {
                return Answer::Error(text.to_owned());
            }
            match parse_entry(&line) {
                Some((key, value)) => entries.insert(key, value),
                None => return Answer::Error(format!("unexpected line \"{}\"", line.escape_debug())),
            };
        }
    }

    /// Sends a command and waits for its answer.
    pub(super) fn call(&mut self, command: &str) -> Answer {
        self.send(command);
        self.answer()
    }

    /// Reads all entries.
    pub(super) fn read_all(&mut self) -> Result<Contents, Answer> {
        self.send("read");
        let mut entries = BTreeMap::new();
        match self.answer_with_entries(&mut entries) {
            Answer::Ok => Ok(entries),
            other => Err(other),
        }
    }

    /// Limits the size of the files that the process writes, or removes the limit.
    pub(super) fn limit_file_size(&self, bytes: Option<u64>) -> Result<(), String> {
        let maximum = getrlimit(Resource::Fsize).maximum;
        let limit = Rlimit { current: bytes.or(maximum), maximum };
        let limited = prlimit(Some(Pid::from_child(&self.child)), Resource::Fsize, limit);
        limited.map(drop).map_err(|error| format!("prlimit: {error}"))
    }

    /// Kills the process. Returns the answers that it had given and that were not awaited.
    pub(super) fn kill(mut self) -> Vec<Answer> {
        // Both calls fail only if the process has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
        let mut answers = Vec::new();
        loop {
            match self.answer() {
                Answer::Ended | Answer::Timeout => return answers,
                answer => answers.push(answer),
            }
        }
    }

    /// Waits until the process has ended by itself.
    pub(super) fn wait(mut self) {
        let _ = self.child.wait();
    }
}

impl Drop for EngineProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn parse_entry(line: &str) -> Option<(String, ValueId)> {
    let mut words = line.split(' ');
    let key = words.next()?.to_owned();
    let len = words.next()?.parse().ok()?;
    let hash = u64::from_str_radix(words.next()?, 16).ok()?;
    words.next().is_none().then_some((key, ValueId { len, hash }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entry_lines_are_parsed() {
        for (line, expected) in [
            ("k 3 ff", Some(("k".to_owned(), ValueId { len: 3, hash: 255 }))),
            ("k 3", None),
            ("k 3 ff 1", None),
            ("k three ff", None),
        ] {
            assert_eq!(parse_entry(line), expected, "{line}");
        }
    }
}
