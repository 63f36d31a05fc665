//! Iterators and snapshots of a database that changes.

use std::collections::VecDeque;

use terrace::{ReadOptions, Snapshot, WriteBatch};
use terrace_testkit::op::ValueSpec;
use terrace_testkit::rng::Rng;
use terrace_testkit::settings::Settings;

use super::{ReportedDb, key, plain};

/// LevelDB's issue 178. Two ranges were written, one was deleted, and the database was compacted:
/// deleted keys came back. A compaction had taken only some of the files that held one key's
/// versions.
#[test]
fn deleted_range_stays_deleted() {
    const COUNT: u32 = 40_000;
    let name =
        |range: u32, n: u32| format!("range {range} {:08}", n.wrapping_mul(2_654_435_761) >> 4).into_bytes();
    let database =
        ReportedDb::new(Settings { write_buffer_size: 64 << 10, max_file_size: 1 << 20, ..plain() });
    for range in [1, 2] {
        let mut batch = WriteBatch::new();
        batch.extend((0..COUNT).map(|n| (name(range, n), format!("value {range}"))));
        database.db().write(&batch).unwrap();
    }
    let mut batch = WriteBatch::new();
    for n in 0..COUNT {
        batch.delete(name(2, n));
    }
    database.db().write(&batch).unwrap();
    database.db().compact_range(Some(b"range 1"), Some(b"range 2 z")).unwrap();
    let entries: Vec<_> = database.db().iter().map(|entry| entry.unwrap()).collect();
    let distinct: std::collections::BTreeSet<_> = (0..COUNT).map(|n| name(1, n)).collect();
    assert!(entries.iter().all(|(key, value)| key.starts_with(b"range 1") && value == b"value 1"));
    assert_eq!(entries.len(), distinct.len());
}

/// LevelDB's issue 200. A key was written after the iterator was created, and a change of direction
/// then skipped an entry.
#[test]
fn direction_change_after_a_put() {
    let database = ReportedDb::new(plain());
    for (key, value) in [("1", "b"), ("2", "c"), ("3", "d"), ("4", "e"), ("5", "f")] {
        database.put(key, value);
    }
    let mut iter = database.db().raw_iter();
    database.put("25", "cd");
    iter.seek(b"5");
    let mut path = vec![iter.key().to_vec()];
    for forwards in [false, false, true, true] {
        if forwards {
            iter.next()
        } else {
            iter.prev()
        };
        path.push(iter.key().to_vec());
    }
    assert_eq!(path, [b"5", b"4", b"3", b"4", b"5"]);
}

/// LevelDB's issue 320. Under many overwrites and snapshots a compaction put the versions of one
/// key into two files of a level, and a snapshot then saw the wrong one.
#[test]
fn many_overwrites_under_many_snapshots() {
    const KEYS: u64 = 1_000;
    let database =
        ReportedDb::new(Settings { write_buffer_size: 64 << 10, max_file_size: 1 << 20, ..plain() });
    let mut rng = Rng::new(320);
    let mut now: Vec<Option<ValueSpec>> = vec![None; KEYS as usize];
    let mut held: VecDeque<(Snapshot, u64, Option<ValueSpec>)> = VecDeque::new();
    for _ in 0..30_000 {
        let n = rng.below(KEYS);
        let value =
            (!rng.one_in(10)).then(|| ValueSpec { len: rng.below(600) as u32, seed: rng.next_u64() as u32 });
        match value {
            Some(value) => database.db().put(key(n as u32), value.bytes()).unwrap(),
            None => database.db().delete(key(n as u32)).unwrap(),
        }
        now[n as usize] = value;
        if rng.one_in(100) {
            let n = rng.below(KEYS);
            held.push_back((database.db().snapshot(), n, now[n as usize]));
        }
        if held.len() > 60 {
            let at = rng.below(held.len() as u64) as usize;
            let (snapshot, n, value) = held.remove(at).unwrap();
            let options = ReadOptions::default().snapshot(snapshot);
            let found = database.db().get_with(key(n as u32), &options).unwrap();
            assert!(found == value.map(ValueSpec::bytes), "key {n} at a snapshot");
        }
    }
    for (n, value) in now.iter().enumerate() {
        assert!(database.db().get(key(n as u32)).unwrap() == value.map(ValueSpec::bytes), "key {n} now");
    }
}
