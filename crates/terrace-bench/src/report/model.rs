//! The result file: everything that a run measured, as one JSON object. Format 1.
//!
//! Written after every phase, so that a run that ends early leaves what it had. Whatever could not be measured is
//! `null`, never a zero that looks like a figure. Readers ignore fields that they do not know.

use serde::{Deserialize, Serialize};

use crate::workload::phase_spec::PhaseSpec;

/// The number in `format`.
pub const FORMAT: u32 = 1;

/// A run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ResultFile {
    /// [`FORMAT`]; a reader refuses any other.
    pub format: u32,
    /// The commit that Terrace was built from, or empty.
    pub terrace_commit: String,
    /// When, in UTC, as `2026-01-31T23:59:59Z`.
    pub started: String,
    /// The suite's name, or `workloads` when they were given one by one.
    pub suite: String,
    /// `same` for all engines, or each one's own `defaults`.
    pub settings: String,
    /// The command line that repeats it.
    pub command: String,
    /// The share of the suite's published size.
    pub scale: f64,
    /// How many times each engine took its turn.
    pub rounds: u32,
    /// The memory that each process might have, the system's cache of its files included; `null` if nothing limited it.
    pub memory_bytes: Option<u64>,
    /// Where.
    pub machine: Machine,
    /// Who, in the order asked for; ratios are to the first that is present.
    pub engines: Vec<EngineInfo>,
    /// What, in the order done.
    pub phases: Vec<PhaseInfo>,
    /// One for each row, engine and round, in the order measured.
    pub results: Vec<PhaseResult>,
    /// One for each row and engine.
    pub summary: Vec<Summary>,
}

/// Where a run took place.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Machine {
    /// The processor's name.
    pub cpu: String,
    /// Processors that the run may use.
    pub cores: usize,
    /// Memory.
    pub memory_bytes: u64,
    /// System and release.
    pub kernel: String,
    /// Of the directory: `ext4`, `tmpfs`.
    pub filesystem: String,
    /// The databases' parent.
    pub directory: String,
}

/// An engine, there or not.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct EngineInfo {
    /// The word that asks for it: `terrace`, `leveldb`.
    pub id: String,
    /// Its name for people.
    pub name: String,
    /// What it says itself, or empty.
    pub version: String,
    /// How it is called: `Rust API`, `C API of /usr/lib/.../libleveldb.so.1d`.
    pub how: String,
    /// What it was told.
    pub settings: Settings,
    /// Whether it was there.
    pub present: bool,
    /// Why it was not there and what helps; or what is peculiar to it.
    pub note: String,
}

/// What an engine is told when it opens a database. Nothing given: the engine's own default.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Settings {
    /// Bytes gathered in memory before they become a file.
    pub write_buffer_bytes: Option<u64>,
    /// Bytes of blocks kept in memory.
    pub cache_bytes: Option<u64>,
    /// Bits of Bloom filter for each key; 0 for no filter.
    pub filter_bits: Option<u32>,
    /// `none`, `snappy`, `zstd`; an engine without the codec says so in its note.
    pub compression: Option<String>,
}

/// A row of the table.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PhaseInfo {
    /// Its place, from 0; what [`PhaseResult::row`] and [`Summary::row`] refer to.
    pub row: usize,
    /// The name shown. It is unique in a file: the second `readrandom` is `readrandom-2`.
    pub name: String,
    /// What was done.
    pub workload: PhaseSpec,
}

/// One engine's turn at one phase.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PhaseResult {
    /// Which phase.
    pub row: usize,
    /// Which engine, by its id.
    pub engine: String,
    /// Which round, from 0.
    pub round: u32,
    /// Operations done, of all threads.
    pub ops: u64,
    /// From the first thread's start to the last one's end.
    pub seconds: f64,
    /// `ops / seconds`.
    pub ops_per_second: f64,
    /// Bytes of keys and values that went in or came out.
    pub bytes: u64,
    /// How long operations took.
    pub latency_ns: Latency,
    /// Operations in each 100 ms; the last window may be cut short.
    pub windows_100ms: Vec<u64>,
    /// Operations in each second; the last window may be cut short.
    pub windows_1s: Vec<u64>,
    /// Operations of the slowest whole second, as a share of the mean second. `null` without a whole one.
    pub slowest_1s_to_mean: Option<f64>,
    /// The same of whole 100 ms.
    pub slowest_100ms_to_mean: Option<f64>,
    /// Of all threads, until the background was quiet.
    pub cpu_seconds: Option<f64>,
    /// The most memory that the process had in this phase.
    pub peak_rss_bytes: Option<u64>,
    /// Bytes sent to the device, until the background was quiet.
    pub device_bytes_written: Option<u64>,
    /// `device_bytes_written` to the bytes of keys and values put; `null` if nothing was.
    pub write_amplification: Option<f64>,
    /// What the directory takes on the device when the phase has ended.
    pub space_bytes: Option<u64>,
    /// `space_bytes` to the bytes of the live keys and values; `null` if there are none.
    pub space_amplification: Option<f64>,
    /// From the end of the last operation until the background was quiet; `null` if that was not waited for.
    pub quiet_seconds: Option<f64>,
    /// Look-ups that found the key, entries that a scan visited, seeks that hit their key.
    pub found: u64,
    /// Values compared with what they must be.
    pub checked: u64,
    /// Why there are no figures; empty if there are.
    pub error: String,
}

/// Latencies in nanoseconds.
///
/// One thread does one operation after the other, and an operation's latency counts from the end of the one before:
/// no pause between calls is hidden, whoever caused it. Making the key and checking the value are part of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Latency {
    /// Half of the operations took no longer.
    pub p50: u64,
    /// 90 of 100.
    pub p90: u64,
    /// 99 of 100.
    pub p99: u64,
    /// 999 of 1,000.
    pub p99_9: u64,
    /// 9,999 of 10,000.
    pub p99_99: u64,
    /// The longest, exactly.
    pub max: u64,
    /// The mean, exactly.
    pub mean: u64,
    /// Upper bound and count of each bucket that is not empty, in order.
    pub histogram: Vec<(u64, u64)>,
}

/// What the rounds of one engine at one row come to.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Summary {
    /// Which phase.
    pub row: usize,
    /// Which engine, by its id.
    pub engine: String,
    /// Median over the rounds; `null` if none has a figure.
    pub median_ops_per_second: Option<f64>,
    /// The slowest and the fastest round.
    pub spread: Option<(f64, f64)>,
    /// Against the first engine; `null` for the first itself.
    pub ratio_to_first: Option<Ratio>,
}

/// A comparison of rates, made round by round.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Ratio {
    /// Median of the rounds' ratios; above 1 is faster.
    pub median: f64,
    /// The least of them.
    pub min: f64,
    /// The greatest of them.
    pub max: f64,
    /// What may be said about it.
    pub verdict: Verdict,
}

/// What a comparison allows to say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Verdict {
    /// In every round, by more than the spread.
    #[serde(rename = "faster")]
    Faster,
    /// In every round, by more than the spread.
    #[serde(rename = "slower")]
    Slower,
    /// Nothing: the difference lies within the spread.
    #[default]
    #[serde(rename = "within noise")]
    WithinNoise,
}
