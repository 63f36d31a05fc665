//! The plan of a run: engines and phases from the command line, validated.

use std::path::{Path, PathBuf};

use crate::engine::{self, EngineEntry, EngineRunner, FoundEngine};
use crate::report::model::{EngineInfo, PhaseInfo, Settings};
use crate::run::measuring_process::ExternalProgram;
use crate::workload::expected_values::ExpectedResult;
use crate::workload::phase_spec::{Kind, Order, PhaseSpec};
use crate::workload::suites::{self, NamedPhase, Workload};

/// Plan of a run.
pub struct Plan {
    /// Selected engines.
    pub engines: Vec<SelectedEngine>,
    /// Phases in the order of execution.
    pub phases: Vec<PhaseInfo>,
    /// Expected results, which
    /// [`expected_results`](crate::workload::expected_values::expected_results) computes; a billion
    /// keys take half a minute.
    pub expected: Vec<Option<ExpectedResult>>,
    /// Number of rounds.
    pub rounds: u32,
    /// Existing parent directory of the databases.
    pub dir: PathBuf,
}

/// An engine that the user selected, available or not.
pub struct SelectedEngine {
    /// Description for the result file; `info.id` is unique in a run.
    pub info: EngineInfo,
    /// Id in the engine table.
    pub entry_id: &'static str,
    /// Library or program that the user selected.
    pub path: Option<PathBuf>,
    /// Program that measures the engine; `None` for this program.
    pub program: Option<ExternalProgram>,
}

/// Error message for an unknown name.
fn unknown_word<'a>(noun: &str, word: &str, known: impl Iterator<Item = &'a str>) -> String {
    format!("no {noun} is called {word:?}; there are: {}", known.collect::<Vec<_>>().join(", "))
}

/// Selects the engines of `words`, each an id, or an id and a path (`leveldb=/opt/libleveldb.so`).
pub fn select_engines(words: &[String], settings: &Settings) -> Result<Vec<SelectedEngine>, String> {
    let mut all: Vec<SelectedEngine> = Vec::new();
    for word in words {
        let mut selected = select_engine(word, settings)?;
        let same = all.iter().filter(|other| other.entry_id == selected.entry_id).count();
        if same > 0 {
            selected.info.id = format!("{}-{}", selected.entry_id, same + 1);
            selected.info.name = format!("{} ({})", selected.info.name, same + 1);
        }
        all.push(selected);
    }
    Ok(all)
}

fn select_engine(word: &str, settings: &Settings) -> Result<SelectedEngine, String> {
    let (id, path) = match word.split_once('=') {
        Some((id, path)) => (id, Some(PathBuf::from(path))),
        None => (word, None),
    };
    let entry = engine::by_id(id)
        .ok_or_else(|| unknown_word("engine", id, engine::ENGINES.iter().map(|row| row.id)))?;
    if path.is_some() && !entry.accepts_path {
        return Err(format!("{id} is part of this program and cannot be selected by path"));
    }
    Ok(describe_engine(entry, path, settings, find_and_build))
}

/// Finds an engine, and describes it. Builds nothing.
pub fn find_engine(entry: &'static EngineEntry) -> EngineInfo {
    describe_engine(entry, None, &Settings::default(), |entry, path| (entry.find)(path)).info
}

fn find_and_build(entry: &EngineEntry, path: Option<&Path>) -> engine::Result<FoundEngine> {
    if let EngineRunner::External { build, .. } = (entry.find)(path)?.runner {
        build()?;
    }
    // Again, because its note may say that it was not built.
    (entry.find)(path)
}

