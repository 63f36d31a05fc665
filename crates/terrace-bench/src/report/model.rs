//! The result file: everything that a run measured, as one JSON object. Format 1.
//!
//! The file is written after every phase, so that a run that ends early keeps its results. A value
//! that could not be measured is `null`, never 0. Readers ignore unknown fields.

use serde::{Deserialize, Serialize};

use crate::workload::phase_spec::{Kind, PhaseSpec};

/// Format number of the file.
pub const FORMAT: u32 = 1;

/// Results of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ResultFile {
    /// [`FORMAT`]; a reader rejects any other number.
    pub format: u32,
    /// Commit of the Terrace build, or empty.
    pub terrace_commit: String,
    /// Start of the run in UTC, as `2026-01-31T23:59:59Z`.
    pub started: String,
    /// Name of the suite, or `workloads` if workloads were given one by one.
    pub suite: String,
    /// `same` if all engines have the same settings, or `defaults` if each has its own.
    pub settings: String,
    /// Command line that repeats the run.
    pub command: String,
    /// Fraction of the suite's published size.
    pub scale: f64,
    /// Number of rounds, in each of which every engine runs once.
    pub rounds: u32,
    /// Memory limit of each process, including the system's cache of its files; `null` without a
    /// limit.
    pub memory_bytes: Option<u64>,
    /// Machine of the run.
    pub machine: Machine,
    /// Engines in the order of the command line. Ratios refer to the first that is present.
    pub engines: Vec<EngineInfo>,
    /// Phases in the order of execution.
    pub phases: Vec<PhaseInfo>,
    /// One result for each row, engine and round, in the order of measurement.
    pub results: Vec<PhaseResult>,
    /// One summary for each row and engine.
    pub summary: Vec<Summary>,
}

/// Machine of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Machine {
    /// Name of the processor.
    pub cpu: String,
    /// Number of processors that the run may use.
    pub cores: usize,
    /// Memory size in bytes.
    pub memory_bytes: u64,
    /// Operating system and release.
    pub kernel: String,
    /// File system of the directory: `ext4`, `tmpfs`.
    pub filesystem: String,
    /// Parent directory of the databases.
    pub directory: String,
}

/// An engine, available or not.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct EngineInfo {
    /// Name on the command line: `terrace`, `leveldb`.
    pub id: String,
    /// Name for people.
    pub name: String,
    /// Version that the engine reports, or empty.
    pub version: String,
    /// Interface: `Rust API`, `C API of /usr/lib/.../libleveldb.so.1d`.
    pub how: String,
    /// Settings that the engine received.
    pub settings: Settings,
    /// Whether the engine is available.
    pub present: bool,
    /// Reason why the engine is not available and the remedy; otherwise its differences from other
    /// engines, and from the engine as its users run it.
    pub note: String,
    /// Whether the engine compacts. Without compaction, it has no result in rows that compact.
    pub has_compaction: bool,
    /// Whether the engine has transactions. Without them, it has no result in their rows.
    pub has_transactions: bool,
    /// Optional kinds of operations of the engine. It has no result in rows of the others.
    pub optional_kinds: Vec<Kind>,
}

impl EngineInfo {
    /// Whether the engine takes part in a row of operations of `kind`.
    pub fn takes_part_in(&self, kind: Kind) -> bool {
        match kind {
            Kind::Compact => self.has_compaction,
            kind if kind.is_optional() => self.optional_kinds.contains(&kind),
            kind => self.has_transactions || !kind.is_transaction(),
        }
    }
}

/// Settings with which an engine opens a database. `None` selects the engine's own default.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Settings {
    /// Size of the write buffer in bytes.
    pub write_buffer_bytes: Option<u64>,
    /// Size of the block cache in bytes.
    pub cache_bytes: Option<u64>,
    /// Bits per key of the Bloom filters; 0 for no filter.
    pub filter_bits: Option<u32>,
    /// `none`, `snappy` or `zstd`. The note of an engine tells if it lacks the codec.
    pub compression: Option<String>,
}

/// Row of the table.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PhaseInfo {
    /// Index of the row, to which [`PhaseResult::row`] and [`Summary::row`] refer.
    pub row: usize,
    /// Displayed name, unique in a file: the second `readrandom` is `readrandom-2`.
    pub name: String,
    /// Workload of the row.
    pub workload: PhaseSpec,
}

