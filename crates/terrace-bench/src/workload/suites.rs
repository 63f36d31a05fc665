//! Table of workloads, and the suites made of them. A new workload is one row.

use super::phase_spec::{Kind, Order, PhaseSpec};

/// Row of the table of workloads.
pub struct Workload {
    /// Name on the command line.
    pub name: &'static str,
    /// Description of one operation.
    pub operation: &'static str,
    /// Benchmark that the workload comes from.
    pub source: &'static str,
    /// Differences from a sequential put of every key.
    adjust: fn(&mut PhaseSpec),
}

macro_rules! workloads {
    ($($name:literal, $operation:literal, $source:ident, $change:expr;)*) => {
        &[$(Workload { name: $name, operation: $operation, source: $source, adjust: $change },)*]
    };
}

const DB_BENCH: &str = "LevelDB's db_bench";
const ROCKSDB_BENCH: &str = "RocksDB's db_bench";
const GO_COMPARISON: &str = "Go comparison of LevelDBs";
const YCSB: &str = "YCSB";
const TERRACE: &str = "Terrace";

/// All workloads.
pub static WORKLOADS: &[Workload] = workloads! {
    "fillseq", "put the next key, in an empty database", DB_BENCH, |d| d.fresh = true;
    "fillrandom", "put a random key, in an empty database", DB_BENCH, |d| { d.fresh = true; d.order = Order::Random; };
    "fillsync", "put a random key with sync, in an empty database; a thousandth of the keys", DB_BENCH, |d| {
        d.fresh = true;
        d.order = Order::Random;
        d.sync = true;
        d.num = fraction_of(d.num, 1000);
    };
    "fillmixed", "put a random key, one of 100 with sync, in an empty database; a tenth of the keys", TERRACE, |d| {
        d.fresh = true;
        d.order = Order::Random;
        d.sync_every = 100;
        d.num = fraction_of(d.num, 10);
    };
    "fillbatch", "put the next key, in atomic writes of 1,000 keys, in an empty database", DB_BENCH, |d| {
        d.fresh = true;
        d.batch = 1000;
    };
    "fill100K", "put a random key with a value of 100,000 bytes, in an empty database; a thousandth of the keys", DB_BENCH, |d| {
        d.fresh = true;
        d.order = Order::Random;
        d.num = fraction_of(d.num, 1000);
        d.value_size = 100_000;
    };
    "overwrite", "put a random key", DB_BENCH, |d| d.order = Order::Random;
    "readseq", "visit the next entry", DB_BENCH, |d| d.kind = Kind::Scan;
    "readreverse", "visit the previous entry", DB_BENCH, |d| { d.kind = Kind::Scan; d.order = Order::Reverse; };
    "readrandom", "get a random key", DB_BENCH, |d| { d.kind = Kind::Get; d.order = Order::Random; };
    "getseq", "get the next key", TERRACE, |d| d.kind = Kind::Get;
    "readmissing", "get a key that does not exist", DB_BENCH, |d| { d.kind = Kind::Get; d.order = Order::Missing; };
    "readhot", "get a random key out of 1 % of the keys", DB_BENCH, |d| { d.kind = Kind::Get; d.order = Order::Hot; };
    "readzipf", "get a key; Zipfian", TERRACE, |d| { d.kind = Kind::Get; d.order = Order::Zipf; };
    "readwhilewriting", "get a random key, while another thread puts random keys", DB_BENCH, |d| {
        d.kind = Kind::Get;
        d.order = Order::Random;
        d.writers = 1;
    };
    "seekrandom", "seek to a random key, then 10 steps forward", DB_BENCH, |d| { d.kind = Kind::Seek; d.order = Order::Random; };
    "seekrandomwhilewriting", "seek to a random key, then 10 steps forward, while another thread puts random keys", ROCKSDB_BENCH, |d| {
        d.kind = Kind::Seek;
        d.order = Order::Random;
        d.writers = 1;
    };
    "updaterandom", "get and put a random key", ROCKSDB_BENCH, |d| {
        d.kind = Kind::Mixed;
        d.order = Order::Random;
        d.mix = [("rmw".to_owned(), 1.0)].into();
    };
    "txn-rmw", "get and put a random key, in a transaction", TERRACE, |d| {
        d.kind = Kind::TxnReadModifyWrite;
        d.order = Order::Random;
    };
    "txn-hot", "get and put one of 16 keys, in a transaction", TERRACE, |d| {
        d.kind = Kind::TxnReadModifyWrite;
        d.order = Order::Random;
        d.keyspace = d.keyspace.min(16);
    };
    "txn-blind", "put a random key, in a transaction", TERRACE, |d| { d.kind = Kind::TxnPut; d.order = Order::Random; };
    "txn-scan", "visit 100 entries, then get and put the first, in a transaction; a tenth of the keys", TERRACE, |d| {
        d.kind = Kind::TxnScan;
        d.order = Order::Random;
        d.seek_next = 100;
        d.num = fraction_of(d.num, 10);
    };
    "bulkload", "load a random key, in an empty database, by the engine's fastest way", TERRACE, |d| {
        d.kind = Kind::Load;
        d.fresh = true;
        d.order = Order::Random;
    };
    "checkpoint", "copy the database, while another thread puts random keys; one of 100,000 operations", TERRACE, |d| {
        d.kind = Kind::Checkpoint;
        d.num = fraction_of(d.num, 100_000);
        d.writers = 1;
        d.order = Order::Random;
    };
    "follow", "get a random key through a follower", TERRACE, |d| { d.kind = Kind::Follow; d.order = Order::Random; };
    "follow-replay", "read a put of a random key in a follower", TERRACE, |d| {
        d.kind = Kind::FollowReplay;
        d.order = Order::Random;
    };
    "follow-age", "get a key through a follower, while another thread puts it; the latency is the age of the value; a hundredth of the keys", TERRACE, |d| {
        d.kind = Kind::FollowAge;
        d.num = fraction_of(d.num, 100);
    };
    "deleteseq", "delete the next key", DB_BENCH, |d| d.kind = Kind::Delete;
    "deleterandom", "delete a random key", DB_BENCH, |d| { d.kind = Kind::Delete; d.order = Order::Random; };
    "compact", "compact the whole database", DB_BENCH, |d| { d.kind = Kind::Compact; d.num = 1; };
    "open", "close and reopen the database, once per 10,000 keys", GO_COMPARISON, |d| {
        d.kind = Kind::Open;
        d.num = fraction_of(d.num, 10_000);
    };
    "ycsb-load", "put the next record of 1,000 bytes, in an empty database", YCSB, |d| {
        d.fresh = true;
        ycsb(d, Order::Seq, &[]);
        d.kind = Kind::Put;
    };
    "ycsb-a", "half gets, half puts; Zipfian", YCSB, |d| ycsb(d, Order::Zipf, &[("get", 0.5), ("put", 0.5)]);
    "ycsb-b", "95 % gets, 5 % puts; Zipfian", YCSB, |d| ycsb(d, Order::Zipf, &[("get", 0.95), ("put", 0.05)]);
    "ycsb-c", "gets; Zipfian", YCSB, |d| ycsb(d, Order::Zipf, &[("get", 1.0)]);
    "ycsb-d", "95 % gets, 5 % inserts; latest keys most often", YCSB, |d| {
        ycsb(d, Order::Latest, &[("get", 0.95), ("insert", 0.05)]);
    };
    "ycsb-e", "95 % scans of up to 100 entries, 5 % inserts; Zipfian", YCSB, |d| {
        ycsb(d, Order::Zipf, &[("scan", 0.95), ("insert", 0.05)]);
        d.seek_next = 100;
    };
    "ycsb-f", "half gets, half read-modify-writes; Zipfian", YCSB, |d| {
        ycsb(d, Order::Zipf, &[("get", 0.5), ("rmw", 0.5)]);
    };
};

