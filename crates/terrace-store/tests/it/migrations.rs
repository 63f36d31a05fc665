//! Copies between all engines are complete, also after an interruption and beside a writer.

use std::path::Path;
use std::sync::Arc;

use terrace::{Db, Options};
use terrace_store::migrate::{copy, digest, reconcile, transfer_changes};
use terrace_store::{Error, KeyRange, OpenOptions, Store, WriteOptions, open};
use terrace_testkit::rng::Rng;

use crate::fixture::{FIXTURES, memory};

/// Fills `store` with `count` random entries.
fn fill(store: &dyn Store, count: usize, seed: u64) {
    let mut rng = Rng::new(seed);
    let mut writer = terrace_store::migrate::BatchWriter::new(store);
    for _ in 0..count {
        let key: Vec<u8> = (0..rng.below(12)).map(|_| rng.next_u64() as u8).collect();
        let value = vec![rng.next_u64() as u8; rng.skewed(3000) as usize];
        writer.put(&key, &value).unwrap();
    }
    writer.flush().unwrap();
}

#[track_caller]
fn assert_equal(a: &dyn Store, b: &dyn Store) {
    let a = digest(a, &mut |_| {}).unwrap();
    let b = digest(b, &mut |_| {}).unwrap();
    assert!(a.entries > 0);
    assert_eq!(a, b);
}

#[test]
fn between_all_engines() {
    let fixtures: Vec<_> = FIXTURES.iter().filter(|fixture| (fixture.is_available)()).collect();
    for from in &fixtures {
        let source = (from.new_store)();
        fill(&*source.store, 1500, 7);
        for to in &fixtures {
            let target = (to.new_store)();
            copy(&*source.store, &*target.store, false, &mut |_| {}).unwrap();
            assert_equal(&*source.store, &*target.store);
            let again = copy(&*source.store, &*target.store, false, &mut |_| {});
            assert!(matches!(again, Err(Error::TargetHasEntries)), "{} to {}", from.name, to.name);
        }
    }
}

#[test]
fn interrupted_copy_resumes_after_its_last_key() {
    let source = memory();
    let target = memory();
    fill(&*source.store, 5000, 1);
    let interrupted = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        copy(&*source.store, &*target.store, false, &mut |entries| assert!(entries < 2500))
    }));
    assert!(interrupted.is_err());
    let before = digest(&*target.store, &mut |_| {}).unwrap().entries;
    assert!((1000..2500).contains(&before), "{before}");
    let copied = copy(&*source.store, &*target.store, true, &mut |_| {}).unwrap();
    assert_equal(&*source.store, &*target.store);
    assert_eq!(before + copied, digest(&*source.store, &mut |_| {}).unwrap().entries);
}

#[test]
fn entry_beyond_the_limits_of_the_target_is_named() {
    let source = memory();
    for target in FIXTURES.iter().filter(|fixture| (fixture.is_available)()) {
        let target = (target.new_store)();
        let limit = target.store.limits().value_bytes;
        if limit == usize::MAX {
            continue;
        }
        source.store.put(b"a-small-one", b"1").unwrap();
        source.store.put(b"the-large-one", &vec![1; limit + 1]).unwrap();
        let refused = copy(&*source.store, &*target.store, false, &mut |_| {}).unwrap_err().to_string();
        assert!(refused.contains("'the-large-one'") && refused.contains(&limit.to_string()), "{refused}");
    }
}

#[test]
fn changes_between_two_snapshots() {
    for target in FIXTURES.iter().filter(|fixture| (fixture.is_available)()) {
        let source = (FIXTURES[1].new_store)();
        let target = (target.new_store)();
        for name in ["a", "b", "c"] {
            source.store.put(name.as_bytes(), b"1").unwrap();
        }
        let before = source.store.snapshot().unwrap();
        reconcile(&*before, &*target.store, &mut |_| {}).unwrap();
        source.store.put(b"b", b"2").unwrap();
        source.store.put(b"d", b"2").unwrap();
        source.store.delete_range(&KeyRange::prefix("c"), &Default::default()).unwrap();
        let after = source.store.snapshot().unwrap();
        // A change after the second snapshot is none of them.
        source.store.put(b"e", b"3").unwrap();
        let report = transfer_changes(&*before, &*after, &*target.store, &mut |_| {}).unwrap();
        assert_eq!((report.puts, report.deletes, report.source.entries), (2, 1, 3));
        assert_eq!(report.source, digest(&*target.store, &mut |_| {}).unwrap());
    }
}

