//! The same cases on every engine.

use terrace_store::{
    Condition, Error, Isolation, KeyRange, Store, StoreIterator, TransactionOptions, WriteBatch, WriteOptions,
};

use crate::fixture::{FIXTURES, on_every_engine};

/// Keys and values of `range` as text, such as "a=1 b=2", forward. Checks that the other direction
/// shows the same.
#[track_caller]
fn entries(store: &dyn Store, range: &KeyRange) -> String {
    both_directions(&mut *store.iter(range).unwrap())
}

#[track_caller]
fn both_directions(iter: &mut dyn StoreIterator) -> String {
    let mut forward = Vec::new();
    iter.seek_to_first();
    while iter.valid() {
        forward.push(entry(iter));
        iter.next();
    }
    iter.status().unwrap();
    let mut backward = Vec::new();
    iter.seek_to_last();
    while iter.valid() {
        backward.push(entry(iter));
        iter.prev();
    }
    iter.status().unwrap();
    backward.reverse();
    assert_eq!(forward, backward);
    forward.join(" ")
}

fn entry(iter: &dyn StoreIterator) -> String {
    format!("{}={}", iter.key().escape_ascii(), iter.value().escape_ascii())
}

/// Writes a batch from text: "a=1 b=2 c" puts two keys and deletes one.
fn batch(text: &str) -> WriteBatch {
    let mut batch = WriteBatch::new();
    for word in text.split_whitespace() {
        match word.split_once('=') {
            Some((key, value)) => batch.put(key, value),
            None => batch.delete(word),
        };
    }
    batch
}

#[track_caller]
fn write(store: &dyn Store, text: &str) {
    store.write(&batch(text), &WriteOptions::default()).unwrap();
}

#[test]
fn gets_and_batches() {
    on_every_engine(|store| {
        assert_eq!(store.get(b"a").unwrap(), None);
        write(store, "a=1 b=2 c=3 b a=4");
        assert_eq!(store.get(b"a").unwrap().unwrap(), b"4");
        assert_eq!(entries(store, &KeyRange::all()), "a=4 c=3");
        let found = store.multi_get(&[b"c", b"b", b"a", b"c"]).unwrap();
        assert_eq!(found, [Some(b"3".to_vec()), None, Some(b"4".to_vec()), Some(b"3".to_vec())]);
        write(store, "");
        write(store, "missing");
        store.delete(b"a").unwrap();
        assert_eq!(entries(store, &KeyRange::all()), "c=3");
    });
}

#[test]
fn any_bytes_in_their_order() {
    on_every_engine(|store| {
        let keys: &[&[u8]] =
            &[b"", b"\0", b"\0\0", b"\x01", b"a", b"a\0", b"a\xff", b"b", b"\xff", b"\xff\xff"];
        for key in keys.iter().rev() {
            store.put(key, &[b"v", *key].concat()).unwrap();
        }
        store.put(b"a", b"").unwrap();
        let mut iter = store.iter(&KeyRange::all()).unwrap();
        iter.seek_to_first();
        for key in keys {
            assert_eq!(iter.key(), *key);
            let value = if *key == b"a" { Vec::new() } else { [b"v", *key].concat() };
            assert_eq!(iter.value(), value);
            assert_eq!(store.get(key).unwrap(), Some(value));
            iter.next();
        }
        assert!(!iter.valid());
        assert_eq!(entries(store, &KeyRange::prefix(b"a")), "a= a\\x00=va\\x00 a\\xff=va\\xff");
        assert_eq!(entries(store, &KeyRange::prefix(b"\xff")), "\\xff=v\\xff \\xff\\xff=v\\xff\\xff");
    });
}

#[test]
fn ranges_seeks_and_turns() {
    on_every_engine(|store| {
        write(store, "a=1 c=3 e=5 g=7");
        assert_eq!(entries(store, &KeyRange::new("b", "g")), "c=3 e=5");
        assert_eq!(entries(store, &KeyRange::new("g", "b")), "");
        assert_eq!(entries(store, &KeyRange::new("c", "c")), "");
        let mut iter = store.iter(&KeyRange::new("b", "g")).unwrap();
        assert!(!iter.valid());
        iter.next();
        iter.seek(b"d");
        assert_eq!(entry(&*iter), "e=5");
        iter.prev();
        assert_eq!(entry(&*iter), "c=3");
        iter.next();
        assert_eq!(entry(&*iter), "e=5");
        iter.next();
        assert!(!iter.valid(), "the end is excluded");
        iter.seek(b"a");
        assert_eq!(entry(&*iter), "c=3", "the range starts at b");
        iter.prev();
        assert!(!iter.valid());
        iter.seek(b"z");
        assert!(!iter.valid());
        assert_eq!((iter.key(), iter.value()), (&[][..], &[][..]));
    });
}