fn describe_engine(
    row: &'static EngineEntry,
    path: Option<PathBuf>,
    settings: &Settings,
    find: impl FnOnce(&EngineEntry, Option<&Path>) -> engine::Result<FoundEngine>,
) -> SelectedEngine {
    let found = find(row, path.as_deref());
    let mut info = EngineInfo {
        id: row.id.into(),
        name: row.name.into(),
        how: row.interface.into(),
        settings: settings.clone(),
        present: found.is_ok(),
        ..EngineInfo::default()
    };
    let mut program = None;
    match found {
        Ok(found) => {
            if !found.location.is_empty() {
                info.how = format!("{} of {}", row.interface, found.location);
            }
            info.version = found.version;
            info.note = found.note;
            info.has_compaction = found.has_compaction;
            info.has_transactions = found.has_transactions;
            info.optional_kinds = found.optional_kinds.to_vec();
            if let EngineRunner::External { program: path, arguments, .. } = found.runner {
                program = Some(ExternalProgram { path, arguments });
            }
        }
        Err(missing) => info.note = missing,
    }
    SelectedEngine { info, entry_id: row.id, path, program }
}

/// Overrides of every phase by flags.
#[derive(Clone, Debug, Default)]
pub struct Overrides {
    /// Number of threads.
    pub threads: Option<u32>,
    /// Size of a key in bytes.
    pub key_size: Option<usize>,
    /// Size of a value in bytes.
    pub value_size: Option<usize>,
    /// Fraction of a value that is incompressible.
    pub value_compress: Option<f64>,
    /// Key order.
    pub order: Option<Order>,
    /// Number of keys in one atomic write.
    pub batch: Option<u64>,
    /// Whether every write is synced.
    pub sync: bool,
    /// Maximum puts per second of a writer that runs beside readers.
    pub write_rate: Option<u64>,
    /// Seconds for which the operations of a phase are repeated.
    pub duration_min: Option<u64>,
    /// Time limit of a phase in seconds.
    pub duration_limit: Option<u64>,
}

impl Overrides {
    fn apply(&self, phase: &mut PhaseSpec) {
        phase.key_size = self.key_size.unwrap_or(phase.key_size);
        phase.value_size = self.value_size.unwrap_or(phase.value_size);
        phase.value_compress = self.value_compress.unwrap_or(phase.value_compress);
        phase.batch = self.batch.unwrap_or(phase.batch);
        phase.sync |= self.sync;
        phase.write_rate = self.write_rate.unwrap_or(phase.write_rate);
        phase.duration_limit_s = self.duration_limit.unwrap_or(phase.duration_limit_s);
        // A compaction after a compaction has nothing to do.
        if phase.kind != Kind::Compact {
            phase.duration_min_s = self.duration_min.unwrap_or(phase.duration_min_s);
        }
        // Open and compact work on the whole database, without threads or keys.
        if !matches!(phase.kind, Kind::Open | Kind::Compact) {
            phase.threads = self.threads.unwrap_or(phase.threads);
            phase.order = self.order.unwrap_or(phase.order);
        }
    }
}

/// Returns the key order called `name`.
pub fn order_by_name(name: &str) -> Result<Order, String> {
    let known = ["seq", "random", "reverse", "zipf", "hot", "missing"];
    let found = known.contains(&name).then(|| serde_json::from_value(name.into()).ok()).flatten();
    found.ok_or_else(|| unknown_word("order of keys", name, known.into_iter()))
}

/// Size of a suite.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum SuiteSize {
    /// Default scale of the suite.
    Default,
    /// Fraction of the published size.
    Scale(f64),
    /// Number of keys in the first row; the other rows are scaled alike.
    Num(u64),
}

/// Returns the phases of a suite and its scale.
pub fn suite_by_name(name: &str, size: SuiteSize) -> Result<(Vec<NamedPhase>, f64), String> {
    let suite = suites::SUITES.iter().find(|suite| suite.name == name);
    let suite = suite.ok_or_else(|| unknown_word("suite", name, suites::SUITES.iter().map(|s| s.name)))?;
    let scale = match size {
        SuiteSize::Default => suite.scale,
        SuiteSize::Scale(scale) => scale,
        SuiteSize::Num(num) => num as f64 / suite.keys() as f64,
    };
    if !(scale.is_finite() && scale > 0.0 && scale <= 1000.0) {
        return Err(format!("scale {scale}, expected above 0 and at most 1000"));
    }
    Ok((suite.phases(scale), scale))
}

