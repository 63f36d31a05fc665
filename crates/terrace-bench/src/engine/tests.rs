//! Test of the adapters' contract, which every adapter runs.

use super::{Change, Cursor, EngineRunner, Store};
use crate::report::model::Settings;

fn explicit_settings() -> Settings {
    Settings {
        write_buffer_bytes: Some(4 << 20),
        cache_bytes: Some(8 << 20),
        filter_bits: Some(10),
        compression: Some("snappy".to_owned()),
    }
}

fn content(store: &dyn Store) -> String {
    let mut cursor = store.cursor().expect("the store can be read");
    let mut text = String::new();
    let mut at_entry = cursor.first().expect("the store can be read");
    while at_entry {
        text += &entry(&*cursor);
        at_entry = cursor.next().expect("the store can be read");
    }
    text
}

fn entry(cursor: &dyn Cursor) -> String {
    let (key, value) = cursor.entry();
    format!("{}={} ", key.escape_ascii(), value.escape_ascii())
}

fn change(key: &str, value: Option<&str>) -> Change {
    Change { key: key.into(), value: value.map(Into::into) }
}

/// Checks that the engine in `found` satisfies the contract of an adapter.
#[track_caller]
pub(super) fn check_adapter(found: super::Result<super::FoundEngine>) {
    let found = found.expect("the engine is part of this program");
    assert!(!found.version.is_empty());
    let EngineRunner::InProcess(engine) = found.runner else { panic!("an adapter is expected") };
    for settings in [Settings::default(), explicit_settings()] {
        let dir = tempfile::tempdir().expect("a directory for the test");
        let store = engine.open(dir.path(), &settings).expect("an empty directory becomes a database");
        changes(&*store);
        moves(&*store);
        cursor_ignores_later_puts(&*store);
        let before = content(&*store);
        store.compact().expect("compacting succeeds");
        assert_eq!(content(&*store), before, "after compacting");
        drop(store);
        let store = engine.open(dir.path(), &settings).expect("the database is there");
        assert_eq!(content(&*store), before, "after closing and opening");
    }
}

fn changes(store: &dyn Store) {
    let results = [
        store.put(b"a", b"1", false),
        store.put(b"b", b"2", true),
        store.put(b"a", b"3", false),
        store.delete(b"b", true),
        store.delete(b"never there", false),
        store.write(&[change("c", Some("4")), change("d", Some("5")), change("a", None)], false),
        store.write(&[change("e", Some("")), change("f", Some("6")), change("f", None)], true),
    ];
    assert_eq!(results, [const { Ok(()) }; 7]);
    assert_eq!(content(store), "c=4 d=5 e= ");
    let mut value = b"old value".to_vec();
    assert_eq!((store.get(b"a", &mut value), store.get(b"cc", &mut value)), (Ok(false), Ok(false)));
    assert_eq!((store.get(b"d", &mut value), &value[..]), (Ok(true), &b"5"[..]));
}

fn moves(store: &dyn Store) {
    let mut cursor = store.cursor().expect("the store can be read");
    assert_eq!((cursor.last(), entry(&*cursor)), (Ok(true), "e= ".to_owned()));
    assert_eq!((cursor.prev(), entry(&*cursor)), (Ok(true), "d=5 ".to_owned()));
    assert_eq!((cursor.prev(), entry(&*cursor)), (Ok(true), "c=4 ".to_owned()));
    assert_eq!(cursor.prev(), Ok(false));
    assert_eq!((cursor.seek(b"cc"), entry(&*cursor)), (Ok(true), "d=5 ".to_owned()));
    assert_eq!((cursor.next(), entry(&*cursor)), (Ok(true), "e= ".to_owned()));
    assert_eq!(cursor.next(), Ok(false));
    assert_eq!(cursor.seek(b"f"), Ok(false));
}

fn cursor_ignores_later_puts(store: &dyn Store) {
    let mut cursor = store.cursor().expect("the store can be read");
    assert_eq!(store.put(b"later", b"7", false), Ok(()));
    assert_eq!((cursor.last(), entry(&*cursor)), (Ok(true), "e= ".to_owned()));
}

/// Every available engine that runs in this process. The error of a missing engine must name the
/// remedy.
#[test]
fn every_adapter() {
    for row in super::ENGINES.iter().filter(|row| row.interface != "Go program") {
        match (row.find)(None) {
            Ok(found) => check_adapter(Ok(found)),
            Err(missing) => assert!(missing.len() > 20, "{}: {missing}", row.id),
        }
    }
}