#[test]
fn many_entries_in_pages() {
    on_every_engine(|store| {
        let count = 2500;
        for from in (0..count).step_by(100) {
            let words: Vec<String> = (from..from + 100).map(|n| format!("k{n:05}=v{n}")).collect();
            write(store, &words.join(" "));
        }
        let expect: Vec<String> = (0..count).map(|n| format!("k{n:05}=v{n}")).collect();
        assert!(entries(store, &KeyRange::all()) == expect.join(" "));
        let mut iter = store.iter(&KeyRange::all()).unwrap();
        iter.seek(b"k01000");
        for _ in 0..300 {
            iter.next();
        }
        for _ in 0..600 {
            iter.prev();
        }
        assert_eq!(iter.key(), b"k00700");
        let size = store.approximate_size(&KeyRange::all()).unwrap();
        let half = store.approximate_size(&KeyRange::new("k00000", "k01250")).unwrap();
        assert!(half <= size, "{half} of {size}");
    });
}

#[test]
fn snapshots_and_iterators_do_not_change() {
    on_every_engine(|store| {
        write(store, "a=1 b=2");
        let snapshot = store.snapshot().unwrap();
        let mut iter = store.iter(&KeyRange::all()).unwrap();
        write(store, "a=9 b c=3");
        assert_eq!(snapshot.get(b"a").unwrap().unwrap(), b"1");
        assert_eq!(snapshot.multi_get(&[b"b", b"c"]).unwrap(), [Some(b"2".to_vec()), None]);
        assert_eq!(both_directions(&mut *snapshot.iter(&KeyRange::all()).unwrap()), "a=1 b=2");
        assert_eq!(both_directions(&mut *iter), "a=1 b=2");
        let mut outlives = snapshot.iter(&KeyRange::all()).unwrap();
        drop(snapshot);
        assert_eq!(both_directions(&mut *outlives), "a=1 b=2");
        assert_eq!(entries(store, &KeyRange::all()), "a=9 c=3");
    });
}

