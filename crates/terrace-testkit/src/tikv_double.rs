//! Clusters of the program `terrace-store/tests/tikv-double`, which speaks TiKV's protocol.
//!
//! The double is not TiKV: it has no Raft and keeps its data in memory.

use std::collections::BTreeMap;
use std::io::{BufRead, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use terrace_env::{Clock, SystemClock};

use crate::http::get;

/// Number of stores of a double.
pub const STORES: usize = 3;

/// Commands that begin and end a fault.
static FAULTS: &[(&str, &str)] = &[
    ("/leaders", "/leaders"),
    ("/stop?store=0", "/start?store=0"),
    ("/lose?method=KvCommit&count=3", "/lose?method=KvCommit&count=0"),
    ("/lose?method=KvCommit&count=100", "/lose?method=KvCommit&count=0"),
    ("/stop?store=1", "/start?store=1"),
    ("/refuse?method=KvCommit&count=60", "/refuse?method=KvCommit&count=0"),
    ("/lose?method=KvPrewrite&count=30", "/leaders"),
    ("/stop?store=2", "/start?store=2"),
    ("/delay?ms=20", "/delay?ms=0"),
];
/// Time of a fault. The other stores elect leaders within it.
const FAULT: Duration = Duration::from_millis(700);
/// Time between two faults.
const CALM: Duration = Duration::from_millis(300);

/// Returns the program, built on the first call, or None without Go.
fn program() -> Option<&'static Path> {
    static PROGRAM: OnceLock<Option<PathBuf>> = OnceLock::new();
    PROGRAM.get_or_init(build).as_deref()
}

/// Builds the program beside the running one.
fn build() -> Option<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../terrace-store/tests/tikv-double");
    let program = std::env::current_exe().expect("a running program").with_file_name("tikv-double");
    let mut go = Command::new("go");
    go.args(["build", "-o"]).arg(&program).arg(".").current_dir(source);
    let outcome = go.output().map(|output| (output.status.success(), output.stderr));
    let reason = match outcome {
        Ok((true, _)) => return Some(program),
        Ok((false, stderr)) => String::from_utf8_lossy(&stderr).into_owned(),
        Err(error) => format!("Go is missing: {error}"),
    };
    assert!(std::env::var_os("TERRACE_REQUIRE_STOCK").is_none(), "{reason}");
    let _ = writeln!(std::io::stderr(), "NOT TESTED: stores in TiKV with the double: {reason}");
    None
}

/// Returns true if the double runs here. Otherwise prints NOT TESTED once, or fails where all
/// programs are required.
pub fn has_double() -> bool {
    program().is_some()
}

/// Running double. It ends with this value, or with the test program.
pub struct Double {
    process: Child,
    /// Address of the placement driver.
    pub host: String,
    control_port: u16,
}

impl Double {
    /// Starts a double with one region.
    pub fn start() -> Double {
        Double::start_with(&[])
    }

    /// Starts a double with further arguments.
    pub fn start_with(arguments: &[String]) -> Double {
        let mut command = Command::new(program().expect("has_double has built it"));
        command.args(["-stores", &STORES.to_string()]).args(arguments);
        let mut process =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("the double starts");
        let mut line = String::new();
        let output = process.stdout.take().expect("the output is a pipe");
        std::io::BufReader::new(output).read_line(&mut line).expect("a line");
        let (host, control) = line.trim().split_once(' ').expect("two addresses");
        let control_port = control.rsplit(':').next().and_then(|port| port.parse().ok()).expect("a port");
        Double { process, host: host.to_owned(), control_port }
    }

    /// Executes a command, such as "/leaders", and returns its answer.
    #[track_caller]
    pub fn control(&self, command: &str) -> String {
        let answer = get(self.control_port, command).expect("the double answers");
        assert!(answer.contains(" 200 OK"), "{command}: {answer}");
        answer.split_once("\r\n\r\n").map(|(_, body)| body.to_owned()).unwrap_or_default()
    }

    /// Number of requests by their method.
    pub fn counts(&self) -> BTreeMap<String, u64> {
        let answer = self.control("/counts");
        let lines = answer.lines().filter_map(|line| line.split_once(' '));
        lines.map(|(name, count)| (name.to_owned(), count.parse().expect("a number"))).collect()
    }

    /// Splits the regions at stored keys.
    pub fn split(&self, keys: impl Iterator<Item = Vec<u8>>) {
        let keys: Vec<String> = keys.map(|key| format!("key={}", hex(&key))).collect();
        for part in keys.chunks(50) {
            self.control(&format!("/split?{}", part.join("&")));
        }
    }

    /// Stores a key without a client.
    pub fn put(&self, key: &[u8], value: &[u8]) {
        self.control(&format!("/put?key={}&value={}", hex(key), hex(value)));
    }

    /// Executes all faults, one after the other: moved leaders, stopped stores, lost requests and
    /// answers. Calls `between` after each.
    pub fn run_faults(&self, mut between: impl FnMut()) {
        let pause = |time| SystemClock.sleep(time);
        pause(CALM);
        for (begin, end) in FAULTS {
            self.control(begin);
            pause(FAULT);
            self.control(end);
            between();
            pause(CALM);
        }
    }

    /// Address of the store with `prefix`.
    pub fn address(&self, prefix: &str) -> String {
        format!("tikv://{}/{prefix}", self.host)
    }
}

/// Digits of `bytes`, as the commands of a double expect them.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

impl Drop for Double {
    fn drop(&mut self) {
        drop(self.process.stdin.take());
        self.process.wait().expect("the double ends with its input");
    }
}