fn fraction_of(num: u64, parts: u64) -> u64 {
    (num / parts).max(1)
}

/// A YCSB key is `user` and up to 19 digits; a record has ten fields of 100 bytes.
fn ycsb(d: &mut PhaseSpec, order: Order, mix: &[(&str, f64)]) {
    d.kind = Kind::Mixed;
    d.order = order;
    d.key_size = 23;
    d.value_size = 1000;
    d.mix = mix.iter().map(|(name, share)| ((*name).to_owned(), *share)).collect();
}

/// Row of the table of suites.
pub struct Suite {
    /// Name on the command line.
    pub name: &'static str,
    /// Published benchmark that the suite repeats.
    pub description: &'static str,
    /// Default scale.
    pub scale: f64,
    steps: &'static [SuiteStep],
}

/// A row of a suite.
struct SuiteStep {
    /// Name of the row.
    name: &'static str,
    workload: &'static str,
    /// Number of keys at scale 1.
    num: u64,
    /// Differences between the suite and the table of workloads.
    adjust: fn(&mut PhaseSpec),
    /// Scale below which the row is omitted.
    min_scale: f64,
}

macro_rules! steps {
    ($($name:literal = $workload:literal, $num:expr, $change:expr $(, from $scale:literal)?;)*) => {
        &[$(SuiteStep {
            name: $name, workload: $workload, num: $num, adjust: $change, min_scale: 0.0 $(+ $scale)?
        },)*]
    };
}

