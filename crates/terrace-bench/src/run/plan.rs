//! What is to be done: from words on a command line to engines that are there and phases that make sense.

use std::path::PathBuf;

use crate::engine::{self, Row, Worker};
use crate::report::model::{EngineInfo, PhaseInfo, Settings};
use crate::run::child::Program;
use crate::workload::description::{Description, Kind, Order};
use crate::workload::expect::Expected;
use crate::workload::suites::{self, Named};

/// A run, before it begins.
pub struct Plan {
    /// Who.
    pub engines: Vec<Contender>,
    /// What.
    pub phases: Vec<PhaseInfo>,
    /// What must be found, as [`expect`](crate::workload::expect::expect) works out; for a billion keys that takes half a minute.
    pub expected: Vec<Option<Expected>>,
    /// How often.
    pub rounds: u32,
    /// The databases' parent; it exists.
    pub dir: PathBuf,
}

/// An engine that was asked for, there or not.
pub struct Contender {
    /// For the result file; `info.id` is unique in a run.
    pub info: EngineInfo,
    /// The row's id.
    pub engine: &'static str,
    /// The library that was asked for.
    pub path: Option<PathBuf>,
    /// Who measures it; none for this program itself.
    pub program: Option<Program>,
}

/// A sentence about a word that is none of those that exist.
fn unknown<'a>(what: &str, word: &str, known: impl Iterator<Item = &'a str>) -> String {
    format!("no {what} is called {word:?}; there are: {}", known.collect::<Vec<_>>().join(", "))
}

/// The engines of `words`, each an id, or an id and a path (`leveldb=/opt/libleveldb.so`).
pub fn contenders(words: &[String], settings: &Settings) -> Result<Vec<Contender>, String> {
    let mut all: Vec<Contender> = Vec::new();
    for word in words {
        let mut contender = contender(word, settings)?;
        let same = all.iter().filter(|other| other.engine == contender.engine).count();
        if same > 0 {
            contender.info.id = format!("{}-{}", contender.engine, same + 1);
            contender.info.name = format!("{} ({})", contender.info.name, same + 1);
        }
        all.push(contender);
    }
    Ok(all)
}

fn contender(word: &str, settings: &Settings) -> Result<Contender, String> {
    let (id, path) = match word.split_once('=') {
        Some((id, path)) => (id, Some(PathBuf::from(path))),
        None => (word, None),
    };
    let row =
        engine::by_id(id).ok_or_else(|| unknown("engine", id, engine::ENGINES.iter().map(|row| row.id)))?;
    if path.is_some() && !row.by_path {
        return Err(format!("{id} is part of this program, and can't be named by path"));
    }
    Ok(look(row, path, settings))
}

/// Looks whether the engine is there.
pub fn look(row: &'static Row, path: Option<PathBuf>, settings: &Settings) -> Contender {
    let found = (row.find)(path.as_deref());
    let mut info = EngineInfo {
        id: row.id.into(),
        name: row.name.into(),
        how: row.how.into(),
        settings: settings.clone(),
        present: found.is_ok(),
        ..EngineInfo::default()
    };
    let mut program = None;
    match found {
        Ok(found) => {
            if !found.place.is_empty() {
                info.how = format!("{} of {}", row.how, found.place);
            }
            (info.version, info.note) = (found.version, found.note);
            if let Worker::Program { program: path, arguments } = found.worker {
                program = Some(Program { path, arguments });
            }
        }
        Err(missing) => info.note = missing,
    }
    Contender { info, engine: row.id, path, program }
}

/// What the flags say about every phase.
#[derive(Clone, Debug, Default)]
pub struct Changes {
    /// Threads.
    pub threads: Option<u32>,
    /// Bytes of a key.
    pub key_size: Option<usize>,
    /// Bytes of a value.
    pub value_size: Option<usize>,
    /// Order of keys, by name.
    pub order: Option<Order>,
    /// Keys in one atomic write.
    pub batch: Option<u64>,
    /// Whether writes are durable.
    pub sync: bool,
    /// Puts of a writer beside reads in a second, at most.
    pub write_rate: Option<u64>,
    /// Seconds that a phase may take.
    pub seconds: Option<u64>,
}

