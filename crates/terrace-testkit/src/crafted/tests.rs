use super::format_cases::{cases, check};
use super::*;
use crate::settings::Settings;
use crate::stock_leveldb::{StockLevelDbUnderTest, stock_leveldb_or_skip};

#[test]
fn stock_is_right_where_the_catalogue_says_so() {
    let Some(stock) = stock_leveldb_or_skip() else { return };
    for case in cases() {
        let seen = check(&case, &|path, settings| {
            let opened = StockLevelDbUnderTest::open(stock, path, settings);
            let subject = opened.map_err(|error| (error.code, error.text))?;
            Ok(Box::new(subject))
        });
        assert_eq!(seen.is_ok(), case.leveldb_agrees, "{}: {seen:?}", case.name);
    }
}

/// The proof that a filter of the whole table is asked at all: one that knows no key hides them all.
#[test]
fn stock_asks_a_filter_of_the_whole_table() {
    let Some(stock) = stock_leveldb_or_skip() else { return };
    let dir = tempfile::tempdir().unwrap();
    let table = CraftedTable::new().put("k", 1, "v").filter(CraftedFilter::AllBitsZero);
    CraftedDb::new().table(2, 9, &table).write_to(dir.path());
    for (bloom_bits, found) in [(0, Some(b"v".to_vec())), (10, None)] {
        let db = stock.open(dir.path(), &Settings { bloom_bits, ..Settings::default() }).unwrap();
        assert_eq!(db.get(b"k", None).unwrap(), found, "{bloom_bits} bits");
    }
}