#[test]
fn reconcile_transfers_every_kind_of_change() {
    let source = memory();
    let target = memory();
    fill(&*source.store, 3000, 2);
    copy(&*source.store, &*target.store, false, &mut |_| {}).unwrap();
    source.store.put(b"", b"first").unwrap();
    source.store.put(b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", b"last").unwrap();
    source.store.put(b"m", b"middle").unwrap();
    let removed = KeyRange::new(b"\x10".to_vec(), b"\x20".to_vec());
    source.store.delete_range(&removed, &WriteOptions::default()).unwrap();
    target.store.put(b"zz", b"of the target").unwrap();
    let report = reconcile(&*source.store.snapshot().unwrap(), &*target.store, &mut |_| {}).unwrap();
    assert!(report.puts >= 3 && report.deletes > 50, "{report:?}");
    assert_equal(&*source.store, &*target.store);
    assert_eq!(report.source, digest(&*target.store, &mut |_| {}).unwrap());
    let report = reconcile(&*source.store.snapshot().unwrap(), &*target.store, &mut |_| {}).unwrap();
    assert_eq!((report.puts, report.deletes), (0, 0));
}

#[test]
fn copy_beside_a_live_writer() {
    let directory = tempfile::tempdir().unwrap();
    let address = format!("local:{}", directory.path().display());
    let writer = open(&address, &OpenOptions::default().create_if_missing(true)).unwrap();
    fill(&*writer, 3000, 3);
    let source = open(&address, &OpenOptions::default().read_only(true)).unwrap();
    let target = memory();
    let late: Arc<dyn Store> = Arc::clone(&writer);
    copy(&*source, &*target.store, false, &mut |entries| {
        if entries.is_multiple_of(500) {
            late.put(format!("late{entries}").as_bytes(), b"1").unwrap();
        }
    })
    .unwrap();
    drop((writer, late));
    reconcile(&*source.snapshot().unwrap(), &*target.store, &mut |_| {}).unwrap();
    assert_equal(&*source, &*target.store);
    assert_eq!(target.store.get(b"late500").unwrap().unwrap(), b"1");
}

/// Creates a database of several blocks with damage in the middle of its table.
fn damaged_database(directory: &Path, entries: u64) -> String {
    let address = format!("local:{}", directory.display());
    let db = Db::open(directory, &Options::default().create_if_missing(true)).unwrap();
    for number in 0..entries {
        db.put(format!("key{number:06}"), Rng::new(number).next_u64().to_le_bytes().repeat(12)).unwrap();
    }
    db.compact_range(None, None).unwrap();
    drop(db);
    let files = directory.read_dir().unwrap().map(|file| file.unwrap().path());
    let table = files.filter(|path| path.extension().is_some_and(|name| name == "ldb")).max().unwrap();
    let mut bytes = std::fs::read(&table).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&table, bytes).unwrap();
    address
}

/// A copy that passed the damage would begin after it when it resumes, and succeed.
#[test]
fn copy_does_not_pass_damage() {
    const ENTRIES: u64 = 15_000;
    let directory = tempfile::tempdir().unwrap();
    let address = damaged_database(directory.path(), ENTRIES);
    let source = open(&address, &OpenOptions::default().read_only(true)).unwrap();
    let target = memory();
    let mut copied = 0;
    for run in 0..3 {
        let outcome = copy(&*source, &*target.store, true, &mut |_| {});
        assert!(matches!(outcome, Err(Error::Local(_))), "run {run}: {outcome:?}");
        let found = digest(&*target.store, &mut |_| {}).unwrap().entries;
        assert!(run == 0 || found == copied, "run {run}: {found} entries, {copied} before");
        copied = found;
    }
    // The entries before the damage arrive, without a gap.
    assert!((1000..ENTRIES - 1000).contains(&copied), "{copied}");
    assert!(target.store.get(format!("key{:06}", copied - 1).as_bytes()).unwrap().is_some());
}

#[test]
fn hash_covers_keys_values_and_their_border() {
    let digests: Vec<_> = [("ab", "c"), ("a", "bc"), ("ab", "d")]
        .iter()
        .map(|(key, value)| {
            let test = memory();
            test.store.put(key.as_bytes(), value.as_bytes()).unwrap();
            digest(&*test.store, &mut |_| {}).unwrap()
        })
        .collect();
    assert!(digests[0] != digests[1] && digests[0] != digests[2]);
}