impl Changes {
    fn apply(&self, phase: &mut Description) {
        phase.key_size = self.key_size.unwrap_or(phase.key_size);
        phase.value_size = self.value_size.unwrap_or(phase.value_size);
        phase.batch = self.batch.unwrap_or(phase.batch);
        phase.sync |= self.sync;
        phase.write_rate = self.write_rate.unwrap_or(phase.write_rate);
        phase.duration_limit_s = self.seconds.unwrap_or(phase.duration_limit_s);
        // Those two are things of a whole database.
        if !matches!(phase.kind, Kind::Open | Kind::Compact) {
            phase.threads = self.threads.unwrap_or(phase.threads);
            phase.order = self.order.unwrap_or(phase.order);
        }
    }
}

/// The order called `name`.
pub fn order(name: &str) -> Result<Order, String> {
    let known = ["seq", "random", "reverse", "zipf", "hot", "missing"];
    let found = known.contains(&name).then(|| serde_json::from_value(name.into()).ok()).flatten();
    found.ok_or_else(|| unknown("order of keys", name, known.into_iter()))
}

/// How much of a suite.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Size {
    /// As much as it does by itself.
    Default,
    /// A share of what was published.
    Scale(f64),
    /// So many keys in its first row, and as much less or more in the others.
    Num(u64),
}

/// The phases of a suite, and its scale.
pub fn suite(name: &str, size: Size) -> Result<(Vec<Named>, f64), String> {
    let suite = suites::SUITES.iter().find(|suite| suite.name == name);
    let suite = suite.ok_or_else(|| unknown("suite", name, suites::SUITES.iter().map(|s| s.name)))?;
    let scale = match size {
        Size::Default => suite.scale,
        Size::Scale(scale) => scale,
        Size::Num(num) => num as f64 / suite.keys() as f64,
    };
    if !(scale.is_finite() && scale > 0.0 && scale <= 1000.0) {
        return Err(format!("scale {scale}, expected above 0 and at most 1000"));
    }
    Ok((suite.phases(scale), scale))
}

/// What an engine is told by the word `same` or `defaults`.
pub fn settings(word: &str) -> Result<Settings, String> {
    match word {
        "same" => Ok(Settings {
            write_buffer_bytes: Some(4 << 20),
            cache_bytes: Some(8 << 20),
            filter_bits: Some(0),
            compression: Some("snappy".into()),
        }),
        "defaults" => Ok(Settings::default()),
        _ => Err(unknown("kind of settings", word, ["same", "defaults"].into_iter())),
    }
}

/// The codec called `name`.
pub fn compression(name: &str) -> Result<String, String> {
    let known = ["none", "snappy", "zstd"];
    known.contains(&name).then(|| name.to_owned()).ok_or_else(|| unknown("codec", name, known.into_iter()))
}

/// Workloads by name, over `num` keys.
pub fn workloads(names: &[String], num: u64) -> Result<Vec<Named>, String> {
    let known = || suites::WORKLOADS.iter().map(|workload| workload.name);
    let find = |name: &String| suites::by_name(name).ok_or_else(|| unknown("workload", name, known()));
    Ok(suites::one_by_one(&names.iter().map(find).collect::<Result<Vec<_>, _>>()?, num))
}

/// Between the seeds of two rows, which would otherwise read the same keys in the order in which they were written.
const SEED_STEP: u64 = 1 << 20;

/// The rows of the result, once the flags are applied and found possible.
pub fn rows(phases: Vec<Named>, changes: &Changes) -> Result<Vec<PhaseInfo>, String> {
    let rows = phases.into_iter().enumerate().map(|(row, (name, mut workload))| {
        changes.apply(&mut workload);
        workload.seed += row as u64 * SEED_STEP;
        check(&workload).map_err(|e| format!("{name}: {e}"))?;
        Ok(PhaseInfo { row, name, workload })
    });
    rows.collect()
}

