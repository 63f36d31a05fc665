//! Both styles of compaction keep all entries, and the tree settles after a load.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use terrace::env::{Clock, SystemClock};
use terrace::{CompactionStyle, Db, Env, Logger, Options, destroy};
use terrace_env::fault::{FaultFs, FaultPlan};
use terrace_env::mem::MemFs;
use terrace_env::{DeterministicScheduler, FileSystem};

struct ChannelLogger(Sender<String>);

impl Logger for ChannelLogger {
    fn log(&self, line: fmt::Arguments<'_>) {
        let _ = self.0.send(line.to_string());
    }
}

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// Puts and deletes random keys, in about `flushes` memtables of 64 KiB.
fn load(db: &Db, model: &mut Model, random: &mut u64, flushes: u64) {
    for _ in 0..flushes * 400 {
        *random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let key = format!("{:05}", (*random >> 33) % 20_000).into_bytes();
        if (*random >> 20).is_multiple_of(8) {
            db.delete(&key).unwrap();
            model.remove(&key);
        } else {
            let value = random.to_le_bytes().repeat(14);
            db.put(&key, &value).unwrap();
            model.insert(key, value);
        }
    }
}

#[track_caller]
fn check(db: &Db, model: &Model) {
    let entries: Vec<_> = db.iter().map(Result::unwrap).collect();
    assert!(
        entries
            .iter()
            .map(|(key, value)| (key.as_slice(), value.as_slice()))
            .eq(model.iter().map(|(key, value)| (key.as_slice(), value.as_slice())))
    );
}

#[track_caller]
fn wait_until_settled(db: &Db) {
    let deadline = SystemClock.monotonic() + Duration::from_secs(60);
    while db.property("terrace.settled").as_deref() != Some("1") {
        assert!(SystemClock.monotonic() < deadline, "{:?}", db.property("leveldb.stats"));
        SystemClock.sleep(Duration::from_millis(10));
    }
}

#[test]
fn tree_settles_after_a_load() {
    for style in [CompactionStyle::LazyLeveled, CompactionStyle::Leveled] {
        let (sender, lines) = channel();
        let options = Options::default()
            .create_if_missing(true)
            .env(Env::in_memory())
            .write_buffer_size(64 << 10)
            .max_file_size(64 << 10)
            .compaction_style(style)
            .logger(Arc::new(ChannelLogger(sender)));
        let db = Db::open("load", &options).unwrap();
        let mut model = Model::new();
        let mut random = 7;
        load(&db, &mut model, &mut random, 40);
        let snapshot_of = model.clone();
        let snapshot = db.snapshot();
        load(&db, &mut model, &mut random, 40);
        check(&db, &model);
        wait_until_settled(&db);
        check(&db, &model);
        let seen = db.iter_with(&terrace::ReadOptions::default().snapshot(snapshot)).map(Result::unwrap);
        assert!(seen.eq(snapshot_of));
        assert!(db.levels()[0].files.len() < 4, "LevelDB would compact level 0");
        db.close().unwrap();
        let lines: Vec<String> = lines.try_iter().collect();
        let has = |text: &str| lines.iter().any(|line| line.contains(text));
        let is_lazy = style == CompactionStyle::LazyLeveled;
        assert_eq!([has("reason=SortedRuns"), has("Settled")], [is_lazy, is_lazy], "{style:?}");
        check(&Db::open("load", &options.compaction_style(CompactionStyle::Leveled)).unwrap(), &model);
    }
}

/// Returns the numbers of the table files, and those of the live tables.
fn table_numbers(fs: &dyn FileSystem, db: &Db) -> [BTreeSet<u64>; 2] {
    let names = fs.list("load".as_ref()).unwrap();
    let files = names.iter().filter_map(|name| name.to_str()?.strip_suffix(".ldb")?.parse().ok());
    let live = db.levels().into_iter().flat_map(|level| level.files).map(|file| file.number);
    [files.collect(), live.collect()]
}

/// A compaction that fills the disk leaves none of its tables. Later ones continue.
#[test]
fn full_disk_in_a_compaction_gives_its_space_back() {
    let fs = Arc::new(FaultFs::new(Arc::new(MemFs::new()), FaultPlan::default()));
    let background = DeterministicScheduler::new(1);
    let env = Env { scheduler: Arc::clone(&background) as _, ..Env::with_file_system(Arc::clone(&fs) as _) };
    let options = Options::default()
        .create_if_missing(true)
        .env(env)
        .write_buffer_size(64 << 10)
        .max_file_size(1 << 20);
    let db = Db::open("load", &options).unwrap();
    let mut model = Model::new();
    let mut random = 5;
    let mut failed = 0;
    for round in 0..24 {
        load(&db, &mut model, &mut random, 8);
        db.flush().unwrap();
        fs.set_plan(format!("append .ldb #{} forever ENOSPC", 1 + round % 12 * 4).parse().unwrap());
        background.run_until_idle();
        failed += usize::from(!fs.failed_calls().is_empty());
        fs.set_plan(FaultPlan::default());
        let [files, live] = table_numbers(&*fs, &db);
        assert_eq!(files, live, "round {round}");
        check(&db, &model);
    }
    assert!(failed > 8, "{failed} full disks");
    db.put(b"last", b"").unwrap();
    model.insert(b"last".to_vec(), Vec::new());
    db.flush().unwrap();
    background.run_until_idle();
    assert_eq!(db.property("terrace.settled").as_deref(), Some("1"));
    check(&db, &model);
}

/// A close in the middle of a load leaves more runs than LevelDB would. The next open settles them.
#[test]
fn next_open_settles_an_interrupted_load() {
    let options = Options::default()
        .create_if_missing(true)
        .env(Env::in_memory())
        .write_buffer_size(64 << 10)
        .max_file_size(64 << 10);
    let path = Path::new("interrupted");
    let mut model = Model::new();
    let mut random = 3;
    for _ in 0..5 {
        let db = Db::open(path, &options).unwrap();
        check(&db, &model);
        load(&db, &mut model, &mut random, 11);
        db.close().unwrap();
    }
    let db = Db::open(path, &options).unwrap();
    check(&db, &model);
    wait_until_settled(&db);
    check(&db, &model);
    db.close().unwrap();
    destroy(path, &options).unwrap();
}
