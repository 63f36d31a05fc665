//! Both sides of the measuring process: its start and its main function.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use super::memory_cgroup::MemoryCgroup;
use super::phase::PhaseRunner;
use super::protocol::{Message, ProgressTick, RunRequest};
use super::stop_signal::{InterruptibleReader, StopSignal};
use crate::engine::{self, EngineRunner, Result};

/// Interval of progress messages.
const TICK_INTERVAL: Duration = Duration::from_millis(200);

/// Executes the request on `input`, and writes messages to `output`. On an error, writes it as a
/// message and returns false.
pub fn serve(input: impl Read, output: impl Write + Send) -> bool {
    let output = Mutex::new(output);
    let done = read_request(input).and_then(|turn| run_request(&turn, &output));
    match done {
        Ok(()) => true,
        Err(error) => {
            // If the pipe is closed, the parent learns about the error from the exit code.
            let _ = send(&output, &Message::Error(error));
            false
        }
    }
}

fn read_request(mut input: impl Read) -> Result<RunRequest> {
    let mut text = String::new();
    input.read_to_string(&mut text).map_err(|e| format!("standard input: {e}"))?;
    serde_json::from_str(&text).map_err(|e| format!("standard input is not a run request: {e}"))
}

fn run_request(turn: &RunRequest, output: &Mutex<impl Write + Send>) -> Result<()> {
    let row = engine::by_id(&turn.engine).ok_or_else(|| format!("no engine {}", turn.engine))?;
    let EngineRunner::InProcess(engine) = (row.find)(turn.path.as_deref())?.runner else {
        return Err(format!("{} is measured by another program", turn.engine));
    };
    let mut runner = PhaseRunner::new(&*engine, turn.dir.clone(), turn.settings.clone());
    for phase in &turn.phases {
        let done = AtomicU64::new(0);
        let mut result =
            with_ticker(&done, phase.row, phase.workload.num, output, || runner.run(&phase.workload, &done))?;
        result.row = phase.row;
        result.engine.clone_from(&turn.engine);
        send(output, &Message::Result(Box::new(result)))?;
    }
    Ok(())
}

/// Executes `work`, and reports its progress meanwhile.
fn with_ticker<T>(
    done: &AtomicU64,
    row: usize,
    of: u64,
    output: &Mutex<impl Write + Send>,
    work: impl FnOnce() -> T,
) -> T {
    let ended = AtomicBool::new(false);
    thread::scope(|scope| {
        let ticker = scope.spawn(|| {
            while !ended.load(Ordering::Relaxed) {
                // If the reader is gone, sending the next result fails and ends the process.
                let _ = send(
                    output,
                    &Message::Tick(ProgressTick { row, done: done.load(Ordering::Relaxed), of }),
                );
                thread::park_timeout(TICK_INTERVAL);
            }
        });
        let result = work();
        ended.store(true, Ordering::Relaxed);
        ticker.thread().unpark();
        result
    })
}

fn send(output: &Mutex<impl Write>, message: &Message) -> Result<()> {
    let line = serde_json::to_string(message).map_err(|e| e.to_string())?;
    // A thread that panicked left at most a part of a line, and this process ends soon.
    let mut output = output.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    writeln!(output, "{line}").and_then(|()| output.flush()).map_err(|e| format!("standard output: {e}"))
}

/// A program that measures an engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExternalProgram {
    /// Path of the program.
    pub path: PathBuf,
    /// Arguments of the program.
    pub arguments: Vec<String>,
}

