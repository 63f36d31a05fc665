//! `Debug` texts, which a failed `unwrap` or an assertion prints.

use terrace::{BatchOp, Db, Env, Options, ReadOptions, WriteBatch, compress};

#[test]
fn debug_texts_are_short() {
    let options = Options::default().create_if_missing(true).env(Env::in_memory());
    let db = Db::open("db", &options).unwrap();
    db.put("key", vec![7; 3000]).unwrap();
    db.flush().unwrap();
    let mut cursor = db.raw_iter();
    cursor.seek_to_first();
    let mut batch = WriteBatch::new();
    batch.put("key", vec![7; 3000]);
    let level = db.levels().into_iter().find(|level| !level.files.is_empty()).unwrap();
    let size = level.files[0].size;
    let number = level.files[0].number;
    let lock = std::path::Path::new("db").join("LOCK").display().to_string();
    let locked = Db::open("db", &options).unwrap_err();
    let read_options = ReadOptions::default().prefix(b"k\xff");
    let operation = BatchOp::Put { key: b"key", value: &[7; 3000] };
    for (text, expect) in [
        (format!("{db:?}"), "Db(db)".to_owned()),
        (format!("{:?}", db.snapshot()), "Snapshot(1)".to_owned()),
        (format!("{cursor:?}"), "DbIterator('key')".to_owned()),
        (format!("{batch:?}"), "[\"put key (3000 bytes)\"]".to_owned()),
        (format!("{operation:?}"), "Put(key (3000 bytes))".to_owned()),
        (format!("{:?}", level.files[0]), format!("TableInfo({number}: {size} bytes, 'key' to 'key')")),
        (format!("{locked:?}"), format!("Io(lock {lock}: the database is already open in this process)")),
        (format!("{:?}", compress::SNAPPY), "Codec(snappy)".to_owned()),
    ] {
        assert_eq!(text, expect);
    }
    assert!(format!("{read_options:?}").contains("prefix: Some(\"k"), "{read_options:?}");
    for env in [Env::in_memory(), Env::system()] {
        let text = format!("{:?}", options.clone().env(env));
        assert!(text.len() < 700, "{} characters: {text}", text.len());
        assert!(!text.contains("0x") && !text.contains("Mutex"), "internals: {text}");
    }
}