const M: u64 = 1_000_000;

fn as_is(_: &mut PhaseSpec) {}

fn four_threads(d: &mut PhaseSpec) {
    d.threads = 4;
}

/// Seconds of each row of the suite `quick`: ten of the windows that plots show.
const QUICK_SECONDS: u64 = 1;

fn quick(d: &mut PhaseSpec) {
    d.duration_min_s = QUICK_SECONDS;
    d.duration_limit_s = QUICK_SECONDS;
}

fn large_cache(d: &mut PhaseSpec) {
    d.cache_bytes = Some(1 << 30);
}

/// Keys of 10 bytes and values of 16 bytes. As in the published benchmark, reads follow the writes
/// without a pause.
fn bangdb(d: &mut PhaseSpec, threads: u32) {
    d.key_size = 10;
    d.value_size = 16;
    // Values of 16 bytes are numbers or digests. Blocks of them do not shrink by an eighth, so
    // every engine stores them uncompressed.
    d.value_compress = 1.0;
    d.threads = threads;
    d.settle = false;
}

fn bangdb_get(d: &mut PhaseSpec, threads: u32) {
    bangdb(d, threads);
    d.kind = Kind::Get;
    d.fresh = false;
}

/// All suites.
pub static SUITES: &[Suite] = &[
    Suite {
        name: "leveldb",
        description: "db_bench as LevelDB publishes it: 1,000,000 entries, 16-byte keys, 100-byte values",
        scale: 1.0,
        steps: steps! {
            "fillseq" = "fillseq", M, as_is;
            "fillsync" = "fillsync", M, as_is;
            "fill100K" = "fill100K", M, as_is;
            "fillrandom" = "fillrandom", M, as_is;
            "overwrite" = "overwrite", M, as_is;
            "readrandom" = "readrandom", M, as_is;
            "readseq" = "readseq", M, as_is;
            "readreverse" = "readreverse", M, as_is;
            "compact" = "compact", M, as_is;
            "readrandom-compacted" = "readrandom", M, as_is;
            "readseq-compacted" = "readseq", M, as_is;
            "readreverse-compacted" = "readreverse", M, as_is;
            "readrandom-cached" = "readrandom", M, large_cache;
            "readseq-cached" = "readseq", M, large_cache;
            "readreverse-cached" = "readreverse", M, large_cache;
            "readmissing" = "readmissing", M, as_is;
            "readhot" = "readhot", M, as_is;
            "seekrandom" = "seekrandom", M, as_is;
            "open" = "open", M, as_is;
            "deleterandom" = "deleterandom", M, as_is;
            "deleteseq" = "deleteseq", M, as_is;
        },
    },
    Suite {
        name: "quick",
        description: "a second for each row; reads of 1,000,000 entries, 16-byte keys, 100-byte values",
        scale: 1.0,
        steps: steps! {
            "fillseq" = "fillseq", 10 * M, quick;
            "fillsync" = "fillsync", 10 * M, quick;
            "fill100K" = "fill100K", 10 * M, quick;
            "fillrandom" = "fillrandom", M, quick;
            "readrandom" = "readrandom", M, quick;
            "readmissing" = "readmissing", M, quick;
            "readhot" = "readhot", M, quick;
            "seekrandom" = "seekrandom", M, quick;
            "readseq" = "readseq", M, quick;
            "readreverse" = "readreverse", M, quick;
            "open" = "open", M, quick;
        },
    },
    Suite {
        name: "bangdb",
        description: "the published BangDB comparison: 10-byte keys, 16-byte random values, puts then gets; a billion keys from scale 1",
        scale: 0.1,
        steps: steps! {
            "put-seq-1" = "fillseq", 100 * M, |d| bangdb(d, 1);
            "get-seq-1" = "getseq", 100 * M, |d| bangdb_get(d, 1);
            "put-seq-4" = "fillseq", 100 * M, |d| bangdb(d, 4);
            "get-seq-4" = "getseq", 100 * M, |d| bangdb_get(d, 4);
            "put-random-1" = "fillrandom", 75 * M, |d| bangdb(d, 1);
            "get-random-1" = "readrandom", 75 * M, |d| bangdb_get(d, 1);
            "put-random-4" = "fillrandom", 75 * M, |d| bangdb(d, 4);
            "get-random-4" = "readrandom", 75 * M, |d| bangdb_get(d, 4);
            "put-billion" = "fillrandom", 1000 * M, |d| bangdb(d, 4), from 1.0;
            "get-billion" = "readrandom", 1000 * M, |d| bangdb_get(d, 4), from 1.0;
        },
    },
    Suite {
        name: "go",
        description: "the published Go comparison of LevelDB implementations: 1,000,000 entries, 16-byte keys, 100-byte values",
        scale: 1.0,
        steps: steps! {
            "WriteSequential" = "fillseq", M, as_is;
            "WriteRandom" = "fillrandom", M, as_is;
            "Open" = "open", M, as_is;
            "SeekRandom" = "seekrandom", M, |d| d.seek_next = 0;
            "ReadHot" = "readhot", M, as_is;
            "ReadRandom" = "readrandom", M, as_is;
            "ReadMissing" = "readmissing", M, as_is;
            "ReadReverse" = "readreverse", M, as_is;
            "ReadSequential" = "readseq", M, as_is;
            "DeleteRandom" = "deleterandom", M, as_is;
            "DeleteSequential" = "deleteseq", M, as_is;
        },
    },
    Suite {
        name: "ycsb",
        description: "YCSB's core workloads in the order that it recommends, then E after A and B: 1,000,000 records of 1,000 bytes",
        scale: 1.0,
        steps: steps! {
            "load" = "ycsb-load", M, as_is;
            "A" = "ycsb-a", M, as_is;
            "B" = "ycsb-b", M, as_is;
            "C" = "ycsb-c", M, as_is;
            "F" = "ycsb-f", M, as_is;
            "D" = "ycsb-d", M, as_is;
            "reload" = "ycsb-load", M, as_is;
            "E" = "ycsb-e", M, as_is;
            "A-reloaded" = "ycsb-a", M, as_is;
            "B-reloaded" = "ycsb-b", M, as_is;
            "E-updated" = "ycsb-e", M, as_is;
        },
    },
    Suite {
        name: "transactions",
        description: "transactions beside the same operations without one: 1,000,000 entries, 16-byte keys, 100-byte values",
        scale: 1.0,
        steps: steps! {
            "fillseq" = "fillseq", M, as_is;
            "put-1" = "overwrite", M, as_is;
            "txn-blind-1" = "txn-blind", M, as_is;
            "get-put-1" = "updaterandom", M, as_is;
            "txn-rmw-1" = "txn-rmw", M, as_is;
            "txn-rmw-4" = "txn-rmw", M, four_threads;
            "txn-hot-4" = "txn-hot", M, four_threads;
            "txn-scan-1" = "txn-scan", M, as_is;
            "txn-scan-4" = "txn-scan", M, four_threads;
        },
    },
    Suite {
        name: "copies",
        description: "followers, checkpoints and bulk loads beside gets and puts: 1,000,000 entries, 16-byte keys, 100-byte values; the load has 10-byte keys, 16-byte random values",
        scale: 1.0,
        steps: steps! {
            "fillseq" = "fillseq", M, as_is;
            "get" = "readrandom", M, as_is;
            "follow-get" = "follow", M, as_is;
            "follow-replay" = "follow-replay", M, as_is;
            "follow-age" = "follow-age", M, as_is;
            "put" = "overwrite", M, as_is;
            "checkpoint" = "checkpoint", M, as_is;
            "put-4" = "fillrandom", 4 * M, |d| bangdb(d, 4);
            "bulkload" = "bulkload", 4 * M, |d| bangdb(d, 1);
        },
    },
];

