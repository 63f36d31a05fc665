//! Catalogue of files that LevelDB reads but never writes: LevelDB and Terrace read the same
//! entries.

use terrace::{Db, Env};
use terrace_testkit::crafted::format_cases::{OpenFn, cases, check};
use terrace_testkit::crafted::{CraftedDb, CraftedFilter, CraftedTable};
use terrace_testkit::settings::Settings;
use terrace_testkit::stock_leveldb::{StockLevelDbUnderTest, stock_leveldb_or_skip};

use crate::files;
use terrace_torture::database_under_test::{TerraceUnderTest, options_from_settings, status_code};

/// Runs all cases and reports every failure.
#[track_caller]
fn check_all(open: OpenFn<'_>, stock_only: bool) {
    let cases = cases().into_iter().filter(|case| case.leveldb_agrees || !stock_only);
    let failures: Vec<String> = cases.filter_map(|case| check(&case, open).err()).collect();
    assert!(failures.is_empty(), "\n{}", failures.join("\n"));
}

#[test]
fn terrace_reads_the_catalogue() {
    let open: OpenFn<'_> = &|path, settings| {
        let opened = TerraceUnderTest::open(path, settings, &Env::system());
        Ok(Box::new(opened.map_err(|error| (status_code(error.kind()), error.to_string()))?))
    };
    check_all(open, false);
}

#[test]
fn terrace_reads_the_catalogue_and_writes_nothing() {
    let open: OpenFn<'_> = &|path, settings| {
        let env = Env::system();
        let before = files::contents(path);
        let opened = Db::open_read_only(path, &options_from_settings(settings, &env));
        assert!(files::contents(path) == before, "files changed: {:?}", files::names(path));
        let db = opened.map_err(|error| (status_code(error.kind()), error.to_string()))?;
        Ok(Box::new(TerraceUnderTest::from_db(db, &env)))
    };
    check_all(open, false);
}

#[test]
fn stock_reads_the_catalogue() {
    let Some(stock) = stock_leveldb_or_skip() else { return };
    let open: OpenFn<'_> = &|path, settings| {
        let opened = StockLevelDbUnderTest::open(stock, path, settings);
        Ok(Box::new(opened.map_err(|error| (error.code, error.text))?))
    };
    check_all(open, true);
}

/// The filter of the table is consulted: one without keys hides all of them, as in LevelDB.
#[test]
fn empty_filter_hides_its_keys() {
    for (bloom_bits, found) in [(0, Some(b"v".to_vec())), (10, None)] {
        let dir = tempfile::tempdir().unwrap();
        let table = CraftedTable::new().put("k", 1, "v").filter(CraftedFilter::AllBitsZero);
        CraftedDb::new().table(2, 9, &table).write_to(dir.path());
        let settings = Settings { bloom_bits, ..Settings::default() };
        let db = Db::open(dir.path(), &options_from_settings(&settings, &Env::system())).unwrap();
        assert_eq!(db.get(b"k").unwrap(), found, "{bloom_bits} bits");
    }
}
