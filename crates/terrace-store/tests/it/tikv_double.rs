//! Clusters of the program `tests/tikv-double`, which speaks TiKV's protocol, and real clusters.
//!
//! The double is not TiKV: it has no Raft and keeps its data in memory. A real cluster is one for
//! tests only, because the stores of the tests stay in it.

use std::collections::BTreeMap;
use std::io::{BufRead, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Once, OnceLock};

use data_encoding::HEXLOWER;
use terrace_store::{OpenOptions, Store, open};
use terrace_testkit::rng::Rng;

use terrace_testkit::http::get;

/// Environment variable with the placement drivers of a real cluster.
const REAL: &str = "TIKV_PD_ADDRS";
/// Number of stores of the double.
pub(crate) const STORES: usize = 3;

/// Returns the program, built on the first call, or None without Go.
fn program() -> Option<&'static Path> {
    static PROGRAM: OnceLock<Option<PathBuf>> = OnceLock::new();
    PROGRAM.get_or_init(build).as_deref()
}

fn build() -> Option<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tikv-double");
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("tikv-double");
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

/// Returns true if the double runs here. Otherwise prints NOT TESTED once.
pub(crate) fn has_double() -> bool {
    program().is_some()
}

/// Returns true if the environment names a real cluster. Otherwise prints NOT TESTED once.
pub(crate) fn has_real_tikv() -> bool {
    static PRINTED: Once = Once::new();
    let is_there = std::env::var_os(REAL).is_some();
    if !is_there {
        PRINTED.call_once(|| {
            let _ = writeln!(std::io::stderr(), "NOT TESTED: stores in a real TiKV: {REAL} is not set");
        });
    }
    is_there
}

/// Creates an empty store in the real cluster.
pub(crate) fn new_real_store() -> Arc<dyn Store> {
    static STORES: AtomicU64 = AtomicU64::new(0);
    let hosts = std::env::var(REAL).expect("has_real_tikv has found it");
    let run = std::process::id();
    let number = STORES.fetch_add(1, Ordering::Relaxed);
    let unique = std::time::UNIX_EPOCH.elapsed().expect("a clock after 1970").as_micros();
    let address = format!("tikv://{hosts}/terrace-test/{run}-{unique}-{number}");
    open(&address, &OpenOptions::default().create_if_missing(true)).expect("a new store")
}

/// Running double. It ends with this value, or with the test program.
pub(crate) struct Double {
    process: Child,
    pub(crate) host: String,
    control_port: u16,
    stores: AtomicU64,
}

impl Double {
    /// Starts a double with one region.
    pub(crate) fn start() -> Double {
        Double::start_with(&[])
    }

    pub(crate) fn start_with(arguments: &[String]) -> Double {
        let mut command = Command::new(program().expect("has_double has built it"));
        command.args(["-stores", &STORES.to_string()]).args(arguments);
        let mut process =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("the double starts");
        let mut line = String::new();
        let output = process.stdout.take().expect("the output is a pipe");
        std::io::BufReader::new(output).read_line(&mut line).expect("a line");
        let (host, control) = line.trim().split_once(' ').expect("two addresses");
        let control_port = control.rsplit(':').next().and_then(|port| port.parse().ok()).expect("a port");
        Double { process, host: host.to_owned(), control_port, stores: AtomicU64::new(0) }
    }

    /// Executes a command, such as "/leaders", and returns its answer.
    #[track_caller]
    pub(crate) fn control(&self, command: &str) -> String {
        let answer = get(self.control_port, command).expect("the double answers");
        assert!(answer.contains(" 200 OK"), "{command}: {answer}");
        answer.split_once("\r\n\r\n").map(|(_, body)| body.to_owned()).unwrap_or_default()
    }

    /// Number of requests by their method.
    pub(crate) fn counts(&self) -> BTreeMap<String, u64> {
        let answer = self.control("/counts");
        let lines = answer.lines().filter_map(|line| line.split_once(' '));
        lines.map(|(name, count)| (name.to_owned(), count.parse().expect("a number"))).collect()
    }

    /// Splits the regions at stored keys.
    pub(crate) fn split(&self, keys: impl Iterator<Item = Vec<u8>>) {
        let keys: Vec<String> = keys.map(|key| format!("key={}", HEXLOWER.encode(&key))).collect();
        for part in keys.chunks(50) {
            self.control(&format!("/split?{}", part.join("&")));
        }
    }

    /// Stores a key without a client.
    pub(crate) fn put(&self, key: &[u8], value: &[u8]) {
        self.control(&format!("/put?key={}&value={}", HEXLOWER.encode(key), HEXLOWER.encode(value)));
    }

    pub(crate) fn address(&self, prefix: &str) -> String {
        format!("tikv://{}/{prefix}", self.host)
    }

    /// Creates an empty store with a prefix of its own, whose keys are in `regions` regions.
    pub(crate) fn new_store(&self, regions: usize) -> Arc<dyn Store> {
        let prefix = format!("store-{}", self.stores.fetch_add(1, Ordering::Relaxed));
        self.split(split_keys(&prefix, regions));
        open(&self.address(&prefix), &OpenOptions::default().create_if_missing(true)).expect("a new store")
    }
}

/// Keys at which the store with `prefix` is split: short keys of all bytes, and some of the names
/// that the tests use.
fn split_keys(prefix: &str, regions: usize) -> impl Iterator<Item = Vec<u8>> {
    let mut rng = Rng::new(regions as u64);
    let mut keys: Vec<Vec<u8>> = (1..regions)
        .map(|number| match number % 4 {
            0 => format!("k{:05}", rng.below(2500)).into_bytes(),
            1 => vec![rng.next_u64() as u8, rng.next_u64() as u8],
            2 => format!("c{:02}", rng.below(100)).into_bytes(),
            _ => vec![number as u8],
        })
        .collect();
    keys.sort_unstable();
    keys.dedup();
    let root = format!("{prefix}\0k").into_bytes();
    keys.into_iter().map(move |key| [&root[..], &key].concat())
}

impl Drop for Double {
    fn drop(&mut self) {
        drop(self.process.stdin.take());
        self.process.wait().expect("the double ends with its input");
    }
}

/// Double with one region that the tests share. It ends with the test program.
pub(crate) fn shared() -> &'static Double {
    static SHARED: OnceLock<Double> = OnceLock::new();
    SHARED.get_or_init(Double::start)
}

/// Double with many regions that the tests share.
pub(crate) fn shared_of_many_regions() -> &'static Double {
    static SHARED: OnceLock<Double> = OnceLock::new();
    SHARED.get_or_init(Double::start)
}
