//! Both styles of compaction keep all entries, and the tree settles after a load.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use terrace::env::{Clock, SystemClock};
use terrace::{CompactionStyle, Db, Env, Logger, Options, destroy};

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