/// Name of a row and its phase.
pub type NamedPhase = (String, PhaseSpec);

impl Suite {
    /// Number of keys of the first row at scale 1.
    pub fn keys(&self) -> u64 {
        self.steps.first().map_or(1, |step| step.num)
    }

    /// Phases at `scale`.
    pub fn phases(&self, scale: f64) -> Vec<NamedPhase> {
        let steps = self.steps.iter().filter(|step| scale >= step.min_scale);
        steps
            .filter_map(|step| {
                let mut phase = by_name(step.workload)?.to_phase(((step.num as f64 * scale) as u64).max(1));
                (step.adjust)(&mut phase);
                Some((step.name.to_owned(), phase))
            })
            .collect()
    }
}

/// Returns the workload called `name`.
pub fn by_name(name: &str) -> Option<&'static Workload> {
    WORKLOADS.iter().find(|workload| workload.name == name)
}

impl Workload {
    /// Converts the workload to a phase over `num` keys.
    pub fn to_phase(&self, num: u64) -> PhaseSpec {
        let mut phase = PhaseSpec { name: self.name.to_owned(), num, keyspace: num, ..PhaseSpec::default() };
        (self.adjust)(&mut phase);
        phase
    }
}

/// Phases of single workloads, over `num` keys each. If the first workload needs a filled database,
/// `fillseq` runs before it. Repeated names get a number.
pub fn phases_of_workloads(workloads: &[&'static Workload], num: u64) -> Vec<NamedPhase> {
    let mut phases: Vec<NamedPhase> = Vec::new();
    let named = workloads.iter().map(|workload| (workload.name, workload.to_phase(num)));
    let needs_fill = workloads.first().is_some_and(|first| first.to_phase(num).kind != Kind::Put);
    let fill = needs_fill.then(|| by_name("fillseq")).flatten().map(|fill| (fill.name, fill.to_phase(num)));
    for (name, phase) in fill.into_iter().chain(named) {
        let before = phases.iter().filter(|(_, earlier)| earlier.name == name).count();
        let name = if before == 0 { name.to_owned() } else { format!("{name}-{}", before + 1) };
        phases.push((name, phase));
    }
    phases
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn every_step_has_a_workload_and_a_unique_name() {
        for suite in SUITES {
            let phases = suite.phases(1.0);
            assert_eq!(phases.len(), suite.steps.len(), "{}: a step has an unknown workload", suite.name);
            let names: HashSet<_> = phases.iter().map(|(name, _)| name).collect();
            assert_eq!(names.len(), phases.len(), "{}: a name twice", suite.name);
            assert!(phases[0].1.fresh, "{} does not begin with an empty database", suite.name);
        }
    }

    /// Regression: phases of 25 ms were plotted in windows of 100 ms.
    #[test]
    fn rows_of_quick_fill_their_plots() {
        let phases = SUITES[1].phases(1.0);
        for (name, phase) in &phases {
            assert!(phase.duration_min_s >= 1 && phase.duration_limit_s == phase.duration_min_s, "{name}");
            assert_ne!(phase.kind, Kind::Compact, "{name}: one operation has no time of its choice");
        }
        assert_eq!(phases.len(), 11);
    }

    #[test]
    fn shares_of_a_mix_add_up() {
        for workload in WORKLOADS.iter().filter(|w| w.to_phase(1).kind == Kind::Mixed) {
            let phase = workload.to_phase(1000);
            assert!((phase.mix.values().sum::<f64>() - 1.0).abs() < 1e-9, "{}", workload.name);
            assert!(phase.mix.keys().all(|name| super::super::ops::MIX_NAMES.contains(&name.as_str())));
        }
    }

    #[test]
    fn a_billion_keys_only_at_full_scale() {
        let rows = |scale| SUITES[2].phases(scale).iter().map(|(_, p)| p.num).collect::<Vec<_>>();
        assert_eq!(rows(0.1), [10 * M, 10 * M, 10 * M, 10 * M, 7_500_000, 7_500_000, 7_500_000, 7_500_000]);
        assert_eq!(rows(1.0).last(), Some(&(1000 * M)));
    }

    #[test]
    fn reads_alone_are_preceded_by_a_fill() {
        let read = by_name("readrandom").expect("the workload is in the table");
        let names: Vec<_> =
            phases_of_workloads(&[read, read], 10).into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["fillseq", "readrandom", "readrandom-2"]);
    }
}