/// Result of a conditional write after a change by another writer: "written" or "conflict".
#[track_caller]
fn conditional(
    store: &dyn Store,
    before: &str,
    keys: &[&[u8]],
    ranges: &[KeyRange],
    change: &str,
) -> &'static str {
    store.delete_range(&KeyRange::all(), &WriteOptions::default()).unwrap();
    write(store, before);
    let since = store.snapshot().unwrap();
    write(store, change);
    let condition = Condition { since: &*since, keys, ranges };
    match store.write_if(&batch("done=1"), &condition, &WriteOptions::default()) {
        Ok(position) => {
            assert!(position > since.position());
            assert!(store.get(b"done").unwrap().is_some());
            "written"
        }
        Err(Error::Conflict { .. }) => {
            assert_eq!(store.get(b"done").unwrap(), None);
            "conflict"
        }
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn conditions_of_keys() {
    on_every_engine(|store| {
        let check = |before, key: &str, change| conditional(store, before, &[key.as_bytes()], &[], change);
        assert_eq!(check("a=1", "a", ""), "written");
        assert_eq!(check("a=1", "a", "b=1"), "written");
        assert_eq!(check("a=1", "a", "a=2"), "conflict");
        assert_eq!(check("a=1", "a", "a=1"), "conflict");
        assert_eq!(check("a=1", "a", "a"), "conflict");
        assert_eq!(check("", "a", ""), "written");
        assert_eq!(check("", "a", "a=1"), "conflict");
    });
}

#[test]
fn conditions_of_ranges() {
    on_every_engine(|store| {
        let range = [KeyRange::new("b", "d")];
        let check = |before, change| conditional(store, before, &[], &range, change);
        assert_eq!(check("b=1 d=1", ""), "written");
        assert_eq!(check("b=1 d=1", "a=1 d=2"), "written");
        assert_eq!(check("b=1", "b=2"), "conflict");
        assert_eq!(check("b=1", "b"), "conflict");
        assert_eq!(check("b=1", "c=1"), "conflict");
        assert_eq!(check("", "c=1"), "conflict");
        assert_eq!(check("", "e=1"), "written");
    });
}

#[test]
fn conditions_of_large_ranges() {
    on_every_engine(|store| {
        let words: Vec<String> = (0..100).map(|n| format!("c{n:02}=1")).collect();
        let range = [KeyRange::prefix("c")];
        let check = |change| conditional(store, &words.join(" "), &[], &range, change);
        assert_eq!(check("d=1"), "written");
        assert_eq!(check("c50=2"), "conflict");
        assert_eq!(check("c50"), "conflict");
        assert_eq!(check("c99x=1"), "conflict");
    });
}

#[test]
fn snapshot_of_another_store() {
    on_every_engine(|store| {
        let other = crate::fixture::memory();
        other.store.put(b"a", b"1").unwrap();
        let foreign = other.store.snapshot().unwrap();
        let condition = Condition { since: &*foreign, keys: &[b"a"], ranges: &[] };
        let outcome = store.write_if(&batch("a=1"), &condition, &WriteOptions::default());
        assert!(matches!(outcome, Err(Error::InvalidArgument(_))), "{outcome:?}");
        assert_eq!(store.get(b"a").unwrap(), None);
    });
}

#[test]
fn snapshot_of_another_store_of_the_engine() {
    for fixture in FIXTURES.iter().filter(|fixture| (fixture.is_available)()) {
        let test = (fixture.new_store)();
        let other = (fixture.new_store)();
        let foreign = other.store.snapshot().unwrap();
        let condition = Condition { since: &*foreign, keys: &[b"a"], ranges: &[] };
        let outcome = test.store.write_if(&batch("a=1"), &condition, &WriteOptions::default());
        assert!(matches!(outcome, Err(Error::InvalidArgument(_))), "{}: {outcome:?}", fixture.name);
        assert_eq!(test.store.get(b"a").unwrap(), None);
    }
}

#[test]
fn estimated_sizes() {
    // The engine `local:` counts table files only, and these entries are in its memtable.
    for fixture in FIXTURES.iter().filter(|fixture| fixture.name != "local" && (fixture.is_available)()) {
        let test = (fixture.new_store)();
        let store = &*test.store;
        for from in (0..1000).step_by(100) {
            let words: Vec<String> = (from..from + 100).map(|n| format!("k{n:05}={n:014}")).collect();
            write(store, &words.join(" "));
        }
        let size = |from: &str, to: &str| store.approximate_size(&KeyRange::new(from, to)).unwrap();
        let sizes = [size("k", "l"), size("k00000", "k00500"), size("k00990", "l"), size("l", "k")];
        assert_eq!(sizes, [20_000, 10_000, 200, 0], "{}", fixture.name);
    }
}

#[test]
fn delete_ranges() {
    on_every_engine(|store| {
        let delete = |range: &KeyRange| store.delete_range(range, &WriteOptions::default()).unwrap();
        write(store, "a=1 b=2 c=3 d=4");
        delete(&KeyRange::new("d", "b"));
        assert_eq!(entries(store, &KeyRange::all()), "a=1 b=2 c=3 d=4");
        delete(&KeyRange::new("b", "d"));
        assert_eq!(entries(store, &KeyRange::all()), "a=1 d=4");
        delete(&KeyRange::all());
        assert_eq!(entries(store, &KeyRange::all()), "");
        write(store, "a=5");
        assert_eq!(entries(store, &KeyRange::all()), "a=5");
    });
}

#[test]
fn transactions_see_their_writes() {
    on_every_engine(|store| {
        write(store, "a=1 b=2 d=4");
        let mut transaction = store.begin(&TransactionOptions::default()).unwrap();
        transaction.put(b"c", b"3").unwrap();
        transaction.delete(b"b").unwrap();
        transaction.put(b"d", b"5").unwrap();
        assert_eq!(transaction.get(b"b").unwrap(), None);
        assert_eq!(transaction.get(b"c").unwrap().unwrap(), b"3");
        let found = transaction.multi_get(&[b"a", b"b", b"d"]).unwrap();
        assert_eq!(found, [Some(b"1".to_vec()), None, Some(b"5".to_vec())]);
        let mut iter = transaction.iter(&KeyRange::all()).unwrap();
        assert_eq!(both_directions(&mut iter), "a=1 c=3 d=5");
        iter.seek(b"b");
        assert_eq!(entry(&iter), "c=3");
        iter.prev();
        assert_eq!(entry(&iter), "a=1");
        iter.next();
        iter.next();
        assert_eq!(entry(&iter), "d=5");
        assert_eq!(entries(store, &KeyRange::all()), "a=1 b=2 d=4", "not committed");
        transaction.commit().unwrap();
        assert_eq!(entries(store, &KeyRange::all()), "a=1 c=3 d=5");
        let mut dropped = store.begin(&TransactionOptions::default()).unwrap();
        dropped.put(b"a", b"9").unwrap();
        drop(dropped);
        assert_eq!(store.get(b"a").unwrap().unwrap(), b"1");
    });
}

/// Two transactions read a and b; one writes a, the other one writes b.
fn write_skew(store: &dyn Store, isolation: Isolation) -> Result<(), Error> {
    write(store, "a=1 b=1");
    let options = TransactionOptions::default().isolation(isolation);
    let mut first = store.begin(&options)?;
    let mut second = store.begin(&options)?;
    for transaction in [&mut first, &mut second] {
        transaction.multi_get(&[b"a", b"b"])?;
    }
    first.put(b"a", b"0")?;
    second.put(b"b", b"0")?;
    first.commit()?;
    second.commit().map(|_| ())
}

#[test]
fn isolation_of_transactions() {
    on_every_engine(|store| {
        let skewed = write_skew(store, Isolation::Serializable);
        assert!(matches!(skewed, Err(Error::Conflict { .. })), "{skewed:?}");
        write_skew(store, Isolation::Snapshot).unwrap();
        let options = TransactionOptions::default().isolation(Isolation::Snapshot);
        let mut late = store.begin(&options).unwrap();
        write(store, "a=7");
        late.put(b"a", b"8").unwrap();
        assert!(late.commit().unwrap_err().is_retryable());
        assert_eq!(store.get(b"a").unwrap().unwrap(), b"7");
        let mut reader = store.begin(&TransactionOptions::default()).unwrap();
        write(store, "a=9");
        assert_eq!(reader.get(b"a").unwrap().unwrap(), b"7");
        reader.commit().unwrap();
    });
}

#[test]
fn reads_that_come_with_the_begin() {
    on_every_engine(|store| {
        write(store, "a=1 b=2 c=3");
        let options = TransactionOptions::default();
        let begin = || store.begin_with(&options, &[b"a", b"missing", b"b"]).unwrap();
        let mut transaction = begin();
        write(store, "a=8 b=8 c=8 missing=8");
        assert_eq!(transaction.get(b"a").unwrap().unwrap(), b"1");
        assert_eq!(transaction.peek(b"c").unwrap().unwrap(), b"3", "the snapshot is that of the begin");
        assert_eq!(transaction.peek(b"missing").unwrap(), None);
        transaction.put(b"d", b"4").unwrap();
        assert!(matches!(transaction.commit(), Err(Error::Conflict { .. })), "a was read");
        let mut transaction = begin();
        write(store, "a=9 b=9");
        transaction.fetch(&[b"c"]).unwrap();
        assert_eq!(transaction.peek(b"b").unwrap().unwrap(), b"8");
        assert_eq!(both_directions(&mut transaction.peek_iter(&KeyRange::new("b", "d")).unwrap()), "b=8 c=8");
        assert!(!transaction.has_writes());
        transaction.put(b"d", b"4").unwrap();
        assert!(transaction.has_written(b"d") && !transaction.has_written(b"a"));
        transaction.commit().unwrap();
        assert_eq!(store.get(b"d").unwrap().unwrap(), b"4");
        let many: Vec<Vec<u8>> = (0..100).map(|n| format!("{n}").into_bytes()).collect();
        let many: Vec<&[u8]> = many.iter().map(Vec::as_slice).chain([&b"a"[..]]).collect();
        assert_eq!(store.snapshot_with(&many).unwrap().1.pop().flatten().unwrap(), b"9");
    });
}

#[test]
fn empty_batches_compare() {
    on_every_engine(|store| {
        write(store, "a=1 b=2");
        let since = store.snapshot().unwrap();
        let compare = |key: &[u8]| {
            let condition = Condition { since: &*since, keys: &[key], ranges: &[] };
            store.write_if(&WriteBatch::new(), &condition, &WriteOptions::default()).map(|_| ())
        };
        compare(b"a").unwrap();
        write(store, "a=1");
        assert!(matches!(compare(b"a"), Err(Error::Conflict { .. })));
        compare(b"b").unwrap();
    });
}

#[test]
fn phantoms_are_conflicts() {
    on_every_engine(|store| {
        write(store, "a1=1 a2=2");
        let mut transaction = store.begin(&TransactionOptions::default()).unwrap();
        both_directions(&mut transaction.iter(&KeyRange::prefix("a")).unwrap());
        transaction.put(b"count", b"2").unwrap();
        write(store, "a3=3");
        assert!(matches!(transaction.commit(), Err(Error::Conflict { .. })));
    });
}

/// The second client has a commit marker only between its first write and its end, so both
/// snapshots of the condition show the same markers.
#[test]
#[cfg(any(feature = "etcd", feature = "tikv"))]
fn phantoms_of_a_client_that_has_ended() {
    use terrace_store::{OpenOptions, open};
    for address in crate::fixture::cluster_addresses("ended") {
        let options = OpenOptions::default().create_if_missing(true);
        let store = &*open(&address, &options).unwrap();
        write(store, "a1=1 a2=2");
        let check = |change: &str| {
            let mut transaction = store.begin(&TransactionOptions::default()).unwrap();
            both_directions(&mut transaction.iter(&KeyRange::prefix("a")).unwrap());
            transaction.put(b"count", b"2").unwrap();
            write(&*open(&address, &options).unwrap(), change);
            transaction.commit()
        };
        let outcome = check("a3=3");
        assert!(matches!(outcome, Err(Error::Conflict { .. })), "{address}: a new key: {outcome:?}");
        let outcome = check("a1");
        assert!(matches!(outcome, Err(Error::Conflict { .. })), "{address}: a deleted key: {outcome:?}");
        let outcome = check("b=1");
        assert!(outcome.is_ok(), "{address}: a key outside of the range: {outcome:?}");
    }
}

#[test]
fn concurrent_counters_lose_nothing() {
    on_every_engine(|store| {
        let threads = 4;
        let rounds = 10;
        std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| (0..rounds).for_each(|_| count_up(store)));
            }
        });
        let total = store.get(b"counter").unwrap().unwrap();
        assert_eq!(String::from_utf8(total).unwrap(), (threads * rounds).to_string());
    });
}