/// Returns the engine settings called `same` or `defaults`.
pub fn settings_by_name(word: &str) -> Result<Settings, String> {
    match word {
        "same" => Ok(Settings {
            write_buffer_bytes: Some(4 << 20),
            cache_bytes: Some(8 << 20),
            filter_bits: Some(0),
            compression: Some("snappy".into()),
        }),
        "defaults" => Ok(Settings::default()),
        _ => Err(unknown_word("kind of settings", word, ["same", "defaults"].into_iter())),
    }
}

/// Returns `name` if it is a known codec.
pub fn compression_by_name(name: &str) -> Result<String, String> {
    let known = ["none", "snappy", "zstd"];
    known
        .contains(&name)
        .then(|| name.to_owned())
        .ok_or_else(|| unknown_word("codec", name, known.into_iter()))
}

/// Returns the phases of workloads by name, over `num` keys.
pub fn workloads_by_name(names: &[String], num: u64) -> Result<Vec<NamedPhase>, String> {
    let workloads = names.iter().map(|name| workload_by_name(name)).collect::<Result<Vec<_>, _>>()?;
    Ok(suites::phases_of_workloads(&workloads, num))
}

fn workload_by_name(name: &str) -> Result<&'static Workload, String> {
    let known = suites::WORKLOADS.iter().map(|workload| workload.name);
    suites::by_name(name).ok_or_else(|| unknown_word("workload", name, known))
}

/// Distance of the seeds of two rows. With equal seeds, a row would read the keys in the order in
/// which the row before wrote them.
const SEED_STEP: u64 = 1 << 20;

/// Applies the overrides, validates the phases, and returns the rows of the result. Writes that a
/// time limit cuts off are completed, unless the next phase begins with an empty database.
pub fn apply_overrides(phases: Vec<NamedPhase>, changes: &Overrides) -> Result<Vec<PhaseInfo>, String> {
    let is_needed: Vec<bool> = phases.iter().skip(1).map(|(_, next)| !next.fresh).chain([false]).collect();
    let rows = phases.into_iter().enumerate().map(|(row, (name, mut workload))| {
        changes.apply(&mut workload);
        workload.seed += row as u64 * SEED_STEP;
        workload.completes = workload.duration_limit_s > 0 && workload.writes() && is_needed[row];
        check_phase(&workload).map_err(|e| format!("{name}: {e}"))?;
        Ok(PhaseInfo { row, name, workload })
    });
    rows.collect()
}

/// Maximum of every count flag: enough for every machine, and sums do not overflow.
const MAX_COUNT: u64 = 1 << 40;

