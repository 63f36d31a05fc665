use super::format_cases::{cases, check};
use super::*;
use crate::settings::Settings;
use crate::stock_leveldb::{StockLevelDbUnderTest, stock_leveldb_or_skip};

#[test]
fn stock_leveldb_gives_expected_results() {
    let Some(stock) = stock_leveldb_or_skip() else { return };
    for case in cases() {
        let result = check(&case, &|path, settings| {
            let opened = StockLevelDbUnderTest::open(stock, path, settings);
            let database = opened.map_err(|error| (error.code, error.text))?;
            Ok(Box::new(database))
        });
        assert_eq!(result.is_ok(), case.leveldb_agrees, "{}: {result:?}", case.name);
    }
}

/// Stock LevelDB uses a filter of the whole table: a filter without keys hides them all.
#[test]
fn stock_leveldb_uses_filter_of_whole_table() {
    let Some(stock) = stock_leveldb_or_skip() else { return };
    let dir = tempfile::tempdir().unwrap();
    let table = CraftedTable::new().put("k", 1, "v").filter(CraftedFilter::AllBitsZero);
    CraftedDb::new().table(2, 9, &table).write_to(dir.path());
    for (bloom_bits, found) in [(0, Some(b"v".to_vec())), (10, None)] {
        let db = stock.open(dir.path(), &Settings { bloom_bits, ..Settings::default() }).unwrap();
        assert_eq!(db.get(b"k", None).unwrap(), found, "{bloom_bits} bits");
    }
}
