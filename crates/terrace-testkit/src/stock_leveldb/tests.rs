use super::*;
use crate::differential::{Workload, seeds};
use crate::model::Model;
use crate::settings::ComparatorKind;

fn entry(key: &str, value: &str) -> (Vec<u8>, Vec<u8>) {
    (key.into(), value.into())
}

#[test]
fn put_then_get() {
    let Some(stock) = stock_leveldb_or_skip() else { return };
    let dir = tempfile::tempdir().unwrap();
    let db = stock.open(dir.path(), &Settings::create()).unwrap();
    db.put(b"b", b"2").unwrap();
    db.write(&[(b"a", Some(b"1")), (b"c", Some(b"")), (b"b", None)], true).unwrap();
    assert_eq!(db.scan().unwrap(), [entry("a", "1"), entry("c", "")]);
    assert_eq!(db.scan_reverse().unwrap(), [entry("c", ""), entry("a", "1")]);
    assert_eq!((db.get(b"c", None).unwrap(), db.get(b"b", None).unwrap()), (Some(vec![]), None));
    let before = db.snapshot();
    db.delete(b"a").unwrap();
    assert_eq!(db.get(b"a", Some(&before)).unwrap(), Some(b"1".to_vec()));
    db.compact_range(None, None);
    assert_eq!(db.files_per_level().iter().sum::<usize>(), 1);
    assert_eq!(stock.version(), (1, 23));
}

#[test]
fn errors_have_status_codes() {
    let Some(stock) = stock_leveldb_or_skip() else { return };
    let dir = tempfile::tempdir().unwrap();
    let error = stock.open(dir.path(), &Settings::default()).err().unwrap();
    assert_eq!(error.code, StatusCode::InvalidArgument, "{error}");
    stock.open(dir.path(), &Settings::create()).unwrap().close();
    let reverse = Settings { comparator: ComparatorKind::Reverse, ..Settings::default() };
    let error = stock.open(dir.path(), &reverse).err().unwrap();
    assert!(error.text.contains("does not match existing comparator"), "{error}");
    stock.repair(dir.path(), &Settings::default()).unwrap();
    stock.destroy(dir.path(), &Settings::default()).unwrap();
    assert!(!dir.path().join("CURRENT").exists());
}

/// The reference must agree with the model, or comparisons with it prove nothing.
#[test]
fn random_operations_match_model() {
    let Some(stock) = stock_leveldb_or_skip() else { return };
    for seed in seeds("stock against the model", 20) {
        let workload = Workload::draw(seed, 2_000, |params, _| {
            params.terrace_only_features = false;
            params.sync_one_in = 0;
        });
        let dir = tempfile::tempdir().unwrap();
        let mut database = StockLevelDbUnderTest::open(stock, dir.path(), &workload.settings).unwrap();
        workload.run(&mut database, &mut Model::new(workload.params.comparator)).unwrap();
    }
}
