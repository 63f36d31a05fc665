//! Limits of TiKV are checked before a request, large values shrink pages, and snapshots expire.

use terrace_store::{Error, KeyRange, OpenOptions, WriteBatch, WriteOptions, open};

use crate::tikv_double::{has_double, new_store, shared};

#[test]
fn batches_at_and_above_the_limits() {
    if !has_double() {
        return;
    }
    let store = new_store(shared(), 1);
    let limits = store.limits();
    let long = vec![b'k'; limits.key_bytes];
    let large = vec![7; limits.value_bytes];
    store.put(&long, &large).unwrap();
    assert!(store.get(&long).unwrap().unwrap() == large);
    let check = |key: &[u8], value: &[u8], expect: &str| {
        let found = store.put(key, value);
        assert!(matches!(&found, Err(Error::BatchTooLarge { unit, .. }) if *unit == expect), "{found:?}");
    };
    check(&[&long[..], b"k"].concat(), b"1", "bytes of a key");
    check(b"a", &[&large[..], b"7"].concat(), "bytes of a value");
    let mut batch = WriteBatch::new();
    for n in 0..9 {
        batch.put([n], &large);
    }
    let found = store.write(&batch, &WriteOptions::default());
    assert!(matches!(&found, Err(Error::BatchTooLarge { unit: "bytes", .. })), "{found:?}");
    assert_eq!(store.get(b"a").unwrap(), None);
}

#[test]
fn batch_of_many_keys_is_atomic() {
    if !has_double() {
        return;
    }
    let store = new_store(shared(), 40);
    let mut batch = WriteBatch::new();
    for n in 0..5000 {
        batch.put(format!("k{n:05}"), [7; 100]);
    }
    store.write(&batch, &WriteOptions::default()).unwrap();
    let mut iter = store.iter(&KeyRange::all()).unwrap();
    iter.seek_to_first();
    for n in 0..5000 {
        assert_eq!(iter.key(), format!("k{n:05}").as_bytes());
        iter.next();
    }
    assert!(!iter.valid());
}

#[test]
fn large_values_shrink_the_pages() {
    if !has_double() {
        return;
    }
    // More than an answer may have, in one page and in one request of several keys.
    let store = new_store(shared(), 1);
    let count = 70;
    let name = |n: usize| format!("b{n:03}").into_bytes();
    for n in 0..600 {
        store.put(format!("a{n:03}").as_bytes(), b"small").unwrap();
    }
    for n in 0..count {
        store.put(&name(n), &vec![n as u8; 1 << 20]).unwrap();
    }
    let mut iter = store.iter(&KeyRange::all()).unwrap();
    iter.seek(b"a000");
    let mut seen = 0;
    while iter.valid() {
        assert!(iter.key()[0] == b'a' || iter.value() == vec![(seen - 600) as u8; 1 << 20]);
        seen += 1;
        iter.next();
    }
    iter.status().unwrap();
    assert_eq!(seen, 600 + count);
    let names: Vec<Vec<u8>> = (0..count).map(name).collect();
    let names: Vec<&[u8]> = names.iter().map(Vec::as_slice).collect();
    let found = store.multi_get(&names).unwrap();
    assert!(found.iter().enumerate().all(|(n, value)| value.as_ref().unwrap()[0] == n as u8));
}

#[test]
fn snapshot_of_the_maximum_age() {
    if !has_double() {
        return;
    }
    let address = format!("{}?snapshots=1", shared().address("ages"));
    let store = open(&address, &OpenOptions::default().create_if_missing(true)).unwrap();
    store.put(b"a", b"1").unwrap();
    let snapshot = store.snapshot().unwrap();
    let mut iter = snapshot.iter(&KeyRange::all()).unwrap();
    std::thread::sleep(std::time::Duration::from_millis(1100));
    assert!(matches!(snapshot.get(b"a"), Err(Error::SnapshotTooOld(_))), "{:?}", snapshot.get(b"a"));
    iter.seek_to_first();
    assert!(!iter.valid() && matches!(iter.status(), Err(Error::SnapshotTooOld(_))));
    assert_eq!(store.get(b"a").unwrap().unwrap(), b"1");
}
