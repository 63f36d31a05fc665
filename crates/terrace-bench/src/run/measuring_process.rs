//! The measuring process: started here, and serving here.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::ExitStatusExt;
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

/// How often a process says that it gets on.
const TICK_INTERVAL: Duration = Duration::from_millis(200);

/// Does the turn on `input`, and says on `output` how it goes. False if it did not go well; that is said, too.
pub fn serve(input: impl Read, output: impl Write + Send) -> bool {
    let output = Mutex::new(output);
    let done = read_request(input).and_then(|turn| run_request(&turn, &output));
    match done {
        Ok(()) => true,
        Err(error) => {
            // Whoever started this process learns of a closed pipe by its end.
            let _ = send(&output, &Message::Error(error));
            false
        }
    }
}

fn read_request(mut input: impl Read) -> Result<RunRequest> {
    let mut text = String::new();
    input.read_to_string(&mut text).map_err(|e| format!("standard input: {e}"))?;
    serde_json::from_str(&text).map_err(|e| format!("standard input is no turn: {e}"))
}

fn run_request(turn: &RunRequest, output: &Mutex<impl Write + Send>) -> Result<()> {
    let row = engine::by_id(&turn.engine).ok_or_else(|| format!("no engine {}", turn.engine))?;
    let EngineRunner::InProcess(engine) = (row.find)(turn.path.as_deref())?.runner else {
        return Err(format!("{} is a program of its own", turn.engine));
    };
    let mut place = PhaseRunner::new(&*engine, turn.dir.clone(), turn.settings.clone());
    for phase in &turn.phases {
        let done = AtomicU64::new(0);
        let mut result =
            with_ticker(&done, phase.row, phase.workload.num, output, || place.run(&phase.workload, &done))?;
        result.row = phase.row;
        result.engine.clone_from(&turn.engine);
        send(output, &Message::Result(Box::new(result)))?;
    }
    Ok(())
}

/// Does `work`, and says meanwhile how far it has come.
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
                // A reader that is gone ends the process at the next result.
                let _ = send(
                    output,
                    &Message::Tick(ProgressTick { row, done: done.load(Ordering::Relaxed), of }),
                );
                thread::park_timeout(TICK_INTERVAL);
            }
        });
        let worked = work();
        ended.store(true, Ordering::Relaxed);
        ticker.thread().unpark();
        worked
    })
}

fn send(output: &Mutex<impl Write>, message: &Message) -> Result<()> {
    let line = serde_json::to_string(message).map_err(|e| e.to_string())?;
    // A thread that panicked has left at worst a part of a line, and this process ends soon.
    let mut output = output.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    writeln!(output, "{line}").and_then(|()| output.flush()).map_err(|e| format!("standard output: {e}"))
}

/// A program that measures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExternalProgram {
    /// Its path.
    pub path: PathBuf,
    /// Its arguments.
    pub arguments: Vec<String>,
}

impl ExternalProgram {
    /// Starts it, gives it `turn`, and hands over what it says. Ends with the process; an error is the one that it
    /// said, or how it died. It may have `memory` bytes of memory, the system's cache of its files included, if they are given.
    ///
    /// When `stop` is asked for, the process is ended at once, and that is an error.
    pub fn run(
        &self,
        turn: &RunRequest,
        memory: Option<u64>,
        stop: &StopSignal,
        heard: &mut dyn FnMut(Message),
    ) -> Result<()> {
        let cannot = |e: std::io::Error| format!("{}: {e}", self.path.display());
        let mut command = Command::new(&self.path);
        command.args(&self.arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let group = memory.map(MemoryCgroup::new).transpose()?;
        let mut child = command.spawn().map_err(cannot)?;
        if let Some(Err(error)) = group.as_ref().map(|group| group.add_process(child.id())) {
            let _ = child.kill();
            let _ = child.wait();
            return Err(error);
        }
        let stdin = child.stdin.take();
        let stdout = child.stdout.take();
        let stderr = child.stderr.take();
        // What engines print goes here, so that it does not go into the progress bar; its end tells why one died.
        let complaint = thread::spawn(move || {
            let mut text = Vec::new();
            let _ = stderr.map(|mut stderr| stderr.read_to_end(&mut text));
            String::from_utf8_lossy(&text).trim().to_owned()
        });
        let order = serde_json::to_vec(turn).map_err(|e| e.to_string())?;
        // A process that does not listen has died, or says why in its own words below.
        let _ = stdin.map(|mut stdin| stdin.write_all(&order));
        let said =
            stdout.map_or(Ok(()), |stdout| read_messages(InterruptibleReader::new(stop, stdout), heard));
        if stop.signal().is_some() {
            // It may be dead already: a terminal sends its signals to all.
            let _ = child.kill();
        }
        let status = child.wait().map_err(cannot)?;
        let complaint = complaint.join().unwrap_or_default();
        match said {
            Ok(()) if !status.success() => Err(describe_exit(status, &complaint, memory)),
            said => said,
        }
    }
}

fn describe_exit(status: ExitStatus, complaint: &str, memory: Option<u64>) -> String {
    let last = complaint.lines().next_back().map(|line| format!(": {line}")).unwrap_or_default();
    // So ends who needs more than a group may have.
    let limit = memory.filter(|_| status.signal() == Some(libc::SIGKILL));
    let limit =
        limit.map(|bytes| format!("; its {bytes} bytes of memory may be too few")).unwrap_or_default();
    format!("the measuring process died ({status}){last}{limit}")
}

/// Reads to the end, so that the process is never stuck; the error is the first that was said.
fn read_messages(stdout: impl Read, heard: &mut dyn FnMut(Message)) -> Result<()> {
    let mut error = None;
    for line in BufReader::new(stdout).lines() {
        let line = line.map_err(|e| format!("from the measuring process: {e}"))?;
        match serde_json::from_str(&line) {
            Ok(Message::Error(said)) => error = error.or(Some(said)),
            Ok(message) => heard(message),
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
    fn process_killed_by_memory_limit() {
        let killed = ExitStatus::from_raw(libc::SIGKILL);
        let said = [None, Some(4096)].map(|memory| describe_exit(killed, "", memory));
        let died = "the measuring process died (signal: 9 (SIGKILL))";
        assert_eq!(said, [died.to_owned(), format!("{died}; its 4096 bytes of memory may be too few")]);
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
        let order = serde_json::to_vec(&turn).expect("it is plain data");
        assert!(serve(&order[..], &mut output), "{}", String::from_utf8_lossy(&output));
        let mut rows = Vec::new();
        read_messages(&output[..], &mut |message| rows.extend(found(message))).expect("nothing went wrong");
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