fn count_up(store: &dyn Store) {
    let outcome = store.transact(&TransactionOptions::default().attempts(1000), |transaction| {
        let before = transaction.get(b"counter")?.unwrap_or_else(|| b"0".to_vec());
        let before: u64 = String::from_utf8(before).unwrap().parse().unwrap();
        transaction.put(b"counter", (before + 1).to_string().as_bytes())
    });
    outcome.unwrap();
}

#[test]
fn concurrent_writes_all_arrive() {
    on_every_engine(|store| {
        std::thread::scope(|scope| {
            for thread in 0..8 {
                scope.spawn(move || {
                    for n in 0..25 {
                        write(store, &format!("own-{thread}-{n}={n} shared={thread} gone-{thread}"));
                    }
                });
            }
        });
        let own = entries(store, &KeyRange::prefix("own-"));
        assert_eq!(own.split(' ').count(), 8 * 25);
        assert!(store.get(b"shared").unwrap().is_some());
    });
}

#[test]
fn transaction_too_large_for_memory() {
    on_every_engine(|store| {
        let mut options = TransactionOptions::default();
        options.memory = 1000;
        let mut transaction = store.begin(&options).unwrap();
        let error = transaction.put(b"a", &[0; 2000]).unwrap_err();
        assert!(matches!(error, Error::BatchTooLarge { limit: 1000, .. }), "{error}");
    });
}