/// Result of one engine for one phase in one round.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PhaseResult {
    /// Row of the phase.
    pub row: usize,
    /// Id of the engine.
    pub engine: String,
    /// Round, counted from 0.
    pub round: u32,
    /// Number of operations of all threads.
    pub ops: u64,
    /// Time from the start of the first thread to the end of the last.
    pub seconds: f64,
    /// `ops / seconds`.
    pub ops_per_second: f64,
    /// Bytes of keys and values that were read or written.
    pub bytes: u64,
    /// Latencies of the operations.
    pub latency_ns: Latency,
    /// Operations in each 100 ms; the last window may be shorter.
    pub windows_100ms: Vec<u64>,
    /// Operations in each second; the last window may be shorter.
    pub windows_1s: Vec<u64>,
    /// Operations in the slowest full second, relative to the mean second. `null` without a full
    /// second.
    pub slowest_1s_to_mean: Option<f64>,
    /// Operations in the slowest full 100 ms, relative to the mean.
    pub slowest_100ms_to_mean: Option<f64>,
    /// Processor time of all threads, including background work after the last operation.
    pub cpu_seconds: Option<f64>,
    /// Peak memory of the process in this phase.
    pub peak_rss_bytes: Option<u64>,
    /// Bytes written to storage, including background work after the last operation.
    pub device_bytes_written: Option<u64>,
    /// `device_bytes_written` divided by the bytes of keys and values put; `null` without puts.
    pub write_amplification: Option<f64>,
    /// Disk usage of the directory at the end of the phase.
    pub space_bytes: Option<u64>,
    /// `space_bytes` divided by the bytes of the live keys and values; `null` without live keys.
    pub space_amplification: Option<f64>,
    /// Latencies of the concurrent writers, which [`PhaseResult::ops`] does not count; `null`
    /// without writers.
    pub writers_latency_ns: Option<Latency>,
    /// Time from the end of the last operation to the end of background work; `null` if the phase
    /// did not wait for it.
    pub quiet_seconds: Option<f64>,
    /// Number of keys that gets found, entries that scans visited, and seeks that found their key.
    pub found: u64,
    /// Number of values that were compared with the expected value.
    pub checked: u64,
    /// Reason for missing measurements; empty if there are measurements.
    pub error: String,
}

/// Latencies in nanoseconds.
///
/// A thread executes one operation after the other, and the latency of an operation counts from the
/// end of the one before. So every pause between calls is included, whatever its cause. Key
/// generation and the check of the value are included too.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Latency {
    /// Half of the operations took at most this long.
    pub p50: u64,
    /// 90th percentile.
    pub p90: u64,
    /// 99th percentile.
    pub p99: u64,
    /// 99.9th percentile.
    pub p99_9: u64,
    /// 99.99th percentile.
    pub p99_99: u64,
    /// Longest operation, exact.
    pub max: u64,
    /// Mean, exact.
    pub mean: u64,
    /// Upper bound and count of each bucket that is not empty, in order.
    pub histogram: Vec<(u64, u64)>,
}

/// Summary of the rounds of one engine for one row.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Summary {
    /// Row of the phase.
    pub row: usize,
    /// Id of the engine.
    pub engine: String,
    /// Median over the rounds; `null` if no round was measured.
    pub median_ops_per_second: Option<f64>,
    /// Slowest and fastest round.
    pub spread: Option<(f64, f64)>,
    /// Ratio to the first engine; `null` for the first engine itself.
    pub ratio_to_first: Option<Ratio>,
}

/// Comparison of the rates of two engines.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Ratio {
    /// Median rate divided by the median rate of the first engine; above 1 is faster.
    pub of_medians: f64,
    /// Smallest ratio of matching rounds.
    pub min: f64,
    /// Largest ratio of matching rounds.
    pub max: f64,
    /// Verdict on the difference.
    pub verdict: Verdict,
}

/// Verdict on a difference of two engines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Verdict {
    /// Faster in every round, by more than the spread.
    #[serde(rename = "faster")]
    Faster,
    /// Slower in every round, by more than the spread.
    #[serde(rename = "slower")]
    Slower,
    /// The difference is within the spread.
    #[default]
    #[serde(rename = "within noise")]
    WithinNoise,
}