/// The most of anything that a flag counts: enough for every machine, and sums of it do not overflow.
const MOST: u64 = 1 << 40;

fn check(phase: &Description) -> Result<(), String> {
    let inserts = if phase.kind == Kind::Mixed { phase.num } else { 0 };
    for (what, value, least, most) in [
        ("keys", phase.keyspace, 1, MOST),
        ("threads", u64::from(phase.threads), 1, 1024),
        ("bytes of a key", phase.key_size as u64, 1, 1 << 16),
        ("bytes of a value", phase.value_size as u64, 0, 1 << 30),
        ("keys of a batch", phase.batch, 1, 1 << 24),
    ] {
        if !(least..=most).contains(&value) {
            return Err(format!("{value} {what}, expected {least} to {most}"));
        }
    }
    let digits = (phase.keyspace + inserts * u64::from(phase.threads)).to_string().len();
    if phase.key_size < digits {
        return Err(format!("keys of {} bytes, expected at least {digits} for so many", phase.key_size));
    }
    if phase.kind == Kind::Scan && !matches!(phase.order, Order::Seq | Order::Reverse) {
        return Err("a walk is in the order seq or reverse".into());
    }
    if phase.order == Order::Missing && phase.kind != Kind::Get {
        return Err("the order missing is for gets".into());
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
            suite("moon", Size::Default),
            "no suite is called \"moon\"; there are: leveldb, bangdb, go, ycsb",
        );
        check(
            workloads(&words("moon"), 9),
            "no workload is called \"moon\"; there are: fillseq, fillrandom,",
        );
        check(settings("moon"), "no kind of settings is called \"moon\"; there are: same, defaults");
        check(compression("moon"), "no codec is called \"moon\"; there are: none, snappy, zstd");
        check(order("moon"), "no order of keys is called \"moon\"; there are: seq, random,");
        check(
            contenders(&words("moon"), &Settings::default()),
            "no engine is called \"moon\"; there are: terrace, terrace-c, leveldb, rocksdb, lmdb",
        );
        check(contenders(&words("terrace=x.so"), &Settings::default()), "terrace is part of this program");
    }

    #[test]
    fn a_library_that_is_not_there_is_listed() {
        let all =
            contenders(&words("terrace,leveldb=none.so"), &Settings::default()).expect("both are known");
        assert!(all[0].info.present && !all[1].info.present);
        assert!(all[1].info.note.contains("none.so"), "{}", all[1].info.note);
    }

    #[test]
    fn the_same_engine_twice_has_two_names() {
        let all = contenders(&words("terrace,terrace"), &Settings::default()).expect("it is known");
        assert_eq!((all[0].info.id.as_str(), all[1].info.id.as_str()), ("terrace", "terrace-2"));
    }

    #[test]
    fn flags_that_make_no_sense() {
        for (name, changes, expect) in [
            (
                "fillseq",
                Changes { key_size: Some(2), ..Changes::default() },
                "keys of 2 bytes, expected at least 4",
            ),
            ("fillseq", Changes { threads: Some(0), ..Changes::default() }, "0 threads, expected 1 to 1024"),
            ("fillseq", Changes { batch: Some(0), ..Changes::default() }, "0 keys of a batch"),
            (
                "fillseq",
                Changes { order: Some(Order::Missing), ..Changes::default() },
                "the order missing is for",
            ),
            ("readseq", Changes { order: Some(Order::Zipf), ..Changes::default() }, "a walk is in the order"),
        ] {
            let phases = workloads(&[name.to_owned()], 1000).expect("it is in the table");
            let phases = phases.into_iter().filter(|(row, _)| row == name).collect();
            check(rows(phases, &changes), &format!("{name}: {expect}"));
        }
        for scale in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            check(suite("leveldb", Size::Scale(scale)), "scale ");
        }
    }
}