fn check_phase(phase: &PhaseSpec) -> Result<(), String> {
    let inserts = if phase.kind == Kind::Mixed { phase.num } else { 0 };
    for (noun, value, least, most) in [
        ("keys", phase.keyspace, 1, MAX_COUNT),
        ("threads", u64::from(phase.threads), 1, 1024),
        ("bytes of a key", phase.key_size as u64, 1, 1 << 16),
        ("bytes of a value", phase.value_size as u64, 0, 1 << 30),
        ("keys of a batch", phase.batch, 1, 1 << 24),
    ] {
        if !(least..=most).contains(&value) {
            return Err(format!("{value} {noun}, expected {least} to {most}"));
        }
    }
    if !(0.0..=1.0).contains(&phase.value_compress) {
        return Err(format!("compression ratio {}, expected 0 to 1", phase.value_compress));
    }
    let digits = (phase.keyspace + inserts * u64::from(phase.threads)).to_string().len();
    if phase.key_size < digits {
        return Err(format!(
            "keys of {} bytes, expected at least {digits} for this number of keys",
            phase.key_size
        ));
    }
    if phase.kind == Kind::Scan && !matches!(phase.order, Order::Seq | Order::Reverse) {
        return Err("a scan supports only the key orders seq and reverse".into());
    }
    if phase.order == Order::Missing && phase.kind != Kind::Get {
        return Err("the key order missing supports only gets".into());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(result: Result<impl Sized, String>, expect: &str) {
        let said = result.err().unwrap_or_else(|| "accepted".into());
        assert!(said.starts_with(expect), "{said}");
    }

    fn words(text: &str) -> Vec<String> {
        text.split(',').map(str::to_owned).collect()
    }

    #[test]
    fn unknown_words_list_what_exists() {
        check(
            suite_by_name("moon", SuiteSize::Default),
            "no suite is called \"moon\"; there are: leveldb, quick, bangdb, go, ycsb",
        );
        check(
            workloads_by_name(&words("moon"), 9),
            "no workload is called \"moon\"; there are: fillseq, fillrandom,",
        );
        check(settings_by_name("moon"), "no kind of settings is called \"moon\"; there are: same, defaults");
        check(compression_by_name("moon"), "no codec is called \"moon\"; there are: none, snappy, zstd");
        check(order_by_name("moon"), "no order of keys is called \"moon\"; there are: seq, random,");
        check(
            select_engines(&words("moon"), &Settings::default()),
            "no engine is called \"moon\"; there are: terrace, terrace-appended, terrace-leveled, terrace-c, \
             leveldb, rocksdb, rocksdb-optimistic, rocksdb-pessimistic, lmdb",
        );
        check(
            select_engines(&words("terrace=x.so"), &Settings::default()),
            "terrace is part of this program",
        );
    }

    #[test]
    fn missing_library_is_listed() {
        let all =
            select_engines(&words("terrace,leveldb=none.so"), &Settings::default()).expect("both are known");
        assert!(all[0].info.present && !all[1].info.present);
        assert!(all[1].info.note.contains("none.so"), "{}", all[1].info.note);
    }

    #[test]
    fn same_engine_twice_gets_two_names() {
        let all = select_engines(&words("terrace,terrace"), &Settings::default()).expect("it is known");
        assert_eq!((all[0].info.id.as_str(), all[1].info.id.as_str()), ("terrace", "terrace-2"));
    }

    #[test]
    fn time_limit_cuts_off_only_entries_without_readers() {
        let names = ["fillseq", "fillrandom", "readrandom", "deleteseq"].map(str::to_owned);
        let phases = workloads_by_name(&names, 1000).expect("they are in the table");
        let limit = Overrides { duration_limit: Some(1), ..Overrides::default() };
        let rows = apply_overrides(phases.clone(), &limit).expect("the limit is valid");
        let completes =
            |rows: &[PhaseInfo]| rows.iter().map(|row| row.workload.completes).collect::<Vec<_>>();
        assert_eq!(completes(&rows), [false, true, false, false]);
        let rows = apply_overrides(phases, &Overrides::default()).expect("no change is valid");
        assert_eq!(completes(&rows), [false; 4]);
    }

    #[test]
    fn invalid_flags_are_rejected() {
        for (name, changes, expect) in [
            (
                "fillseq",
                Overrides { key_size: Some(2), ..Overrides::default() },
                "keys of 2 bytes, expected at least 4",
            ),
            (
                "fillseq",
                Overrides { threads: Some(0), ..Overrides::default() },
                "0 threads, expected 1 to 1024",
            ),
            ("fillseq", Overrides { batch: Some(0), ..Overrides::default() }, "0 keys of a batch"),
            (
                "fillseq",
                Overrides { order: Some(Order::Missing), ..Overrides::default() },
                "the key order missing supports",
            ),
            (
                "readseq",
                Overrides { order: Some(Order::Zipf), ..Overrides::default() },
                "a scan supports only the key orders",
            ),
        ] {
            let phases = workloads_by_name(&[name.to_owned()], 1000).expect("it is in the table");
            let phases = phases.into_iter().filter(|(row, _)| row == name).collect();
            check(apply_overrides(phases, &changes), &format!("{name}: {expect}"));
        }
        for scale in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            check(suite_by_name("leveldb", SuiteSize::Scale(scale)), "scale ");
        }
    }
}