impl ExternalProgram {
    /// Starts the program, sends it `request`, passes its messages to `on_message`, and waits for
    /// its end. `memory` limits its memory in bytes, including the system's cache of its files.
    ///
    /// Returns the error that the program reported, or a description of its exit. When `stop` is
    /// set, kills the program and returns an error.
    pub fn run(
        &self,
        request: &RunRequest,
        memory: Option<u64>,
        stop: &StopSignal,
        on_message: &mut dyn FnMut(Message),
    ) -> Result<()> {
        let with_path = |e: std::io::Error| format!("{}: {e}", self.path.display());
        let mut command = Command::new(&self.path);
        command.args(&self.arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let group = memory.map(MemoryCgroup::new).transpose()?;
        let mut child = command.spawn().map_err(with_path)?;
        if let Some(Err(error)) = group.as_ref().map(|group| group.add_process(child.id())) {
            let _ = child.kill();
            let _ = child.wait();
            return Err(error);
        }
        let stdin = child.stdin.take();
        let stdout = child.stdout.take();
        let stderr = child.stderr.take();
        // Captures standard error, so that it does not disturb the progress bar. Its last line
        // tells why the process died.
        let error_output = thread::spawn(move || {
            let mut text = Vec::new();
            if let Some(mut stderr) = stderr {
                let _ = stderr.read_to_end(&mut text);
            }
            String::from_utf8_lossy(&text).trim().to_owned()
        });
        let request = serde_json::to_vec(request).map_err(|e| e.to_string())?;
        // A process that does not read has died, or reports its error below.
        if let Some(mut stdin) = stdin {
            let _ = stdin.write_all(&request);
        }
        let reported =
            stdout.map_or(Ok(()), |stdout| read_messages(InterruptibleReader::new(stop, stdout), on_message));
        if stop.signal().is_some() {
            // The process may be dead already, because a terminal signals its whole process group.
            let _ = child.kill();
        }
        let status = child.wait().map_err(with_path)?;
        let error_output = error_output.join().unwrap_or_default();
        match reported {
            Ok(()) if !status.success() => Err(describe_exit(status, &error_output, memory)),
            reported => reported,
        }
    }
}

fn describe_exit(status: ExitStatus, error_output: &str, memory: Option<u64>) -> String {
    let last = error_output.lines().next_back().map(|line| format!(": {line}")).unwrap_or_default();
    // The kernel kills a process that exceeds the limit of its control group.
    let limit = memory.filter(|_| was_killed(status));
    let limit = limit
        .map(|bytes| format!("; its memory limit of {bytes} bytes may be too small"))
        .unwrap_or_default();
    format!("the measuring process died ({status}){last}{limit}")
}

/// Returns true if the kernel killed the process. No other system has control groups.
fn was_killed(status: ExitStatus) -> bool {
    #[cfg(unix)]
    return std::os::unix::process::ExitStatusExt::signal(&status) == Some(libc::SIGKILL);
    #[cfg(not(unix))]
    {
        let _ = status;
        false
    }
}

/// Reads all messages, so that the process never blocks. Returns the first error.
fn read_messages(stdout: impl Read, on_message: &mut dyn FnMut(Message)) -> Result<()> {
    let mut error = None;
    for line in BufReader::new(stdout).lines() {
        let line = line.map_err(|e| format!("from the measuring process: {e}"))?;
        match serde_json::from_str(&line) {
            Ok(Message::Error(text)) => error = error.or(Some(text)),
            Ok(message) => on_message(message),
            Err(e) => error = error.or(Some(format!("the measuring process says {line:?}: {e}"))),
        }
    }
    error.map_or(Ok(()), Err)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::model::PhaseInfo;
    use crate::workload::expected_values::expected_results;
    use crate::workload::suites;

    fn script(text: &str) -> (Result<()>, Vec<Message>) {
        let program = ExternalProgram { path: "sh".into(), arguments: vec!["-c".into(), text.into()] };
        let mut heard = Vec::new();
        let ended = program
            .run(&RunRequest::default(), None, &StopSignal::never(), &mut |message| heard.push(message));
        (ended, heard)
    }

    #[test]
    fn successful_process() {
        let (ended, heard) = script(r#"echo '{"tick":{"row":0,"done":1,"of":2}}'"#);
        assert_eq!((ended, heard.len()), (Ok(()), 1));
    }

    #[test]
    fn failing_processes() {
        for (text, expect) in [
            ("echo '{\"error\":\"no space\"}'; exit 1", "no space"),
            ("echo bad >&2; kill -9 $$", "the measuring process died (signal: 9 (SIGKILL)): bad"),
            ("exit 3", "the measuring process died (exit status: 3)"),
            ("echo hello", "the measuring process says \"hello\": expected value at line 1 column 1"),
        ] {
            assert_eq!(script(text).0, Err(expect.to_owned()), "{text}");
        }
    }

    #[test]
    #[cfg(unix)]
    fn process_killed_by_memory_limit() {
        let killed: ExitStatus = std::os::unix::process::ExitStatusExt::from_raw(libc::SIGKILL);
        let said = [None, Some(4096)].map(|memory| describe_exit(killed, "", memory));
        let died = "the measuring process died (signal: 9 (SIGKILL))";
        assert_eq!(
            said,
            [died.to_owned(), format!("{died}; its memory limit of 4096 bytes may be too small")]
        );
    }

    #[test]
    fn serves_terrace_request() {
        let dir = tempfile::tempdir().expect("a directory for the test");
        let names = ["fillrandom", "overwrite", "readrandom", "readreverse", "compact", "seekrandom"];
        let workloads = names.map(|name| suites::by_name(name).expect("in the table").to_phase(2000));
        let phases = workloads.into_iter().enumerate().map(|(row, mut workload)| {
            workload.settle = false;
            workload.seed = row as u64;
            PhaseInfo { row, name: workload.name.clone(), workload }
        });
        let phases: Vec<PhaseInfo> = phases.collect();
        let expected = expected_results(phases.iter().map(|phase| &phase.workload));
        let dir = dir.path().join("db");
        let turn = RunRequest { engine: "terrace".into(), dir, phases, ..RunRequest::default() };
        let mut output = Vec::new();
        let order = serde_json::to_vec(&turn).expect("plain data serialises");
        assert!(serve(&order[..], &mut output), "{}", String::from_utf8_lossy(&output));
        let mut rows = Vec::new();
        read_messages(&output[..], &mut |message| rows.extend(found(message))).expect("no phase fails");
        let found = expected.iter().map(|expected| expected.and_then(|expected| expected.found));
        assert_eq!(rows.into_iter().map(Some).collect::<Vec<_>>(), found.collect::<Vec<_>>());
    }

    fn found(message: Message) -> Option<u64> {
        match message {
            Message::Result(result) => Some(result.found),
            _ => None,
        }
    }

    #[test]
    fn invalid_request_is_rejected() {
        let mut output = Vec::new();
        assert!(!serve(&b"{}"[..], &mut output));
        assert_eq!(String::from_utf8_lossy(&output), "{\"error\":\"no engine \"}\n");
    }
}
